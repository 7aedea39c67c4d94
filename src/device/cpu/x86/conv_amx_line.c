/*
 * Convolutions of bf16 activations on AMX, forward and the gradient of x: see conv_amx_line.h. Rows
 * of a product are pixels, and its inner dimension is 32 input channels.
 *
 * A unit of work is a stretch of the line and a range of the output channels. The input's channels
 * are copied next to each other, with what the taps reach beyond the stretch. Then, for 32 output
 * channels at a time, the sums of all pixels of the stretch are computed and written. As many input
 * channels are added at a time as have weights that fit the first-level cache. They are added in
 * order, so the bits of a result do not depend on the number of threads.
 *
 * Groups of up to 32 channels are merged into groups of 32, with zeros for the weights between
 * channels of different groups.
 */
#include "device/cpu/x86/conv_amx_line.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/onednn.h"

enum {
    MANY_IMAGES = 32,   /* enough to fill the tiles of conv_amx.c */
    LEAST_WIDTH = 8,    /* narrower groups are faster in conv/narrow.c */
    STRETCH = 128,      /* pixels of a unit of work: their sums fit the first-level cache */
    STRETCH_TAPS = 256, /* the same with several taps, and more if taps reach far */
    LEAST_STRETCH = 64,
    IN_BYTES = 512 << 10,   /* the input of a unit should not exceed this */
    WEIGHT_TAPS = 12,       /* taps times input groups whose weights are used at a time */
    STREAM_BYTES = 8 << 20, /* outputs from this size on are written past the caches */
    THREAD_UNITS = 8,       /* wanted for each thread */
    PAD = 16                /* floats between the two halves of the sums */
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* 32 output channels must read the same 32 input channels only. A depthwise convolution would
 * multiply almost nothing but zeros, and take 1.1 to 2.3 times as long as with oneDNN. */
static bool groups_fit(const yki_attrs *attrs, const yki_operand *x, const yki_operand *weight)
{
    const int64_t width = weight->dims[1];
    return attrs->groups == 1 ||
           (weight->dims[0] == x->dims[1] && width > 1 && YKI_AMX_SIDE % width == 0);
}

bool yki_conv_amx_line_supports(const yki_device *device, const yki_attrs *attrs,
                                const yki_operand *x, const yki_operand *y,
                                const yki_operand *weight)
{
    const int64_t *size = weight->dims + 2;
    if (!((const yki_cpu_device *)device)->has_amx || device->block != YKI_AMX_LANES ||
        !groups_fit(attrs, x, weight) || x->dtype != YK_BF16 || y->dtype != YK_BF16 ||
        x->layout != YKI_BLOCKED || y->layout != YKI_BLOCKED || !yki_is_square(attrs))
        return false;
    if (size[0] == 1 && size[1] == 1 && attrs->padding[0] == 0)
        return true;
    if (attrs->stride[0] == 2)
        return size[0] == 3 && size[1] == 3 && attrs->padding[0] == 1 && attrs->dilation[0] == 1;
    return attrs->stride[0] == 1 && size[0] <= YKI_AMX_MOST_TAPS && size[1] <= YKI_AMX_MOST_TAPS &&
           attrs->dilation[0] * (size[0] - 1) == 2 * attrs->padding[0] &&
           attrs->dilation[0] * (size[1] - 1) == 2 * attrs->padding[0];
}

bool yki_conv_amx_line_gains(const yki_attrs *attrs, const yki_operand *x,
                             const yki_operand *weight)
{
    const int64_t *size = weight->dims + 2;
    const bool three = size[0] == 3 && size[1] == 3;
    if (attrs->groups > 1)
        return weight->dims[1] >= LEAST_WIDTH || !three || attrs->stride[0] > 1 ||
               attrs->dilation[0] > 1;
    return x->dims[0] < MANY_IMAGES || (size[0] == 1 && size[1] == 1 && attrs->padding[0] == 0);
}

/* The line of every stride-th pixel in both directions, for an output of (rows, columns). */
static yki_amx_line line_of(const yki_operand *activation, const int64_t *out, int64_t stride,
                            int64_t padding)
{
    const int64_t *dims = activation->dims, blocks = (dims[1] + YKI_AMX_LANES - 1) / YKI_AMX_LANES;
    const int64_t block_step = dims[2] * dims[3] * YKI_AMX_LANES, row = out[1] + padding;
    return (yki_amx_line){.images = dims[0],
                          .channels = dims[1],
                          .blocks = blocks,
                          .groups = (blocks + 1) / 2,
                          .rows = (dims[2] + stride - 1) / stride,
                          .columns = (dims[3] + stride - 1) / stride,
                          .image_step = blocks * block_step,
                          .row_step = stride * dims[3] * YKI_AMX_LANES,
                          .step = stride * YKI_AMX_LANES,
                          .block_step = block_step,
                          .line_row = row,
                          .line_image = (out[0] + padding) * row};
}

/* Adds the plane of odd rows (down), of odd columns (across), or of both. */
static void make_plane(yki_amx_lines *lines, const int64_t *size, int64_t down, int64_t across)
{
    yki_amx_line plane = lines->x[0];
    plane.first = (down * size[1] + across) * YKI_AMX_LANES;
    plane.rows = (size[0] - down + 1) / 2;
    plane.columns = (size[1] - across + 1) / 2;
    lines->x[2 * down + across] = plane;
}

/* Makes an image one row, where there are no gaps between rows. */
static void join_rows(yki_amx_line *line)
{
    line->columns = line->line_row = line->line_image;
    line->rows = 1;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

yki_amx_lines yki_amx_lines_of(const yki_attrs *attrs, const yki_operand *x, const yki_operand *y,
                               const yki_operand *weight)
{
    const int64_t stride = attrs->stride[0], padding = attrs->padding[0], *size = weight->dims + 2;
    yki_amx_lines lines = {.x = {line_of(x, y->dims + 2, stride, padding)},
                           .y = line_of(y, y->dims + 2, 1, padding),
                           .planes = stride == 2 ? YKI_AMX_LINE_PLANES : 1,
                           .taps = size[0] * size[1]};
    for (int q = 1; q < lines.planes; q++)
        make_plane(&lines, x->dims + 2, q / 2, q % 2);
    for (int64_t t = 0; t < lines.taps; t++) {
        int64_t down = t / size[1] * attrs->dilation[0] - padding;
        int64_t across = t % size[1] * attrs->dilation[0] - padding;
        int64_t row = floor_divide(down, stride), column = floor_divide(across, stride);
        lines.shifts[t] = row * lines.y.line_row + column;
        lines.plane[t] = (int)(2 * (down - row * stride) + across - column * stride);
        lines.read = lines.plane[t] >= lines.read ? lines.plane[t] + 1 : lines.read;
    }
    lines.reach = padding * lines.y.line_row + padding;
    if (stride == 1 && padding == 0) {
        join_rows(&lines.x[0]);
        join_rows(&lines.y);
    }
    return lines;
}

int64_t yki_amx_line_pixels(const yki_amx_line *line)
{
    return line->images * line->line_image;
}

/* The run that begins at a pixel of the line: its pixels, or zeros. */
static yki_amx_run run_at(const yki_amx_line *line, int64_t pixel)
{
    if (pixel < 0)
        return (yki_amx_run){-pixel, -1};
    const int64_t image = pixel / line->line_image, within = pixel % line->line_image;
    const int64_t row = within / line->line_row, column = within % line->line_row;
    if (image >= line->images)
        return (yki_amx_run){INT64_MAX, -1};
    if (row >= line->rows)
        return (yki_amx_run){line->line_image - within, -1};
    if (column >= line->columns)
        return (yki_amx_run){line->line_row - column, -1};
    return (yki_amx_run){line->columns - column, line->first + image * line->image_step +
                                                     row * line->row_step + column * line->step};
}

yki_amx_stretch yki_amx_stretch_of(const yki_amx_line *line, int64_t begin, int64_t pixels,
                                   yki_amx_run *runs)
{
    yki_amx_stretch stretch = {
        .runs = runs, .step = line->step, .pixels = pixels, .ahead = 2 * line->block_step};
    for (int64_t at = 0; at < pixels; at += runs[stretch.count++].count) {
        yki_amx_run run = run_at(line, begin + at);
        run.count = run.count < pixels - at ? run.count : pixels - at;
        runs[stretch.count] = run;
    }
    return stretch;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* The taps that contribute to one plane of the output. */
typedef struct plane_taps {
    int64_t count;
    int64_t shifts[YKI_AMX_LINE_TAPS]; /* in bytes, from the beginning of the input's stretch */
    int64_t bricks[YKI_AMX_LINE_TAPS]; /* in bytes, from the weights of a group of inputs */
} plane_taps;

typedef struct line_conv {
    yki_kernel base;
    yki_amx_lines lines;
    yki_amx_kernels kernels;
    const yki_amx_line *in, *out; /* of each plane */
    int in_planes, out_planes;
    plane_taps taps[YKI_AMX_LINE_PLANES]; /* of each plane of the output */
    int64_t stretch, reach;               /* pixels of a unit, and of its input beyond each end */
    int64_t reads;                        /* groups of input channels, for 32 outputs */
    int64_t ranges;                       /* of the output channels */
    bool bias, backward;
    bool streams; /* the output is too large for the caches */
    int team;
} line_conv;

/* A thread's memory. */
typedef struct own_memory {
    char *in;
    float *sums;
    yki_amx_run *in_runs, *out_runs;
} own_memory;

static int64_t in_pixels(const line_conv *k)
{
    return k->stretch + 2 * k->reach;
}

static int64_t group_step(const line_conv *k)
{
    return in_pixels(k) * YKI_AMX_PIXEL_BYTES + YKI_AMX_PIXEL_BYTES;
}

/* The bytes of an input plane. */
static int64_t plane_bytes(const line_conv *k)
{
    return k->in->groups * group_step(k);
}

static int64_t half_floats(const line_conv *k)
{
    return k->stretch * YKI_AMX_LANES + PAD;
}

static int64_t own_bytes(const line_conv *k)
{
    int64_t runs = (k->stretch + in_pixels(k)) * (int64_t)sizeof(yki_amx_run);
    return k->in_planes * plane_bytes(k) + 2 * half_floats(k) * (int64_t)sizeof(float) +
           (runs + YKI_ALIGNMENT - 1) / YKI_ALIGNMENT * YKI_ALIGNMENT;
}

static own_memory own_of(const line_conv *k, void *memory)
{
    own_memory own = {.in = memory};
    own.sums = (float *)(void *)(own.in + k->in_planes * plane_bytes(k));
    own.in_runs = (yki_amx_run *)(void *)(own.sums + 2 * half_floats(k));
    own.out_runs = own.in_runs + in_pixels(k);
    return own;
}

/* Groups of channels. */
typedef struct range {
    int64_t begin, end;
} range;

static range range_of(const line_conv *k, int64_t index)
{
    const int64_t groups = k->out->groups;
    return (range){groups * index / k->ranges, groups * (index + 1) / k->ranges};
}

/* The groups of inputs that a range of the outputs reads. */
static range inputs_of(const line_conv *k, range outputs)
{
    return yki_amx_diagonal(&k->kernels) ? outputs : (range){0, k->in->groups};
}

static void read_input(const line_conv *k, const void *data, int64_t begin, range groups,
                       const own_memory *own)
{
    for (int plane = 0; plane < k->in_planes; plane++) {
        const yki_amx_line *line = &k->in[plane];
        yki_amx_stretch stretch =
            yki_amx_stretch_of(line, begin - k->reach, in_pixels(k), own->in_runs);
        for (int64_t g = groups.begin; g < groups.end; g++)
            yki_amx_line_read(&stretch, yki_amx_line_block(line, data, 2 * g),
                              yki_amx_line_block(line, data, 2 * g + 1),
                              own->in + plane * plane_bytes(k) + g * group_step(k));
    }
}

/* Computes the sums of one output plane for a group of output channels. */
static void sum_group(const line_conv *k, const plane_taps *taps, const char *packed, int64_t group,
                      const own_memory *own, int64_t pixels)
{
    const int64_t step = k->lines.taps * YKI_AMX_BRICK;
    const int64_t most = WEIGHT_TAPS / (taps->count > 0 ? taps->count : 1);
    const int64_t depth = most > 1 ? most : 1;
    const char *weight = packed + group * k->reads * step;
    const char *in = own->in + inputs_of(k, (range){group, group + 1}).begin * group_step(k);
    for (int64_t g = 0; g < k->reads; g += depth) {
        int64_t left = k->reads - g;
        yki_amx_line_sum sum = {.in = in + g * group_step(k),
                                .groups = left < depth ? left : depth,
                                .group_step = group_step(k),
                                .shifts = taps->shifts,
                                .bricks = taps->bricks,
                                .taps = taps->count,
                                .weight = weight + g * step,
                                .weight_step = step,
                                .pixels = pixels,
                                .half = half_floats(k),
                                .first = g == 0};
        yki_amx_line_multiply(&sum, own->sums);
    }
}

static void write_group(const line_conv *k, const yki_kernel_args *run, int64_t group,
                        const yki_amx_stretch *stretch, const own_memory *own)
{
    for (int64_t half = 0; half < 2; half++) {
        int64_t block = 2 * group + half, first = block * YKI_AMX_LANES;
        int64_t count = k->out->channels - first;
        uint16_t *to = yki_amx_line_block(k->out, run->out[0], block);
        float bias[YKI_AMX_LANES] = {0};
        if (!to)
            return;
        if (k->bias)
            memcpy(bias, (const float *)run->in[YKI_CONV2D_BIAS] + first,
                   (size_t)(count < YKI_AMX_LANES ? count : YKI_AMX_LANES) * sizeof *bias);
        yki_amx_line_write(stretch, own->sums + half * half_floats(k), k->bias ? bias : NULL,
                           k->streams, to);
    }
}

static void convolve_unit(const line_conv *k, const yki_kernel_args *run, int64_t unit,
                          char *memory)
{
    const own_memory own = own_of(k, memory);
    const int64_t begin = unit / k->ranges * k->stretch;
    const range groups = range_of(k, unit % k->ranges);
    const int64_t left = (yki_amx_line_pixels(k->out) - begin + YKI_AMX_TILE_PIXELS - 1) /
                         YKI_AMX_TILE_PIXELS * YKI_AMX_TILE_PIXELS;
    const int64_t pixels = left < k->stretch ? left : k->stretch;
    read_input(k, run->in[0], begin, inputs_of(k, groups), &own);
    yki_amx_line_begin();
    for (int plane = 0; plane < k->out_planes; plane++) {
        yki_amx_stretch stretch = yki_amx_stretch_of(&k->out[plane], begin, pixels, own.out_runs);
        for (int64_t g = groups.begin; g < groups.end; g++) {
            sum_group(k, &k->taps[plane], run->in[1], g, &own, pixels);
            write_group(k, run, g, &stretch, &own);
        }
    }
    yki_amx_end();
    if (k->streams)
        yki_stream_settle();
}

static int64_t stretches(const line_conv *k)
{
    return (yki_amx_line_pixels(k->out) + k->stretch - 1) / k->stretch;
}

static yk_status convolve(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const line_conv *k = (const line_conv *)kernel;
#pragma omp parallel for schedule(dynamic) num_threads(k->team) if (k->team > 1)
    for (int64_t unit = 0; unit < stretches(k) * k->ranges; unit++)
        convolve_unit(k, run, unit, (char *)run->scratch + omp_get_thread_num() * own_bytes(k));
    return YK_OK;
}

static yk_status pack(const yki_kernel *kernel, const void *parameter, void *packed,
                      yki_stream *stream)
{
    (void)stream;
    const line_conv *k = (const line_conv *)kernel;
    const yki_amx_pack how = {.kernels = k->kernels, .backward = k->backward, .team = k->team};
    yki_amx_pack_weights(&how, parameter, packed);
    return YK_OK;
}

static bool same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const line_conv *a = (const line_conv *)kernel, *b = (const line_conv *)other;
    return a->backward == b->backward && a->kernels.ins == b->kernels.ins;
}

/* In the gradient of x, every tap leads from dy to the plane that it reads in forward. */
static void plan_taps(line_conv *k)
{
    for (int64_t t = 0; t < k->lines.taps; t++) {
        const int plane = k->lines.plane[t];
        const int64_t shift = k->backward ? -k->lines.shifts[t] : k->lines.shifts[t];
        plane_taps *to = &k->taps[k->backward ? plane : 0];
        to->shifts[to->count] =
            (k->backward ? 0 : plane * plane_bytes(k)) + (k->reach + shift) * YKI_AMX_PIXEL_BYTES;
        to->bricks[to->count++] = t * YKI_AMX_BRICK;
    }
}

static void plan(line_conv *k)
{
    const int64_t tile = YKI_AMX_TILE_PIXELS;
    k->reach = k->lines.reach;
    const int64_t wanted = k->lines.taps == 1            ? STRETCH
                           : 4 * k->reach > STRETCH_TAPS ? 4 * k->reach / tile * tile
                                                         : STRETCH_TAPS;
    k->stretch = IN_BYTES / (k->in_planes * k->in->groups * YKI_AMX_PIXEL_BYTES) / tile * tile;
    k->stretch = k->stretch > wanted          ? wanted
                 : k->stretch < LEAST_STRETCH ? LEAST_STRETCH
                                              : k->stretch;
    k->ranges = 1;
    while (stretches(k) * k->ranges < (int64_t)THREAD_UNITS * k->team &&
           k->ranges * 2 <= k->out->groups)
        k->ranges *= 2;
    plan_taps(k);
    k->base.scratch = (size_t)(k->team * own_bytes(k));
    k->base.matrix_unit = true;
    k->base.pack_input = 1;
    k->base.pack_bytes = (size_t)(k->out->groups * k->reads * k->lines.taps * YKI_AMX_BRICK);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, const yki_operand *x,
                         const yki_operand *y, bool backward, yki_kernel **kernel)
{
    line_conv *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->lines = yki_amx_lines_of(desc->attrs, x, y, &desc->in[1]);
    k->kernels = yki_amx_kernels_of(x, &desc->in[1]);
    k->in = backward ? &k->lines.y : k->lines.x;
    k->out = backward ? k->lines.x : &k->lines.y;
    k->in_planes = backward ? 1 : k->lines.read;
    k->out_planes = backward ? k->lines.planes : 1;
    k->reads = yki_amx_diagonal(&k->kernels) ? 1 : k->in->groups;
    k->backward = backward;
    k->bias = !backward && yki_has_in(desc, YKI_CONV2D_BIAS);
    k->streams = yki_operand_bytes(device, backward ? x : y) >= STREAM_BYTES;
    k->team = device->threads;
    plan(k);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- forward: x, weight, [bias] -> y -------------------------------------------------------- */

static bool supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return yki_conv_amx_line_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                                      &desc->out[YKI_CONV2D_Y], &desc->in[YKI_CONV2D_WEIGHT]);
}

static bool gains_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_amx_line_gains(desc->attrs, &desc->in[YKI_CONV2D_X],
                                   &desc->in[YKI_CONV2D_WEIGHT]);
}

static yk_status prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare(device, desc, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y], false, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_amx_line = {.op = &yki_op_conv2d,
                                                 .name = "amx_line",
                                                 .supports = supports_forward,
                                                 .gains = gains_forward,
                                                 .prepare = prepare_forward,
                                                 .run = convolve,
                                                 .pack = pack,
                                                 .same_pack = same_pack};

/* ---- gradient of x: dy, weight -> dx -------------------------------------------------------- */

/* Every pixel of dx must be in a plane. */
static bool supports_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return desc->attrs->stride[0] <= 2 &&
           yki_conv_amx_line_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                      &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                                      &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static bool gains_data(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return yki_conv_amx_line_gains(desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                                   &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT]);
}

static yk_status prepare_data(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                   &desc->in[YKI_CONV2D_BACKWARD_DATA_DY], true, kernel);
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_amx_line = {.op = &yki_op_conv2d_backward_data,
                                                               .name = "amx_line",
                                                               .supports = supports_data,
                                                               .gains = gains_data,
                                                               .prepare = prepare_data,
                                                               .run = convolve,
                                                               .pack = pack,
                                                               .same_pack = same_pack};
