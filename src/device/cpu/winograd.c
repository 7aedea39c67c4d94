/*
 * 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3), forward and both gradients, on AVX-512;
 * activations in f32, bf16 or f16, weights and arithmetic in f32. The inner loops and the
 * mathematics are in winograd.h; this file divides the work among threads and orders it.
 *
 * The unit of work is a block of up to 64 tiles. Forward and backward data (a convolution with
 * rotated weights) keep the transformed input of one block and, for 64 output channels at a time,
 * loop over the input channels: 36 products of (tiles, 64) by (64, 64) each. The transformed
 * weights are four times as large as the weights. If there are few blocks, they are computed where
 * they are used; deep layers gain most from that, since their weights would otherwise pass through
 * memory. Otherwise they are computed once.
 *
 * The weights' gradient sums over tiles, for every pair of 64 input and 64 output channels. Where
 * there are few pairs and many blocks, the blocks are divided into parts: a part's blocks are
 * transformed and multiplied one after the other into sums that belong to the part, and the parts'
 * sums are added in order. Otherwise a batch of blocks is transformed first, and then each pair
 * takes its products from all of them.
 *
 * Threads take the next piece of work when they have finished one, so that a thread whose core is
 * shared with another process does less, and they wait for each other twice a kernel, or twice a
 * batch of blocks. Batches are small, so that they are read from the cache they were written to.
 * The order in which sums are added depends on the shape alone: the result has the same bits with
 * any number of threads.
 */
#include "device/cpu/winograd.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/panel.h"

enum {
    SIDE = YKI_WINOGRAD_SIDE,
    TILE = YKI_WINOGRAD_TILE,
    POINTS = YKI_WINOGRAD_POINTS,
    MATRIX = YKI_WINOGRAD_MATRIX,
    SLAB = YKI_WINOGRAD_SLAB,
    LANES = 16,
    COLUMNS = SIDE / LANES, /* vectors of a row */
    TAPS = 9,
    LEAST_TILES =
        32, /* a thread; with fewer the weights' transformation costs more than it saves */
    LEAST_PARTS = 4,
    MOST_PARTS = 16,
    PART_BLOCKS = 16, /* that a part should have: each costs a pass over its sums */
    FEW_BLOCKS = 32,  /* with fewer, the parts of several pairs would be too short */
    MANY_PAIRS = 8,   /* from here on the weights' gradient goes by pairs */
    BATCH_SLABS = 8   /* a thread; of blocks that pairs take their products from */
};

typedef struct winograd {
    yki_kernel base;
    /* What is read and what is made; for the weights' gradient x and dy. */
    yki_panel_activation x, y;
    int64_t padding;
    int64_t tiles_down, tiles_across, tiles, blocks;
    int team;
    /* Where the weight of row r (an input channel) and column c (an output channel) stands. */
    int64_t row_stride, column_stride;
    bool turned;
    bool weights_once; /* transformed before all blocks */
    /* Weights' gradient: */
    int64_t parts;     /* of the blocks; 0: by pairs */
    bool split_inputs; /* a part's input groups are pieces of their own: more threads than parts */
    int64_t batch;     /* by pairs: blocks transformed at a time */
    bool whole_pairs;  /* ... all of them; a thread sums a pair alone and writes its gradient */
} winograd;

/* ---- tiles ---------------------------------------------------------------------------------- */

/* Tiles of a block: [begin, end). */
typedef struct span {
    int64_t begin, end;
} span;

static span block_span(const winograd *k, int64_t block)
{
    return (span){k->tiles * block / k->blocks, k->tiles * (block + 1) / k->blocks};
}

typedef struct tile {
    int64_t image, y, x;
} tile;

static tile tile_of(const winograd *k, int64_t index)
{
    int64_t in_image = index % (k->tiles_down * k->tiles_across);
    return (tile){.image = index / (k->tiles_down * k->tiles_across),
                  .y = in_image / k->tiles_across * TILE,
                  .x = in_image % k->tiles_across * TILE};
}

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

/* A block's transformed input, `groups` of its channels, one slab each; rows are tiles. */
static void transform_data(const winograd *k, const void *data, span tiles, span groups,
                           float *slabs)
{
    for (int64_t group = groups.begin; group < groups.end; group++, slabs += SLAB)
        for (int64_t t = tiles.begin; t < tiles.end; t++) {
            tile at = tile_of(k, t);
            float *row = slabs + (t - tiles.begin) * SIDE;
            for (int64_t part = 0; part < SIDE / LANES; part++) {
                yki_winograd_plane plane = plane_of(&k->x, data, at.image, group, part);
                yki_winograd_data(&plane, at.y - k->padding, at.x - k->padding, row + part * LANES);
            }
        }
}

static void transform_result_gradient(const winograd *k, const void *data, span tiles, float *slabs)
{
    for (int64_t group = 0; group < k->y.groups; group++, slabs += SLAB)
        for (int64_t t = tiles.begin; t < tiles.end; t++) {
            tile at = tile_of(k, t);
            float *row = slabs + (t - tiles.begin) * SIDE;
            for (int64_t part = 0; part < SIDE / LANES; part++) {
                yki_winograd_plane plane = plane_of(&k->y, data, at.image, group, part);
                yki_winograd_result_gradient(&plane, at.y, at.x, row + part * LANES);
            }
        }
}

static void write_result(const winograd *k, const float *slab, span tiles, int64_t group,
                         void *data)
{
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        tile at = tile_of(k, t);
        const float *row = slab + (t - tiles.begin) * SIDE;
        for (int64_t part = 0; part < SIDE / LANES; part++) {
            yki_winograd_plane plane = plane_of(&k->y, data, at.image, group, part);
            yki_winograd_result(row + part * LANES, &plane, at.y, at.x);
        }
    }
}

/* ---- weights -------------------------------------------------------------------------------- */

static int64_t weight_at(const winograd *k, int64_t row, int64_t column)
{
    return row * k->row_stride + column * k->column_stride;
}

/* The weights from 64 input channels to 64 output channels; rows are input channels. */
static void transform_weight(const winograd *k, const float *weight, int64_t in_group,
                             int64_t out_group, float *slab)
{
    for (int64_t column = 0; column < SIDE; column += LANES)
        for (int64_t row = 0; row < SIDE; row++)
            yki_winograd_weight(weight +
                                    weight_at(k, in_group * SIDE + row, out_group * SIDE + column),
                                k->column_stride, k->turned, slab + row * SIDE + column);
}

/* 16 of a pair's 64 output channels. */
static void write_weight_gradient(const winograd *k, const float *slab, int64_t in_group,
                                  int64_t out_group, int64_t column, float *weight)
{
    for (int64_t row = 0; row < SIDE; row++)
        yki_winograd_weight_gradient(
            slab + row * SIDE + column,
            weight + weight_at(k, in_group * SIDE + row, out_group * SIDE + column),
            k->column_stride);
}

/* ---- forward, and backward data ------------------------------------------------------------- */

/* A thread's own memory: the block's transformed input, products, and weights unless made once. */
static int64_t thread_slabs(const winograd *k)
{
    return k->x.groups + 1 + (k->weights_once ? 0 : 1);
}

static void winograd_convolve_block(const winograd *k, const void *x, const float *weight,
                                    const float *all_weights, void *y, int64_t block, float *own)
{
    span tiles = block_span(k, block);
    float *data = own, *product = data + k->x.groups * SLAB, *weights_here = product + SLAB;
    transform_data(k, x, tiles, (span){0, k->x.groups}, data);
    for (int64_t out = 0; out < k->y.groups; out++) {
        for (int64_t in = 0; in < k->x.groups; in++) {
            const float *weights = weights_here;
            if (k->weights_once)
                weights = all_weights + (out * k->x.groups + in) * SLAB;
            else
                transform_weight(k, weight, in, out, weights_here);
            for (int64_t p = 0; p < POINTS; p++)
                yki_panel_multiply(data + in * SLAB + p * MATRIX, weights + p * MATRIX,
                                   product + p * MATRIX, tiles.end - tiles.begin, in == 0);
        }
        write_result(k, product, tiles, out, y);
    }
}

static yk_status convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    float *all_weights = run->scratch;
    int64_t pairs = k->x.groups * k->y.groups;
    float *threads = all_weights + (k->weights_once ? pairs * SLAB : 0);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        if (k->weights_once) {
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < pairs; i++)
                transform_weight(k, run->in[1], i % k->x.groups, i / k->x.groups,
                                 all_weights + i * SLAB);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            winograd_convolve_block(k, run->in[0], run->in[1], all_weights, run->out[0], block,
                                    threads + omp_get_thread_num() * thread_slabs(k) * SLAB);
    }
    return YK_OK;
}

/* ---- backward weight ------------------------------------------------------------------------ */

/* Blocks that have been transformed: the slabs of these input groups, then of all of dy. */
typedef struct transformed {
    span blocks, groups;
    float *data, *gradient;
} transformed;

static void transform_block(const winograd *k, const yki_kernel_args *run, const transformed *t,
                            int64_t block)
{
    span tiles = block_span(k, block);
    int64_t slot = block - t->blocks.begin;
    transform_data(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], tiles, t->groups,
                   t->data + slot * (t->groups.end - t->groups.begin) * SLAB);
    transform_result_gradient(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], tiles,
                              t->gradient + slot * k->y.groups * SLAB);
}

/* Adds the blocks' products at one point to a pair's sum there. */
static void add_products(const winograd *k, const transformed *t, int64_t in, int64_t out,
                         int64_t point, bool first, float *sum)
{
    int64_t groups = t->groups.end - t->groups.begin;
    for (int64_t b = t->blocks.begin; b < t->blocks.end; b++) {
        span tiles = block_span(k, b);
        int64_t slot = b - t->blocks.begin;
        const float *data = t->data + (slot * groups + in - t->groups.begin) * SLAB;
        const float *gradient = t->gradient + (slot * k->y.groups + out) * SLAB;
        yki_panel_multiply_transposed(data + point * MATRIX, gradient + point * MATRIX,
                                      sum + point * MATRIX, tiles.end - tiles.begin,
                                      first && b == t->blocks.begin);
    }
}

/* Pairs are numbered in group * output groups + out group, and each is written in COLUMNS pieces.
 */
static void write_columns(const winograd *k, const float *sums, int64_t i, float *weight)
{
    const int64_t pair = i / COLUMNS;
    write_weight_gradient(k, sums + pair * SLAB, pair / k->y.groups, pair % k->y.groups,
                          i % COLUMNS * LANES, weight);
}

/* ---- backward weight, by parts -------------------------------------------------------------- */

static float *part_sum(const winograd *k, float *sums, int64_t part, int64_t pair)
{
    return sums + (part * k->x.groups * k->y.groups + pair) * SLAB;
}

/* All blocks of a part into `sums`, for these input groups and all output groups. */
static void sum_part(const winograd *k, const yki_kernel_args *run, int64_t part, span groups,
                     float *sums, float *own)
{
    int64_t begin = k->blocks * part / k->parts, end = k->blocks * (part + 1) / k->parts;
    for (int64_t block = begin; block < end; block++) {
        float *data = own, *gradient = own + k->x.groups * SLAB;
        transformed t = {{block, block + 1}, groups, data, gradient};
        transform_block(k, run, &t, block);
        for (int64_t in = groups.begin; in < groups.end; in++)
            for (int64_t out = 0; out < k->y.groups; out++)
                for (int64_t p = 0; p < POINTS; p++)
                    add_products(k, &t, in, out, p, block == begin,
                                 sums + (in * k->y.groups + out) * SLAB);
    }
}

/* Adds the parts' sums in order for piece i, and writes its gradient. */
static void finish_columns(const winograd *k, float *sums, int64_t i, float *weight)
{
    const int64_t pair = i / COLUMNS, column = i % COLUMNS * LANES;
    for (int64_t part = 1; part < k->parts; part++)
        yki_winograd_add(part_sum(k, sums, part, pair) + column, LANES,
                         part_sum(k, sums, 0, pair) + column);
    write_columns(k, sums, i, weight);
}

/* One thread adds each part's sums at once, in the same order, while its cache holds them. */
static void convolve_weight_alone(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *total = run->scratch, *sums = part_sum(k, total, 1, 0), *own = part_sum(k, total, 2, 0);
    for (int64_t part = 0; part < k->parts; part++) {
        sum_part(k, run, part, (span){0, k->x.groups}, part == 0 ? total : sums, own);
        for (int64_t pair = 0; part > 0 && pair < pairs; pair++)
            yki_winograd_add(sums + pair * SLAB, SIDE, total + pair * SLAB);
    }
    for (int64_t i = 0; i < pairs * COLUMNS; i++)
        write_columns(k, total, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static void convolve_weight_by_parts(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    const int64_t pieces = k->split_inputs ? k->x.groups : 1;
    float *sums = run->scratch, *threads = sums + k->parts * pairs * SLAB;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *own = threads + omp_get_thread_num() * (k->x.groups + k->y.groups) * SLAB;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->parts * pieces; i++) {
            span groups = {i % pieces, k->split_inputs ? i % pieces + 1 : k->x.groups};
            sum_part(k, run, i / pieces, groups, part_sum(k, sums, i / pieces, 0), own);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < pairs * COLUMNS; i++)
            finish_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

/* ---- backward weight, by pairs -------------------------------------------------------------- */

/* A pair's whole sum, and its gradient. */
static void finish_pair(const winograd *k, const transformed *t, int64_t pair, float *sum,
                        float *weight)
{
    int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    for (int64_t p = 0; p < POINTS; p++)
        add_products(k, t, in, out, p, true, sum);
    for (int64_t column = 0; column < SIDE; column += LANES)
        write_weight_gradient(k, sum, in, out, column, weight);
}

static void convolve_weight_by_pairs(const winograd *k, const yki_kernel_args *run)
{
    const int64_t pairs = k->x.groups * k->y.groups;
    float *data = run->scratch, *gradient = data + k->batch * k->x.groups * SLAB;
    float *sums = gradient + k->batch * k->y.groups * SLAB;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t first = 0; first < k->blocks; first += k->batch) {
        int64_t last = first + k->batch < k->blocks ? first + k->batch : k->blocks;
        transformed t = {{first, last}, {0, k->x.groups}, data, gradient};
#pragma omp for schedule(dynamic)
        for (int64_t block = first; block < last; block++)
            transform_block(k, run, &t, block);
        if (k->whole_pairs) {
#pragma omp for schedule(dynamic)
            for (int64_t pair = 0; pair < pairs; pair++)
                finish_pair(k, &t, pair, sums + omp_get_thread_num() * SLAB,
                            run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
            continue;
        }
        /* What all pairs read at one point stays in the cache. */
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < POINTS * k->x.groups; i++)
            for (int64_t out = 0; out < k->y.groups; out++) {
                int64_t in = i % k->x.groups;
                add_products(k, &t, in, out, i / k->x.groups, first == 0,
                             sums + (in * k->y.groups + out) * SLAB);
            }
        if (last < k->blocks)
            continue;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < pairs * COLUMNS; i++)
            write_columns(k, sums, i, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
}

static yk_status winograd_convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    if (k->parts == 0)
        convolve_weight_by_pairs(k, run);
    else if (k->team == 1)
        convolve_weight_alone(k, run);
    else
        convolve_weight_by_parts(k, run);
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

static int64_t tiles_of(const yki_operand *y)
{
    return y->dims[0] * ((y->dims[2] + TILE - 1) / TILE) * ((y->dims[3] + TILE - 1) / TILE);
}

/* y: the operand that is cut into tiles. */
static bool winograd_supports(const yki_device *device, const yki_attrs *attrs,
                              const yki_operand *x, const yki_operand *y, const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_panel_takes(device, x) &&
           yki_panel_takes(device, y) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           attrs->stride == 1 && attrs->dilation == 1 && attrs->groups == 1 &&
           attrs->padding <= 2 && tiles_of(y) >= (int64_t)LEAST_TILES * device->threads;
}

static winograd *winograd_create(const yki_device *device, const yki_operand *x,
                                 const yki_operand *y, int64_t padding)
{
    winograd *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->x = yki_panel_activation_of(x);
    k->y = yki_panel_activation_of(y);
    k->padding = padding;
    k->tiles_down = (y->dims[2] + TILE - 1) / TILE;
    k->tiles_across = (y->dims[3] + TILE - 1) / TILE;
    k->tiles = tiles_of(y);
    k->team = device->threads;
    k->blocks = (k->tiles + SIDE - 1) / SIDE;
    k->base.flop = 2.0 * POINTS * (double)(k->tiles * x->dims[1] * y->dims[1]);
    return k;
}

static yk_status winograd_prepare_convolve(const yki_device *device, const yki_operand *x,
                                           const yki_operand *y, int64_t padding, bool turned,
                                           yki_kernel **kernel)
{
    winograd *k = winograd_create(device, x, y, padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->turned = turned;
    k->row_stride = turned ? TAPS * y->dims[1] : TAPS;
    k->column_stride = turned ? TAPS : TAPS * x->dims[1];
    if (k->blocks < k->team)
        k->blocks = k->team;
    k->weights_once = k->blocks > 2 * (int64_t)k->team;
    int64_t slabs = thread_slabs(k) * k->team;
    if (k->weights_once)
        slabs += k->x.groups * k->y.groups;
    k->base.scratch = (size_t)(slabs * SLAB) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ---------------------------------------------------------------- */

static bool winograd_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, YKI_CONV2D_BIAS) &&
           winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                             &desc->in[YKI_CONV2D_WEIGHT]);
}

static yk_status winograd_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                          yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                                     desc->attrs->padding, false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_winograd = {.op = &yki_op_conv2d,
                                                 .supports = winograd_supports_forward,
                                                 .prepare = winograd_prepare_forward,
                                                 .run = convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool winograd_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                             &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                             &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status winograd_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                                yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                     &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                     2 - desc->attrs->padding, true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_winograd = {
    .op = &yki_op_conv2d_backward_data,
    .supports = winograd_supports_backward_data,
    .prepare = winograd_prepare_backward_data,
    .run = convolve};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

static bool winograd_supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                             &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                             &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* Both return the slabs of memory that they need. Parts depend on the shape alone, as the order of
 * sums does. */
static int64_t plan_parts(winograd *k)
{
    if (k->blocks < LEAST_PARTS) { /* few tiles: smaller blocks */
        int64_t half = (k->tiles + SIDE / 2 - 1) / (SIDE / 2);
        k->blocks = half < LEAST_PARTS ? half : LEAST_PARTS;
    }
    k->parts = k->blocks / PART_BLOCKS < MOST_PARTS ? k->blocks / PART_BLOCKS : MOST_PARTS;
    if (k->parts < LEAST_PARTS)
        k->parts = k->blocks < LEAST_PARTS ? k->blocks : LEAST_PARTS;
    k->split_inputs = k->team > k->parts;
    int64_t sums = k->team == 1 ? 2 : k->parts; /* at a time */
    return sums * k->x.groups * k->y.groups + k->team * (k->x.groups + k->y.groups);
}

static int64_t plan_pairs(winograd *k)
{
    int64_t pairs = k->x.groups * k->y.groups, slabs_a_block = k->x.groups + k->y.groups;
    k->batch = slabs_a_block < BATCH_SLABS ? BATCH_SLABS / slabs_a_block : 1;
    k->batch *= k->team;
    /* Where reading blocks again for each pair is cheaper than keeping all sums. */
    k->whole_pairs = k->blocks * slabs_a_block < pairs;
    if (k->whole_pairs || k->batch > k->blocks)
        k->batch = k->blocks;
    return k->batch * slabs_a_block + (k->whole_pairs ? k->team : pairs);
}

static yk_status winograd_prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                                  yki_kernel **kernel)
{
    winograd *k = winograd_create(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                  &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], desc->attrs->padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = TAPS;
    k->column_stride = TAPS * desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X].dims[1];
    int64_t pairs = k->x.groups * k->y.groups;
    bool by_pairs = pairs >= MANY_PAIRS || (pairs > 1 && k->blocks < FEW_BLOCKS);
    int64_t slabs = by_pairs ? plan_pairs(k) : plan_parts(k);
    k->base.scratch = (size_t)(slabs * SLAB) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_winograd = {
    .op = &yki_op_conv2d_backward_weight,
    .supports = winograd_supports_backward_weight,
    .prepare = winograd_prepare_backward_weight,
    .run = winograd_convolve_weight};
