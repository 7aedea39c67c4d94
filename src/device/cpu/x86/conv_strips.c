/*
 * 3x3 convolutions whose groups are whole vectors, on AVX-512: forward in f32, for groups of a
 * multiple of 16 channels of x and of 32 of y, and the gradient of the weights in f32, bf16 or f16,
 * for multiples of 16. Arithmetic is in f32. With stride 2, oneDNN's kernels wait for memory, since
 * each result reads new pixels: here, what comes next is on its way while products are computed.
 *
 * Forward multiplies strips of results. A unit of work is one group of one image. What a strip's
 * results read is copied to a matrix, so that products know neither edges nor strides, and strips
 * may continue in the next row. The gradient's units are a block of x and one or two of dy, over
 * all images. The order of every sum depends on the shape alone, so the result has the same bits
 * with any number of threads.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/strip.h"

enum {
    LANES = YKI_STRIP_LANES,
    OUT = YKI_STRIP_OUT,
    SIDE = 3,
    TAPS = YKI_STRIP_TAPS,
    LEAST_RESULTS = 3072,  /* of a group of an image */
    LEAST_UNITS = 32,      /* for several threads */
    MOST_WEIGHTS = 1 << 16 /* of a group, which each strip reads again: a quarter of a megabyte */
};

typedef struct strips {
    yki_kernel base;
    yki_attrs attrs;
    yki_geometry x, y;
    int64_t in_blocks, out_pairs; /* of a group: 16 channels of x, 32 of y */
    int64_t strip_rows;           /* of y, from a strip to the next */
    int64_t grain;                /* units that a thread takes at a time */
    bool bias, stream;
    int team;
} strips;

/* ---- preparation ----------------------------------------------------------------------------- */

static bool strips_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X], *y = &desc->out[YKI_CONV2D_Y];
    const int64_t *weight = desc->in[YKI_CONV2D_WEIGHT].dims, groups = desc->attrs->groups;
    return yki_cpu_loops_of(device) == &yki_cpu_loops_avx512 && x->layout == YKI_BLOCKED &&
           x->dtype == YK_F32 && yki_alike(x, y) && yki_is_square(desc->attrs) &&
           weight[2] == SIDE && weight[3] == SIDE && weight[1] % LANES == 0 &&
           weight[0] % (OUT * groups) == 0 &&
           (!yki_has_in(desc, YKI_CONV2D_BIAS) || desc->in[YKI_CONV2D_BIAS].dtype == YK_F32);
}

static bool comes_from_memory(const yki_device *device, const yki_operand *x)
{
    return yki_operand_bytes(device, x) >= (size_t)8 << 20;
}

/* Measured: where x is in a cache, where an image's group has few results, or where a strip ends
 * before its row, oneDNN takes 0.75 to 1 of the time, and 1.03 to 1.3 otherwise. */
static bool strips_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X], *y = &desc->out[YKI_CONV2D_Y];
    const int64_t *weight = desc->in[YKI_CONV2D_WEIGHT].dims, groups = desc->attrs->groups;
    int64_t filters = weight[0] / groups, results = filters * y->dims[2] * y->dims[3];
    return groups > 1 && desc->attrs->stride[0] == 2 && y->dims[3] <= YKI_STRIP &&
           results >= LEAST_RESULTS && filters * weight[1] * TAPS <= MOST_WEIGHTS &&
           comes_from_memory(device, x);
}

static int64_t strip_floats(const strips *k)
{
    return TAPS * k->in_blocks * YKI_STRIP * LANES;
}

/* The weights of 32 output channels. */
static int64_t pair_floats(const strips *k)
{
    return TAPS * k->in_blocks * LANES * OUT;
}

static yk_status strips_prepare(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X], *y = &desc->out[YKI_CONV2D_Y];
    strips *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->attrs = *desc->attrs;
    k->x = yki_geometry_of(device, x);
    k->y = yki_geometry_of(device, y);
    k->in_blocks = k->x.channels / k->attrs.groups / LANES;
    k->out_pairs = k->y.channels / k->attrs.groups / OUT;
    int64_t rows = YKI_STRIP / k->y.columns;
    k->strip_rows = rows > 0 ? rows : 1;
    k->bias = yki_has_in(desc, YKI_CONV2D_BIAS);
    k->stream = yki_streams(device, y);
    k->team = yki_team(device, yki_operand_count(x));
    k->grain =
        yki_grain(k->attrs.groups * k->x.images, k->in_blocks * k->x.pixels * LANES, k->team);
    int64_t pairs = k->attrs.groups * k->out_pairs;
    k->base.scratch = (size_t)(pairs * pair_floats(k) + k->team * strip_floats(k)) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- x, weight, [bias] -> y ------------------------------------------------------------------ */

static void find_strip(const strips *k, int64_t first, yki_strip *strip)
{
    const yki_attrs *a = &k->attrs;
    int64_t left = k->y.pixels - first, row = first / k->y.columns, column = first % k->y.columns;
    strip->count = left < YKI_STRIP ? (int)left : YKI_STRIP;
    for (int i = 0; i < LANES; i++) { /* more than are used: all are loaded */
        strip->down[i] = (int32_t)(row * a->stride[0] - a->padding[0]);
        strip->across[i] = (int32_t)(column * a->stride[0] - a->padding[0]);
        if (++column == k->y.columns) {
            column = 0;
            row++;
        }
    }
}

/* Whether no tap before this one reads the same pixels for other results. */
static bool reads_new_pixels(const strips *k, int tap)
{
    int64_t old = SIDE - k->attrs.stride[0];
    return tap / SIDE >= old && tap % SIDE >= old;
}

/* Floats from the pixels that a strip reads to those of the next strip; after the last one of an
 * image, to those of the next image's first. */
static int64_t to_next_strip(const strips *k, int64_t first)
{
    const int64_t row = k->attrs.stride[0] * k->x.columns * LANES;
    if (first + YKI_STRIP < k->y.pixels)
        return k->strip_rows * row;
    return k->x.blocks * k->x.pixels * LANES - first / k->y.columns * row;
}

/* What a strip reads of x, tap by tap, into a matrix (9, in_blocks, count, 16). */
static void read_strip(const strips *k, const float *x, const yki_strip *strip, int64_t ahead,
                       float *matrix)
{
    yki_strip_image image = {.x = x,
                             .rows = (int32_t)k->x.rows,
                             .columns = (int32_t)k->x.columns,
                             .blocks = k->in_blocks};
    for (int tap = 0; tap < TAPS; tap++) {
        int32_t down = (int32_t)(tap / SIDE * k->attrs.dilation[0]);
        int32_t across = (int32_t)(tap % SIDE * k->attrs.dilation[0]);
        image.ahead = reads_new_pixels(k, tap) ? ahead : 0;
        yki_strip_read(strip, &image, down, across, matrix);
        matrix += k->in_blocks * strip->count * LANES;
    }
}

/* One group of one image. */
static void strips_convolve_unit(const strips *k, const yki_kernel_args *run, int64_t unit,
                                 const float *weights, bool stream, float *matrix)
{
    int64_t image = unit % k->x.images, group = unit / k->x.images;
    int64_t x_block = image * k->x.blocks + group * k->in_blocks;
    int64_t y_block = image * k->y.blocks + group * k->out_pairs * (OUT / LANES);
    const float *x = (const float *)run->in[YKI_CONV2D_X] + x_block * k->x.pixels * LANES;
    float *y = (float *)run->out[YKI_CONV2D_Y] + y_block * k->y.pixels * LANES;
    const float *bias = run->in[YKI_CONV2D_BIAS];
    for (int64_t first = 0; first < k->y.pixels; first += YKI_STRIP) {
        yki_strip strip;
        find_strip(k, first, &strip);
        read_strip(k, x, &strip, to_next_strip(k, first), matrix);
        for (int64_t pair = 0; pair < k->out_pairs; pair++) {
            int64_t of_all = group * k->out_pairs + pair;
            yki_strip_multiply(
                &(yki_strip_product){.matrix = matrix,
                                     .weights = weights + of_all * pair_floats(k),
                                     .start = k->bias ? bias + of_all * OUT : NULL,
                                     .y = y + (pair * (OUT / LANES) * k->y.pixels + first) * LANES,
                                     .y_block = k->y.pixels * LANES,
                                     .depth = TAPS * k->in_blocks * LANES,
                                     .count = strip.count,
                                     .stream = stream});
        }
    }
}

static yk_status strips_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const strips *k = (const strips *)kernel;
    const int64_t groups = k->attrs.groups, pairs = groups * k->out_pairs;
    float *weights = run->scratch, *threads = weights + pairs * pair_floats(k);
    bool stream = k->stream && (uintptr_t)run->out[YKI_CONV2D_Y] % YKI_ALIGNMENT == 0;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t pair = 0; pair < pairs; pair++)
            yki_strip_pack((const float *)run->in[YKI_CONV2D_WEIGHT] + pair * pair_floats(k),
                           k->in_blocks * LANES, weights + pair * pair_floats(k));
#pragma omp for schedule(dynamic, k->grain) nowait
        for (int64_t unit = 0; unit < groups * k->x.images; unit++)
            strips_convolve_unit(k, run, unit, weights, stream,
                                 threads + omp_get_thread_num() * strip_floats(k));
        yki_stream_settle();
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_strips = {.op = &yki_op_conv2d,
                                               .name = "strips",
                                               .supports = strips_supports,
                                               .gains = strips_gains,
                                               .prepare = strips_prepare,
                                               .run = strips_run};

/* ---- the gradient of the weights: x, dy -> dweight ------------------------------------------- */

typedef struct strips_weight {
    yki_kernel base;
    yki_strip_gradient shape;
    yki_geometry x, dy;
    int64_t in_blocks, out_blocks; /* of a group */
    int64_t units;                 /* a block of x and one or two of dy of the same group */
    int team;
} strips_weight;

static bool strips_supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    const int64_t *weight = desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims;
    return yki_cpu_loops_of(device) == &yki_cpu_loops_avx512 && x->layout == YKI_BLOCKED &&
           yki_alike(x, dy) && yki_is_square(desc->attrs) && weight[2] == SIDE &&
           weight[3] == SIDE && weight[1] % LANES == 0 &&
           weight[0] % (LANES * desc->attrs->groups) == 0 &&
           !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
}

/* Measured: 0.5 to 0.9 of the time of oneDNN's bf16 dot products, which turn what they multiply,
 * and with two threads 0.75 to 1.03. It is more where x is in a cache, for wider groups and for
 * shorter rows. oneDNN's gradients in f32 are faster. */
static bool strips_gains_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    const int64_t *weight = desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims;
    return yki_prefers_bf16(device, x) && !((const yki_cpu_device *)device)->has_amx &&
           desc->attrs->groups > 1 && desc->attrs->stride[0] == 2 && dy->dims[3] >= YKI_STRIP &&
           weight[1] <= 2 * LANES && weight[0] >= LEAST_UNITS * LANES &&
           comes_from_memory(device, x);
}

static int64_t sum_floats(const strips_weight *k)
{
    return (int64_t)TAPS * k->shape.dy_blocks * LANES * LANES;
}

/* Of a thread. */
static int64_t own_floats(const strips_weight *k)
{
    return sum_floats(k) + yki_strip_gradient_floats(&k->shape);
}

static yk_status strips_prepare_weight(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    const yki_attrs *attrs = desc->attrs;
    strips_weight *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->x = yki_geometry_of(device, x);
    k->dy = yki_geometry_of(device, dy);
    k->shape = (yki_strip_gradient){.dtype = x->dtype,
                                    .rows = (int32_t)k->x.rows,
                                    .columns = (int32_t)k->x.columns,
                                    .dy_rows = (int32_t)k->dy.rows,
                                    .dy_columns = (int32_t)k->dy.columns,
                                    .stride = (int32_t)attrs->stride[0],
                                    .padding = (int32_t)attrs->padding[0],
                                    .dilation = (int32_t)attrs->dilation[0]};
    k->in_blocks = k->x.blocks / attrs->groups;
    k->out_blocks = k->dy.blocks / attrs->groups;
    k->shape.dy_blocks = k->out_blocks % YKI_STRIP_DY_BLOCKS == 0 ? YKI_STRIP_DY_BLOCKS : 1;
    k->units = k->x.blocks * k->out_blocks / k->shape.dy_blocks;
    k->team = device->threads;
    k->base.scratch = (size_t)(k->team * own_floats(k)) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

static const void *plane_of(const yki_geometry *of, const void *data, int64_t image, int64_t block,
                            size_t size)
{
    int64_t element = (image * of->blocks + block) * of->pixels * LANES;
    return (const char *)data + (size_t)element * size;
}

/* The kernels of a unit, over all images. */
static void sum_unit(const strips_weight *k, const yki_kernel_args *run, int64_t unit, float *own)
{
    const int64_t dy_blocks = k->shape.dy_blocks, parts = k->out_blocks / dy_blocks;
    int64_t x_block = unit / parts, group = x_block / k->in_blocks;
    int64_t dy_block = group * k->out_blocks + unit % parts * dy_blocks;
    size_t size = yk_dtype_size(k->shape.dtype);
    yki_strip_gradient one = k->shape;
    const void *of_x = run->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const void *of_dy = run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    float *sums = own;
    memset(sums, 0, (size_t)sum_floats(k) * sizeof *sums);
    for (int64_t image = 0; image < k->x.images; image++) {
        bool last = image + 1 == k->x.images;
        one.x = plane_of(&k->x, of_x, image, x_block, size);
        one.dy = plane_of(&k->dy, of_dy, image, dy_block, size);
        one.next_x = last ? NULL : plane_of(&k->x, of_x, image + 1, x_block, size);
        one.next_dy = last ? NULL : plane_of(&k->dy, of_dy, image + 1, dy_block, size);
        yki_strip_add_gradient(&one, sums, sums + sum_floats(k));
    }
    int64_t inputs = k->in_blocks * LANES, first = dy_block * LANES * inputs;
    yki_strip_unpack(sums, dy_blocks, inputs,
                     (float *)run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT] +
                         (first + x_block % k->in_blocks * LANES) * TAPS);
}

static yk_status strips_run_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const strips_weight *k = (const strips_weight *)kernel;
    const int64_t own = own_floats(k);
#pragma omp parallel for num_threads(k->team) if (k->team > 1) schedule(dynamic)
    for (int64_t unit = 0; unit < k->units; unit++)
        sum_unit(k, run, unit, (float *)run->scratch + omp_get_thread_num() * own);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_strips = {.op = &yki_op_conv2d_backward_weight,
                                                               .name = "strips",
                                                               .supports = strips_supports_weight,
                                                               .gains = strips_gains_weight,
                                                               .prepare = strips_prepare_weight,
                                                               .run = strips_run_weight};
