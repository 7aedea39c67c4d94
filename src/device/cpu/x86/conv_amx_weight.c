/*
 * The gradient of the weights of a convolution of bf16 activations, on AMX: the sum, over images
 * and pixels, of the products of x and dy. A product's inner dimension is 32 images of one pixel.
 *
 * The work is divided into parts of the images and ranges of the output channels. Small gradients
 * have many parts, whose sums are added in order at the end; large ones have many ranges, each of
 * which reads all of x. Both numbers depend on the shape alone, and so do the result's bits.
 */
#include "device/cpu/x86/conv_amx.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    UNITS = 8,
    RANGE_BYTES = 1 << 20, /* of the sums of a range, if there are several: they are read and
                              written for each block of images */
    STRIP_PIXELS = 64,     /* that a strip should have, to share the sums that it adds to ... */
    PIECE = 16,            /* ... and columns of a row that is longer, for all taps */
    SUMS = YKI_AMX_SIDE * YKI_AMX_SIDE
};

typedef struct weight_amx {
    yki_kernel base;
    yki_amx_image x, dy;
    yki_amx_taps *down, *across; /* of each row and column of dy */
    int64_t kernel_columns, taps;
    int64_t stride, padding;
    bool three; /* a row of the kernel is three taps, next to each other */
    int64_t parts, ranges;
    int64_t strip, capacity; /* rows of dy, and of the ring */
    int team;
} weight_amx;

/* Groups of output channels. */
typedef struct range {
    int64_t begin, end;
} range;

static range range_of(const weight_amx *k, int64_t index)
{
    return (range){k->dy.groups * index / k->ranges, k->dy.groups * (index + 1) / k->ranges};
}

static int64_t part_floats(const weight_amx *k)
{
    return k->dy.groups * k->x.groups * k->taps * SUMS;
}

static int64_t strip_row_bytes(const weight_amx *k)
{
    return k->dy.columns * YKI_AMX_PIXEL;
}

/* A thread's memory: the ring of x, and a strip of a range of dy. */
static int64_t own_bytes(const weight_amx *k)
{
    yki_amx_ring ring = yki_amx_ring_of(&k->x, k->capacity, NULL);
    int64_t groups = (k->dy.groups + k->ranges - 1) / k->ranges;
    return yki_amx_ring_bytes(&ring, &k->x) + groups * k->strip * strip_row_bytes(k);
}

/* A strip of a block, with its bricks. */
typedef struct strip_bricks {
    const yki_amx_ring *x;
    const char *dy; /* of this group, by row */
    int64_t group;  /* of x */
    int64_t begin, end;
} strip_bricks;

/* The columns [begin, end) of dy from which tap t of a row reaches x, and where the first one
 * reads. */
static bool find_columns(const weight_amx *k, int64_t tap, int64_t *begin, int64_t *end,
                         int64_t *at)
{
    int64_t first = -1, last = -1;
    for (int64_t c = *begin; c < *end; c++)
        for (int t = 0; t < k->across[c].count; t++)
            if (k->across[c].of[t].tap == tap) {
                if (first < 0) {
                    first = c;
                    *at = k->across[c].of[t].at;
                }
                last = c;
            }
    *begin = first;
    *end = last + 1;
    return first >= 0;
}

/* Adds the products of one tap (down, across) in columns [begin, end) of a strip. */
static void add_tap_products(const weight_amx *k, const strip_bricks *s, int64_t down,
                             int64_t across, range columns, float *sums)
{
    yki_amx_span spans[STRIP_PIXELS];
    int count = 0;
    int64_t at = 0;
    if (!find_columns(k, across, &columns.begin, &columns.end, &at))
        return;
    for (int64_t row = s->begin; row < s->end; row++)
        for (int t = 0; t < k->down[row].count; t++)
            if (k->down[row].of[t].tap == down * k->kernel_columns)
                spans[count++] =
                    (yki_amx_span){.x = yki_amx_ring_row(s->x, s->group, k->down[row].of[t].at) +
                                        at * YKI_AMX_PIXEL,
                                   .dy = s->dy + (row - s->begin) * strip_row_bytes(k) +
                                         columns.begin * YKI_AMX_PIXEL,
                                   .x_step = k->stride * YKI_AMX_PIXEL,
                                   .count = columns.end - columns.begin};
    if (count > 0)
        yki_amx_multiply_weight(spans, count, sums + (down * k->kernel_columns + across) * SUMS);
}

/* Adds the products of a kernel's row of three taps in columns [begin, end) of a strip. */
static void add_row_products(const weight_amx *k, const strip_bricks *s, int64_t down,
                             range columns, float *sums)
{
    yki_amx_three rows[STRIP_PIXELS];
    int count = 0;
    for (int64_t row = s->begin; row < s->end; row++)
        for (int t = 0; t < k->down[row].count; t++)
            if (k->down[row].of[t].tap == down * k->kernel_columns)
                rows[count++] =
                    (yki_amx_three){.x = yki_amx_ring_row(s->x, s->group, k->down[row].of[t].at),
                                    .dy = s->dy + (row - s->begin) * strip_row_bytes(k) +
                                          columns.begin * YKI_AMX_PIXEL,
                                    .first = columns.begin * k->stride - k->padding,
                                    .columns = k->x.columns,
                                    .count = columns.end - columns.begin};
    if (count > 0)
        yki_amx_multiply_three(rows, count, k->stride, sums + down * k->kernel_columns * SUMS);
}

/* All taps of a pair of groups, for a strip. */
static void add_strip(const weight_amx *k, const strip_bricks *s, float *sums)
{
    int64_t piece = s->end - s->begin > 1 ? k->dy.columns : PIECE;
    for (int64_t c = 0; c < k->dy.columns; c += piece) {
        range columns = {c, c + piece < k->dy.columns ? c + piece : k->dy.columns};
        for (int64_t row = 0; k->three && row < k->taps / k->kernel_columns; row++)
            add_row_products(k, s, row, columns, sums);
        for (int64_t t = 0; !k->three && t < k->taps; t++)
            add_tap_products(k, s, t / k->kernel_columns, t % k->kernel_columns, columns, sums);
    }
}

static void add_block(const weight_amx *k, const yki_kernel_args *run, yki_amx_block block,
                      range groups, float *sums, char *own)
{
    yki_amx_ring ring = yki_amx_ring_of(&k->x, k->capacity, own);
    char *dy = own + yki_amx_ring_bytes(&ring, &k->x);
    for (int64_t begin = 0; begin < k->dy.rows; begin += k->strip) {
        int64_t end = begin + k->strip < k->dy.rows ? begin + k->strip : k->dy.rows;
        yki_amx_ring_read(&ring, yki_amx_rows_of(k->down, begin, end), &k->x,
                          run->in[YKI_CONV2D_BACKWARD_WEIGHT_X], block, yki_amx_read_left);
        for (int64_t g = groups.begin; g < groups.end; g++)
            for (int64_t row = begin; row < end; row++) {
                yki_amx_row from =
                    yki_amx_row_at(&k->dy, run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY], block, g, row);
                yki_amx_read_right(&from, dy + ((g - groups.begin) * k->strip + row - begin) *
                                                   strip_row_bytes(k));
            }
        for (int64_t in = 0; in < k->x.groups; in++)
            for (int64_t g = groups.begin; g < groups.end; g++) {
                strip_bricks strip = {.x = &ring,
                                      .dy = dy + (g - groups.begin) * k->strip * strip_row_bytes(k),
                                      .group = in,
                                      .begin = begin,
                                      .end = end};
                add_strip(k, &strip, sums + (g * k->x.groups + in) * k->taps * SUMS);
            }
    }
}

/* The sums of a part of the images, for a range of the output channels. */
static void sum_unit(const weight_amx *k, const yki_kernel_args *run, int64_t unit, char *own)
{
    const int64_t part = unit / k->ranges, blocks = yki_amx_blocks(k->x.images);
    const range groups = range_of(k, unit % k->ranges);
    float *sums = (float *)run->scratch + part * part_floats(k);
    const int64_t row = k->x.groups * k->taps * SUMS;
    memset(sums + groups.begin * row, 0,
           (size_t)((groups.end - groups.begin) * row) * sizeof *sums);
    yki_amx_begin(YKI_AMX_SIDE);
    for (int64_t b = blocks * part / k->parts; b < blocks * (part + 1) / k->parts; b++)
        add_block(k, run, yki_amx_block_of(k->x.images, b), groups, sums, own);
    yki_amx_end();
}

/* Adds the parts' sums of a pair of groups, and writes their gradient. */
static void write_pair(const weight_amx *k, const float *sums, int64_t pair, float *weight)
{
    const yki_amx_kernels kernels = {
        .ins = k->x.channels, .outs = k->dy.channels, .width = k->x.channels, .taps = k->taps};
    yki_amx_weights gradient =
        yki_amx_weights_at(&kernels, weight, pair % k->x.groups, pair / k->x.groups);
    yki_amx_write_weights(sums + pair * k->taps * SUMS, k->parts, part_floats(k), &gradient);
}

static yk_status run_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const weight_amx *k = (const weight_amx *)kernel;
    char *threads = (char *)run->scratch + k->parts * part_floats(k) * (int64_t)sizeof(float);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < k->parts * k->ranges; unit++)
            sum_unit(k, run, unit, threads + omp_get_thread_num() * own_bytes(k));
#pragma omp for schedule(dynamic) nowait
        for (int64_t pair = 0; pair < k->x.groups * k->dy.groups; pair++)
            write_pair(k, run->scratch, pair, run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
    }
    return YK_OK;
}

static void destroy(yki_kernel *kernel)
{
    weight_amx *k = (weight_amx *)kernel;
    free(k->down);
    free(k->across);
    free(k);
}

static void plan(weight_amx *k)
{
    const int64_t blocks = yki_amx_blocks(k->x.images);
    const int64_t bytes = part_floats(k) * (int64_t)sizeof(float);
    k->ranges = 1;
    while (bytes / k->ranges > RANGE_BYTES && k->ranges < k->dy.groups && k->ranges < UNITS)
        k->ranges *= 2;
    if (k->ranges > k->dy.groups)
        k->ranges = k->dy.groups;
    k->parts = UNITS / k->ranges > 1 ? UNITS / k->ranges : 1;
    k->parts = k->parts < blocks ? k->parts : blocks;
    k->strip = 1;
    while (k->strip < k->dy.rows && k->strip < STRIP_PIXELS &&
           k->strip * k->dy.columns < STRIP_PIXELS)
        k->strip++;
    k->capacity = yki_amx_most_rows(k->down, k->dy.rows, k->strip);
    k->base.scratch = (size_t)(k->parts * bytes + k->team * own_bytes(k));
    k->base.matrix_unit = true;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           yki_conv_amx_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                                 &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                                 &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT]);
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const int64_t *weight = desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT].dims;
    weight_amx *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->x = yki_amx_image_of(&desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X]);
    k->dy = yki_amx_image_of(&desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
    k->kernel_columns = weight[3];
    k->taps = weight[2] * weight[3];
    k->stride = desc->attrs->stride[0];
    k->padding = desc->attrs->padding[0];
    k->three = k->kernel_columns == 3 && desc->attrs->dilation[0] == 1;
    k->team = device->threads;
    k->down = yki_amx_taps_forward(desc->attrs, weight[2], k->x.rows, k->dy.rows, (int)weight[3]);
    k->across = yki_amx_taps_forward(desc->attrs, weight[3], k->x.columns, k->dy.columns, 1);
    if (!k->down || !k->across) {
        destroy(&k->base);
        return yki_error_memory((size_t)(k->dy.rows + k->dy.columns) * sizeof *k->down,
                                "a convolution's taps");
    }
    plan(k);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_amx = {.op = &yki_op_conv2d_backward_weight,
                                                            .name = "amx",
                                                            .supports = supports,
                                                            .prepare = prepare,
                                                            .run = run_weight,
                                                            .destroy = destroy};
