/*
 * 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3), forward and the gradient of x, on AVX-512;
 * activations in f32, bf16 or f16, weights and arithmetic in f32. The transformations are in
 * winograd.h and the products in panel.h, the weights' gradient is in winograd_weight.c; this file
 * divides the work among threads and orders it.
 *
 * Both (the gradient is a convolution with rotated weights) work on blocks of up to 64 tiles. A
 * block's input is transformed, and for 64 output channels at a time its 36 products sum over all
 * input channels. The transformed weights are four times as large as the weights. If there are few
 * blocks, they are computed where they are used; deep layers gain most from that, since their
 * weights would otherwise pass through memory. Where they would take far more memory than all
 * transformed inputs, the inputs are transformed first, and then 64 output channels are a unit of
 * work, which transforms its own weights. Otherwise the weights are computed once, and stored in
 * the order in which they are multiplied by.
 */
#include "base/memory.h"
#include "device/cpu/conv/bf16_gains.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/winograd_kernel.h"

enum {
    SIDE = YKI_WINOGRAD_SIDE,
    TILE = YKI_WINOGRAD_TILE,
    POINTS = YKI_WINOGRAD_POINTS,
    PANEL = YKI_PANEL,
    PAD = YKI_WINOGRAD_PAD,
    TAPS = 9,
    SMALL_BLOCK = 36,   /* tiles of a block, six rows of products at a time, where blocks are few */
    THREAD_BLOCKS = 8,  /* full blocks of a thread that are not few */
    LARGER_WEIGHTS = 3, /* times the inputs' memory; with fewer, sums leave the caches too often */
    OUTPUTS_A_THREAD = 3 /* at least, so that threads finish together */
};

typedef yki_winograd_kernel winograd;
typedef yki_winograd_span span;

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * Transformed weights, all those of 64 outputs together: at each point the panels of all inputs
 * follow each other, in the order in which they are used.
 */
static yki_winograd_slab weights_at(float *weights, int64_t groups, int64_t in, int64_t out)
{
    int64_t stride = groups * PANEL + PAD;
    return (yki_winograd_slab){weights + out * POINTS * stride + in * PANEL, stride};
}

static int64_t weights_floats(int64_t groups)
{
    return POINTS * (groups * PANEL + PAD);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The weights from 64 input channels to 64 output channels; rows are input channels. */
static void transform_weight(const winograd *k, const float *weight, int64_t in, int64_t out,
                             yki_winograd_slab to)
{
    yki_winograd_weights from = {.at = weight + yki_winograd_weight_at(k, in * SIDE, out * SIDE),
                                 .row = k->row_stride,
                                 .column = k->column_stride,
                                 .turned = k->turned};
    k->form->weight(&from, to);
}

/* ---- forward, and backward data -------------------------------------------------------------- */

/* One block's inputs, `groups` slabs, times the weights from them to 64 outputs. */
static void multiply_points(const winograd *k, yki_winograd_slab data, int64_t groups,
                            yki_winograd_slab weights, int64_t rows, bool first,
                            yki_winograd_slab results)
{
    for (int64_t p = 0; p < POINTS; p++)
        k->form->multiply(&(yki_winograd_product){.a = data.at + p * data.stride,
                                                  .b = weights.at + p * weights.stride,
                                                  .c = results.at + p * results.stride,
                                                  .groups = groups,
                                                  .a_step = yki_winograd_slab_floats(k),
                                                  .b_step = PANEL,
                                                  .rows = rows,
                                                  .first = first});
}

/* A thread's own slabs: the block's input and 64 channels of its results. */
static int64_t own_slabs(const winograd *k)
{
    bool in_place = k->form->in_place && k->y.of.groups == 1;
    return k->x.of.groups + (in_place ? 0 : 1);
}

/* ... and the weights of a pair unless all are there. */
static int64_t own_floats(const winograd *k)
{
    return own_slabs(k) * yki_winograd_slab_floats(k) + (k->weights_once ? 0 : weights_floats(1));
}

/* The last results take the place of the first input, which nothing needs after them: with 64
 * channels, less of what is written and read again falls out of the second-level cache. */
static yki_winograd_slab results_at(const winograd *k, float *own, int64_t out)
{
    bool in_place = k->form->in_place && out + 1 == k->y.of.groups;
    return yki_winograd_slab_at(k, own, in_place ? 0 : k->x.of.groups);
}

static void multiply_block(const winograd *k, const float *weight, float *all_weights, int64_t rows,
                           int64_t out, float *own)
{
    const int64_t groups = k->x.of.groups;
    yki_winograd_slab results = results_at(k, own, out);
    if (k->weights_once) {
        multiply_points(k, yki_winograd_slab_at(k, own, 0), groups,
                        weights_at(all_weights, groups, 0, out), rows, true, results);
        return;
    }
    yki_winograd_slab weights =
        weights_at(own + own_slabs(k) * yki_winograd_slab_floats(k), 1, 0, 0);
    for (int64_t in = 0; in < groups; in++) {
        transform_weight(k, weight, in, out, weights);
        multiply_points(k, yki_winograd_slab_at(k, own, in), 1, weights, rows, in == 0, results);
    }
}

static yki_winograd_tiles result_tiles(const winograd *k, const yki_kernel_args *run)
{
    yki_winograd_tiles y = yki_winograd_with_data(&k->y, run->out[0]);
    y.stream = y.stream && (uintptr_t)y.data % YKI_ALIGNMENT == 0;
    return y;
}

static void convolve_block(const winograd *k, const yki_kernel_args *run, float *weights,
                           int64_t block, float *own)
{
    const int64_t groups = k->x.of.groups;
    span tiles = yki_winograd_block(k, block);
    yki_winograd_tiles x = yki_winograd_with_data(&k->x, run->in[0]), y = result_tiles(k, run);
    for (int64_t in = 0; in < groups; in++)
        k->form->data(&x, tiles, in, yki_winograd_slab_at(k, own, in));
    for (int64_t out = 0; out < k->y.of.groups; out++) {
        multiply_block(k, run->in[1], weights, tiles.end - tiles.begin, out, own);
        yki_winograd_result(results_at(k, own, out), &y, tiles, out);
    }
    if (y.stream)
        yki_stream_settle();
}

static void convolve_by_blocks(const winograd *k, const yki_kernel_args *run)
{
    const int64_t groups = k->x.of.groups, outputs = k->y.of.groups;
    float *weights = run->scratch;
    float *threads = weights + (k->weights_once ? outputs * weights_floats(groups) : 0);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        yki_winograd_enter(k);
        if (k->weights_once) {
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < groups * outputs; i++)
                transform_weight(k, run->in[1], i % groups, i / groups,
                                 weights_at(weights, groups, i % groups, i / groups));
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t block = 0; block < k->blocks; block++)
            convolve_block(k, run, weights, block, threads + omp_get_thread_num() * own_floats(k));
        yki_winograd_leave(k);
    }
}

/* ---- ... by output groups -------------------------------------------------------------------- */

/* Of a thread: 64 channels of the results of all blocks, and the weights of a pair, which stay in
 * its second-level cache while all blocks are multiplied by them. */
static int64_t output_floats(const winograd *k)
{
    return k->blocks * yki_winograd_slab_floats(k) + weights_floats(1);
}

static void convolve_output(const winograd *k, const yki_kernel_args *run, float *data, int64_t out,
                            float *own)
{
    const int64_t groups = k->x.of.groups;
    yki_winograd_tiles y = result_tiles(k, run);
    yki_winograd_slab weights = weights_at(own + k->blocks * yki_winograd_slab_floats(k), 1, 0, 0);
    for (int64_t in = 0; in < groups; in++) {
        transform_weight(k, run->in[1], in, out, weights);
        for (int64_t block = 0; block < k->blocks; block++) {
            span tiles = yki_winograd_block(k, block);
            multiply_points(k, yki_winograd_slab_at(k, data, block * groups + in), 1, weights,
                            tiles.end - tiles.begin, in == 0, yki_winograd_slab_at(k, own, block));
        }
    }
    for (int64_t block = 0; block < k->blocks; block++)
        yki_winograd_result(yki_winograd_slab_at(k, own, block), &y, yki_winograd_block(k, block),
                            out);
    if (y.stream)
        yki_stream_settle();
}

static void convolve_by_outputs(const winograd *k, const yki_kernel_args *run)
{
    const int64_t groups = k->x.of.groups;
    float *data = run->scratch, *threads = data + k->blocks * groups * yki_winograd_slab_floats(k);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        yki_winograd_tiles x = yki_winograd_with_data(&k->x, run->in[0]);
        yki_winograd_enter(k);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < k->blocks * groups; i++)
            k->form->data(&x, yki_winograd_block(k, i / groups), i % groups,
                          yki_winograd_slab_at(k, data, i));
#pragma omp for schedule(dynamic) nowait
        for (int64_t out = 0; out < k->y.of.groups; out++)
            convolve_output(k, run, data, out, threads + omp_get_thread_num() * output_floats(k));
        yki_winograd_leave(k);
    }
}

static yk_status convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const winograd *k = (const winograd *)kernel;
    if (k->by_outputs)
        convolve_by_outputs(k, run);
    else
        convolve_by_blocks(k, run);
    return YK_OK;
}

/* ---- preparation ----------------------------------------------------------------------------- */

int64_t yki_winograd_tiles_of(const yki_operand *y)
{
    return y->dims[0] * ((y->dims[2] + TILE - 1) / TILE) * ((y->dims[3] + TILE - 1) / TILE);
}

/* Forward and the gradient of x; what is made is cut into tiles. */
static bool gains(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                  const yki_operand *y, int64_t tiles)
{
    return tiles >= YKI_WINOGRAD_LEAST_TILES &&
           yki_gains_over_bf16(device, attrs, x, y, tiles, POINTS);
}

bool yki_winograd_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                           const yki_operand *y, const yki_operand *weight)
{
    return ((const yki_cpu_device *)device)->winograd && yki_panel_takes(device, x) &&
           yki_panel_takes(device, y) && weight->dims[2] == 3 && weight->dims[3] == 3 &&
           yki_is_square(attrs) && attrs->stride[0] == 1 && attrs->dilation[0] == 1 &&
           attrs->groups == 1 && attrs->padding[0] <= 2;
}

winograd *yki_winograd_create(const yki_device *device, const yki_operand *x, const yki_operand *y,
                              int64_t padding)
{
    winograd *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->y = (yki_winograd_tiles){.of = yki_panel_activation_of(y),
                                .down = (y->dims[2] + TILE - 1) / TILE,
                                .across = (y->dims[3] + TILE - 1) / TILE};
    k->x = k->y;
    k->x.of = yki_panel_activation_of(x);
    k->x.offset = -padding;
    k->form = ((const yki_cpu_device *)device)->has_amx && x->dtype != YK_F32 ? &yki_winograd_amx
                                                                              : &yki_winograd_f32;
    k->tiles = yki_winograd_tiles_of(y);
    k->team = device->threads;
    k->base.flop = 2.0 * POINTS * (double)(k->tiles * x->dims[1] * y->dims[1]) * k->form->products;
    k->base.matrix_unit = k->form == &yki_winograd_amx;
    return k;
}

/*
 * Each thread gets a block. Where blocks are few, they are smaller and as many for each thread, or
 * one thread would wait for another's last block. How tiles are divided does not change bits.
 */
static void divide_for_team(winograd *k)
{
    int64_t share = (k->tiles + k->team - 1) / k->team;
    if (k->team == 1 || share >= THREAD_BLOCKS * SIDE) {
        yki_winograd_divide(k, SIDE);
        return;
    }
    yki_winograd_divide(k, share < SMALL_BLOCK ? share : SMALL_BLOCK);
    int64_t turns = (k->blocks + k->team - 1) / k->team;
    yki_winograd_divide(k, (share + turns - 1) / turns);
}

/* Returns the floats of memory that are needed. The bits are the same either way. */
static int64_t plan_convolve(winograd *k)
{
    const int64_t groups = k->x.of.groups, outputs = k->y.of.groups;
    int64_t inputs = k->blocks * groups * yki_winograd_slab_floats(k),
            weights = outputs * weights_floats(groups);
    k->weights_once = k->team > 1 || k->blocks > 2;
    k->by_outputs = k->weights_once && weights >= LARGER_WEIGHTS * inputs &&
                    outputs >= OUTPUTS_A_THREAD * (int64_t)k->team;
    if (k->by_outputs)
        return inputs + k->team * output_floats(k);
    return k->team * own_floats(k) + (k->weights_once ? weights : 0);
}

static yk_status winograd_prepare_convolve(const yki_device *device, const yki_operand *x,
                                           const yki_operand *y, int64_t padding, bool turned,
                                           yki_kernel **kernel)
{
    winograd *k = yki_winograd_create(device, x, y, padding);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    /* The weights are (K, C, 3, 3), K being forward's output channels. */
    k->turned = turned;
    k->row_stride = turned ? TAPS * y->dims[1] : TAPS;
    k->column_stride = turned ? TAPS : TAPS * x->dims[1];
    divide_for_team(k);
    k->y.stream = yki_streams(device, y);
    k->base.scratch = (size_t)plan_convolve(k) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight -> y ----------------------------------------------------------------- */

static bool winograd_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, YKI_CONV2D_BIAS) &&
           yki_winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                 &desc->out[YKI_CONV2D_Y], &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool winograd_gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *y = &desc->out[YKI_CONV2D_Y];
    return gains(device, desc->attrs, &desc->in[YKI_CONV2D_X], y, yki_winograd_tiles_of(y));
}

static yk_status winograd_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                          yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                                     desc->attrs->padding[0], false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_winograd = {.op = &yki_op_conv2d,
                                                 .name = "winograd",
                                                 .supports = winograd_supports_forward,
                                                 .gains = winograd_gains_forward,
                                                 .prepare = winograd_prepare_forward,
                                                 .run = convolve};

/* ---- gradient of x: dy, weight -> dx --------------------------------------------------------- */

static bool winograd_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_winograd_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                 &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                 &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool winograd_gains_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    return gains(device, desc->attrs, dx, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                 yki_winograd_tiles_of(dx));
}

static yk_status winograd_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                                yki_kernel **kernel)
{
    return winograd_prepare_convolve(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                     &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                     2 - desc->attrs->padding[0], true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_winograd = {
    .op = &yki_op_conv2d_backward_data,
    .name = "winograd",
    .supports = winograd_supports_backward_data,
    .gains = winograd_gains_backward_data,
    .prepare = winograd_prepare_backward_data,
    .run = convolve};
