/*
 * 3x3 depthwise convolutions of stride 2, forward and the gradient of x, on blocked activations in
 * f32, bf16 or f16. oneDNN's kernels for gradients read each result nine times; here, pixels of x
 * that the same results reach are computed together. Forward waits less for memory than oneDNN's
 * kernel. The loops are in loops/depthwise_strided.h. Results that do not stay in a cache are
 * written past them.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/units.h"

enum {
    SIDE = 3,
    TAPS = SIDE * SIDE,
    STRIDE = 2,
    WIDEST_BF16 = 28 /* columns: wider images are faster in oneDNN where it computes in bf16 */
};

/* One image's channel block of what is read, then of what is made. */
typedef void strided_loop(const yki_depthwise *shape, const void *from, const float *weights,
                          const void *zeros, void *to);

typedef struct depthwise_strided {
    yki_kernel base;
    strided_loop *loop;
    yki_depthwise shape;
    int64_t b, images, channels, blocks;
    int64_t from, to; /* elements of a block of an image */
    int64_t zeros;    /* in a row of what is read */
    int64_t grain;    /* blocks of images that a thread takes at a time */
    int team;
} depthwise_strided;

/* large is x or its gradient, small y or its gradient. */
static bool supports(const yki_device *device, const yki_attrs *attrs, const yki_operand *large,
                     const yki_operand *small, const yki_operand *weight)
{
    const int64_t *kernel = weight->dims;
    return device->block > 0 && large->layout == YKI_BLOCKED && yki_alike(large, small) &&
           attrs->groups == large->dims[1] && small->dims[1] == large->dims[1] &&
           kernel[2] == SIDE && kernel[3] == SIDE && yki_is_square(attrs) &&
           attrs->stride[0] == STRIDE && attrs->dilation[0] == 1 && attrs->padding[0] < SIDE &&
           yki_cpu_loops_of(device)->pack == 2 * device->block;
}

static yk_status prepare(const yki_device *device, const yki_attrs *attrs, const yki_operand *large,
                         const yki_operand *small, bool forward, yki_kernel **kernel)
{
    depthwise_strided *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_geometry x = yki_geometry_of(device, large), y = yki_geometry_of(device, small);
    const yki_cpu_loops *loops = yki_cpu_loops_of(device);
    k->shape = (yki_depthwise){.dtype = large->dtype,
                               .rows = x.rows,
                               .columns = x.columns,
                               .dy_rows = y.rows,
                               .dy_columns = y.columns,
                               .padding = attrs->padding[0],
                               .stream = yki_exceed_caches(device, large, small) &&
                                         yki_streams(device, forward ? small : large)};
    k->loop = forward ? loops->depthwise_forward : loops->depthwise_data;
    k->b = x.b;
    k->images = x.images;
    k->channels = x.channels;
    k->blocks = x.blocks;
    k->from = (forward ? x.pixels : y.pixels) * x.b;
    k->to = (forward ? y.pixels : x.pixels) * x.b;
    k->zeros = (forward ? x.columns : y.columns) * x.b;
    k->team = yki_team(device, x.images * x.blocks * x.pixels * x.b);
    k->grain = yki_grain(k->images * k->blocks, x.pixels * x.b, k->team);
    k->base.scratch = (size_t)(k->blocks * TAPS * k->b + k->zeros) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* A block's weights, (9, b), with zeros for channels that do not exist. */
static void arrange_block(const depthwise_strided *k, const float *weight, int64_t block, float *to)
{
    for (int64_t t = 0; t < TAPS; t++)
        for (int64_t lane = 0; lane < k->b; lane++) {
            int64_t channel = block * k->b + lane;
            to[t * k->b + lane] = channel < k->channels ? weight[channel * TAPS + t] : 0;
        }
}

/* Both operators have the weights as their second input. */
static yk_status run_strided(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const depthwise_strided *k = (const depthwise_strided *)kernel;
    const int64_t taps = TAPS * k->b;
    const size_t size = yk_dtype_size(k->shape.dtype);
    float *weights = run->scratch, *zeros = weights + k->blocks * taps;
    yki_depthwise shape = k->shape;
    shape.stream = shape.stream && (uintptr_t)run->out[0] % YKI_ALIGNMENT == 0;
    memset(zeros, 0, (size_t)k->zeros * sizeof *zeros);
    yki_units units;
    yki_units_divide(&units, k->images * k->blocks, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < k->blocks; block++)
            arrange_block(k, run->in[1], block, weights + block * taps);
        for (int64_t i = -1; (i = yki_units_next(&units, i)) >= 0;)
            k->loop(&shape, (const char *)run->in[0] + (size_t)(i * k->from) * size,
                    weights + i % k->blocks * taps, zeros,
                    (char *)run->out[0] + (size_t)(i * k->to) * size);
    }
    return YK_OK;
}

/* ---- forward: x, weight -> y ----------------------------------------------------------------- */

static bool forward_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_in(desc, YKI_CONV2D_BIAS) &&
           supports(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y],
                    &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool forward_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X], *y = &desc->out[YKI_CONV2D_Y];
    return !yki_onednn_takes_blocks(device) ||
           (x->dtype == YK_F32 && device->block == 16 && yki_exceed_caches(device, x, y));
}

static yk_status forward_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc->attrs, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y], true,
                   kernel);
}

const yki_kernel_impl yki_cpu_conv2d_depthwise = {.op = &yki_op_conv2d,
                                                  .name = "depthwise",
                                                  .supports = forward_supports,
                                                  .gains = forward_gains,
                                                  .prepare = forward_prepare,
                                                  .run = run_strided};

/* ---- the gradient of x: dy, weight -> dx ----------------------------------------------------- */

static bool data_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                    &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                    &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool data_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[YKI_CONV2D_BACKWARD_DATA_DX];
    return !yki_is_depthwise_bf16(device, desc->attrs, dx) || dx->dims[3] <= WIDEST_BF16;
}

static yk_status data_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                   &desc->in[YKI_CONV2D_BACKWARD_DATA_DY], false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_depthwise = {.op = &yki_op_conv2d_backward_data,
                                                                .name = "depthwise",
                                                                .supports = data_supports,
                                                                .gains = data_gains,
                                                                .prepare = data_prepare,
                                                                .run = run_strided};
