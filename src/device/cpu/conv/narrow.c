/*
 * 3x3 convolutions whose groups are narrower than a vector: those of stride 1 with groups of 2, 4
 * or 8 channels, such as ResNeXt's, forward and both gradients; with stride 2 and groups of 4 or 8,
 * forward; and depthwise ones of stride 1, forward and the gradient of x, in 16 bits or beyond the
 * caches. Activations are blocked, in f32, bf16 or f16; weights and arithmetic are in f32, except
 * where bf16 dot products are fast: there, forward and the gradient of x multiply pairs of bf16
 * (narrow_bf16.c). The inner loops are in loops/narrow.h. Others go to oneDNN with merged groups,
 * see groups.h.
 *
 * The gradient of x is a convolution of dy with weights that are rotated by 180 degrees.
 *
 * A unit of work is a channel block of one image, or some of its rows; for the gradient of the
 * weights, a channel block of one part of the images. Units depend on the shape alone and the
 * parts' sums are added in order, so the result has the same bits with any number of threads.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/units.h"
#include "tensor/bf16.h"

enum { SIDE = 3, TAPS = SIDE * SIDE, UNIT_ROWS = 32 /* rows of a unit, at least */ };

typedef struct narrow {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_narrow_convolution *convolve;
    yki_narrow shape;
    int64_t b, images, channels, blocks;
    int64_t units_a_block; /* units into which the rows of an image's block are divided */
    int64_t grain;         /* units that a thread takes at a time */
    int64_t parts;         /* of the images, for the gradient of the weights */
    bool pairs;            /* multiplied by dot products of bf16: see narrow_bf16.c */
    bool turned;           /* weights are rotated: for the gradient of x */
    bool bias;
    int team;
} narrow;

/* ---- preparation ----------------------------------------------------------------------------- */

static bool supports_width(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                           const yki_operand *y, const yki_operand *weight, int64_t width)
{
    return weight->dims[1] == width && width < device->block &&
           weight->dims[0] == width * attrs->groups && weight->dims[2] == SIDE &&
           weight->dims[3] == SIDE && yki_is_square(attrs) && attrs->dilation[0] == 1 &&
           attrs->padding[0] < SIDE && x->layout == YKI_BLOCKED && yki_alike(x, y) &&
           yki_cpu_loops_of(device)->pack == 2 * device->block;
}

static bool narrow_supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                            const yki_operand *y, const yki_operand *weight)
{
    return attrs->stride[0] == 1 && (supports_width(device, attrs, x, y, weight, 2) ||
                                     supports_width(device, attrs, x, y, weight, 4) ||
                                     supports_width(device, attrs, x, y, weight, YKI_NARROW_WIDTH));
}

/* Depthwise convolutions, too. */
static bool narrow_supports_convolve(const yki_device *device, const yki_attrs *attrs,
                                     const yki_operand *x, const yki_operand *y,
                                     const yki_operand *weight)
{
    return narrow_supports(device, attrs, x, y, weight) ||
           (attrs->stride[0] == 1 && supports_width(device, attrs, x, y, weight, 1));
}

static bool narrow_supports_halving(const yki_device *device, const yki_attrs *attrs,
                                    const yki_operand *x, const yki_operand *y,
                                    const yki_operand *weight)
{
    return attrs->stride[0] == 2 && (supports_width(device, attrs, x, y, weight, 4) ||
                                     supports_width(device, attrs, x, y, weight, YKI_NARROW_WIDTH));
}

/* In depthwise convolutions of narrow images, strips are too short to pay, and in f32 oneDNN is as
 * fast or faster unless memory is the limit. Where bf16 dot products are fast, groups of 8 on
 * narrow images are left to oneDNN, too, which multiplies two of them at a time. */
static bool narrow_gains(const yki_device *device, const yki_operand *x, const yki_operand *y,
                         const yki_operand *weight)
{
    bool wide = y->dims[3] >= YKI_NARROW_STRIP;
    if (!yki_onednn_takes_blocks(device))
        return true;
    if (weight->dims[1] == 1)
        return wide &&
               (x->dtype != YK_F32 || (device->block == 16 && yki_exceed_caches(device, x, y)));
    return wide || weight->dims[1] < YKI_NARROW_WIDTH || !yki_prefers_bf16(device, y);
}

/* Floats of a block's weights. */
static int64_t block_taps(const narrow *k)
{
    return TAPS * k->shape.width * k->b;
}

/* Floats of a thread's memory. */
static int64_t own_memory(const narrow *k)
{
    return yki_line_floats(YKI_NARROW_OWN * k->b);
}

/* The operands are x and y in forward, dy and dx for the gradient of x, x and dy for that of the
 * weights. */
static narrow *narrow_create(const yki_device *device, const yki_attrs *attrs,
                             const yki_operand *x_operand, const yki_operand *y_operand,
                             int64_t width)
{
    narrow *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    yki_geometry x = yki_geometry_of(device, x_operand), y = yki_geometry_of(device, y_operand);
    k->loops = yki_cpu_loops_of(device);
    k->shape = (yki_narrow){.dtype = x_operand->dtype,
                            .width = width,
                            .rows = x.rows,
                            .columns = x.columns,
                            .y_rows = y.rows,
                            .y_columns = y.columns,
                            .stride = attrs->stride[0],
                            .padding = attrs->padding[0],
                            .image = x.blocks * x.pixels * x.b,
                            .y_image = y.blocks * y.pixels * y.b};
    k->b = x.b;
    k->images = x.images;
    k->channels = x.channels;
    k->blocks = x.blocks;
    k->team = yki_team(device, x.images * k->shape.image);
    return k;
}

static yk_status narrow_prepare_convolve(const yki_device *device, const yki_attrs *attrs,
                                         const yki_operand *x, const yki_operand *y, int64_t width,
                                         narrow **kernel)
{
    narrow *k = narrow_create(device, attrs, x, y, width);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->shape.stream = k->b == 16 && yki_streams(device, y);
    k->convolve = k->loops->narrow_convolve;
#if defined(__x86_64__)
    k->pairs = k->b == 16 && yki_prefers_bf16(device, y);
    if (k->pairs)
        k->convolve = yki_narrow_bf16;
    k->base.matrix_unit = k->pairs;
#endif
    k->units_a_block = k->shape.y_rows < 2 * UNIT_ROWS ? 1 : k->shape.y_rows / UNIT_ROWS;
    int64_t units = k->images * k->blocks * k->units_a_block;
    k->grain = yki_grain(units, k->shape.y_image / k->blocks / k->units_a_block * width, k->team);
    int64_t floats = k->blocks * (k->b + block_taps(k)) + k->team * own_memory(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = k;
    return YK_OK;
}

/* ---- forward, and the gradient of x ---------------------------------------------------------- */

/* Where an output channel's weights are: that of input `in` of its group at tap t is
 * from[in * in_step + t * tap_step]. */
typedef struct channel_taps {
    const float *from;
    int64_t in_step, tap_step;
} channel_taps;

static channel_taps taps_of(const narrow *k, const float *weight, int64_t channel)
{
    int64_t width = k->shape.width;
    if (!k->turned)
        return (channel_taps){weight + channel * width * TAPS, TAPS, 1};
    int64_t first = channel / width * width * width + channel % width;
    return (channel_taps){weight + first * TAPS + TAPS - 1, width * TAPS, -1};
}

/* A channel's weights, b floats apart. */
static void arrange_taps(const narrow *k, const channel_taps *w, float *to)
{
    for (int64_t r = 0; r < SIDE; r++)
        for (int64_t in = 0; in < k->shape.width; in++)
            for (int64_t s = 0; s < SIDE; s++, to += k->b)
                *to = w->from[in * w->in_step + (r * SIDE + s) * w->tap_step];
}

static void put_pair(float *to, float first, float second)
{
    uint16_t pair[2] = {yki_bf16_from_float(first), yki_bf16_from_float(second)};
    memcpy(to, pair, sizeof pair);
}

/* A channel's weights as pairs of bf16, b pairs apart: of two channels of its group, or of
 * neighbouring taps in a row. */
static void arrange_pairs(const narrow *k, const channel_taps *w, float *to)
{
    for (int64_t r = 0; r < SIDE; r++) {
        const float *row = w->from + r * SIDE * w->tap_step;
        if (k->shape.width == 1) {
            put_pair(to, row[0], row[w->tap_step]);
            put_pair(to + k->b, 0, row[2 * w->tap_step]);
            to += 2 * k->b;
        }
        for (int64_t in = 0; in + 1 < k->shape.width; in += 2, row += 2 * w->in_step)
            for (int64_t s = 0; s < SIDE; s++, to += k->b)
                put_pair(to, row[s * w->tap_step], row[w->in_step + s * w->tap_step]);
    }
}

/* A block's bias, (b), and weights, (3, width, 3, b) or in pairs; zeros for padding channels. */
static void arrange_weights(const narrow *k, const yki_kernel_args *run, int64_t block, float *to)
{
    const float *weight = run->in[YKI_CONV2D_WEIGHT];
    const float *bias = k->bias ? run->in[YKI_CONV2D_BIAS] : NULL;
    memset(to, 0, (size_t)(k->b + block_taps(k)) * sizeof *to);
    for (int64_t lane = 0; lane < k->b && block * k->b + lane < k->channels; lane++) {
        int64_t channel = block * k->b + lane;
        channel_taps w = taps_of(k, weight, channel);
        to[lane] = bias ? bias[channel] : 0;
        if (k->pairs)
            arrange_pairs(k, &w, to + k->b + lane);
        else
            arrange_taps(k, &w, to + k->b + lane);
    }
}

static void convolve_unit(const narrow *k, const yki_kernel_args *run, int64_t unit,
                          const yki_narrow *shape, const float *weights, float *own)
{
    int64_t share = unit % k->units_a_block, plane = unit / k->units_a_block;
    yki_window_range rows = {shape->y_rows * share / k->units_a_block,
                             shape->y_rows * (share + 1) / k->units_a_block};
    size_t size = yk_dtype_size(shape->dtype);
    size_t x = (size_t)(plane * shape->rows * shape->columns * k->b) * size;
    size_t y = (size_t)(plane * shape->y_rows * shape->y_columns * k->b) * size;
    k->convolve(shape, (const char *)run->in[0] + x,
                weights + plane % k->blocks * (k->b + block_taps(k)), (char *)run->out[0] + y, rows,
                own);
}

static yk_status run_narrow(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const narrow *k = (const narrow *)kernel;
    float *weights = run->scratch, *threads = weights + k->blocks * (k->b + block_taps(k));
    yki_narrow shape = k->shape;
    shape.stream = shape.stream && (uintptr_t)run->out[0] % YKI_ALIGNMENT == 0;
    yki_units units;
    yki_units_divide(&units, k->images * k->blocks * k->units_a_block, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < k->blocks; block++)
            arrange_weights(k, run, block, weights + block * (k->b + block_taps(k)));
        for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
            convolve_unit(k, run, unit, &shape, weights,
                          threads + omp_get_thread_num() * own_memory(k));
    }
    return YK_OK;
}

static bool narrow_supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X], *y = &desc->out[YKI_CONV2D_Y];
    const yki_operand *weight = &desc->in[YKI_CONV2D_WEIGHT];
    return (!yki_has_in(desc, YKI_CONV2D_BIAS) || desc->in[YKI_CONV2D_BIAS].dtype == YK_F32) &&
           (narrow_supports_convolve(device, desc->attrs, x, y, weight) ||
            narrow_supports_halving(device, desc->attrs, x, y, weight));
}

static bool narrow_gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return narrow_gains(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                        &desc->in[YKI_CONV2D_WEIGHT]);
}

static yk_status narrow_prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                        yki_kernel **kernel)
{
    narrow *k;
    YK_TRY(narrow_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                   &desc->out[YKI_CONV2D_Y], desc->in[YKI_CONV2D_WEIGHT].dims[1],
                                   &k));
    k->bias = yki_has_in(desc, YKI_CONV2D_BIAS);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_narrow = {.op = &yki_op_conv2d,
                                               .name = "narrow",
                                               .supports = narrow_supports_forward,
                                               .gains = narrow_gains_forward,
                                               .prepare = narrow_prepare_forward,
                                               .run = run_narrow};

static bool narrow_supports_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return narrow_supports_convolve(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                    &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                    &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool narrow_gains_backward_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return narrow_gains(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                        &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                        &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status narrow_prepare_backward_data(yki_device *device, const yki_kernel_desc *desc,
                                              yki_kernel **kernel)
{
    narrow *k;
    YK_TRY(narrow_prepare_convolve(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                   &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                   desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT].dims[1], &k));
    k->turned = true;
    k->shape.padding = SIDE - 1 - desc->attrs->padding[0];
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_narrow = {
    .op = &yki_op_conv2d_backward_data,
    .name = "narrow",
    .supports = narrow_supports_backward_data,
    .gains = narrow_gains_backward_data,
    .prepare = narrow_prepare_backward_data,
    .run = run_narrow};

/* ---- the gradient of the weights: x, dy -> dweight ------------------------------------------- */

/* Computes the sums of one block over one part of the images. */
static void narrow_sum_unit(const narrow *k, const yki_kernel_args *run, int64_t unit, float *own)
{
    int64_t part = unit / k->blocks, block = unit % k->blocks;
    int64_t begin = k->images * part / k->parts, end = k->images * (part + 1) / k->parts;
    const yki_narrow *n = &k->shape;
    size_t size = yk_dtype_size(n->dtype);
    int64_t x = begin * n->image + block * n->rows * n->columns * k->b;
    int64_t dy = begin * n->y_image + block * n->y_rows * n->y_columns * k->b;
    float *sums = (float *)run->scratch + unit * block_taps(k);
    memset(sums, 0, (size_t)block_taps(k) * sizeof *sums);
    k->loops->narrow_gradient(
        n, (const char *)run->in[YKI_CONV2D_BACKWARD_WEIGHT_X] + (size_t)x * size,
        (const char *)run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY] + (size_t)dy * size, end - begin, sums,
        own);
}

/* Adds the parts' sums, (3, width, 3, b) of each block, into the canonical gradient. */
static void narrow_add_parts(const narrow *k, const float *sums, float *weight)
{
    const int64_t width = k->shape.width, part_floats = k->blocks * block_taps(k);
    for (int64_t channel = 0; channel < k->channels; channel++) {
        const float *of_channel = sums + channel / k->b * block_taps(k) + channel % k->b;
        for (int64_t in = 0; in < width; in++)
            for (int64_t t = 0; t < TAPS; t++) {
                const float *at = of_channel + ((t / SIDE * width + in) * SIDE + t % SIDE) * k->b;
                float sum = *at;
                for (int64_t part = 1; part < k->parts; part++)
                    sum += at[part * part_floats];
                weight[(channel * width + in) * TAPS + t] = sum;
            }
    }
}

static yk_status run_narrow_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const narrow *k = (const narrow *)kernel;
    float *threads = (float *)run->scratch + k->parts * k->blocks * block_taps(k);
    yki_units units;
    yki_units_divide(&units, k->parts * k->blocks, 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
        narrow_sum_unit(k, run, unit, threads + omp_get_thread_num() * own_memory(k));
    narrow_add_parts(k, run->scratch, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    return YK_OK;
}

static bool narrow_supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           narrow_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                           &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                           &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

/* The gradient of the weights multiplies in f32: where bf16 dot products are fast, oneDNN's
 * products of zeros between groups of 8 channels take 0.7 of the time. */
static bool narrow_gains_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims[1] < YKI_NARROW_WIDTH ||
           !yki_prefers_bf16(device, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
}

static yk_status narrow_prepare_weight(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    narrow *k = narrow_create(device, desc->attrs, x, dy,
                              desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims[1]);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->parts = yki_sum_parts(k->images, k->blocks, k->shape.y_rows * k->shape.y_columns);
    int64_t floats = k->parts * k->blocks * block_taps(k) + k->team * own_memory(k);
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_narrow = {.op = &yki_op_conv2d_backward_weight,
                                                               .name = "narrow",
                                                               .supports = narrow_supports_weight,
                                                               .gains = narrow_gains_weight,
                                                               .prepare = narrow_prepare_weight,
                                                               .run = run_narrow_weight};
