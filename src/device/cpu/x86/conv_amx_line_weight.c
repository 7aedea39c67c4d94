/*
 * The gradient of the weights of a convolution of bf16 activations, on AMX: the sum of the products
 * of x and dy over the line of all pixels (see conv_amx_line.h), which is the inner dimension of a
 * product.
 *
 * A stretch of the line is copied for all channels: dy in pairs of pixels; x with a row for each
 * channel, in which a tap is the same row some pixels further on. The work is divided into parts of
 * the line and ranges of the output channels. Small gradients have many parts, whose sums are added
 * in order at the end; large ones have many ranges, each of which reads all of x. Both numbers
 * depend on the shape alone, and so do the result's bits.
 */
#include "device/cpu/x86/conv_amx_line.h"

#include <string.h>

#include "base/memory.h"

enum {
    UNITS = 8,           /* parts times ranges, at most */
    STRETCH = 512,       /* pixels of a stretch, at most */
    STRETCH_TAPS = 256,  /* with several taps: 32 channels of x and dy fit the first-level cache */
    LEAST_STRETCH = 128, /* pixels of a stretch, at least */
    STRETCH_BYTES = 1 << 20, /* a stretch of x and of a range of dy should not exceed this */
    RANGE_BYTES = 1 << 20,   /* the sums of a range should not exceed this */
    SUMS = YKI_AMX_SIDE * YKI_AMX_SIDE
};

typedef struct line_weight {
    yki_kernel base;
    yki_amx_lines lines;
    yki_amx_kernels kernels;
    int64_t parts, ranges;
    int64_t stretch, left; /* pixels of a stretch, and of x for it */
    bool bias;
    int team;
} line_weight;

/* A thread's memory. */
typedef struct own_memory {
    char *x, *dy, *pixels;
    yki_amx_run *runs;
} own_memory;

/* Groups of input channels that a group of output channels reads. */
static int64_t reads(const line_weight *k)
{
    return yki_amx_diagonal(&k->kernels) ? 1 : k->lines.x->groups;
}

/* The sums of a part are those of the weights, followed by those of the bias. */
static int64_t weight_floats(const line_weight *k)
{
    return k->lines.y.groups * reads(k) * k->lines.taps * SUMS;
}

static int64_t part_floats(const line_weight *k)
{
    return weight_floats(k) + k->lines.y.groups * YKI_AMX_SIDE;
}

/* Bytes from one channel of x to the next: an odd number of lines of the cache. */
static int64_t pitch_of(const line_weight *k)
{
    return (k->left * 2 / 64 | 1) * 64;
}

/* Bytes from one block of dy to the next. */
static int64_t right_step(const line_weight *k)
{
    return k->stretch * 32 + 64;
}

static int64_t range_groups(const line_weight *k)
{
    return (k->lines.y.groups + k->ranges - 1) / k->ranges;
}

/* Groups of input channels that a range reads. */
static int64_t x_groups(const line_weight *k)
{
    return yki_amx_diagonal(&k->kernels) ? range_groups(k) : k->lines.x->groups;
}

/* The bytes of a plane of x. */
static int64_t x_bytes(const line_weight *k)
{
    return x_groups(k) * YKI_AMX_SIDE * pitch_of(k);
}

static int64_t dy_bytes(const line_weight *k)
{
    return range_groups(k) * 2 * right_step(k);
}

static int64_t own_bytes(const line_weight *k)
{
    return k->lines.read * x_bytes(k) + dy_bytes(k) + k->left * (32 + (int64_t)sizeof(yki_amx_run));
}

static own_memory own_of(const line_weight *k, void *memory)
{
    own_memory own = {.x = memory};
    own.dy = own.x + k->lines.read * x_bytes(k);
    own.pixels = own.dy + dy_bytes(k);
    own.runs = (yki_amx_run *)(void *)(own.pixels + k->left * 32);
    return own;
}

/* Groups of channels. */
typedef struct range {
    int64_t begin, end;
} range;

static range range_of(const line_weight *k, int64_t index)
{
    const int64_t groups = k->lines.y.groups;
    return (range){groups * index / k->ranges, groups * (index + 1) / k->ranges};
}

/* The groups of inputs that these groups of outputs read. */
static range inputs_of(const line_weight *k, range outputs)
{
    return yki_amx_diagonal(&k->kernels) ? outputs : (range){0, k->lines.x->groups};
}

/* ---- stretches ------------------------------------------------------------------------------ */

/* Channel blocks that do not exist are not cleared: their sums are never written. */
static void read_x(const line_weight *k, const void *data, int64_t begin, range groups,
                   const own_memory *own)
{
    for (int plane = 0; plane < k->lines.read; plane++) {
        const yki_amx_line *x = &k->lines.x[plane];
        yki_amx_stretch stretch = yki_amx_stretch_of(x, begin - k->lines.reach, k->left, own->runs);
        for (int64_t b = 2 * groups.begin; b < 2 * groups.end && b < x->blocks; b++)
            yki_amx_line_left(&stretch, yki_amx_line_block(x, data, b), own->pixels,
                              own->x + plane * x_bytes(k) +
                                  (b - 2 * groups.begin) * YKI_AMX_LANES * pitch_of(k),
                              pitch_of(k));
    }
}

static void read_dy(const line_weight *k, const void *data, int64_t begin, range groups,
                    const own_memory *own, float *bias)
{
    const yki_amx_line *dy = &k->lines.y;
    yki_amx_stretch stretch = yki_amx_stretch_of(dy, begin, k->stretch, own->runs);
    for (int64_t b = 2 * groups.begin; b < 2 * groups.end && b < dy->blocks; b++)
        yki_amx_line_right(&stretch, yki_amx_line_block(dy, data, b), own->pixels,
                           own->dy + (b - 2 * groups.begin) * right_step(k),
                           bias + b * YKI_AMX_LANES);
}

/* Adds the products of a stretch to the sums of a pair of groups; if it is the first, replaces
 * them.
 */
static void add_pair(const line_weight *k, const char *x, const char *dy, int64_t pixels,
                     bool first, float *sums)
{
    const yki_amx_lines *lines = &k->lines;
    for (int64_t t = 0; t < lines->taps; t++)
        yki_amx_line_multiply_weight(
            x + lines->plane[t] * x_bytes(k) + (lines->reach + lines->shifts[t]) * 2, pitch_of(k),
            dy, right_step(k), pixels, sums + t * SUMS, first);
}

static void add_stretch(const line_weight *k, range groups, int64_t pixels, bool first,
                        const own_memory *own, float *sums)
{
    const int64_t step = k->lines.taps * SUMS, x_step = YKI_AMX_SIDE * pitch_of(k);
    const int64_t dy_step = 2 * right_step(k), count = groups.end - groups.begin;
    float *pairs = sums + groups.begin * reads(k) * step;
    if (yki_amx_diagonal(&k->kernels))
        for (int64_t g = 0; g < count; g++)
            add_pair(k, own->x + g * x_step, own->dy + g * dy_step, pixels, first,
                     pairs + g * step);
    else
        for (int64_t in = 0; in < reads(k); in++)
            for (int64_t g = 0; g < count; g++)
                add_pair(k, own->x + in * x_step, own->dy + g * dy_step, pixels, first,
                         pairs + (g * reads(k) + in) * step);
}

static int64_t stretches(const line_weight *k)
{
    return (yki_amx_line_pixels(&k->lines.y) + k->stretch - 1) / k->stretch;
}

/* The sums of a part of the line, for a range of the output channels. */
static void sum_unit(const line_weight *k, const yki_kernel_args *run, int64_t unit, void *memory)
{
    const int64_t part = unit / k->ranges;
    const range groups = range_of(k, unit % k->ranges);
    const int64_t begin = stretches(k) * part / k->parts;
    const int64_t end = stretches(k) * (part + 1) / k->parts;
    const own_memory own = own_of(k, memory);
    float *sums = (float *)run->scratch + part * part_floats(k), *bias = sums + weight_floats(k);
    memset(bias + groups.begin * YKI_AMX_SIDE, 0,
           (size_t)((groups.end - groups.begin) * YKI_AMX_SIDE) * sizeof *bias);
    yki_amx_line_begin();
    for (int64_t s = begin; s < end; s++) {
        const int64_t tile = YKI_AMX_TILE_PIXELS, at = s * k->stretch;
        const int64_t rest = (yki_amx_line_pixels(&k->lines.y) - at + tile - 1) / tile * tile;
        read_x(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], at, inputs_of(k, groups), &own);
        read_dy(k, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], at, groups, &own, bias);
        add_stretch(k, groups, rest < k->stretch ? rest : k->stretch, s == begin, &own, sums);
    }
    yki_amx_end();
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* Adds up the parts' sums for a pair of groups, and writes the gradient of its weights. */
static void write_pair(const line_weight *k, const float *sums, int64_t pair, float *weight)
{
    const int64_t out = pair / reads(k);
    const int64_t in = yki_amx_diagonal(&k->kernels) ? out : pair % reads(k);
    yki_amx_weights gradient = yki_amx_weights_at(&k->kernels, weight, in, out);
    yki_amx_write_weights(sums + pair * k->lines.taps * SUMS, k->parts, part_floats(k), &gradient);
}

/* Adds up the parts' sums for a channel. */
static void write_bias(const line_weight *k, const float *sums, int64_t channel, float *bias)
{
    const float *at = sums + weight_floats(k) + channel;
    bias[channel] = at[0];
    for (int64_t part = 1; part < k->parts; part++)
        bias[channel] += at[part * part_floats(k)];
}

static yk_status run_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const line_weight *k = (const line_weight *)kernel;
    const int64_t biases = k->bias ? k->lines.y.channels : 0;
    char *threads = (char *)run->scratch + k->parts * part_floats(k) * (int64_t)sizeof(float);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < k->parts * k->ranges; unit++)
            sum_unit(k, run, unit, threads + omp_get_thread_num() * own_bytes(k));
#pragma omp for schedule(dynamic) nowait
        for (int64_t pair = 0; pair < reads(k) * k->lines.y.groups; pair++)
            write_pair(k, run->scratch, pair, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
#pragma omp for nowait
        for (int64_t channel = 0; channel < biases; channel++)
            write_bias(k, run->scratch, channel, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS]);
    }
    return YK_OK;
}

static void plan(line_weight *k)
{
    const int64_t bytes = part_floats(k) * (int64_t)sizeof(float), tile = YKI_AMX_TILE_PIXELS;
    k->ranges = 1;
    while (bytes / k->ranges > RANGE_BYTES && k->ranges * 2 <= k->lines.y.groups &&
           k->ranges < UNITS)
        k->ranges *= 2;
    k->stretch = STRETCH_BYTES /
                 ((k->lines.read * x_groups(k) + range_groups(k)) * YKI_AMX_PIXEL_BYTES) / tile *
                 tile;
    const int64_t most = k->lines.taps > 1 ? STRETCH_TAPS : STRETCH;
    k->stretch = k->stretch > most ? most : k->stretch < LEAST_STRETCH ? LEAST_STRETCH : k->stretch;
    k->left = (k->stretch + 2 * k->lines.reach + tile - 1) / tile * tile;
    k->parts = UNITS / k->ranges < stretches(k) ? UNITS / k->ranges : stretches(k);
    k->base.scratch = (size_t)(k->parts * bytes + k->team * own_bytes(k));
    k->base.matrix_unit = true;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_conv_amx_line_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                      &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                                      &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static bool gains(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_amx_line_gains(desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                   &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    line_weight *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->lines = yki_amx_lines_of(desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                                &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    k->kernels = yki_amx_kernels_of(&desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                    &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    k->bias = yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS);
    k->team = device->threads;
    plan(k);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_amx_line = {.op =
                                                                     &yki_op_conv2d_backward_weight,
                                                                 .name = "amx_line",
                                                                 .supports = supports,
                                                                 .gains = gains,
                                                                 .prepare = prepare,
                                                                 .run = run_weight};
