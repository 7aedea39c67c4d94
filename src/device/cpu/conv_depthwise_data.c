/*
 * The gradient of x of 3x3 depthwise convolutions of stride 2, on blocked activations in f32, bf16
 * or f16. oneDNN's kernels read each result nine times; here, pixels of x that the same results
 * reach are computed together (loops_depthwise_data.h), and large gradients are written past the
 * caches.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops.h"
#include "device/cpu/onednn.h"

enum {
    SIDE = 3,
    TAPS = SIDE * SIDE,
    STRIDE = 2,
    WIDEST_BF16 = 28, /* columns: wider images are faster in oneDNN where it computes in bf16 */
    WEIGHT = YKI_CONV2D_BACKWARD_DATA_WEIGHT,
    DY = YKI_CONV2D_BACKWARD_DATA_DY,
    DX = YKI_CONV2D_BACKWARD_DATA_DX
};

typedef struct depthwise_data {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_depthwise shape;
    int64_t b, images, channels, blocks;
    int64_t grain; /* blocks of images that a thread takes at a time */
    int team;
} depthwise_data;

static bool data_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dy = &desc->in[DY], *dx = &desc->out[DX];
    const int64_t *kernel = desc->in[WEIGHT].dims;
    const yki_attrs *attrs = desc->attrs;
    return device->block > 0 && dx->layout == YKI_BLOCKED && yki_alike(dx, dy) &&
           attrs->groups == dx->dims[1] && dy->dims[1] == dx->dims[1] && kernel[2] == SIDE &&
           kernel[3] == SIDE && attrs->stride == STRIDE && attrs->dilation == 1 &&
           attrs->padding < SIDE && yki_cpu_loops_of(device)->pack == 2 * device->block;
}

static bool data_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *dx = &desc->out[DX];
    return !yki_is_depthwise_bf16(device, desc->attrs, dx) || dx->dims[3] <= WIDEST_BF16;
}

static yk_status data_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    depthwise_data *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_geometry dx = yki_geometry_of(device, &desc->out[DX]);
    yki_geometry dy = yki_geometry_of(device, &desc->in[DY]);
    k->loops = yki_cpu_loops_of(device);
    k->shape = (yki_depthwise){.dtype = desc->out[DX].dtype,
                               .rows = dx.rows,
                               .columns = dx.columns,
                               .dy_rows = dy.rows,
                               .dy_columns = dy.columns,
                               .padding = desc->attrs->padding,
                               .image = dx.pixels * dx.b,
                               .dy_image = dy.pixels * dy.b,
                               .stream = yki_streams(device, &desc->out[DX])};
    k->b = dx.b;
    k->images = dx.images;
    k->channels = dx.channels;
    k->blocks = dx.blocks;
    k->team = yki_team(device, dx.images * dx.blocks * k->shape.image);
    k->grain = yki_grain(k->images * k->blocks, k->shape.image, k->team);
    k->base.scratch =
        (size_t)(k->blocks * TAPS * k->b + k->shape.dy_columns * k->b) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* A block's weights, (9, b), with zeros for channels that do not exist. */
static void arrange_block(const depthwise_data *k, const float *weight, int64_t block, float *to)
{
    for (int64_t t = 0; t < TAPS; t++)
        for (int64_t lane = 0; lane < k->b; lane++) {
            int64_t channel = block * k->b + lane;
            to[t * k->b + lane] = channel < k->channels ? weight[channel * TAPS + t] : 0;
        }
}

static yk_status data_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const depthwise_data *k = (const depthwise_data *)kernel;
    const int64_t taps = TAPS * k->b;
    const size_t size = yk_dtype_size(k->shape.dtype);
    float *weights = run->scratch, *zeros = weights + k->blocks * taps;
    yki_depthwise shape = k->shape;
    shape.stream = shape.stream && (uintptr_t)run->out[DX] % YKI_ALIGNMENT == 0;
    memset(zeros, 0, (size_t)(shape.dy_columns * k->b) * sizeof *zeros);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < k->blocks; block++)
            arrange_block(k, run->in[WEIGHT], block, weights + block * taps);
#pragma omp for schedule(dynamic, k->grain) nowait
        for (int64_t i = 0; i < k->images * k->blocks; i++)
            k->loops->depthwise_data(
                &shape, (const char *)run->in[DY] + (size_t)(i * shape.dy_image) * size,
                weights + i % k->blocks * taps, zeros,
                (char *)run->out[DX] + (size_t)(i * shape.image) * size);
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_depthwise = {.op = &yki_op_conv2d_backward_data,
                                                                .name = "depthwise",
                                                                .supports = data_supports,
                                                                .gains = data_gains,
                                                                .prepare = data_prepare,
                                                                .run = data_run};
