/*
 * The arguments of the kernels, one struct for each, and the grids that they are launched with: in
 * C for those who launch, and in C++ for the kernels. Pointers are to the device's memory. What is
 * absent is NULL.
 *
 * Tensors with channels have them last: they are matrices of rows (pixels of all images) and
 * columns (channels). Values that change from step to step are read from memory and never passed,
 * because a recording repeats its arguments.
 */
#ifndef YKI_CUDA_ARGUMENTS_H
#define YKI_CUDA_ARGUMENTS_H

#include <stdint.h>

#include "device/attention_mask.h"
#include "device/low_rank.h"
#include "device/pictures.h"
#include "device/sweep.h"
#include "graph/fused.h"
#include "graph/interpolate.h"

enum {
    YKI_CUDA_THREADS = 256, /* of every block */
    YKI_CUDA_FLASH = 128,   /* rows of a block of flash_attention.cu */
    YKI_CUDA_BATCH = 4,     /* vectors of an element-wise kernel that a thread loads at once */
    YKI_CUDA_NORM = 4,      /* channels that a thread of batch_norm takes at most */
    YKI_CUDA_MERGE = 8,     /* columns whose sums a block merges */
    YKI_CUDA_STRIP = 4,     /* windows that a thread of max pooling takes, see pool.cu */
    YKI_CUDA_SHORT = 16, /* rows or columns of a matrix that is transposed without tiles, at most */
    YKI_CUDA_PIECE = 2304, /* elements that a block then moves: 256 channels of a filter of 3x3 */
    YKI_CUDA_FOLDED = 16,  /* channels of an image in which pixels became channels */
    YKI_CUDA_EMBEDDING_ROWS = 32,   /* of a weight, that a block of its gradient takes at most */
    YKI_CUDA_LOSSES = 1024,         /* blocks of cross_entropy, at most */
    YKI_CUDA_PAIRS = 4096,          /* elements of mse_loss and its like that a block takes */
    YKI_CUDA_LOW_RANK_COLUMNS = 32, /* of M, that a block of low_rank_project_back takes */
    YKI_CUDA_LOW_RANK_MATRICES = 16 /* whose factors are orthonormalised together */
};

/* What kernels tell the host, in memory that both use. Each is 0, or INT32_MAX minus a number: that
 * of the first wrong sample, or how many values there are. */
typedef struct yki_cuda_mistakes {
    int32_t label; /* of cross_entropy: it is no class */
    int32_t index; /* of embedding: it is no row of the weight */
    int32_t place; /* an index of take_along_dim: there is no such place */
    int32_t few;   /* of batch_norm: a channel has only so many values, on all ranks together */
} yki_cuda_mistakes;

/* ---- elementwise.cu -------------------------------------------------------------------------- */

/* y[i] = f(a[i]) or f(a[i], b[i]); y may be a. */
typedef struct yki_cuda_map_args {
    const void *a, *b;
    void *y;
    int64_t count;
    double alpha, beta; /* see yki_attrs */
} yki_cuda_map_args;

/* y = f(a, b) of tensors that are repeated along some dimensions. Dimensions are in the order of
 * y's memory; the stride of one along which an operand is repeated is 0. */
typedef struct yki_cuda_broadcast_args {
    const void *a, *b;
    void *y;
    int64_t count;
    int32_t dims[YK_MAX_DIMS], a_stride[YK_MAX_DIMS], b_stride[YK_MAX_DIMS];
    double alpha, beta; /* of the operator; expand multiplies by alpha */
} yki_cuda_broadcast_args;

/* y has the elements of x in another order; dimensions are in the order of y's memory, strides are
 * x's along them. Elements may be vectors, see broadcast.c. */
typedef struct yki_cuda_permute_args {
    const void *x;
    void *y;
    int64_t count;
    int32_t dims[YK_MAX_DIMS], stride[YK_MAX_DIMS];
} yki_cuda_permute_args;

/* dx, whose dimensions in the order of its memory are `kept` (others are 1), is the sum of dy, or
 * of dy times factor, over the dimensions `summed` (others are 1); strides are dy's and factor's.
 */
typedef struct yki_cuda_reduce_args {
    const void *dy, *factor;
    void *dx;
    int64_t count, repeated; /* the elements of dx, and those of dy for each */
    int32_t kept[YK_MAX_DIMS], summed[YK_MAX_DIMS], stride[YK_MAX_DIMS];
    int64_t slice;   /* reduce_slices: elements of dy that a block adds up for one of dx, and ... */
    double *partial; /* ... (slices, 2, count), for sums_merge: the sums, and 0 */
} yki_cuda_reduce_args;

/* dx (batch, columns) is the sum over the rows of dy (batch, rows, columns), or of dy times factor.
 * A block has `tile` vectors of columns of some matrices of the batch. */
typedef struct yki_cuda_reduce_rows_args {
    const void *dy, *factor;
    void *dx;
    int64_t batch;
    int32_t rows, columns, tile;
} yki_cuda_reduce_rows_args;

/* x is (outer, size, inner); `count` results, (outer, inner), are `to` in forward and y in
 * backward, where `to` is like x. */
typedef struct yki_cuda_amax_args {
    const void *x, *y, *dy;
    void *to;
    int64_t count, size, inner;
} yki_cuda_amax_args;

/* dropout, randn_like, which has neither x nor p. A plain tensor has one image. */
typedef struct yki_cuda_draw_args {
    const void *x;
    void *y;
    int64_t rows, image; /* image: the rows of one */
    int32_t columns;
    double p;
    uint64_t salt;
    const uint64_t *seed, *step;
} yki_cuda_draw_args;

/* ---- batch_norm.cu --------------------------------------------------------------------------- */

/* How a matrix is divided among blocks: blockIdx.x takes `tile` vectors of columns, blockIdx.y
 * takes `slice` rows. It depends on the shape alone, so that sums have the same bits on every GPU.
 */
typedef struct yki_cuda_columns {
    int64_t rows, slice;
    int32_t columns, tile;
} yki_cuda_columns;

/* Of each column the sums of x - x[0] and of its square: partial (slices, 2, columns). */
typedef struct yki_cuda_norm_measure_args {
    yki_cuda_columns at;
    const void *x;
    double *partial;
} yki_cuda_norm_measure_args;

/* partial -> a vector of sync.h: count, means, squared distances. */
typedef struct yki_cuda_norm_merge_args {
    int64_t rows;
    int32_t columns, slices;
    const void *x;
    const double *partial;
    double *vector;
} yki_cuda_norm_merge_args;

/* sums (2, columns), of each column and of its squares -> the same vector. */
typedef struct yki_cuda_norm_sums_args {
    int64_t rows;
    int32_t columns;
    const float *sums;
    double *vector;
} yki_cuda_norm_sums_args;

/* The vectors of `world` ranks, sums of `rows` values, or (norm_settle) the partial sums of this
 * rank alone -> mean, invstd and moved running statistics; of none, mean and invstd are made of the
 * running statistics. */
typedef struct yki_cuda_norm_finish_args {
    const double *vectors;
    const float *sums;
    const void *x; /* as in yki_cuda_norm_merge_args */
    const double *partial;
    int64_t rows;
    int32_t world, columns, slices;
    double eps, momentum;
    void *running_mean, *running_var;
    int64_t *batches;
    void *mean, *invstd;
    yki_cuda_mistakes *mistakes;
} yki_cuda_norm_finish_args;

/* y = act((x - mean) weight invstd + bias + residual) */
typedef struct yki_cuda_norm_apply_args {
    yki_cuda_columns at;
    const void *x, *residual, *mean, *invstd, *weight, *bias;
    void *y;
    yki_fused activation;
} yki_cuda_norm_apply_args;

/* With g = (dy + dy2) times the slope of the activation, and h = (x - mean) invstd. reduce
 * also writes g to dresidual; backward can then take it as dy, without an activation. */
typedef struct yki_cuda_norm_backward_args {
    yki_cuda_columns at;
    const void *x, *y, *dy, *dy2, *mean, *invstd, *weight, *bias;
    yki_fused activation;
    double *partial;       /* reduce: sums of g and of g h, (slices, 2, columns) */
    const double *vectors; /* apply: of `world` ranks; of none, the two means are left out */
    int32_t world;
    void *dx, *dresidual;
} yki_cuda_norm_backward_args;

/* partial -> a vector of sync.h (count and both sums), dweight and dbias. */
typedef struct yki_cuda_sums_merge_args {
    int64_t rows;
    int32_t columns, slices;
    const double *partial;
    double *vector;
    void *dweight, *dbias;
} yki_cuda_sums_merge_args;

/* ---- group_norm.cu --------------------------------------------------------------------------- */

/* Each sample is a matrix of pixels and channels, which `at` divides; blockIdx.x takes `across`
 * blocks of each sample in turn. The kernels *_rows have a warp for each channel of a sample, whose
 * pixels are neighbours in plain tensors; slices is 1 there. Without a weight it is 1, without a
 * bias 0. */
typedef struct yki_cuda_group_norm_args {
    yki_cuda_columns at;
    int64_t samples;
    int32_t across, slices, groups, channels; /* channels: of a group */
    double eps;
    const void *x, *dy, *weight, *bias;
    void *mean, *invstd; /* (samples, groups) */
    /* (samples, slices, 2, channels of a sample): the sums of x - x[0] of the channel and of its
     * square, or of backward, of dy and of dy h */
    double *partial;
    double *means; /* of backward: (samples, groups, 2), the means of g = dy weight and of g h */
    void *out;
} yki_cuda_group_norm_args;

/* ---- pool.cu --------------------------------------------------------------------------------- */

/* x (batch, h, w, columns), y (batch, p, q, columns); index (like y): the winner's place in its
 * window. Backward reads dy as y and writes dx as x. The threads take down x across places of each
 * image: those of the output, unless pool.cu says otherwise. */
typedef struct yki_cuda_pool_args {
    const void *in;
    void *out;
    void *index; /* uint8_t, and int32_t for the kernels *_wide */
    int32_t batch, h, w, p, q, columns;
    int32_t kernel[2], stride[2], padding[2]; /* of rows, and of columns */
    int32_t count_include_pad;
    int32_t down, across;
} yki_cuda_pool_args;

/* ---- interpolate.cu -------------------------------------------------------------------------- */

/* No windows. The axes are those of rows and of columns. */
typedef struct yki_cuda_interpolate_args {
    yki_cuda_pool_args images;
    yki_axis down, across;
} yki_cuda_interpolate_args;

/* ---- layout.cu ------------------------------------------------------------------------------- */

/* Matrices (batch, rows, columns) -> (batch, columns, rows). Rows of the input are in_pitch apart,
 * those of the output out_pitch, which are filled with zeros. */
typedef struct yki_cuda_transpose_args {
    const void *in;
    void *out;
    int64_t batch;
    int32_t rows, columns, in_pitch, out_pitch;
} yki_cuda_transpose_args;

/* `columns` elements of each row, at in + row * in_pitch, to out + row * out_pitch. pad writes them
 * from column `first` of the output on, and fills what is left of its rows with zeros. */
typedef struct yki_cuda_copy_args {
    const void *in;
    void *out;
    int64_t rows, columns, in_pitch, out_pitch, first;
} yki_cuda_copy_args;

/* ---- fold.cu --------------------------------------------------------------------------------- */

/* fold_pixels: images (count, height, width, channels) become (count, out_height, out_width, 16),
 * after `begin` rows and columns of zeros have been put before them. fold_filters: filters (count,
 * channels, height, width) become (count, out_height, out_width, 16) in the same way, in memory
 * that has been zeroed. unfold_filters undoes that. */
typedef struct yki_cuda_fold_args {
    const void *in;
    void *out;
    int64_t count;
    int32_t channels, height, width, out_height, out_width, begin;
} yki_cuda_fold_args;

/* `count` elements of 1, 2 or 4 bytes get a value. */
typedef struct yki_cuda_fill_args {
    void *to;
    int64_t count;
    uint32_t value;
    int32_t element_size;
} yki_cuda_fill_args;

/* ---- rows.cu --------------------------------------------------------------------------------- */

/* A warp for each row. */
typedef struct yki_cuda_rows_args {
    const void *x, *y, *dy, *weight, *bias;
    void *out;
    double *moments; /* norms' backward: (rows, 2), mean and invstd of each row */
    int64_t rows;
    int32_t columns;
    double eps;
} yki_cuda_rows_args;

/* Sums over rows of dy h and dy: partial (slices, 2, columns). */
typedef struct yki_cuda_rows_reduce_args {
    yki_cuda_columns at;
    const void *x, *dy;
    const double *moments;
    double *partial;
} yki_cuda_rows_reduce_args;

/* ---- attention.cu ---------------------------------------------------------------------------- */

/* Rows (batch, rows, pitch), in which heads of `width` columns lie side by side, and some of these
 * heads, of all batch * heads in order, each apart: (some, rows, width). heads_take copies from the
 * first to the second, heads_give back. Elements may be vectors of 16 bytes. */
typedef struct yki_cuda_heads_args {
    const void *in;
    void *out;
    int64_t first; /* of the heads that are copied */
    int64_t count; /* their elements */
    int64_t pitch;
    int32_t heads, rows, width;
} yki_cuda_heads_args;

/* A warp for each row of scores, of samples, heads and queries. */
typedef struct yki_cuda_attention_args {
    const void *scores, *slopes; /* (rows, keys); slopes: of backward, dy v^T */
    void *p, *ds;                /* likewise */
    void *log_sums;              /* of these and others, or NULL where forward writes none */
    const void *mask;            /* that is added to scores, in their dtype, or NULL */
    yki_attention_mask mask_at;
    int64_t first; /* row of log_sums */
    int64_t rows;
    int32_t heads, queries, keys, causal;
    double dropout; /* of the elements of p, as in yki_attention */
    uint64_t salt;
    const uint64_t *seed, *step;
} yki_cuda_attention_args;

/* ---- flash_attention.cu ---------------------------------------------------------------------- */

/* The rows of each sample, in elements: in each, the heads of `width` columns lie side by side. */
typedef struct yki_cuda_flash_part {
    int64_t first, pitch; /* as in yki_attention_part; multiples of 8, as width is */
    int32_t rows, width;
} yki_cuda_flash_part;

/* A block for each YKI_CUDA_FLASH rows of each head: queries, or keys where their gradients are
 * computed. */
typedef struct yki_cuda_flash_args {
    const void *q, *k, *v;
    void *y;
    yki_cuda_flash_part q_part, k_part, v_part, y_part;
    float *log_sums;   /* or NULL where forward writes none */
    const float *mask; /* or NULL */
    yki_attention_mask mask_at;
    const void *dy;
    void *dq, *dk, *dv;           /* or NULL where they are not wanted */
    float *means;                 /* of each query, as log_sums: sum(p dp) */
    int32_t heads, group, causal; /* group: heads of queries that share one of keys and values */
    float scale, factor;          /* factor: of shares that dropout keeps */
    double dropout;               /* as in yki_attention */
    uint64_t salt;
    const uint64_t *seed, *step;
} yki_cuda_flash_args;

/* ---- embedding.cu ---------------------------------------------------------------------------- */

/* y (count, columns), weight (rows, columns). An index that is no row makes NaN, and is reported.
 */
typedef struct yki_cuda_embedding_args {
    const void *indices;
    const void *weight, *dy;
    void *y, *dweight;
    yki_cuda_mistakes *mistakes;
    int64_t count, length; /* length: the indices of a sample */
    int64_t slice; /* of the gradient: indices of a block; slices have dweights of their own */
    int32_t range; /* of the gradient: rows of a block, at most YKI_CUDA_EMBEDDING_ROWS */
    int32_t rows, columns;
    int32_t wide; /* indices are int64, not int32 */
} yki_cuda_embedding_args;

/* dweight (count) is the sum of partial (slices, count). */
typedef struct yki_cuda_embedding_merge_args {
    const void *partial;
    void *dweight;
    int64_t count, slices;
} yki_cuda_embedding_merge_args;

/* ---- take.cu --------------------------------------------------------------------------------- */

/* Of images whose channels are last in memory; 0 channels: memory has the order of elements. */
typedef struct yki_cuda_order {
    int64_t channels, pixels;
} yki_cuda_order;

/* y (rows, taken, inner) of x (rows, places, inner) by index (rows, taken), or (taken) if shared.
 * An index that is no place makes NaN, and is reported. */
typedef struct yki_cuda_take_args {
    const void *index;
    const void *x, *dy;
    void *y, *dx;
    yki_cuda_mistakes *mistakes;
    /* Only backward: (ranges, 2), the first and the last entry of the index that names each place,
     * so that only those between them are read; NULL: all are read. A row has ranges of its own
     * unless the rows share the index. */
    int32_t *between;
    int64_t count; /* elements of y, or of dx */
    int64_t ranges;
    int64_t rows_of_sample;
    int64_t places, taken, inner;
    yki_cuda_order x_order, y_order, index_order; /* also of dx and dy; for single elements */
    int32_t shared;
    int32_t wide; /* the index is int64, not int32 */
} yki_cuda_take_args;

/* ---- rotary.cu ------------------------------------------------------------------------------- */

/* x and y (tokens, heads width). The first 2 pairs columns of each head are turned. */
typedef struct yki_cuda_rotary_args {
    const void *x;
    void *y;
    int64_t tokens, positions, first; /* positions: of a sample, the first of which is `first` */
    double base;
    int32_t heads, width, pairs, interleaved, inverse;
} yki_cuda_rotary_args;

/* ---- recurrent.cu ---------------------------------------------------------------------------- */

/* state, hidden, next (samples, size), gates and the sides that they are the sum of (samples, 4
 * size), or of a GRU (samples, 3 size). Outputs may be NULL. */
typedef struct yki_cuda_cell_args {
    const void *from_input, *from_hidden;
    const void *state; /* the LSTM's cell, the GRU's hidden state */
    void *hidden;      /* the new one */
    void *next;        /* the LSTM's next cell, which backward reads */
    void *gates;       /* likewise, after the activations */
    int64_t samples, size;
} yki_cuda_cell_args;

typedef struct yki_cuda_cell_slopes_args {
    yki_cuda_cell_args of;
    const void *dhidden, *dnext; /* of the LSTM, either may be NULL */
    void *dinput, *dgates;       /* dinput: of a GRU alone */
    void *dstate;
} yki_cuda_cell_slopes_args;

/*
 * A step of a recurrent layer: see lstm and gru in graph/operators.def, whose operands these are.
 * The states (samples, size) and what the hidden state gives to the gates (samples, gates size) are
 * of the step. bias and lengths are f32, or f64 where all is. What is absent is NULL.
 */
typedef struct yki_cuda_layer_args {
    const void *from_input, *from_hidden; /* from_hidden is NULL where the hidden state is zero */
    const void *bias, *lengths, *h0, *c0;
    void *hidden, *cell; /* left by the step before, and for the next one; cell: of the LSTM */
    void *y, *saved;
    int64_t samples, size, steps, step;
    int32_t reverse;
} yki_cuda_layer_args;

/* Its gradient. After the steps comes number -1, which writes dh0 and dc0 alone. */
typedef struct yki_cuda_layer_slopes_args {
    yki_cuda_layer_args of; /* h0, y, saved, lengths, and numbers */
    const void *from_after; /* (samples, size): what the step after gives to the hidden state */
    const void *dy, *dh_n, *dc_n;
    void *carried; /* (samples, size), f32 or f64: in the GRU, what passes no weight, ... */
    void *dcell;   /* ... and in the LSTM, the gradient of the cell */
    void *operand; /* (samples, gates size): dgates of the step, for the product */
    void *dgates, *before, *dinput, *dh0, *dc0;
} yki_cuda_layer_slopes_args;

/* ---- loss.cu --------------------------------------------------------------------------------- */

/* A row is what has one softmax, a sample or one of its `pixels`; its columns are classes, which
 * lie `apart` elements from each other: 1, or where classes are planes, the pixels. */
typedef struct yki_cuda_cross_entropy_args {
    const void *logits, *shares; /* shares: labels that are probabilities ... */
    const void *labels;          /* ... or classes */
    const void *weight;          /* of each class, or NULL */
    const void *dloss, *total;   /* total: what a mean is divided by, or NULL */
    void *log_sums, *dlogits;    /* log_sums: of each row, or NULL */
    double *losses; /* of each block, and then its share of what a mean is divided by */
    yki_cuda_mistakes *mistakes;
    int64_t rows, pixels, apart;
    int64_t ignored; /* the label of rows that do not count */
    int32_t columns;
    int32_t wide; /* labels are int64, not int32 */
    double smoothing;
} yki_cuda_cross_entropy_args;

/* Losses over pairs of elements: element i has the weight i / repeats % weights. */
typedef struct yki_cuda_pairs_args {
    const void *x, *target, *dloss, *pos_weight;
    void *dx;
    double *losses; /* of each block */
    int64_t count;
    int32_t weights, repeats;
    double beta, factor;
} yki_cuda_pairs_args;

/* cross_entropy_sum: the sum of all losses, in order, and for a mean that of their shares, by which
 * it is divided. */
typedef struct yki_cuda_cross_entropy_sum_args {
    const double *losses;
    void *loss, *total; /* total may be NULL */
    int64_t count;
    int32_t mean;
} yki_cuda_cross_entropy_sum_args;

/* The sum of all losses, in order, times factor. */
typedef struct yki_cuda_loss_args {
    const double *losses;
    void *loss;
    int64_t count;
    double factor;
} yki_cuda_loss_args;

/* ---- sweep.cu -------------------------------------------------------------------------------- */

/* See yki_sweep_args. */
typedef struct yki_cuda_sweep_args {
    const yki_span *spans;
    const yki_sweep_chunk *chunks;
    int64_t span_count, chunk_count;
    const double *coefficients;
    void *partial, *result;
} yki_cuda_sweep_args;

/* ---- muon.cu --------------------------------------------------------------------------------- */

/* muon_squares: the squares of `in`, summed by each block into partial (blocks). muon_begin: out =
 * in divided by its norm. muon_apply: out, the value, is updated by in; see yki_muon_args. */
typedef struct yki_cuda_muon_args {
    const float *in;
    float *out;
    double *partial;
    const double *coefficients;
    int64_t count, rows;
    double weight_decay;
    int32_t blocks, normalize; /* blocks: at most as many as a block has threads */
} yki_cuda_muon_args;

/* ---- low_rank.cu: see yki_low_rank_args, but for --------------------------------------------- */

/* A block for each matrix. */
typedef struct yki_cuda_orthonormalise_args {
    yki_low_rank at[YKI_CUDA_LOW_RANK_MATRICES];
    double epsilon;
    int32_t is_p; /* else Q */
} yki_cuda_orthonormalise_args;

/* ---- clock.cu -------------------------------------------------------------------------------- */

typedef struct yki_cuda_note_time_args {
    int64_t *nanoseconds;
} yki_cuda_note_time_args;

/* ---- bias.cu --------------------------------------------------------------------------------- */

/* y += bias, which is f32 where y has 16 bits. */
typedef struct yki_cuda_bias_add_args {
    void *y;
    const void *bias;
    int64_t rows;
    int32_t columns;
} yki_cuda_bias_add_args;

/* Sums of the columns of dy, or of dy times factor, for sums_merge: partial (slices, 2, columns),
 * of which one is 0. */
typedef struct yki_cuda_bias_reduce_args {
    yki_cuda_columns at;
    const void *dy, *factor;
    double *partial;
} yki_cuda_bias_reduce_args;

#endif
