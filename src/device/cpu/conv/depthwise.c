/*
 * The gradients of weight and bias of depthwise convolutions, on blocked activations in f32, bf16
 * or f16. oneDNN has only its reference loops for filters that are not 3x3, for dilated ones, and
 * for images of one or two columns, which MobileNetV2 reaches: there they take most of a training
 * step. Some of its kernels are faster on larger images.
 *
 * A unit of work is one channel block of one part of the images. Parts depend on the shape alone
 * and their sums are added in order, so the result has the same bits with any number of threads.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/units.h"

enum {
    SIDE = 3,              /* of the filters that oneDNN has kernels for */
    OWN_BYTES = 256 << 10, /* of a thread at most: the ring stays in the second-level cache */
    REFERENCE_COLUMNS = 2,
    NARROW_COLUMNS = 12,
    X = YKI_CONV2D_BACKWARD_WEIGHT_X,
    DY = YKI_CONV2D_BACKWARD_WEIGHT_DY,
    DWEIGHT = YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT,
    DBIAS = YKI_CONV2D_BACKWARD_WEIGHT_DBIAS
};

typedef struct depthwise {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_depthwise shape;
    int64_t b, images, channels, blocks, parts, taps;
    int64_t sums;              /* of a channel: its taps, and its bias if that is wanted */
    int64_t x_block, dy_block; /* elements of one block of an image */
    int64_t own;               /* floats of a thread */
    int team;
} depthwise;

/* The columns of dy whose taps all lie inside x. */
static void find_inner_columns(yki_depthwise *d)
{
    int64_t last = d->columns + d->padding - d->kernel_columns; /* where a kernel may begin */
    d->inner_begin = (d->padding + d->stride - 1) / d->stride;
    d->inner_end = last < 0 ? 0 : last / d->stride + 1;
    if (d->inner_end > d->dy_columns)
        d->inner_end = d->dy_columns;
    if (d->inner_begin >= d->inner_end)
        d->inner_begin = d->inner_end = d->dy_columns;
}

static yki_depthwise shape_of(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_geometry x = yki_geometry_of(device, &desc->in[X]);
    yki_geometry dy = yki_geometry_of(device, &desc->in[DY]);
    const int64_t *kernel = desc->out[DWEIGHT].dims;
    const yki_attrs *attrs = desc->attrs;
    yki_depthwise d = {.dtype = desc->in[X].dtype,
                       .rows = x.rows,
                       .columns = x.columns,
                       .dy_rows = dy.rows,
                       .dy_columns = dy.columns,
                       .kernel_rows = kernel[2],
                       .kernel_columns = kernel[3],
                       .stride = attrs->stride[0],
                       .dilation = attrs->dilation[0],
                       .padding = attrs->padding[0],
                       .depth = (kernel[2] - 1) * attrs->dilation[0] + 1,
                       .image = x.blocks * x.pixels * x.b,
                       .dy_image = dy.blocks * dy.pixels * dy.b};
    int64_t reach = (dy.columns - 1) * d.stride + (d.kernel_columns - 1) * d.dilation + 1;
    int64_t padded = d.padding + d.columns;
    d.span = reach > padded ? reach : padded;
    d.three = kernel[2] == SIDE && kernel[3] == SIDE && d.dilation == 1;
    d.bias = yki_has_out(desc, DBIAS);
    find_inner_columns(&d);
    return d;
}

/* Floats of a thread: a ring of rows of x, and a row of dy. */
static int64_t own_floats(const yki_depthwise *d, int64_t b)
{
    return d->three ? 0 : (d->depth * d->span + d->dy_columns) * b;
}

static bool depthwise_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[X], *dy = &desc->in[DY], *weight = &desc->out[DWEIGHT];
    if (device->block == 0 || !yki_is_square(desc->attrs) || x->layout != YKI_BLOCKED ||
        !yki_alike(x, dy) || desc->attrs->groups != x->dims[1] || dy->dims[1] != x->dims[1] ||
        weight->dims[2] * weight->dims[3] > YKI_DEPTHWISE_TAPS ||
        yki_cpu_loops_of(device)->pack != 2 * device->block)
        return false;
    yki_depthwise d = shape_of(device, desc);
    return own_floats(&d, device->block) * (int64_t)sizeof(float) <= OWN_BYTES;
}

/*
 * In f32 on AVX-512, oneDNN takes 0.4 to 0.6 of the time on narrow images. Where bf16 dot products
 * are fast, as on Zen 4 and 5, it takes 0.4 to 0.9 of it on wide ones, too, as long as they are in
 * a cache: on such processors, all nine taps of a pixel are loaded here. Where memory is the
 * limit, it takes 1.03 times as long on Zen 4, and 1.15 to 1.5 times on Zen 5.
 */
static bool is_faster_in_onednn(const yki_device *device, const yki_operand *x,
                                const yki_operand *dy)
{
    bool loads = ((const yki_cpu_device *)device)->native_bf16 && !yki_exceed_caches(device, x, dy);
    return x->dtype == YK_F32 && device->block == 16 && (loads || x->dims[3] <= NARROW_COLUMNS);
}

static bool depthwise_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[X], *dy = &desc->in[DY];
    const int64_t *kernel = desc->out[DWEIGHT].dims;
    bool three = kernel[2] == SIDE && kernel[3] == SIDE && desc->attrs->dilation[0] == 1;
    return !three || x->dims[3] <= REFERENCE_COLUMNS ||
           !(yki_is_depthwise_bf16(device, desc->attrs, x) || is_faster_in_onednn(device, x, dy));
}

static yk_status depthwise_prepare(yki_device *device, const yki_kernel_desc *desc,
                                   yki_kernel **kernel)
{
    depthwise *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    yki_geometry x = yki_geometry_of(device, &desc->in[X]);
    yki_geometry dy = yki_geometry_of(device, &desc->in[DY]);
    k->loops = yki_cpu_loops_of(device);
    k->x_block = x.pixels * x.b;
    k->dy_block = dy.pixels * dy.b;
    k->shape = shape_of(device, desc);
    k->b = x.b;
    k->images = x.images;
    k->channels = x.channels;
    k->blocks = x.blocks;
    k->taps = k->shape.kernel_rows * k->shape.kernel_columns;
    k->sums = k->taps + k->shape.bias;
    k->own = yki_line_floats(own_floats(&k->shape, x.b));
    k->team = yki_team(device, x.images * k->shape.image);
    k->parts = yki_sum_parts(k->images, k->blocks, dy.pixels);
    int64_t floats = k->parts * k->blocks * k->sums * k->b + k->team * k->own;
    k->base.scratch = (size_t)floats * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* The sums of one block over one part of the images: (sums, b). */
static void sum_unit(const depthwise *k, const yki_kernel_args *run, int64_t unit, float *own)
{
    int64_t part = unit / k->blocks, block = unit % k->blocks;
    int64_t begin = k->images * part / k->parts, end = k->images * (part + 1) / k->parts;
    size_t size = yk_dtype_size(k->shape.dtype);
    int64_t x = begin * k->shape.image + block * k->x_block;
    int64_t dy = begin * k->shape.dy_image + block * k->dy_block;
    float *sums = (float *)run->scratch + unit * k->sums * k->b;
    memset(sums, 0, (size_t)(k->sums * k->b) * sizeof *sums);
    k->loops->depthwise_gradient(&k->shape, (const char *)run->in[X] + (size_t)x * size,
                                 (const char *)run->in[DY] + (size_t)dy * size, end - begin, sums,
                                 own);
}

static void add_parts(const depthwise *k, const float *sums, float *weight, float *bias)
{
    for (int64_t channel = 0; channel < k->channels; channel++)
        for (int64_t t = 0; t < k->sums; t++) {
            int64_t at = (channel / k->b * k->sums + t) * k->b + channel % k->b;
            float sum = sums[at];
            for (int64_t part = 1; part < k->parts; part++)
                sum += sums[part * k->blocks * k->sums * k->b + at];
            *(t < k->taps ? &weight[channel * k->taps + t] : &bias[channel]) = sum;
        }
}

static yk_status depthwise_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const depthwise *k = (const depthwise *)kernel;
    float *threads = (float *)run->scratch + k->parts * k->blocks * k->sums * k->b;
    yki_units units;
    yki_units_divide(&units, k->parts * k->blocks, 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;)
        sum_unit(k, run, unit, threads + omp_get_thread_num() * k->own);
    add_parts(k, run->scratch, run->out[DWEIGHT], run->out[DBIAS]);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_depthwise = {
    .op = &yki_op_conv2d_backward_weight,
    .name = "depthwise",
    .supports = depthwise_supports,
    .gains = depthwise_gains,
    .prepare = depthwise_prepare,
    .run = depthwise_run};
