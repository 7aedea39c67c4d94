/*
 * 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3), forward and both gradients, on AVX-512;
 * activations in f32, bf16 or f16, weights and arithmetic in f32. The inner loops and the
 * mathematics are winograd.h's; here is who computes what, when.
 *
 * Work goes by blocks of up to 64 tiles. Forward and backward data (a convolution with turned
 * weights) keep one block's transformed input, and for 64 output channels at a time run over the
 * input channels: 36 products of (tiles, 64) by (64, 64) each. The transformed weights, four times
 * as large as the weights, are made where they are used when there are few blocks: deep layers,
 * whose weights would otherwise travel through memory, gain most from that. Else they are made
 * once.
 *
 * The weights' gradient sums over tiles: a batch of blocks is transformed, then all pairs of 64
 * input and 64 output channels take their 36 products from it.
 *
 * Every sum runs in an order that the shape alone decides: the result has the same bits with any
 * number of threads.
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
    TAPS = 9,
    LEAST_TILES = 32 /* a thread; with fewer the weights' transformation costs more than it saves */
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
    int64_t batch;     /* weights' gradient: blocks transformed at a time */
    bool whole_pairs;  /* ... a thread sums a pair's 36 products alone and writes its gradient */
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

/* A block's transformed input, one slab a group of channels; rows are tiles. */
static void transform_data(const winograd *k, const void *data, span tiles, float *slabs)
{
    for (int64_t group = 0; group < k->x.groups; group++, slabs += SLAB)
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

static void write_weight_gradient(const winograd *k, const float *slab, int64_t in_group,
                                  int64_t out_group, float *weight)
{
    for (int64_t column = 0; column < SIDE; column += LANES)
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

static void convolve_block(const winograd *k, const void *x, const float *weight,
                           const float *all_weights, void *y, int64_t block, float *own)
{
    span tiles = block_span(k, block);
    float *data = own, *product = data + k->x.groups * SLAB, *weights_here = product + SLAB;
    transform_data(k, x, tiles, data);
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
        int64_t begin, end;
        if (k->weights_once) {
            yki_share(pairs, &begin, &end);
            for (int64_t i = begin; i < end; i++)
                transform_weight(k, run->in[1], i % k->x.groups, i / k->x.groups,
                                 all_weights + i * SLAB);
#pragma omp barrier
        }
        yki_share(k->blocks, &begin, &end);
        for (int64_t block = begin; block < end; block++)
            convolve_block(k, run->in[0], run->in[1], all_weights, run->out[0], block,
                           threads + omp_get_thread_num() * thread_slabs(k) * SLAB);
    }
    return YK_OK;
}

/* ---- backward weight ------------------------------------------------------------------------ */

/* Memory of a weight gradient: a batch of blocks transformed, then the pairs' sums. */
typedef struct weight_scratch {
    float *data, *gradient, *sums;
} weight_scratch;

static weight_scratch weight_scratch_of(const winograd *k, float *scratch)
{
    float *gradient = scratch + k->batch * k->x.groups * SLAB;
    return (weight_scratch){scratch, gradient, gradient + k->batch * k->y.groups * SLAB};
}

/* Adds the blocks [first, last) to points [begin, end) of a pair's sum. */
static void add_products(const winograd *k, const weight_scratch *s, int64_t pair, span points,
                         span blocks, float *sum)
{
    int64_t in = pair / k->y.groups, out = pair % k->y.groups;
    for (int64_t p = points.begin; p < points.end; p++)
        for (int64_t b = blocks.begin; b < blocks.end; b++) {
            span tiles = block_span(k, b);
            int64_t slot = b - blocks.begin;
            yki_panel_multiply_transposed(s->data + (slot * k->x.groups + in) * SLAB + p * MATRIX,
                                          s->gradient + (slot * k->y.groups + out) * SLAB +
                                              p * MATRIX,
                                          sum + p * MATRIX, tiles.end - tiles.begin, b == 0);
        }
}

/* The calling thread's share of one batch's products. */
static void sum_batch(const winograd *k, const weight_scratch *s, span blocks, float *gradient)
{
    int64_t pairs = k->x.groups * k->y.groups, begin, end;
    if (k->whole_pairs) {
        float *sum = s->sums + (int64_t)omp_get_thread_num() * SLAB;
        yki_share(pairs, &begin, &end);
        for (int64_t pair = begin; pair < end; pair++) {
            add_products(k, s, pair, (span){0, POINTS}, blocks, sum);
            write_weight_gradient(k, sum, pair / k->y.groups, pair % k->y.groups, gradient);
        }
        return;
    }
    yki_share(pairs * POINTS, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        add_products(k, s, i / POINTS, (span){i % POINTS, i % POINTS + 1}, blocks,
                     s->sums + i / POINTS * SLAB);
}

static yk_status convolve_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    weight_scratch s = weight_scratch_of(k, run->scratch);
    int64_t pairs = k->x.groups * k->y.groups;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        int64_t begin, end;
        for (int64_t first = 0; first < k->blocks; first += k->batch) {
            span blocks = {first, first + k->batch < k->blocks ? first + k->batch : k->blocks};
            yki_share(blocks.end - blocks.begin, &begin, &end);
            for (int64_t slot = begin; slot < end; slot++) {
                span tiles = block_span(k, first + slot);
                transform_data(k, run->in[0], tiles, s.data + slot * k->x.groups * SLAB);
                transform_result_gradient(k, run->in[1], tiles,
                                          s.gradient + slot * k->y.groups * SLAB);
            }
#pragma omp barrier
            sum_batch(k, &s, blocks, run->out[0]);
#pragma omp barrier
        }
        if (!k->whole_pairs) {
            yki_share(pairs, &begin, &end);
            for (int64_t pair = begin; pair < end; pair++)
                write_weight_gradient(k, s.sums + pair * SLAB, pair / k->y.groups,
                                      pair % k->y.groups, run->out[0]);
        }
    }
    return YK_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

static int64_t tiles_of(const yki_operand *y)
{
    return y->dims[0] * ((y->dims[2] + TILE - 1) / TILE) * ((y->dims[3] + TILE - 1) / TILE);
}

/* y: the operand that is cut into tiles. */
static bool supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                     const yki_operand *y, const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_panel_takes(device, x) &&
           yki_panel_takes(device, y) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           attrs->stride == 1 && attrs->dilation == 1 && attrs->groups == 1 &&
           attrs->padding <= 2 && tiles_of(y) >= (int64_t)LEAST_TILES * device->threads;
}

static winograd *create(const yki_device *device, const yki_operand *x, const yki_operand *y,
                        int64_t padding)
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
    return k;
}

static yk_status prepare_convolve(const yki_device *device, const yki_operand *x,
                                  const yki_operand *y, int64_t padding, bool turned,
                                  yki_kernel **kernel)
{
    winograd *k = create(device, x, y, padding);
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

static bool supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, 2) &&
           supports(device, desc->attrs, &desc->in[0], &desc->out[0], &desc->in[1]);
}

static yk_status prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare_convolve(device, &desc->in[0], &desc->out[0], desc->attrs->padding, false,
                            kernel);
}

const yki_kernel_impl yki_cpu_conv2d_winograd = {.op = &yki_op_conv2d,
                                                 .supports = supports_forward,
                                                 .prepare = prepare_forward,
                                                 .run = convolve};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

static bool supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return supports(device, desc->attrs, &desc->in[0], &desc->out[0], &desc->in[1]);
}

static yk_status prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    return prepare_convolve(device, &desc->in[0], &desc->out[0], 2 - desc->attrs->padding, true,
                            kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_winograd = {.op = &yki_op_conv2d_backward_data,
                                                               .supports = supports_backward_data,
                                                               .prepare = prepare_backward_data,
                                                               .run = convolve};

/* ---- gradient of the weights: x, dy -> dweight ---------------------------------------------- */

static bool supports_backward_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, 1) &&
           supports(device, desc->attrs, &desc->in[0], &desc->in[1], &desc->out[0]);
}

static yk_status prepare_backward_weight(yki_device *device, const yki_kernel_desc *desc,
                                         yki_kernel **kernel)
{
    winograd *k = create(device, &desc->in[0], &desc->in[1], desc->attrs->padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->row_stride = TAPS;
    k->column_stride = TAPS * desc->in[0].dims[1];
    int64_t pairs = k->x.groups * k->y.groups, slabs_a_block = k->x.groups + k->y.groups;
    /* All blocks at once where that takes less memory than the sums would, else few: a batch is to
     * be read from the cache that it was written to. */
    k->whole_pairs = k->blocks * slabs_a_block < pairs && pairs >= 4 * (int64_t)k->team;
    k->batch = k->whole_pairs || k->blocks < k->team ? k->blocks : k->team;
    int64_t slabs = k->batch * slabs_a_block + (k->whole_pairs ? k->team : pairs);
    k->base.scratch = (size_t)(slabs * SLAB) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_winograd = {
    .op = &yki_op_conv2d_backward_weight,
    .supports = supports_backward_weight,
    .prepare = prepare_backward_weight,
    .run = convolve_weight};
