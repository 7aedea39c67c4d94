/*
 * 3x3 convolution of stride 2 and padding 1 by Winograd's algorithm, forward and both gradients, on
 * AVX-512; activations in f32, bf16 or f16, weights and arithmetic in f32. The mathematics and the
 * inner loops are in halving.h; this file divides the work among threads and orders it.
 *
 * Forward and the gradient of x transform all weights first. Then each block of up to 24 tiles is a
 * unit of work: all its input is transformed, and for 64 output channels at a time each of the 36
 * matrices takes its products, over all input channels, before the next.
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
#include "device/cpu/halving.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/panel.h"

enum {
    SIDE = YKI_HALVING_SIDE,
    TILE = YKI_HALVING_TILE,
    CLASSES = YKI_HALVING_CLASSES,
    SLAB = YKI_HALVING_SLAB,
    MATRICES = CLASSES * CLASSES,
    MATRIX = YKI_WINOGRAD_MATRIX,
    WEIGHTS = YKI_WINOGRAD_SLAB, /* floats of a pair's 36 matrices */
    LANES = 16,
    COLUMNS = SIDE / LANES, /* vectors of a row */
    TAPS = 9,
    ROWS = 6,         /* that a product takes at a time: blocks have a multiple of them */
    LEAST_TILES = 64, /* with fewer the weights' transformation costs more than it saves */
    LEAST_PARTS = 4,
    MOST_PARTS = 8,
    PART_BLOCKS = 8, /* that a part should have: each costs a pass over its sums */
    LEAST_PAIRS = 8, /* units of work; fewer would leave threads without any */
    THREAD_BLOCKS = 3
};

typedef struct halving {
    yki_kernel base;
    /* What is read and what is made; for the weights' gradient x and dy. */
    yki_panel_activation x, y;
    int64_t tiles_down, tiles_across, tiles, blocks;
    int team;
    /* The location of the weight of row r (an input channel) and column c (an output channel). */
    int64_t row_stride, column_stride;
    bool spread; /* the gradient of x */
    /* Weights' gradient: */
    int64_t parts;      /* of the blocks; 0: all are transformed first */
    bool split_outputs; /* a part's output groups are units of their own */
} halving;

/* ---- tiles ---------------------------------------------------------------------------------- */

/* Of tiles, blocks or groups: [begin, end). */
typedef struct range {
    int64_t begin, end;
} range;

static range block_range(const halving *k, int64_t block)
{
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS;
    int64_t end = sixes * (block + 1) / k->blocks * ROWS;
    return (range){sixes * block / k->blocks * ROWS, end < k->tiles ? end : k->tiles};
}

typedef void transformation(const yki_winograd_plane *plane, const yki_halving_tile *at,
                            float *slab);

/* The plane of 16 channels, `part` of 4 in `group`. */
static yki_winograd_plane plane_of(const yki_panel_activation *a, const void *data, int64_t image,
                                   int64_t group, int64_t part)
{
    int64_t channels = (image * a->groups + group) * SIDE + part * LANES;
    size_t offset = (size_t)(channels * a->rows * a->columns) * yk_dtype_size(a->dtype);
    return (yki_winograd_plane){.data = (char *)(uintptr_t)data + offset,
                                .dtype = a->dtype,
                                .rows = a->rows,
                                .columns = a->columns};
}

static int64_t image_of(const halving *k, int64_t tile)
{
    return tile / (k->tiles_down * k->tiles_across);
}

static yki_halving_tile tile_of(const halving *k, int64_t tile, int64_t first)
{
    int64_t in_image = tile % (k->tiles_down * k->tiles_across);
    return (yki_halving_tile){.down = in_image / k->tiles_across,
                              .across = in_image % k->tiles_across,
                              .row = tile - first};
}

/* These groups of an activation into slabs, one each. */
static void transform_groups(const halving *k, transformation *transform,
                             const yki_panel_activation *a, const void *data, range tiles,
                             range groups, float *slabs)
{
    for (int64_t group = groups.begin; group < groups.end; group++, slabs += SLAB)
        for (int64_t t = tiles.begin; t < tiles.end; t++) {
            yki_halving_tile at = tile_of(k, t, tiles.begin);
            for (int64_t part = 0; part < COLUMNS; part++) {
                yki_winograd_plane plane = plane_of(a, data, image_of(k, t), group, part);
                transform(&plane, &at, slabs + part * LANES);
            }
        }
}

static void write_result(const halving *k, const float *slab, range tiles, int64_t group,
                         void *data)
{
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        yki_halving_tile at = tile_of(k, t, tiles.begin);
        for (int64_t part = 0; part < COLUMNS; part++) {
            yki_winograd_plane plane = plane_of(&k->y, data, image_of(k, t), group, part);
            if (k->spread)
                yki_halving_spread_result(slab + part * LANES, &plane, &at);
            else
                yki_halving_result(slab + part * LANES, &plane, &at);
        }
    }
}

/* ---- forward, and the gradient of x --------------------------------------------------------- */

/* Matrix m of the weights from group `in` to group `out`: groups of one matrix are neighbours. */
static int64_t weights_at(const halving *k, int64_t in, int64_t out, int64_t m)
{
    return ((out * MATRICES + m) * k->x.groups + in) * MATRIX;
}

static void transform_weights(const halving *k, const float *weight, int64_t in, int64_t out,
                              float *weights)
{
    const float *corner = weight + in * SIDE * k->row_stride + out * SIDE * k->column_stride;
    for (int64_t column = 0; column < SIDE; column += LANES)
        for (int64_t row = 0; row < SIDE; row++)
            yki_halving_weight(corner + row * k->row_stride + column * k->column_stride,
                               k->column_stride, k->spread,
                               weights + weights_at(k, in, out, 0) + row * SIDE + column,
                               k->x.groups * MATRIX);
}

/* A block's points of one output group. */
static void multiply_block(const halving *k, const float *data, const float *weights, int64_t out,
                           int64_t tiles, float *product)
{
    for (int i = 0; i < CLASSES; i++)
        for (int j = 0; j < CLASSES; j++)
            for (int64_t in = 0; in < k->x.groups; in++)
                yki_panel_multiply(data + in * SLAB + yki_halving_offset(i, j),
                                   weights + weights_at(k, in, out, i * CLASSES + j),
                                   product + yki_halving_offset(i, j),
                                   tiles * yki_halving_points(i, j), in == 0);
}

/* `own`: the thread's memory, a slab for each input group and one for the product. */
static void halving_convolve_block(const halving *k, const void *x, const float *weights, void *y,
                                   int64_t block, float *own)
{
    range tiles = block_range(k, block);
    float *product = own, *data = own + SLAB;
    transform_groups(k, k->spread ? yki_halving_spread_data : yki_halving_data, &k->x, x, tiles,
                     (range){0, k->x.groups}, data);
    for (int64_t out = 0; out < k->y.groups; out++) {
        multiply_block(k, data, weights, out, tiles.end - tiles.begin, product);
        write_result(k, product, tiles, out, y);
    }
}

static yk_status halving_convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const halving *k = (const halving *)kernel;
    const int64_t pairs = k->x.groups * k->y.groups;
    float *weights = run->scratch, *threads = weights + pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pairs; i++)
            transform_weights(k, run->in[1], i % k->x.groups, i / k->x.groups, weights);
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            halving_convolve_block(k, run->in[0], weights, run->out[0], block,
                                   threads + omp_get_thread_num() * (k->x.groups + 1) * SLAB);
    }
    return YK_OK;
}

/* ---- the weights' gradient ------------------------------------------------------------------ */

/* The transformed x of a block, all groups, and dy of some groups. */
typedef struct points {
    float *x, *dy;
    int64_t tiles;
} points;

static points transform_block(const halving *k, const yki_kernel_args *run, int64_t block,
                              range outputs, float *slabs)
{
    range tiles = block_range(k, block);
    points p = {.tiles = tiles.end - tiles.begin};
    p.x = slabs;
    p.dy = slabs + k->x.groups * SLAB;
    transform_groups(k, yki_halving_data, &k->x, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], tiles,
                     (range){0, k->x.groups}, p.x);
    transform_groups(k, yki_halving_result_gradient, &k->y, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                     tiles, outputs, p.dy);
    return p;
}

/* Adds the products of a block's points in one matrix to the sum of a pair. */
static void add_products(const float *x, const float *dy, int64_t tiles, int m, bool first,
                         float *sum)
{
    int i = m / CLASSES, j = m % CLASSES;
    yki_panel_multiply_transposed(x + yki_halving_offset(i, j), dy + yki_halving_offset(i, j),
                                  sum + m * MATRIX, tiles * yki_halving_points(i, j), first);
}

/* Pairs are numbered in group * output groups + out group, and written in COLUMNS pieces. */
static void write_columns(const halving *k, const float *sum, int64_t pair, int64_t column,
                          float *weight)
{
    int64_t in = pair / k->y.groups * SIDE, out = pair % k->y.groups * SIDE + column;
    for (int64_t row = 0; row < SIDE; row++)
        yki_halving_weight_gradient(sum + row * SIDE + column,
                                    weight + (in + row) * k->row_stride + out * k->column_stride,
                                    k->column_stride);
}

/* ---- by parts ------------------------------------------------------------------------------- */

/* All blocks of a part into its sums, for these output groups. */
static void sum_part(const halving *k, const yki_kernel_args *run, int64_t part, range outputs,
                     float *sums, float *own)
{
    int64_t begin = k->blocks * part / k->parts, end = k->blocks * (part + 1) / k->parts;
    for (int64_t block = begin; block < end; block++) {
        points p = transform_block(k, run, block, outputs, own);
        for (int m = 0; m < MATRICES; m++)
            for (int64_t out = outputs.begin; out < outputs.end; out++)
                for (int64_t in = 0; in < k->x.groups; in++)
                    add_products(p.x + in * SLAB, p.dy + (out - outputs.begin) * SLAB, p.tiles, m,
                                 block == begin, sums + (in * k->y.groups + out) * WEIGHTS);
    }
}

/* One thread adds each part's sums at once, in the same order, while its cache holds them. */
static void sum_alone(const halving *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *total = run->scratch, *sums = total + pairs * WEIGHTS, *own = sums + pairs * WEIGHTS;
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (range){0, k->y.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            yki_winograd_add(sums + pair * WEIGHTS, SIDE, total + pair * WEIGHTS);
    }
    for (int64_t i = 0; i < pairs * COLUMNS; i++)
        write_columns(k, total + i / COLUMNS * WEIGHTS, i / COLUMNS, i % COLUMNS * LANES,
                      run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* Adds the parts' sums in order for piece i of the pairs, and writes its gradient. */
static void finish_columns(const halving *k, float *sums, int64_t i, float *weight)
{
    const int64_t all = k->x.groups * k->y.groups * WEIGHTS, column = i % COLUMNS * LANES;
    float *total = sums + i / COLUMNS * WEIGHTS;
    for (int64_t part = 1; part < k->parts; part++)
        yki_winograd_add(total + part * all + column, LANES, total + column);
    write_columns(k, total, i / COLUMNS, column, weight);
}

static void sum_by_parts(const halving *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    const int64_t pieces = k->split_outputs ? k->y.groups : 1;
    float *sums = run->scratch, *threads = sums + k->parts * pairs * WEIGHTS;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own = threads + omp_get_thread_num() * (k->x.groups + k->y.groups) * SLAB;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->parts * pieces; i++) {
            range outputs = {i % pieces, k->split_outputs ? i % pieces + 1 : k->y.groups};
            sum_part(k, run, i / pieces, outputs, sums + i / pieces * pairs * WEIGHTS, own);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * COLUMNS; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- by pairs ------------------------------------------------------------------------------- */

/* A pair's sum over all blocks, and its gradient. */
static void finish_pair(const halving *k, const float *slabs, int64_t pair, float *sum,
                        float *weight)
{
    const int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    for (int m = 0; m < MATRICES; m++)
        for (int64_t block = 0; block < k->blocks; block++) {
            const float *of_block = slabs + block * (k->x.groups + k->y.groups) * SLAB;
            range tiles = block_range(k, block);
            add_products(of_block + in * SLAB, of_block + (k->x.groups + out) * SLAB,
                         tiles.end - tiles.begin, m, block == 0, sum);
        }
    for (int64_t column = 0; column < SIDE; column += LANES)
        write_columns(k, sum, pair, column, weight);
}

static void sum_by_pairs(const halving *k, const yki_kernel_args *run)
{
    const int64_t slabs_a_block = k->x.groups + k->y.groups;
    float *slabs = run->scratch, *threads = slabs + k->blocks * slabs_a_block * SLAB;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < k->blocks; block++)
            transform_block(k, run, block, (range){0, k->y.groups},
                            slabs + block * slabs_a_block * SLAB);
#pragma omp for schedule(dynamic) nowait
        for (int64_t pair = 0; pair < k->x.groups * k->y.groups; pair++)
            finish_pair(k, slabs, pair, threads + omp_get_thread_num() * WEIGHTS,
                        run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

static yk_status halving_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const halving *k = (const halving *)kernel;
    if (k->parts == 0)
        sum_by_pairs(k, run);
    else if (k->team == 1)
        sum_alone(k, run);
    else
        sum_by_parts(k, run);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

/* small: the activation of half the size, in 4x4 of which a tile is cut. */
static int64_t tiles_of(const yki_operand *small)
{
    return small->dims[0] * ((small->dims[2] + TILE - 1) / TILE) *
           ((small->dims[3] + TILE - 1) / TILE);
}

/* Tiles at the edges compute pixels that are not there: 0.7 of all must be. */
static bool fills_tiles(const yki_operand *small)
{
    int64_t pixels = small->dims[0] * small->dims[2] * small->dims[3];
    return 10 * pixels >= 7 * TILE * TILE * tiles_of(small);
}

static bool halving_supports(const yki_device *device, const yki_attrs *attrs,
                             const yki_operand *large, const yki_operand *small,
                             const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_panel_takes(device, large) &&
           yki_panel_takes(device, small) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           attrs->stride == 2 && attrs->padding == 1 && attrs->dilation == 1 &&
           attrs->groups == 1 && tiles_of(small) >= LEAST_TILES && fills_tiles(small);
}

static halving *halving_create(const yki_device *device, const yki_operand *x, const yki_operand *y,
                               const yki_operand *small)
{
    halving *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->x = yki_panel_activation_of(x);
    k->y = yki_panel_activation_of(y);
    k->tiles_down = (small->dims[2] + TILE - 1) / TILE;
    k->tiles_across = (small->dims[3] + TILE - 1) / TILE;
    k->tiles = tiles_of(small);
    k->blocks = (k->tiles + YKI_HALVING_TILES - 1) / YKI_HALVING_TILES;
    k->team = device->threads;
    return k;
}

static yk_status halving_prepare_convolve(const yki_device *device, const yki_operand *x,
                                          const yki_operand *y, bool spread, yki_kernel **kernel)
{
    halving *k = halving_create(device, x, y, spread ? x : y);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->spread = spread;
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->row_stride = spread ? TAPS * y->dims[1] : TAPS;
    k->column_stride = spread ? TAPS : TAPS * x->dims[1];
    int64_t sixes = (k->tiles + ROWS - 1) / ROWS, wanted = (int64_t)THREAD_BLOCKS * k->team;
    if (k->team > 1 && k->blocks < wanted) /* their number does not change bits */
        k->blocks = sixes < wanted ? sixes : wanted;
    int64_t floats = k->x.groups * k->y.groups * WEIGHTS + k->team * (k->x.groups + 1) * SLAB;
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ---------------------------------------------------------------- */

static bool halving_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, YKI_CONV2D_BIAS) &&
           halving_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                            &desc->in[YKI_CONV2D_WEIGHT]);
}

static yk_status halving_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                         yki_kernel **kernel)
{
    return halving_prepare_convolve(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                                    false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_halving = {.op = &yki_op_conv2d,
                                                .supports = halving_supports_forward,
                                                .prepare = halving_prepare_forward,
                                                .run = halving_convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool halving_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return halving_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                            &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status halving_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                               yki_kernel **kernel)
{
    return halving_prepare_convolve(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                    &desc->out[YKI_CONV2D_BACKWARD_DATA_DX], true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_halving = {
    .op = &yki_op_conv2d_backward_data,
    .supports = halving_supports_backward_data,
    .prepare = halving_prepare_backward_data,
    .run = halving_convolve};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

static bool halving_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           halving_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                            &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                            &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* Both return the floats of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(halving *k)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_outputs = k->parts < 2 * (int64_t)k->team;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    return sums * pairs * WEIGHTS + k->team * (k->x.groups + k->y.groups) * SLAB;
}

static int64_t plan_pairs(const halving *k)
{
    return k->blocks * (k->x.groups + k->y.groups) * SLAB + k->team * WEIGHTS;
}

static yk_status halving_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                 yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    halving *k = halving_create(device, x, dy, dy);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = TAPS;
    k->column_stride = TAPS * x->dims[1];
    /* Whichever takes less memory, if there are enough pairs. */
    int64_t pairs = k->x.groups * k->y.groups;
    bool by_pairs = pairs >= LEAST_PAIRS &&
                    k->blocks * (k->x.groups + k->y.groups) * SLAB < LEAST_PARTS * pairs * WEIGHTS;
    int64_t floats = by_pairs ? plan_pairs(k) : plan_parts(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_halving = {
    .op = &yki_op_conv2d_backward_weight,
    .supports = halving_supports_backward_weight,
    .prepare = halving_prepare_backward_weight,
    .run = halving_convolve_weight};
