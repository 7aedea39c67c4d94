/*
 * The inner loops of the memory-bound kernels, compiled once for each width of vector register.
 * Their bodies are in the headers that table.h includes, which loops_avx512.c, loops_avx2.c
 * and generic.c compile with the flags of their instruction set. A kernel looks its table up
 * once, in prepare.
 *
 * Whatever the layout, memory is a sequence of elements in which element e of a run belongs to
 * channel e % b: b is 16 or 8 in YKI_BLOCKED, 1 in YKI_PLAIN, and where a channel has one pixel a
 * power of 2 that divides the channels and the loops' pack. So one loop serves all layouts, given
 * the constants of YKI_PERIOD consecutive elements.
 */
#ifndef YKI_CPU_LOOPS_H
#define YKI_CPU_LOOPS_H

#include "device/device.h"
#include "graph/dropout.h"

enum { YKI_PERIOD = 32 /* elements; a multiple of every b and of every pack */ };

/* One channel block of a tensor (images, blocks, pixels, b), as a list of contiguous runs. */
typedef struct yki_runs {
    yk_dtype dtype; /* f32, bf16 or f16 */
    int64_t b;      /* channels in a block */
    int64_t pixels; /* of an image */
    int64_t image;  /* elements from one image to the next */
    int64_t base;   /* the block's first element in image 0 */
    int64_t run;    /* pixels of a run; the last of an image may be shorter */
    int64_t runs_an_image;
} yki_runs;

typedef struct yki_window_range {
    int64_t begin, end;
} yki_window_range;

typedef struct yki_run_range {
    int64_t begin, end; /* runs, counted over all images */
} yki_run_range;

/* The begin of a run, and its length in elements. */
static inline int64_t yki_run_at(const yki_runs *runs, int64_t index, int64_t *count)
{
    bool whole = runs->runs_an_image == 1; /* small images: no division for each */
    int64_t image = whole ? index : index / runs->runs_an_image;
    int64_t pixel = (index - image * runs->runs_an_image) * runs->run;
    int64_t left = runs->pixels - pixel;
    *count = (left < runs->run ? left : runs->run) * runs->b;
    return runs->base + image * runs->image + pixel * runs->b;
}

/* y = (x - mean) * scale + bias, then + residual, then the activation. */
typedef struct yki_norm_constants {
    float mean[YKI_PERIOD], scale[YKI_PERIOD], bias[YKI_PERIOD];
} yki_norm_constants;

typedef struct yki_norm_forward {
    const void *x, *residual; /* residual may be NULL */
    void *y;
    yki_fused activation;
    bool stream; /* y is written past the caches */
} yki_norm_forward;

/* What dy is multiplied with: nothing; 1 where relu or relu6 has passed its argument on, which is
 * known from y, or computed again from x; a slope that is computed from x. */
typedef enum yki_norm_gate {
    YKI_GATE_NONE,
    YKI_GATE_Y,
    YKI_GATE_X,
    YKI_GATE_SILU,
    YKI_GATE_HARDSWISH
} yki_norm_gate;

typedef struct yki_norm_backward {
    const void *x, *dy, *dy2, *y; /* dy2 may be NULL */
    void *dx;
    void *kept; /* where the first sweep leaves g for the second, unless NULL; may be dx */
    yki_norm_gate gate;
    float passing; /* the largest argument from which relu6 passes a gradient; else infinity */
    bool constant; /* mean and invstd do not depend on x, which may be infinite then */
    bool stream, stream_kept; /* dx and kept are written past the caches */
} yki_norm_backward;

/* dx = a g + b (x - mean) + c, g being the gradient before the activation; a g + c if constant. */
typedef struct yki_norm_slopes {
    float a[YKI_PERIOD], b[YKI_PERIOD], c[YKI_PERIOD];
} yki_norm_slopes;

/* Two sums for each of YKI_PERIOD consecutive elements. */
typedef struct yki_norm_sums {
    double first[YKI_PERIOD], second[YKI_PERIOD];
} yki_norm_sums;

enum { YKI_DEPTHWISE_TAPS = 49 /* at most */ };

/* One channel block of x and of dy, of a depthwise convolution. */
typedef struct yki_depthwise {
    yk_dtype dtype;                             /* f32, bf16 or f16 */
    int64_t rows, columns, dy_rows, dy_columns; /* of an image */
    int64_t kernel_rows, kernel_columns, stride, dilation, padding;
    int64_t span, depth;            /* of a ring of rows of x: columns with padding, and rows */
    int64_t image, dy_image;        /* elements from one image to the next */
    bool stream;                    /* y or the gradient of x is written past the caches */
    bool three;                     /* 3x3 without dilation, which needs no ring */
    bool bias;                      /* its gradient is wanted, too: the last of the sums */
    int64_t inner_begin, inner_end; /* columns of dy whose taps all lie inside x */
} yki_depthwise;

enum {
    YKI_NARROW_WIDTH = 8,                   /* channels that a narrow group has at most */
    YKI_NARROW_STRIP = 14,                  /* columns that are computed at a time at most */
    YKI_NARROW_SPAN = YKI_NARROW_STRIP + 2, /* and the columns of x that these read */
    /* Memory of a thread, times b floats: a strip of dy, and three rows of permuted pixels, or half
     * as many of them with stride 2. */
    YKI_NARROW_OWN = YKI_NARROW_STRIP + 3 * (YKI_NARROW_WIDTH * YKI_NARROW_SPAN + 1)
};

/* One channel block of x and of y, of a 3x3 convolution whose groups are narrower than a vector. */
typedef struct yki_narrow {
    yk_dtype dtype;                           /* f32, bf16 or f16 */
    int64_t width;                            /* channels of a group: 1, 2, 4 or 8 */
    int64_t rows, columns, y_rows, y_columns; /* of an image */
    int64_t stride, padding;
    int64_t image, y_image; /* elements from one image to the next */
    bool stream;            /* y is written past the caches */
} yki_narrow;

/* Computes rows of y in one image. Weights are (b) of the bias, then (3, width, 3, b). */
typedef void yki_narrow_convolution(const yki_narrow *shape, const void *x, const float *weights,
                                    void *y, yki_window_range rows, float *own);

/* One channel block of max pooling, as wide as a vector (pack / 2 channels). */
typedef struct yki_max_pool {
    yk_dtype dtype;                               /* f32, bf16 or f16 */
    int64_t rows, columns, y_rows, y_columns;     /* of an image */
    int64_t kernel[2], stride[2], padding[2];     /* of rows, and of columns */
    yki_window_range inside_rows, inside_columns; /* of y: windows that lie inside x */
    bool ahead;                                   /* x is fetched in advance: it is in no cache */
    bool stream;                                  /* y or dx is written past the caches */
} yki_max_pool;

/* Sums over rectangles of pixels of a map, which make a map of results. */
typedef struct yki_windows {
    yk_dtype dtype;                               /* f32, bf16 or f16 */
    int64_t rows, columns;                        /* of results */
    int64_t pitch;                                /* pixels in a row of the map that is summed */
    const yki_window_range *of_rows, *of_columns; /* what each row or column of results sums */
    const float *weights; /* of each result, or of each pixel that is summed */
    bool one_weight;      /* weights has one, for all results */
    int64_t ahead;        /* so many rows of the map are fetched in advance, if it is in no cache */
    bool stream;          /* results are written past the caches */
} yki_windows;

/* A result is the sum of so many inputs along one axis, each of which has a weight. */
typedef struct yki_mix {
    int64_t first, count;
    const float *weights;
} yki_mix;

/* Images of another size. */
typedef struct yki_mixing {
    yk_dtype dtype;                      /* f32, bf16 or f16 */
    int64_t pitch, columns;              /* pixels in a row of the input, and of the result */
    const yki_mix *of_rows, *of_columns; /* what each row or column of the result is made of */
    /* Of plain memory, instead of of_columns: tap t of result q is at t * line + q. Those that a
     * result does not have are the zero after a row. */
    int64_t taps, line;
    const int32_t *places;
    const float *shares;
    bool copies; /* each pixel of the result is one of the input */
    bool apart;  /* rows of the input are read one after the other */
    bool stream; /* blocks of the result are written past the caches */
} yki_mixing;

/*
 * One sample of the operators of graph/operators.def, with their names. Gates are several states in
 * a row. Outputs that are not needed, such as gates in inference, are NULL.
 */
typedef struct yki_lstm_row {
    const void *from_input, *from_hidden, *cell;
    void *hidden, *next, *gates;
} yki_lstm_row;

typedef struct yki_lstm_slopes {
    const void *gates, *cell, *next, *dhidden, *dnext; /* dhidden or dnext may be NULL */
    void *dgates, *dcell;
} yki_lstm_slopes;

typedef struct yki_gru_row {
    const void *from_input, *from_hidden, *hidden;
    void *next, *gates;
} yki_gru_row;

typedef struct yki_gru_slopes {
    const void *gates, *from_hidden, *hidden, *dnext;
    void *dinput, *dgates, *dhidden;
} yki_gru_slopes;

/*
 * A product for a step of a recurrent layer, (rows, inner) by (inner, vectors), the latter as wide
 * as vectors and packed in the order in which it is read. A number is an f32, or a pair of bf16
 * whose products are added to the same sum.
 */
typedef struct yki_gate_product {
    const void *a;        /* rows, `pitch` numbers apart */
    const void *b;        /* (inner, vectors), each as many numbers as a vector has */
    float *c;             /* (rows, vectors) */
    int64_t pitch, inner; /* numbers */
} yki_gate_product;

enum { YKI_GATE_VECTORS = 4, YKI_GATE_ROWS = 16 /* at most */ };

/* `count` units, a vector at most, of a sample at a step of a recurrent layer; see lstm and gru in
 * graph/operators.def. dtype: of what the step reads and writes. The samples of a call have the
 * same dtypes, units and count, and are YKI_GATE_ROWS at most. */
typedef struct yki_recurrent_step {
    yk_dtype dtype, operand_dtype;
    int64_t size, unit, count; /* of a state, and the first of the units */
    const float *product;      /* vectors: what the hidden state gives to each gate, ... */
    const float *bias;         /* ... and what is added to it */
    const void *from_input;    /* (gates, size) */
    void *saved, *y;           /* (gates + 1, size), (size); either may be NULL */
    void *operand;             /* the new hidden state as the next product reads it, ... */
    float *kept;               /* ... and the cell or, of gru, the hidden state: whole vectors */
} yki_recurrent_step;

/* Likewise, of the gradient. */
typedef struct yki_recurrent_slopes {
    yk_dtype dtype, operand_dtype;
    int64_t size, unit, count;
    int64_t padded;         /* size in whole vectors */
    const float *product;   /* a vector: what the step after gives to the hidden state, ... */
    float *carried;         /* ... and what comes past the weight; is left for the step before */
    float *dcell;           /* of lstm, likewise */
    const void *saved, *dy; /* dy may be NULL */
    const void *before;     /* of gru: the hidden state before the step; NULL: zeros */
    void *dgates, *dinput;  /* (gates, size); dinput is gru's, and may be NULL */
    void *operand;          /* (gates, padded): dgates as the next product reads it */
} yki_recurrent_slopes;

/* What recurrent layers are made of. */
typedef struct yki_gate_loops {
    /* Of at most rows[vectors] rows and YKI_GATE_VECTORS vectors. */
    void (*multiply)(const yki_gate_product *product, int rows, int vectors);
    int rows[YKI_GATE_VECTORS + 1];
    /* What a step makes of it, and the gradient. */
    void (*lstm)(const yki_recurrent_step *steps, int rows);
    void (*lstm_slopes)(const yki_recurrent_slopes *slopes, int rows);
    void (*gru)(const yki_recurrent_step *steps, int rows);
    void (*gru_slopes)(const yki_recurrent_slopes *slopes, int rows);
} yki_gate_loops;

/* First those of one operand. */
typedef enum yki_map_op {
    YKI_MAP_RELU,                /* max(a, 0) */
    YKI_MAP_RELU6,               /* min(max(a, 0), 6) */
    YKI_MAP_SIGMOID,             /* 1 / (1 + exp(-a)) */
    YKI_MAP_SILU,                /* a sigmoid(a) */
    YKI_MAP_GELU,                /* a Phi(a), Phi the normal distribution function */
    YKI_MAP_HARDSWISH,           /* a relu6(a + 3) / 6 */
    YKI_MAP_TANH,                /* tanh(a) */
    YKI_MAP_LEAKY_RELU,          /* a where a > 0, alpha a elsewhere */
    YKI_MAP_ELU,                 /* a where a > 0, alpha (exp(a) - 1) elsewhere */
    YKI_MAP_SCALE,               /* alpha a */
    YKI_MAP_ADD_SCALAR,          /* a + alpha */
    YKI_MAP_EXP,                 /* exp(a) */
    YKI_MAP_LOG,                 /* log(a) */
    YKI_MAP_SIN,                 /* sin(a) */
    YKI_MAP_COS,                 /* cos(a) */
    YKI_MAP_ABS,                 /* |a| */
    YKI_MAP_POW,                 /* a to the power of alpha */
    YKI_MAP_CLAMP,               /* min(max(a, alpha), beta) */
    YKI_MAP_RELU_BACKWARD,       /* a where b > 0 */
    YKI_MAP_RELU6_BACKWARD,      /* a where 0 < b < 6 */
    YKI_MAP_SIGMOID_BACKWARD,    /* a b (1 - b): b is sigmoid's result */
    YKI_MAP_SILU_BACKWARD,       /* a times the slope of silu at b */
    YKI_MAP_GELU_BACKWARD,       /* a times the slope of gelu at b */
    YKI_MAP_HARDSWISH_BACKWARD,  /* a times the slope of hardswish at b */
    YKI_MAP_TANH_BACKWARD,       /* a (1 - b^2): b is tanh's result */
    YKI_MAP_LEAKY_RELU_BACKWARD, /* a where b > 0, alpha a elsewhere */
    YKI_MAP_ELU_BACKWARD,        /* a times the slope of elu at b */
    YKI_MAP_ABS_BACKWARD,        /* a times the sign of b, which is 0 at 0 */
    YKI_MAP_POW_BACKWARD,        /* a times the slope of pow at b */
    YKI_MAP_CLAMP_BACKWARD,      /* a where alpha <= b <= beta */
    YKI_MAP_ADD,                 /* a + b */
    YKI_MAP_SUBTRACT,            /* a - b */
    YKI_MAP_MULTIPLY,            /* a b */
    YKI_MAP_DIVIDE,              /* a / b */
    YKI_MAP_MAXIMUM,             /* the larger, or NaN if one is */
    YKI_MAP_MINIMUM,             /* the smaller, or NaN if one is */
    YKI_MAP_COMPARE,    /* 1, alpha or 0 where a is above, equal to or below b, else beta */
    YKI_MAP_MASKED_FILL /* alpha where b is true, else a; beta 1: where it is false */
} yki_map_op;

typedef struct yki_elementwise {
    yki_map_op op;
    yk_dtype dtype; /* of both operands and the result */
    float alpha, beta;
    bool stream; /* y, which is neither operand, is written past the caches */
} yki_elementwise;

/* Which elements dropout draws for numbers in memory: lane l of vector i (of pack / 2 numbers) is
 * element first + i vector_step + l lane_step. */
typedef struct yki_dropout_places {
    uint64_t first, vector_step, lane_step;
} yki_dropout_places;

/* A loss of pairs of elements, see device/loss_rules.h. */
typedef enum yki_loss_op { YKI_LOSS_MSE, YKI_LOSS_SMOOTH_L1, YKI_LOSS_BCE } yki_loss_op;

/* A group of whole channel blocks of a small image in f32. */
typedef struct yki_small_group {
    int64_t blocks, pixels;
    const float *weight, *bias; /* of the group's channels, or NULL: 1 and 0 */
    double eps;
} yki_small_group;

/* The groups of such a block, a power of 2 of them; arrays have its channels. */
typedef struct yki_small_groups {
    int64_t channels, pixels; /* channels: of a group */
    const float *weight;      /* or NULL: 1 */
    const float *mean, *invstd;
} yki_small_groups;

/* Of a row: the largest x, and the sum of exp(x - largest). */
typedef struct yki_row_softmax {
    float largest;
    double sum;
} yki_row_softmax;

/* The channels of some pixels, which lie in blocks. */
typedef struct yki_pixel_channels {
    int64_t blocks, pixels; /* pixels: from one block of a pixel to the next */
    int64_t used;           /* channels of the last block */
    int64_t count;          /* of pixels */
} yki_pixel_channels;

/* Those of softmax and of log_softmax. */
typedef struct yki_softmax_loops {
    /* y = f(x), which may be x, or NULL; and its gradient, in which dx may be dy. */
    yki_row_softmax (*row)(const float *x, float *y, int64_t count);
    void (*slopes)(const float *y, const float *dy, float *dx, int64_t count);
    /* The same of as many rows as a vector has lanes, which are next to each other: (count, lanes).
     * Only the first `used` rows are there, and zeros are written for the others. */
    void (*lanes)(const float *x, float *y, int64_t count, int64_t used);
    void (*lane_slopes)(const float *y, const float *dy, float *dx, int64_t count, int64_t used);
} yki_softmax_loops;

/* Sums over rows: of dy, and of dy h. */
typedef struct yki_row_sums {
    double *sums, *products;
} yki_row_sums;

/* dx of some rows of a norm, whose sums are added. */
typedef void yki_row_slopes(const float *x, const float *dy, const float *weight, float *dx,
                            yki_row_sums columns, int64_t rows, int64_t count, double eps,
                            bool far);

/* The targets of the classes of a sample, (rest + given labels) weights. */
typedef struct yki_row_targets {
    const float *labels, *weights; /* (classes), or NULL: 0 and 1 */
    float rest, given;
} yki_row_targets;

/* cross_entropy of logits whose classes are planes of an image. */
typedef struct yki_pixel_loss {
    int64_t classes, pixels; /* pixels: from one class of a pixel to the next ... */
    int64_t label_pixels;    /* ... and of labels that are probabilities */
    const float *weights;    /* (classes), or NULL: 1 */
    float weight_sum, smoothing;
    bool soft;       /* labels are probabilities, shaped like the logits, not classes */
    int64_t ignored; /* a class */
} yki_pixel_loss;

typedef struct yki_pixel_sums {
    double losses, weights; /* weights: of the labels */
} yki_pixel_sums;

/* c (rows, columns) = a b, or c + a b, in f32. The element of a in row m that is multiplied by row
 * k of b is a[m a_row + k a_inner]. */
typedef struct yki_small_product {
    const float *a, *b;
    float *c;
    int64_t rows, inner, columns; /* columns: a multiple of 16 */
    int64_t a_row, a_inner, b_pitch, c_pitch;
    bool add;
} yki_small_product;

enum { YKI_TURN_COUNT = 16 /* contiguous numbers of x that a tile has at most */ };

/* Tiles of two dimensions: contiguous numbers of x, of which there are x_count, are y_step apart in
 * y, and contiguous ones of y are x_step apart in x. */
typedef struct yki_turn {
    int64_t x_count, y_count, x_step, y_step;
    int64_t x_room;                /* so many of x may be read, at least x_count */
    int64_t y_room;                /* numbers after y_count, up to so many, become 0 */
    int64_t tiles, x_tile, y_tile; /* how many there are, and from one to the next */
} yki_turn;

/* The columns of a head in rows of a tensor, and a copy of them in rows of f32. */
typedef struct yki_head_rows {
    yk_dtype dtype;
    void *memory;             /* of the first row's columns */
    float *own;               /* its copy, times the factor */
    int64_t rows, width;      /* of the head */
    int64_t pitch, own_pitch; /* elements from one row to the next */
    float factor;
} yki_head_rows;

typedef struct yki_cpu_loops {
    int pack; /* elements taken at a time, all with the same constants: a multiple of b */
    /* Adds sum(x - shift) and sum((x - shift)^2). */
    void (*moments)(const yki_runs *runs, yki_run_range range, const void *x, const float *shift,
                    yki_norm_sums *sums);
    /* Walks its runs backwards: the last that moments() read are still in the cache. */
    void (*normalise)(const yki_runs *runs, yki_run_range range, const yki_norm_forward *operands,
                      const yki_norm_constants *constants);
    /* Adds sum(g) and sum(g (x - mean)); writes g where it is kept. */
    void (*gradient_sums)(const yki_runs *runs, yki_run_range range,
                          const yki_norm_backward *operands, const yki_norm_constants *constants,
                          yki_norm_sums *sums);
    /* Writes dx; backwards as normalise. Reads g where it is kept. */
    void (*gradient)(const yki_runs *runs, yki_run_range range, const yki_norm_backward *operands,
                     const yki_norm_constants *constants, const yki_norm_slopes *slopes);
    /* The same of one channel block of a small image in f32, which is half a pack wide. Constants
     * are those of the block's channels, and its sums are written, not added. */
    void (*small_moments)(const float *x, int64_t pixels, const float *shift, double *sums,
                          double *squares);
    void (*small_normalise)(const float *x, float *y, int64_t pixels, const float *mean,
                            const float *scale, const float *bias);
    void (*small_gradient_sums)(const float *x, const float *dy, int64_t pixels, const float *mean,
                                double *sums, double *products);
    void (*small_gradient)(const float *x, const float *dy, float *dx, int64_t pixels,
                           const float *mean, const float *a, const float *b, const float *c);
    /* All of such a group. Mean: first a value near it, then the mean; dx may be NULL. Sums and
     * products: those of dy, and of dy (x - mean) invstd, of each channel. */
    void (*small_group)(const yki_small_group *group, const float *x, float *y, float *mean,
                        float *invstd);
    void (*small_group_slopes)(const yki_small_group *group, const float *x, const float *dy,
                               float *dx, float mean, float invstd, double *sums, double *products);
    /* y = op(a, b), element by element; y may be a or b. */
    void (*map)(const yki_elementwise *map, const void *a, const void *b, void *y, int64_t count);
    void (*small_groups_slopes)(const yki_small_groups *groups, const float *x, const float *dy,
                                float *dx, double *sums, double *products);
    /* Pixels of f32 that are as wide as a vector, each times its own number; y may be x. */
    void (*multiply_pixels)(const float *x, const float *numbers, float *y, int64_t pixels);
    /* Dropout's mask is a number for each vector of elements (pack / 2), whose bit l is whether the
     * vector's element l is kept. draw makes the mask of `count` elements, from `first` on. drop
     * makes y, which may be x: x times factor, or 0. */
    void (*draw)(const yki_dropout_draw *draw, uint64_t first, int64_t count, uint16_t *kept);
    void (*drop)(yk_dtype dtype, const void *x, const uint16_t *kept, void *y, float factor,
                 int64_t count);
    /* Both at once, without a mask in memory. */
    void (*drop_drawn)(yk_dtype dtype, const yki_dropout_draw *draw,
                       const yki_dropout_places *places, const void *x, void *y, float factor,
                       int64_t count);
    /* A sample of a recurrent layer's cell, whose state has so many elements, and its gradient. */
    void (*lstm_cell)(yk_dtype dtype, const yki_lstm_row *row, int64_t size);
    void (*lstm_cell_slopes)(yk_dtype dtype, const yki_lstm_slopes *row, int64_t size);
    void (*gru_cell)(yk_dtype dtype, const yki_gru_row *row, int64_t size);
    void (*gru_cell_slopes)(yk_dtype dtype, const yki_gru_slopes *row, int64_t size);
    yki_gate_loops gates; /* products of f32 */
    /* The sum of elements, each times that of factor, which may be NULL; and rows of `count`
     * elements, `stride` apart, added to as many sums. */
    double (*sum)(yk_dtype dtype, const void *x, const void *factor, int64_t count);
    void (*sum_rows)(yk_dtype dtype, const void *x, const void *factor, int64_t rows,
                     int64_t stride, int64_t count, double *sums);
    /* Of rows of pixels that are as wide as a vector: adds their lanes to one sum for each. */
    void (*sum_pixels)(yk_dtype dtype, const void *x, const void *factor, int64_t rows,
                       int64_t stride, int64_t pixels, double *sums);
    /* Adds every `beside` sums to one: `count` of them, in place. */
    void (*join_sums)(double *sums, int64_t beside, int64_t count);
    /* The sum of losses, and their slopes by x times factor; dx may be x. Weights: the pos_weight
     * of each element, or NULL. */
    double (*loss_sum)(yki_loss_op op, const float *x, const float *target, const float *weights,
                       float beta, int64_t count);
    void (*loss_slopes)(yki_loss_op op, const float *x, const float *target, const float *weights,
                        float *dx, float beta, float factor, int64_t count);
    yki_softmax_loops softmax, log_softmax;
    /* The largest or, with `least`, the smallest of each row; of each column of rows that are
     * `stride` apart; and of the channels of each pixel. */
    void (*extreme_rows)(yk_dtype dtype, bool least, const void *x, int64_t rows, int64_t count,
                         void *y);
    void (*extreme_columns)(yk_dtype dtype, bool least, const void *x, int64_t rows, int64_t stride,
                            int64_t count, void *y);
    void (*extreme_channels)(yk_dtype dtype, bool least, const void *x, const yki_pixel_channels *k,
                             void *y);
    /* And their gradients. own: memory for 2 count numbers. */
    void (*extreme_row_slopes)(yk_dtype dtype, const void *x, const void *y, const void *dy,
                               void *dx, int64_t rows, int64_t count);
    void (*extreme_column_slopes)(yk_dtype dtype, const void *x, int64_t rows, int64_t stride,
                                  int64_t count, const void *y, const void *dy, void *dx,
                                  float *own);
    void (*extreme_channel_slopes)(yk_dtype dtype, const void *x, const yki_pixel_channels *k,
                                   const void *y, const void *dy, void *dx);
    /* layer_norm of some rows; and the gradient, which adds to the sums over rows. far: they come
     * from memory rather than from a cache, and results bypass the caches, so each row must begin
     * where a vector does, and yki_stream_settle() follow the last call. */
    void (*normalise_rows)(const float *x, const float *weight, const float *bias, float *y,
                           int64_t rows, int64_t count, double eps, bool far);
    yki_row_slopes *row_slopes;
    /* Likewise of rms_norm; the gradient adds to the sums of products alone. */
    void (*scale_rows)(const float *x, const float *weight, float *y, int64_t rows, int64_t count,
                       double eps, bool far);
    yki_row_slopes *scaled_row_slopes;
    /* The sums of target (logit - largest) and of targets; and of all classes
     * (total exp(logit - log_sum) - target) factor, where dlogits may be the logits. */
    void (*weigh_targets)(const yki_row_targets *targets, const float *logits, float largest,
                          int64_t count, double *taken, double *total);
    void (*target_slopes)(const yki_row_targets *targets, const float *logits, float log_sum,
                          float *dlogits, float total, float factor, int64_t count);
    /* Of `count` pixels in a row, from these of the first class on: adds to the sums and writes
     * log(sum(exp(logits))) of each unless NULL; and the gradient, in which dlogits may be the
     * logits. */
    void (*pixel_losses)(const yki_pixel_loss *loss, const float *logits, const void *labels,
                         float *log_sums, int64_t count, yki_pixel_sums *sums);
    void (*pixel_slopes)(const yki_pixel_loss *loss, const float *logits, const float *log_sums,
                         const void *labels, float *dlogits, float factor, int64_t count);
    /* Channels of `count` pixels in a row, from these of an image in blocks on, to rows that are
     * `stride` apart; and back, with zeros in padding channels. */
    void (*unblock)(const float *x, int64_t channels, int64_t pixels, int64_t count, float *rows,
                    int64_t stride);
    void (*block)(const float *rows, int64_t stride, int64_t channels, int64_t pixels,
                  int64_t count, float *x);
    /* Adds the gradients of the weight, (taps, b), and of the bias if it is wanted, (b), over so
     * many images; own: the ring and a row of dy. */
    void (*depthwise_gradient)(const yki_depthwise *shape, const void *x, const void *dy,
                               int64_t images, float *sums, float *own);
    /* Forward and the gradient of x in one image, of 3x3 filters and stride 2; y has dy's shape.
     * Weights are (9, b); zeros: as many as a row of what is read has. */
    void (*depthwise_forward)(const yki_depthwise *shape, const void *x, const float *weights,
                              const void *zeros, void *y);
    void (*depthwise_data)(const yki_depthwise *shape, const void *dy, const float *weights,
                           const void *zeros, void *dx);
    yki_narrow_convolution *narrow_convolve;
    /* Adds the weight gradient, (3, width, 3, b), over so many images. */
    void (*narrow_gradient)(const yki_narrow *shape, const void *x, const void *dy, int64_t images,
                            float *sums, float *own);
    /* Index, which may be NULL: the place of each maximum in its window. */
    void (*max_pool)(const yki_max_pool *shape, const void *x, void *y, uint8_t *index);
    void (*max_pool_backward)(const yki_max_pool *shape, const void *dy, const uint8_t *index,
                              void *dx);
    /* Of one channel block, as wide as a vector: each result is the sum over its window times its
     * weight, or the sum of pixels of which each has its weight. */
    void (*average)(const yki_windows *windows, const void *x, void *y);
    void (*sum_weighted)(const yki_windows *windows, const void *x, void *y);
    /* A row of the result, of one channel block, as wide as a vector, or of one channel. own:
     * memory for a row of x in f32. */
    void (*mix_pixels)(const yki_mixing *mixing, int64_t row, const void *x, void *y, float *own);
    void (*mix_numbers)(const yki_mixing *mixing, int64_t row, const void *x, void *y, float *own);
    void (*multiply)(const yki_small_product *product);
    /* To the copy, in which zeros follow, and from the copy to the tensor, times the factor. */
    void (*take_rows)(const yki_head_rows *head);
    void (*give_rows)(const yki_head_rows *head);
    void (*turn)(const yki_turn *turn, const float *x, float *y);
    void (*turn_halves)(const yki_turn *turn, const uint16_t *x, uint16_t *y);
    /* `count` rows, whose pitch is a multiple of 4, to as many rows as there are columns; zeros
     * follow. */
    void (*turn_rows)(const float *rows, int64_t count, int64_t columns, int64_t pitch,
                      float *turned, int64_t turned_pitch);
    /* The softmax of the first `count` numbers of x; the others of its columns, which are a
     * multiple of 16, become 0. Returns the logarithm of the sum of their exponentials. */
    float (*masked_softmax)(float *x, int64_t count, int64_t columns);
    /* With p = exp(x - log_sum) over its sum, of which `count` numbers are not 0: slopes become
     * p (slopes - sum(p slopes)), and x becomes p. */
    void (*masked_softmax_slopes)(float *x, float *slopes, int64_t count, int64_t columns,
                                  float log_sum);
    /* Multiplies and adds on registers alone; returns how many such operations these were. */
    double (*multiply_add)(int64_t rounds);
} yki_cpu_loops;

extern const yki_cpu_loops yki_cpu_loops_avx512, yki_cpu_loops_avx2, yki_cpu_loops_generic;

/* For processors with bf16 dot products. Weights are (b) of the bias, then pairs of bf16: of two
 * channels, (3, width / 2, 3, b), or for a width of 1 of two taps in a row, (3, 2, b). */
yki_narrow_convolution yki_narrow_bf16;

/* Likewise: products of pairs of bf16, by dot products and by AMX, for which the numbers of a row
 * are a multiple of 16. */
extern const yki_gate_loops yki_gate_loops_bf16, yki_gate_loops_amx;

/* The table for a device, whose block is the width of its vectors: 16, 8 or none. */
const yki_cpu_loops *yki_cpu_loops_of(const yki_device *device);

#endif
