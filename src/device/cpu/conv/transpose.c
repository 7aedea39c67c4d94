/*
 * conv_transpose2d is by definition what conv2d_backward_data computes, so the kernel of that is
 * used which the device has for these operands. The bias is added afterwards, by batch norm's loop,
 * which multiplies with 1. The gradient of the bias is summed by batch norm's loop, too.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

typedef struct bias_walk {
    const yki_cpu_loops *loops;
    yki_geometry shape;
    yk_dtype dtype;
    int team;
} bias_walk;

static bias_walk walk_over(const yki_device *device, const yki_operand *image)
{
    return (bias_walk){.loops = yki_cpu_loops_of(device),
                       .shape = yki_geometry_of(device, image),
                       .dtype = image->dtype,
                       .team = yki_team(device, yki_operand_elements(device, image))};
}

/* One channel block, of which each image is a run. */
static yki_runs runs_of(const bias_walk *walk, int64_t block)
{
    const yki_geometry *g = &walk->shape;
    return (yki_runs){.dtype = walk->dtype,
                      .b = g->b,
                      .pixels = g->pixels,
                      .image = g->blocks * g->pixels * g->b,
                      .base = block * g->pixels * g->b,
                      .run = g->pixels,
                      .runs_an_image = 1};
}

/* ---- x (N, C, P, Q), weight (C, F / groups, R, S), [bias (F)] -> y (N, F, H, W) -------------- */

typedef struct transposed {
    yki_kernel base;
    yki_kernel *inner;
    bool biased;
    bias_walk y;
} transposed;

/* f64, and what else there is, are ref's. */
static bool transposed_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *bias = &desc->in[YKI_CONV_TRANSPOSE2D_BIAS];
    return yki_is_float(&desc->in[YKI_CONV_TRANSPOSE2D_X]) &&
           yki_is_float(&desc->out[YKI_CONV_TRANSPOSE2D_Y]) &&
           (!yki_has_in(desc, YKI_CONV_TRANSPOSE2D_BIAS) || bias->dtype == YK_F32);
}

static void transposed_destroy(yki_kernel *kernel)
{
    yki_kernel_destroy(((transposed *)kernel)->inner);
    free(kernel);
}

/* The operands of both have the same numbers, except that one has no bias. */
static yk_status transposed_prepare(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    yki_kernel_desc inner = *desc;
    inner.op = &yki_op_conv2d_backward_data;
    inner.in_count = YKI_CONV2D_BACKWARD_DATA_INPUTS;
    inner.in[YKI_CONV_TRANSPOSE2D_BIAS].ndim = -1;
    transposed *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a transposed convolution");
    yk_status status = yki_kernel_create(device, &inner, &k->inner);
    if (status != YK_OK) {
        free(k);
        return status;
    }
    k->base = *k->inner;
    k->biased = yki_has_in(desc, YKI_CONV_TRANSPOSE2D_BIAS);
    k->y = walk_over(device, &desc->out[YKI_CONV_TRANSPOSE2D_Y]);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status transposed_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                                 yki_stream *stream)
{
    const yki_kernel *inner = ((const transposed *)kernel)->inner;
    return inner->impl->pack(inner, parameter, packed, stream);
}

static bool transposed_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    return yki_kernels_share_pack(((const transposed *)kernel)->inner,
                                  ((const transposed *)other)->inner);
}

/* The bias of a block's channels for every element of a period; zero in padding channels. */
static void repeat_bias(const yki_geometry *g, int64_t block, const float *bias, float *elements)
{
    for (int64_t e = 0; e < YKI_PERIOD; e++) {
        int64_t channel = block * g->b + e % g->b;
        elements[e] = channel < g->channels ? bias[channel] : 0;
    }
}

static void add_bias(const bias_walk *walk, void *y, const float *bias)
{
    const yki_geometry *g = &walk->shape;
    const yki_norm_forward in_place = {.x = y, .y = y};
#pragma omp parallel for num_threads(walk->team) if (walk->team > 1)
    for (int64_t unit = 0; unit < g->images * g->blocks; unit++) {
        int64_t image = unit / g->blocks, block = unit % g->blocks;
        yki_runs runs = runs_of(walk, block);
        yki_norm_constants constants = {{0}, {0}, {0}};
        for (int64_t e = 0; e < YKI_PERIOD; e++)
            constants.scale[e] = 1;
        repeat_bias(g, block, bias, constants.bias);
        walk->loops->normalise(&runs, (yki_run_range){image, image + 1}, &in_place, &constants);
    }
}

static yk_status transposed_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const transposed *k = (const transposed *)kernel;
    YK_TRY(k->inner->impl->run(k->inner, run));
    if (k->biased)
        add_bias(&k->y, run->out[YKI_CONV_TRANSPOSE2D_Y], run->in[YKI_CONV_TRANSPOSE2D_BIAS]);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv_transpose2d = {.op = &yki_op_conv_transpose2d,
                                                  .supports = transposed_supports,
                                                  .prepare = transposed_prepare,
                                                  .run = transposed_run,
                                                  .destroy = transposed_destroy,
                                                  .pack = transposed_pack,
                                                  .same_pack = transposed_same_pack};

/* ---- dy (N, F, H, W) -> dbias (F): sums of parts of the images, and then of the parts -------- */

typedef struct bias_gradient {
    yki_kernel base;
    bias_walk dy;
    int64_t parts;
} bias_gradient;

static bool bias_gradient_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_is_float(&desc->in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY]) &&
           desc->out[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DBIAS].dtype == YK_F32;
}

static yk_status bias_gradient_prepare(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    bias_gradient *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "the gradient of a bias");
    k->dy = walk_over(device, &desc->in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY]);
    const yki_geometry *g = &k->dy.shape;
    k->parts = yki_sum_parts(g->images, g->blocks, g->pixels);
    k->base.scratch = (size_t)(k->parts * g->blocks * g->b) * sizeof(double);
    *kernel = &k->base;
    return YK_OK;
}

/* The sums of one channel block over one part of the images: (b) */
static void sum_part(const bias_gradient *k, const void *dy, int64_t part, int64_t block,
                     double *sums)
{
    static const float zero[YKI_PERIOD];
    const yki_geometry *g = &k->dy.shape;
    yki_run_range images = {g->images * part / k->parts, g->images * (part + 1) / k->parts};
    yki_runs runs = runs_of(&k->dy, block);
    yki_norm_sums elements = {{0}, {0}};
    k->dy.loops->moments(&runs, images, dy, zero, &elements);
    for (int64_t c = 0; c < g->b; c++)
        sums[c] = 0;
    for (int64_t e = 0; e < YKI_PERIOD; e++)
        sums[e % g->b] += elements.first[e];
}

static yk_status bias_gradient_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const bias_gradient *k = (const bias_gradient *)kernel;
    const void *dy = run->in[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DY];
    const yki_geometry *g = &k->dy.shape;
    float *dbias = run->out[YKI_CONV_TRANSPOSE2D_BACKWARD_BIAS_DBIAS];
    double *sums = run->scratch; /* (parts, blocks, b) */
#pragma omp parallel for num_threads(k->dy.team) if (k->dy.team > 1)
    for (int64_t unit = 0; unit < k->parts * g->blocks; unit++)
        sum_part(k, dy, unit / g->blocks, unit % g->blocks, &sums[unit * g->b]);
    for (int64_t channel = 0; channel < g->channels; channel++) {
        double sum = 0;
        for (int64_t part = 0; part < k->parts; part++)
            sum += sums[part * g->blocks * g->b + channel];
        dbias[channel] = (float)sum;
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv_transpose2d_backward_bias = {
    .op = &yki_op_conv_transpose2d_backward_bias,
    .supports = bias_gradient_supports,
    .prepare = bias_gradient_prepare,
    .run = bias_gradient_run};
