/*
 * 3x3 convolutions with padding 1 and stride 1 or 2 by minimal filtering, Winograd's algorithm,
 * forward and both gradients, on AVX-512 and AVX2. On AVX-512, winograd.c is preferred for stride 1
 * and multiples of 64 channels.
 * Activations are in f32, bf16 or f16, weights and arithmetic in f32. The mathematics and the inner
 * loops are in minimal.h; this file divides the work among threads and orders it.
 *
 * Forward and the gradient of x take, for a block of tiles and 64 output channels at a time, the
 * products of each of the 36 matrices, over all input channels, before the next. Where weights are
 * larger than activations, the activations are transformed first, and then 64 output channels are
 * a unit of work, which transforms its own weights; they never pass through memory. Elsewhere all
 * weights are transformed first, and then a block is a unit.
 *
 * The weights' gradient sums over tiles, for every pair of 64 input and 64 output channels. Where
 * the sums of all pairs are small, the blocks are divided into parts: a part's blocks are
 * transformed and multiplied one after the other into sums that belong to the part, and the parts'
 * sums are added in order. Otherwise all blocks are transformed first, and then each pair is a unit
 * of work.
 *
 * Threads take the next unit when they have finished one, so that a thread whose core is shared
 * with another process does less, and they wait for each other twice a kernel. The order in which
 * sums are added depends on the shape alone: the result has the same bits with any number of
 * threads.
 */
#include "device/cpu/minimal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"
#include "device/cpu/onednn.h"

enum {
    SIDE = YKI_MINIMAL_SIDE,
    TILE = YKI_MINIMAL_TILE,
    MATRICES = YKI_MINIMAL_MATRICES,
    MATRIX = YKI_MINIMAL_MATRIX,
    WEIGHTS = YKI_MINIMAL_WEIGHTS, /* floats of a pair's 36 matrices */
    PIECE = 16,                    /* columns of a pair that are written at a time */
    PIECES = SIDE / PIECE,
    TAPS = 9,
    ROWS = 6,         /* that a product takes at a time: blocks have a multiple of them */
    LEAST_TILES = 64, /* with fewer the weights' transformation costs more than it saves */
    REFERENCE_COLUMNS = 2,
    LEAST_PARTS = 4,
    MOST_PARTS = 8,
    PART_BLOCKS = 8, /* that a part should have: each costs a pass over its sums */
    LEAST_PAIRS = 8, /* units of work; fewer would leave threads without any */
    THREAD_BLOCKS = 3,
    OUTPUTS_A_THREAD = 3
};

/* Images, and their channels in groups of 64, of which the last may have fewer. */
typedef struct activation {
    yk_dtype dtype;
    int64_t channels, padded; /* as in memory */
    int64_t groups, rows, columns;
} activation;

typedef struct minimal {
    yki_kernel base;
    const yki_minimal *algorithm;
    int64_t slab;                                /* floats */
    int64_t offsets[MATRICES], points[MATRICES]; /* of a slab's matrices */

    /* What is read and what is made; for the weights' gradient x and dy. */
    activation x, y;
    int64_t images, tiles_down, tiles_across, tiles, blocks;
    int team;
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
    bool turned;     /* the gradient of x */
    bool bias;       /* or its gradient */
    bool stream;     /* results are written past the caches */
    bool by_outputs; /* and not by blocks */
    /* Weights' gradient: */
    int64_t parts;      /* of the blocks; 0: all are transformed first */
    bool split_outputs; /* a part's output groups are units of their own */
} minimal;

/* ---- tiles ---------------------------------------------------------------------------------- */

/* Of tiles, blocks or groups: [begin, end). */
typedef struct range {
    int64_t begin, end;
} range;

static range block_range(const minimal *k, int64_t block)
{
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS;
    int64_t end = sixes * (block + 1) / k->blocks * ROWS;
    return (range){sixes * block / k->blocks * ROWS, end < k->tiles ? end : k->tiles};
}

/* The channels of a group, and those with padding, which are zero. */
static int64_t channels_of(const activation *a, int64_t group)
{
    int64_t left = a->channels - group * SIDE;
    return left < SIDE ? left : SIDE;
}

static int64_t padded_of(const activation *a, int64_t group)
{
    int64_t left = a->padded - group * SIDE;
    return left < SIDE ? left : SIDE;
}

/* The plane of a vector's channels, from `channel` of `group` on. */
static yki_minimal_plane plane_of(const activation *a, const void *data, int64_t image,
                                  int64_t group, int64_t channel)
{
    int64_t channels = image * a->padded + group * SIDE + channel;
    size_t offset = (size_t)(channels * a->rows * a->columns) * yk_dtype_size(a->dtype);
    return (yki_minimal_plane){.data = (char *)(uintptr_t)data + offset,
                               .dtype = a->dtype,
                               .rows = a->rows,
                               .columns = a->columns};
}

static int64_t image_of(const minimal *k, int64_t tile)
{
    return tile / (k->tiles_down * k->tiles_across);
}

static yki_minimal_tile tile_of(const minimal *k, int64_t tile, int64_t first)
{
    int64_t in_image = tile % (k->tiles_down * k->tiles_across);
    return (yki_minimal_tile){.down = in_image / k->tiles_across,
                              .across = in_image % k->tiles_across,
                              .row = tile - first};
}

/* These groups of an activation into slabs, one each. */
static void transform_groups(const minimal *k, yki_minimal_to_points *transform,
                             const activation *a, const void *data, range tiles, range groups,
                             float *slabs)
{
    for (int64_t group = groups.begin; group < groups.end; group++, slabs += k->slab)
        for (int64_t t = tiles.begin; t < tiles.end; t++) {
            yki_minimal_tile at = tile_of(k, t, tiles.begin);
            for (int64_t channel = 0; channel < padded_of(a, group);
                 channel += k->algorithm->lanes) {
                yki_minimal_plane plane = plane_of(a, data, image_of(k, t), group, channel);
                transform(&plane, &at, slabs + channel);
            }
        }
}

/* Where results are written, and what is added to each channel, or NULL. */
typedef struct output {
    void *data;
    const float *bias;
    bool stream; /* past the caches */
} output;

static void write_result(const minimal *k, const float *slab, range tiles, int64_t group,
                         const output *y)
{
    const yki_minimal *algorithm = k->algorithm;
    yki_minimal_to_pixels *transform = k->turned ? algorithm->gradient_result : algorithm->result;
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        yki_minimal_tile at = tile_of(k, t, tiles.begin);
        for (int64_t channel = 0; channel < padded_of(&k->y, group); channel += algorithm->lanes) {
            yki_minimal_plane plane = plane_of(&k->y, y->data, image_of(k, t), group, channel);
            plane.bias = y->bias ? y->bias + group * SIDE + channel : NULL;
            plane.stream = y->stream;
            transform(slab + channel, &plane, &at);
        }
    }
    if (y->stream)
        yki_stream_settle();
}

/* ---- forward, and the gradient of x --------------------------------------------------------- */

/*
 * The weights from group `in` to group `out`, among those of one output group: its 36 matrices,
 * each for all input groups in turn.
 */
static void transform_weights(const minimal *k, const float *weight, int64_t in, int64_t out,
                              float *weights)
{
    const float *corner = weight + in * SIDE * k->row_stride + out * SIDE * k->column_stride;
    int64_t outputs = channels_of(&k->y, out);
    for (int64_t row = 0; row < channels_of(&k->x, in); row++)
        for (int64_t column = 0; column < padded_of(&k->y, out); column += k->algorithm->lanes)
            k->algorithm->weight(corner + row * k->row_stride + column * k->column_stride,
                                 k->column_stride, outputs - column, k->turned,
                                 weights + in * MATRIX + row * SIDE + column, k->x.groups * MATRIX);
}

static void transform_input(const minimal *k, const void *x, range tiles, range groups,
                            float *slabs)
{
    transform_groups(k, k->turned ? k->algorithm->gradient_data : k->algorithm->data, &k->x, x,
                     tiles, groups, slabs);
}

/* A block's results in one output group. */
static void convolve_group(const minimal *k, const float *data, const float *weights, int64_t out,
                           range tiles, float *product, const output *y)
{
    for (int64_t m = 0; m < MATRICES; m++)
        for (int64_t in = 0; in < k->x.groups; in++) {
            yki_minimal_size size = {.rows = (tiles.end - tiles.begin) * k->points[m],
                                     .vectors = padded_of(&k->y, out) / k->algorithm->lanes,
                                     .count = channels_of(&k->x, in)};
            k->algorithm->multiply(data + in * k->slab + k->offsets[m],
                                   weights + (m * k->x.groups + in) * MATRIX,
                                   product + k->offsets[m], size, in == 0);
        }
    write_result(k, product, tiles, out, y);
}

/* ---- ... by blocks --------------------------------------------------------------------------- */

/* `own`: the thread's memory, a slab for each input group and one for the product. */
static void minimal_convolve_block(const minimal *k, const void *x, const float *weights,
                                   int64_t block, float *own, const output *y)
{
    range tiles = block_range(k, block);
    float *product = own, *data = own + k->slab;
    transform_input(k, x, tiles, (range){0, k->x.groups}, data);
    for (int64_t out = 0; out < k->y.groups; out++)
        convolve_group(k, data, weights + out * k->x.groups * WEIGHTS, out, tiles, product, y);
}

static void convolve_by_blocks(const minimal *k, const yki_kernel_args *run, const output *y,
                               float *weights)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *threads = weights + pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pairs; i++)
            transform_weights(k, run->in[1], i % k->x.groups, i / k->x.groups,
                              weights + i / k->x.groups * k->x.groups * WEIGHTS);
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            minimal_convolve_block(k, run->in[0], weights, block,
                                   threads + omp_get_thread_num() * (k->x.groups + 1) * k->slab, y);
    }
}

/* ---- ... by output groups -------------------------------------------------------------------- */

/* `own`: the thread's memory, the weights of an output group and a slab for the product. */
static void convolve_out(const minimal *k, const float *data, const float *weight, int64_t out,
                         float *own, const output *y)
{
    float *product = own, *weights = own + k->slab;
    for (int64_t in = 0; in < k->x.groups; in++)
        transform_weights(k, weight, in, out, weights);
    for (int64_t block = 0; block < k->blocks; block++)
        convolve_group(k, data + block * k->x.groups * k->slab, weights, out, block_range(k, block),
                       product, y);
}

/* Of a thread. */
static int64_t own_floats(const minimal *k)
{
    return k->slab + k->x.groups * WEIGHTS;
}

static void convolve_by_outputs(const minimal *k, const yki_kernel_args *run, const output *y,
                                float *data)
{
    float *threads = data + k->blocks * k->x.groups * k->slab;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->blocks * k->x.groups; i++) {
            int64_t block = i / k->x.groups, group = i % k->x.groups;
            transform_input(k, run->in[0], block_range(k, block), (range){group, group + 1},
                            data + i * k->slab);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t out = 0; out < k->y.groups; out++)
            convolve_out(k, data, run->in[1], out, threads + omp_get_thread_num() * own_floats(k),
                         y);
    }
}

/* The bias is copied, with zeros for the padding channels. */
static int64_t bias_floats(const minimal *k)
{
    return k->bias ? (k->y.padded + PIECE - 1) / PIECE * PIECE : 0;
}

static yk_status minimal_convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const minimal *k = (const minimal *)kernel;
    float *bias = run->scratch, *scratch = bias + bias_floats(k);
    output y = {.data = run->out[0], .bias = k->bias ? bias : NULL};
    y.stream = k->stream && (uintptr_t)y.data % YKI_ALIGNMENT == 0;
    if (k->bias) {
        memset(bias, 0, (size_t)bias_floats(k) * sizeof *bias);
        memcpy(bias, run->in[YKI_CONV2D_BIAS], (size_t)k->y.channels * sizeof *bias);
    }
    if (k->by_outputs)
        convolve_by_outputs(k, run, &y, scratch);
    else
        convolve_by_blocks(k, run, &y, scratch);
    return YK_OK;
}

/* ---- the weights' gradient ------------------------------------------------------------------ */

/* The transformed x of a block, all groups, and dy of some groups. */
typedef struct points {
    float *x, *dy;
    int64_t tiles;
} points;

static points transform_block(const minimal *k, const yki_kernel_args *run, int64_t block,
                              range outputs, float *slabs)
{
    range tiles = block_range(k, block);
    points p = {.tiles = tiles.end - tiles.begin};
    p.x = slabs;
    p.dy = slabs + k->x.groups * k->slab;
    transform_groups(k, k->algorithm->data, &k->x, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], tiles,
                     (range){0, k->x.groups}, p.x);
    transform_groups(k, k->algorithm->result_gradient, &k->y,
                     run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], tiles, outputs, p.dy);
    return p;
}

/* Adds the products of a block's points in matrix m to the sum of a pair. */
static void add_products(const minimal *k, const float *x, const float *dy, int64_t tiles, int m,
                         int64_t pair, bool first, float *sum)
{
    const int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    yki_minimal_size size = {.rows = channels_of(&k->x, in),
                             .vectors = padded_of(&k->y, out) / k->algorithm->lanes,
                             .count = tiles * k->points[m]};
    k->algorithm->multiply_transposed(x + k->offsets[m], dy + k->offsets[m], sum + m * MATRIX, size,
                                      first);
}

/* Pairs are numbered in group * output groups + out group, and written in PIECES. */
static void write_columns(const minimal *k, const float *sum, int64_t pair, int64_t column,
                          float *weight)
{
    int64_t in = pair / k->y.groups, out = pair % k->y.groups, outputs = channels_of(&k->y, out);
    int64_t end = column + PIECE < outputs ? column + PIECE : outputs;
    float *corner = weight + in * SIDE * k->row_stride + out * SIDE * k->column_stride;
    for (int64_t c = column; c < end; c += k->algorithm->lanes)
        for (int64_t row = 0; row < channels_of(&k->x, in); row++)
            k->algorithm->weight_gradient(sum + row * SIDE + c,
                                          corner + row * k->row_stride + c * k->column_stride,
                                          k->column_stride, end - c);
}

/* ---- by parts ------------------------------------------------------------------------------- */

/* All blocks of a part into its sums, for these output groups. */
static void sum_part(const minimal *k, const yki_kernel_args *run, int64_t part, range outputs,
                     float *sums, float *own)
{
    int64_t begin = k->blocks * part / k->parts, end = k->blocks * (part + 1) / k->parts;
    for (int64_t block = begin; block < end; block++) {
        points p = transform_block(k, run, block, outputs, own);
        for (int m = 0; m < MATRICES; m++)
            for (int64_t out = outputs.begin; out < outputs.end; out++)
                for (int64_t in = 0; in < k->x.groups; in++) {
                    int64_t pair = in * k->y.groups + out;
                    add_products(k, p.x + in * k->slab, p.dy + (out - outputs.begin) * k->slab,
                                 p.tiles, m, pair, block == begin, sums + pair * WEIGHTS);
                }
    }
}

/* One thread adds each part's sums at once, in the same order, while its cache holds them. */
static void sum_alone(const minimal *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *total = run->scratch, *sums = total + pairs * WEIGHTS, *own = sums + pairs * WEIGHTS;
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (range){0, k->y.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            k->algorithm->add(sums + pair * WEIGHTS, SIDE, total + pair * WEIGHTS);
    }
    for (int64_t i = 0; i < pairs * PIECES; i++)
        write_columns(k, total + i / PIECES * WEIGHTS, i / PIECES, i % PIECES * PIECE,
                      run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* Adds the parts' sums in order for piece i of the pairs, and writes its gradient. */
static void finish_columns(const minimal *k, float *sums, int64_t i, float *weight)
{
    const int64_t all = k->x.groups * k->y.groups * WEIGHTS, column = i % PIECES * PIECE;
    float *total = sums + i / PIECES * WEIGHTS;
    for (int64_t part = 1; part < k->parts; part++)
        k->algorithm->add(total + part * all + column, PIECE, total + column);
    write_columns(k, total, i / PIECES, column, weight);
}

static void sum_by_parts(const minimal *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    const int64_t pieces = k->split_outputs ? k->y.groups : 1;
    float *sums = run->scratch, *threads = sums + k->parts * pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own = threads + omp_get_thread_num() * (k->x.groups + k->y.groups) * k->slab;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->parts * pieces; i++) {
            range outputs = {i % pieces, k->split_outputs ? i % pieces + 1 : k->y.groups};
            sum_part(k, run, i / pieces, outputs, sums + i / pieces * pairs * WEIGHTS, own);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * PIECES; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- by pairs ------------------------------------------------------------------------------- */

/* A pair's sum over all blocks, and its gradient. */
static void finish_pair(const minimal *k, const float *slabs, int64_t pair, float *sum,
                        float *weight)
{
    const int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    for (int m = 0; m < MATRICES; m++)
        for (int64_t block = 0; block < k->blocks; block++) {
            const float *of_block = slabs + block * (k->x.groups + k->y.groups) * k->slab;
            range tiles = block_range(k, block);
            add_products(k, of_block + in * k->slab, of_block + (k->x.groups + out) * k->slab,
                         tiles.end - tiles.begin, m, pair, block == 0, sum);
        }
    for (int64_t column = 0; column < SIDE; column += PIECE)
        write_columns(k, sum, pair, column, weight);
}

static void sum_by_pairs(const minimal *k, const yki_kernel_args *run)
{
    const int64_t slabs_a_block = k->x.groups + k->y.groups;
    float *slabs = run->scratch, *threads = slabs + k->blocks * slabs_a_block * k->slab;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < k->blocks; block++)
            transform_block(k, run, block, (range){0, k->y.groups},
                            slabs + block * slabs_a_block * k->slab);
#pragma omp for schedule(dynamic) nowait
        for (int64_t pair = 0; pair < k->x.groups * k->y.groups; pair++)
            finish_pair(k, slabs, pair, threads + omp_get_thread_num() * WEIGHTS,
                        run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* A vector's channels at a time, and images in order. */
static void sum_bias(const minimal *k, const void *dy, float *bias)
{
#pragma omp parallel for num_threads(k->team) if (k->team > 1) schedule(dynamic)
    for (int64_t first = 0; first < k->y.padded; first += k->algorithm->lanes) {
        float sums[PIECE] = {0};
        for (int64_t image = 0; image < k->images; image++) {
            yki_minimal_plane plane = plane_of(&k->y, dy, image, 0, first);
            k->algorithm->sum_pixels(&plane, sums);
        }
        for (int64_t c = first; c < first + k->algorithm->lanes && c < k->y.channels; c++)
            bias[c] = sums[c - first];
    }
}

static yk_status minimal_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const minimal *k = (const minimal *)kernel;
    if (k->parts == 0)
        sum_by_pairs(k, run);
    else if (k->team == 1)
        sum_alone(k, run);
    else
        sum_by_parts(k, run);
    if (k->bias)
        sum_bias(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                 run->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS]);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

/* NULL if there is none. */
static const yki_minimal *algorithm_of(const yki_device *device, int64_t stride)
{
#if defined(__x86_64__)
    const yki_cpu_loops *loops = yki_cpu_loops_of(device);
    if (loops == &yki_cpu_loops_avx512 && stride == 1)
        return &yki_minimal_winograd_avx512;
    if (loops == &yki_cpu_loops_avx512 && stride == 2)
        return &yki_minimal_halving_avx512;
    if (loops == &yki_cpu_loops_avx2 && stride == 1)
        return &yki_minimal_winograd_avx2;
    if (loops == &yki_cpu_loops_avx2 && stride == 2)
        return &yki_minimal_halving_avx2;
#else
    (void)device;
    (void)stride;
#endif
    return NULL;
}

/* small: of x and y the one with fewer pixels, which is cut into tiles. */
static int64_t tiles_of(const yki_operand *small)
{
    return small->dims[0] * ((small->dims[2] + TILE - 1) / TILE) *
           ((small->dims[3] + TILE - 1) / TILE);
}

/* Tiles at the edges compute pixels that are not there: enough of all must be. And there must be
 * enough tiles to make up for the transformation of the weights. */
static bool fills_tiles(const yki_operand *small, int64_t stride)
{
    int64_t pixels = small->dims[0] * small->dims[2] * small->dims[3];
    int64_t least = stride == 1 ? 35 : 70; /* percent */
    return tiles_of(small) >= LEAST_TILES && 100 * pixels >= least * TILE * TILE * tiles_of(small);
}

/* Groups of fewer than 64 channels are slower, by more than stride 2 gains. */
static bool fills_groups(const yki_operand *a, int64_t stride)
{
    return stride == 1 || a->dims[1] % SIDE == 0;
}

static bool takes(const yki_operand *a)
{
    return yki_is_float(a) && a->ndim == 4 && a->layout == YKI_BLOCKED;
}

static bool minimal_supports(const yki_device *device, const yki_attrs *attrs,
                             const yki_operand *large, const yki_operand *small,
                             const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && algorithm_of(device, attrs->stride) &&
           takes(large) && takes(small) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           attrs->padding == 1 && attrs->dilation == 1 && attrs->groups == 1;
}

static bool gains(const yki_device *device, const yki_attrs *attrs, const yki_operand *large,
                  const yki_operand *small)
{
    return !yki_prefers_bf16(device, small) && fills_groups(large, attrs->stride) &&
           fills_groups(small, attrs->stride) && fills_tiles(small, attrs->stride);
}

static activation activation_of(const yki_device *device, const yki_operand *operand)
{
    yki_geometry shape = yki_geometry_of(device, operand);
    return (activation){.dtype = operand->dtype,
                        .channels = shape.channels,
                        .padded = shape.blocks * shape.b,
                        .groups = (shape.channels + SIDE - 1) / SIDE,
                        .rows = shape.rows,
                        .columns = shape.columns};
}

static minimal *minimal_create(const yki_device *device, const yki_attrs *attrs,
                               const yki_operand *x, const yki_operand *y, const yki_operand *small)
{
    minimal *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    const yki_minimal *algorithm = algorithm_of(device, attrs->stride);
    k->algorithm = algorithm;
    for (int64_t m = 0; m < MATRICES; m++) {
        k->offsets[m] = yki_minimal_offset(algorithm->stride, algorithm->tiles, m);
        k->points[m] = yki_minimal_points(algorithm->stride, m);
    }
    k->slab = yki_minimal_offset(algorithm->stride, algorithm->tiles, MATRICES);
    k->x = activation_of(device, x);
    k->y = activation_of(device, y);
    k->tiles_down = (small->dims[2] + TILE - 1) / TILE;
    k->tiles_across = (small->dims[3] + TILE - 1) / TILE;
    k->tiles = tiles_of(small);
    k->blocks = (k->tiles + algorithm->tiles - 1) / algorithm->tiles;
    k->team = device->threads;
    k->images = x->dims[0];
    for (int64_t m = 0; m < MATRICES; m++)
        k->base.flop += 2.0 * (double)(k->points[m] * k->tiles * x->dims[1] * y->dims[1]);
    return k;
}

/* Enough blocks for all threads; returns the floats that these need. */
static int64_t plan_blocks(minimal *k)
{
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS, wanted = (int64_t)THREAD_BLOCKS * k->team;
    if (k->team > 1 && k->blocks < wanted)
        k->blocks = sixes < wanted ? sixes : wanted;
    return k->team * (k->x.groups + 1) * k->slab;
}

/* How the work is divided does not change bits: all blocks and groups are computed alike. */
static yk_status minimal_prepare_convolve(const yki_device *device, const yki_attrs *attrs,
                                          const yki_operand *x, const yki_operand *y, bool turned,
                                          yki_kernel **kernel)
{
    minimal *k = minimal_create(device, attrs, x, y, turned ? x : y);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->turned = turned;
    k->stream = yki_streams(device, y);
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->row_stride = turned ? TAPS * y->dims[1] : TAPS;
    k->column_stride = turned ? TAPS : TAPS * x->dims[1];
    int64_t data = k->blocks * k->x.groups * k->slab, weights = k->x.groups * k->y.groups * WEIGHTS;
    k->by_outputs = data < weights && k->y.groups >= OUTPUTS_A_THREAD * (int64_t)k->team;
    int64_t floats = data + k->team * own_floats(k);
    if (!k->by_outputs)
        floats = weights + plan_blocks(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ---------------------------------------------------------------- */

static bool minimal_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return (!yki_has_in(desc, YKI_CONV2D_BIAS) || desc->in[YKI_CONV2D_BIAS].dtype == YK_F32) &&
           minimal_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                            &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool minimal_gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y]);
}

static yk_status minimal_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                         yki_kernel **kernel)
{
    YK_TRY(minimal_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                    &desc->out[YKI_CONV2D_Y], false, kernel));
    minimal *k = (minimal *)*kernel;
    k->bias = yki_has_in(desc, YKI_CONV2D_BIAS);
    k->base.scratch += (size_t)bias_floats(k) * sizeof(float);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_minimal = {.op = &yki_op_conv2d,
                                                .name = "minimal",
                                                .supports = minimal_supports_forward,
                                                .gains = minimal_gains_forward,
                                                .prepare = minimal_prepare_forward,
                                                .run = minimal_convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool minimal_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return minimal_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool minimal_gains_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                 &desc->in[YKI_CONV2D_BACKWARD_DATA_DY]);
}

static yk_status minimal_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                               yki_kernel **kernel)
{
    return minimal_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                    &desc->out[YKI_CONV2D_BACKWARD_DATA_DX], true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_minimal = {
    .op = &yki_op_conv2d_backward_data,
    .name = "minimal",
    .supports = minimal_supports_backward_data,
    .gains = minimal_gains_backward_data,
    .prepare = minimal_prepare_backward_data,
    .run = minimal_convolve};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

/* Without AVX-512, oneDNN has only reference loops for images of few columns. */
static bool is_reference(const yki_device *device, const yki_operand *dy)
{
    return device->block == 8 && dy->dims[3] <= REFERENCE_COLUMNS;
}

static bool minimal_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *bias = &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS];
    return (!yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) || bias->dtype == YK_F32) &&
           minimal_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                            &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                            &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool minimal_gains_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    int64_t stride = desc->attrs->stride;
    return gains(device, desc->attrs, x, dy) ||
           (is_reference(device, dy) && fills_groups(x, stride) && fills_groups(dy, stride));
}

/* Both return the floats of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(minimal *k)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_outputs = k->parts < 2 * (int64_t)k->team;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    return sums * pairs * WEIGHTS + k->team * (k->x.groups + k->y.groups) * k->slab;
}

static int64_t plan_pairs(const minimal *k)
{
    return k->blocks * (k->x.groups + k->y.groups) * k->slab + k->team * WEIGHTS;
}

static yk_status minimal_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                 yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    minimal *k = minimal_create(device, desc->attrs, x, dy, dy);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->bias = yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    k->row_stride = TAPS;
    k->column_stride = TAPS * x->dims[1];
    /* Whichever takes less memory, if there are enough pairs. */
    int64_t pairs = k->x.groups * k->y.groups;
    bool by_pairs = pairs >= LEAST_PAIRS && k->blocks * (k->x.groups + k->y.groups) * k->slab <
                                                LEAST_PARTS * pairs * WEIGHTS;
    int64_t floats = by_pairs ? plan_pairs(k) : plan_parts(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_minimal = {
    .op = &yki_op_conv2d_backward_weight,
    .name = "minimal",
    .supports = minimal_supports_backward_weight,
    .gains = minimal_gains_backward_weight,
    .prepare = minimal_prepare_backward_weight,
    .run = minimal_convolve_weight};
