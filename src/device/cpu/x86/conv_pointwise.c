/*
 * 1x1 convolutions with stride 1 in f32, forward and both gradients, on AVX-512: products of
 * matrices, pixels by channels, whose activations are read and written where they lie
 * (pointwise.h).
 *
 * Forward and the gradient of x differ only in how the weights are packed: for groups of up to 64
 * results, one row for each channel that is summed over. The weights that are used at a time fit
 * the first-level cache, and the pixels of a span fit the second-level cache.
 *
 * The gradient of the weights is a sum over pixels. It is cut into tiles. Where these are few, the
 * pixels are cut into parts, whose sums are added in order.
 *
 * Threads take units from a shared counter. Units depend on the shape alone, so the result has the
 * same bits with any number of threads.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/pointwise.h"

enum {
    LANES = YKI_POINTWISE_LANES,
    VECTORS = YKI_POINTWISE_VECTORS,
    SIDE = VECTORS * LANES,
    GRADIENT_VECTORS = YKI_POINTWISE_GRADIENT_VECTORS,
    WEIGHTS = 8 << 10,       /* that are multiplied at a time: 32 KiB */
    LEAST_PIXELS = 16,       /* of an image: they are contiguous */
    LEAST_SUMMED_PIXELS = 4, /* likewise for the weights' gradient */
    LEAST_FLOATS = 1 << 20,  /* of x and y: fewer stay in the caches, and oneDNN is as fast */
    LEAST_STREAMED = 64,     /* channels that are summed: with fewer, memory is the limit, and the
                                next kernel should find the results in the third-level cache */
    SPAN_PIXELS = 256,       /* of a span for forward and the gradient of x */
    SPAN_FLOATS = 256 << 10, /* that it reads at most: half of a second-level cache of 2 MiB */
    GRADIENT_PIXELS = 160,   /* multiplied at a time: 30 KiB of x, most of a first-level cache */
    TILE = 256,              /* channels on each side of a tile of the weights' gradient, at most */
    SMALL_TILE_ROWS = 96,    /* likewise where activations stay in the caches: the sums of a tile */
    SMALL_TILE_COLUMNS = 48, /* are near, and tiles are enough for all threads without parts */
    UNITS = 16               /* wanted, so that threads share the work evenly */
};

/* Pixels of all images, cut into spans: several whole images each, or pieces of one. */
typedef struct spans {
    int64_t images, pixels; /* all images, and the pixels of one */
    int64_t groups, pieces; /* of the images, and of an image: one of the two is not cut */
    int64_t count;
} spans;

typedef struct span {
    int64_t image, images, pixel, pixels; /* the first of each, and how many */
} span;

typedef struct pointwise {
    yki_kernel base;
    spans spans;
    int64_t in, out;     /* channels that are read and written; those of x and dy for weights */
    int64_t row, column; /* of the weights: from one input, and from one output, to the next */
    /* A unit of work is a part of the spans, and of the columns of results or a tile. */
    int64_t parts, column_parts, row_parts;
    int64_t unit_floats; /* of scratch memory for each thread or unit */
    int team;
    bool stream;
} pointwise;

/* ---- pixels and channels --------------------------------------------------------------------- */

/* Where the i-th of `parts` nearly equal parts of `count` begins. */
static int64_t part_begin(int64_t count, int64_t parts, int64_t i)
{
    return count * i / parts;
}

static int64_t parts_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static spans cut(const yki_operand *x, int64_t wanted)
{
    spans s = {.images = x->dims[0], .pixels = x->dims[2] * x->dims[3], .pieces = 1};
    if (s.pixels > wanted)
        s.pieces = parts_of(s.pixels, wanted);
    int64_t together = s.pixels < wanted ? wanted / s.pixels : 1;
    s.groups = parts_of(s.images, together);
    while (s.groups < UNITS && UNITS % s.groups != 0 && s.groups < s.images)
        s.groups++; /* so that all threads get equal shares */
    s.count = s.groups * s.pieces;
    return s;
}

static span span_at(const spans *s, int64_t index)
{
    int64_t group = index / s->pieces, piece = index % s->pieces;
    int64_t image = part_begin(s->images, s->groups, group);
    int64_t pixel = part_begin(s->pixels, s->pieces, piece);
    return (span){.image = image,
                  .images = part_begin(s->images, s->groups, group + 1) - image,
                  .pixel = pixel,
                  .pixels = part_begin(s->pixels, s->pieces, piece + 1) - pixel};
}

/* Floats of an image. */
static int64_t image_floats(const spans *s, int64_t channels)
{
    return yki_pointwise_vectors(channels) * LANES * s->pixels;
}

/* Where a span begins in an activation, in floats. */
static int64_t offset_of(const spans *all, const span *s, int64_t channels)
{
    return s->image * image_floats(all, channels) + s->pixel * LANES;
}

/* ---- preparation ----------------------------------------------------------------------------- */

static bool pointwise_supports(const yki_device *device, const yki_attrs *attrs,
                               const yki_operand *x, const yki_operand *y,
                               const yki_operand *weight, int64_t least_pixels)
{
    return device->block == LANES && x->dtype == YK_F32 && y->dtype == YK_F32 &&
           x->layout == YKI_BLOCKED && y->layout == YKI_BLOCKED && weight->dims[2] == 1 &&
           weight->dims[3] == 1 && yki_is_square(attrs) && attrs->stride[0] == 1 &&
           attrs->padding[0] == 0 && attrs->groups == 1 && x->dims[2] * x->dims[3] >= least_pixels;
}

/* Activations that stay in the caches need not be fetched ahead. */
static bool is_large(const yki_operand *a, const yki_operand *b)
{
    return yki_operand_count(a) + yki_operand_count(b) >= LEAST_FLOATS;
}

static pointwise *pointwise_create(const yki_device *device, const yki_operand *in,
                                   const yki_operand *out)
{
    pointwise *k = yki_calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->in = in->dims[1];
    k->out = out->dims[1];
    k->team = device->threads;
    return k;
}

/* ---- forward and gradient of x: in, weights -> out ------------------------------------------- */

static yk_status prepare_product(const yki_device *device, const yki_operand *in,
                                 const yki_operand *out, bool forward, yki_kernel **kernel)
{
    pointwise *k = pointwise_create(device, in, out);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    int64_t fitting = SPAN_FLOATS / k->in + 1, groups = yki_pointwise_groups(k->out, VECTORS);
    k->spans = cut(in, fitting < SPAN_PIXELS ? fitting : SPAN_PIXELS);
    k->parts = k->spans.count < UNITS ? k->spans.count : UNITS;
    k->column_parts = parts_of(UNITS, k->parts);
    k->column_parts = k->column_parts < groups ? k->column_parts : groups;
    k->row = forward ? 1 : k->out;
    k->column = forward ? k->in : 1;
    k->stream = k->in >= LEAST_STREAMED && yki_streams(device, out);
    k->base.pack_input = 1;
    k->base.pack_bytes = (size_t)(k->in * yki_pointwise_vectors(k->out) * LANES) * sizeof(float);
    k->unit_floats = parts_of(k->spans.images, k->spans.groups) *
                     parts_of(k->spans.pixels, k->spans.pieces) * SIDE;
    k->base.scratch = (size_t)(k->team * k->unit_floats) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

/* Only what is read can be prefetched: where more is written, oneDNN is as fast or faster, unless
 * it also multiplies the zeros that fill the last vector of the inputs. The activations of both
 * products are input 0 and output 0. */
static bool product_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *in = &desc->in[0], *out = &desc->out[0];
    bool fills_vectors = in->dims[1] % LANES == 0;
    return (in->dims[1] >= out->dims[1] || !fills_vectors) && is_large(in, out);
}

/* Packs weights by groups of columns, and within a group by inputs. */
static yk_status pointwise_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                                yki_stream *stream)
{
    (void)stream;
    const pointwise *k = (const pointwise *)kernel;
    const int64_t groups = yki_pointwise_groups(k->out, VECTORS);
#pragma omp parallel for schedule(dynamic) num_threads(k->team) if (k->team > 1)
    for (int64_t group = 0; group < groups; group++) {
        yki_pointwise_columns c = yki_pointwise_group(k->out, VECTORS, group);
        int64_t left = k->out - c.first;
        yki_pointwise_pack(
            &(yki_pointwise_weights){.weight = (const float *)parameter + c.first * k->column,
                                     .row = k->row,
                                     .column = k->column,
                                     .rows = k->in,
                                     .columns = (int)(left < SIDE ? left : SIDE),
                                     .vectors = c.vectors},
            (float *)packed + c.first * k->in);
    }
    return YK_OK;
}

static bool pointwise_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const pointwise *a = (const pointwise *)kernel, *b = (const pointwise *)other;
    return a->in == b->in && a->out == b->out && a->row == b->row && a->column == b->column;
}

/* Computes the results of a span in one group of columns. The next span is `ahead` floats after
 * this one. */
static void multiply_span(const pointwise *k, const yki_kernel_args *run, const span *s,
                          int64_t ahead, int64_t group, const float *start, float *sums)
{
    const spans *all = &k->spans;
    const yki_pointwise_columns c = yki_pointwise_group(k->out, VECTORS, group);
    const int64_t width = c.vectors * LANES, left = k->out - c.first;
    const float *weights = (const float *)run->in[1] + c.first * k->in;
    const float *in = (const float *)run->in[0] + offset_of(all, s, k->in);
    float *out = (float *)run->out[0] + offset_of(all, s, k->out) + c.first * all->pixels;
    yki_pointwise_product p = {.x_block = all->pixels * LANES,
                               .y_block = all->pixels * LANES,
                               .y_step = LANES,
                               .ahead = ahead,
                               .pixels = s->pixels,
                               .vectors = c.vectors,
                               .half = yki_pointwise_half(left < width ? left : width),
                               .stream = k->stream && (uintptr_t)out % YKI_ALIGNMENT == 0};
    const int64_t depth = WEIGHTS / width / LANES * LANES;
    for (int64_t channel = 0; channel < k->in; channel += depth) {
        bool last = channel + depth >= k->in;
        p.depth = last ? k->in - channel : depth;
        p.weights = weights + channel * width;
        p.next = p.weights + p.depth * width;
        p.start = channel == 0 ? start : NULL;
        for (int64_t i = 0; i < s->images; i++) {
            p.x = in + i * image_floats(all, k->in) + channel * all->pixels;
            p.y = last ? out + i * image_floats(all, k->out) : NULL;
            p.sums = sums + i * s->pixels * width;
            yki_pointwise_multiply(&p);
        }
    }
}

static void multiply_unit(const pointwise *k, const yki_kernel_args *run, int64_t unit,
                          const float *bias, float *sums)
{
    const int64_t part = unit % k->parts, column_part = unit / k->parts;
    const int64_t groups = yki_pointwise_groups(k->out, VECTORS);
    const int64_t first = part_begin(groups, k->column_parts, column_part);
    const int64_t after = part_begin(groups, k->column_parts, column_part + 1);
    const int64_t end = part_begin(k->spans.count, k->parts, part + 1);
    for (int64_t i = part_begin(k->spans.count, k->parts, part); i < end; i++) {
        span s = span_at(&k->spans, i), following = span_at(&k->spans, i + 1 < end ? i + 1 : i);
        int64_t ahead = offset_of(&k->spans, &following, k->in) - offset_of(&k->spans, &s, k->in);
        for (int64_t group = first; group < after; group++) {
            float start[SIDE];
            yki_pointwise_read_bias(bias, yki_pointwise_group(k->out, VECTORS, group).first, k->out,
                                    start);
            multiply_span(k, run, &s, group == first ? ahead : 0, group, start, sums);
        }
    }
}

static void multiply_all(const pointwise *k, const yki_kernel_args *run, const float *bias)
{
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *sums = (float *)run->scratch + omp_get_thread_num() * k->unit_floats;
#pragma omp for schedule(dynamic) nowait
        for (int64_t unit = 0; unit < k->parts * k->column_parts; unit++)
            multiply_unit(k, run, unit, bias, sums);
        yki_stream_settle();
    }
}

/* ---- forward: x, weight, [bias] -> y --------------------------------------------------------- */

static bool supports_forward(const yki_device *device, const yki_kernel_desc *desc)
{
    return pointwise_supports(device, desc->attrs, &desc->in[YKI_CONV2D_X],
                              &desc->out[YKI_CONV2D_Y], &desc->in[YKI_CONV2D_WEIGHT], LEAST_PIXELS);
}

static yk_status prepare_forward(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    return prepare_product(device, &desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y], true, kernel);
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    multiply_all((const pointwise *)kernel, run, run->in[YKI_CONV2D_BIAS]);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_pointwise = {.op = &yki_op_conv2d,
                                                  .name = "pointwise",
                                                  .supports = supports_forward,
                                                  .gains = product_gains,
                                                  .prepare = prepare_forward,
                                                  .run = run_forward,
                                                  .pack = pointwise_pack,
                                                  .same_pack = pointwise_same_pack};

/* ---- gradient of x: dy, weight -> dx --------------------------------------------------------- */

static bool supports_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return pointwise_supports(device, desc->attrs, &desc->out[YKI_CONV2D_BACKWARD_DATA_DX],
                              &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                              &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT], LEAST_PIXELS);
}

static yk_status prepare_data(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare_product(device, &desc->in[YKI_CONV2D_BACKWARD_DATA_DY],
                           &desc->out[YKI_CONV2D_BACKWARD_DATA_DX], false, kernel);
}

static yk_status run_data(const yki_kernel *kernel, const yki_kernel_args *run)
{
    multiply_all((const pointwise *)kernel, run, NULL);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_data_pointwise = {.op = &yki_op_conv2d_backward_data,
                                                                .name = "pointwise",
                                                                .supports = supports_data,
                                                                .gains = product_gains,
                                                                .prepare = prepare_data,
                                                                .run = run_data,
                                                                .pack = pointwise_pack,
                                                                .same_pack = pointwise_same_pack};

/* ---- gradient of the weights: x, dy -> dweight ----------------------------------------------- */

/* A part of the channels, in whole vectors. */
typedef struct channels {
    int64_t first, count;
} channels;

static channels channels_of(int64_t all, int64_t parts, int64_t part)
{
    int64_t first = part_begin(yki_pointwise_vectors(all), parts, part) * LANES;
    int64_t end = part_begin(yki_pointwise_vectors(all), parts, part + 1) * LANES;
    return (channels){.first = first, .count = (end < all ? end : all) - first};
}

/* What a unit sums: a tile of the weights' gradient, over some of the spans. */
typedef struct gradient_unit {
    channels rows, columns; /* of dy and of x */
    int64_t begin, end;     /* spans */
    float *sums;            /* (rows, columns) */
} gradient_unit;

/* Adds a span to a group of columns, and prefetches the next span. */
static void add_span(const pointwise *k, const yki_kernel_args *run, const gradient_unit *u,
                     int64_t index, const yki_pointwise_columns *c)
{
    const spans *all = &k->spans;
    const span s = span_at(all, index), next = span_at(all, index + 1 < u->end ? index + 1 : index);
    const int64_t x_at = offset_of(all, &s, k->in), dy_at = offset_of(all, &s, k->out);
    const int64_t x_ahead = offset_of(all, &next, k->in) - x_at;
    const int64_t dy_ahead = offset_of(all, &next, k->out) - dy_at;
    const float *x = run->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const float *dy = run->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    const int64_t left = u->columns.count - c->first, width = c->vectors * LANES;
    yki_pointwise_gradient g = {.x = x + x_at + (u->columns.first + c->first) * all->pixels,
                                .images = s.images,
                                .pixels = s.pixels,
                                .x_image = image_floats(all, k->in),
                                .dy_image = image_floats(all, k->out),
                                .x_block = all->pixels * LANES,
                                .row = u->columns.count,
                                .columns = (int)(left < width ? left : width),
                                .first = index == u->begin};
    for (int64_t row = 0; row < u->rows.count; row += LANES) {
        int64_t block = row / LANES < c->vectors ? row / LANES : 0;
        g.dy = dy + dy_at + (u->rows.first + row) * all->pixels;
        g.sums = u->sums + row * u->columns.count + c->first;
        g.rows = (int)(u->rows.count - row < LANES ? u->rows.count - row : LANES);
        g.next_x = g.x + x_ahead + block * g.x_block;
        g.next_dy = g.dy + dy_ahead;
        yki_pointwise_add_gradient(&g);
    }
}

static gradient_unit gradient_unit_of(const pointwise *k, int64_t unit)
{
    const int64_t part = unit % k->parts, tile = unit / k->parts;
    return (gradient_unit){
        .rows = channels_of(k->out, k->row_parts, tile / k->column_parts),
        .columns = channels_of(k->in, k->column_parts, tile % k->column_parts),
        .begin = part_begin(k->spans.count, k->parts, part),
        .end = part_begin(k->spans.count, k->parts, part + 1),
    };
}

static void sum_unit(const pointwise *k, const yki_kernel_args *run, const gradient_unit *u)
{
    const int64_t groups = yki_pointwise_groups(u->columns.count, GRADIENT_VECTORS);
    for (int64_t i = u->begin; i < u->end; i++)
        for (int64_t group = 0; group < groups; group++) {
            yki_pointwise_columns c =
                yki_pointwise_group(u->columns.count, GRADIENT_VECTORS, group);
            add_span(k, run, u, i, &c);
        }
}

YKI_VECTOR_CLONES
static void add_row(float *restrict to, const float *restrict sums, int64_t count, bool first)
{
    if (first) {
        memcpy(to, sums, (size_t)count * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] += sums[i];
}

/* Writes the rows [begin, end) of a tile: the sums of its parts, which follow each other. */
static void write_tile(const pointwise *k, const gradient_unit *u, int64_t begin, int64_t end,
                       float *dweight)
{
    for (int64_t row = begin; row < end; row++)
        for (int64_t part = 0; part < k->parts; part++)
            add_row(dweight + (u->rows.first + row) * k->in + u->columns.first,
                    u->sums + part * k->unit_floats + row * u->columns.count, u->columns.count,
                    part == 0);
}

/* With one part, a thread has memory for one unit; otherwise there is memory for all. */
static yk_status run_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const pointwise *k = (const pointwise *)kernel;
    const int64_t tiles = k->column_parts * k->row_parts;
    float *dweight = run->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT], *scratch = run->scratch;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t unit = 0; unit < tiles * k->parts; unit++) {
            gradient_unit u = gradient_unit_of(k, unit);
            u.sums = scratch + (k->parts == 1 ? omp_get_thread_num() : unit) * k->unit_floats;
            sum_unit(k, run, &u);
            if (k->parts == 1)
                write_tile(k, &u, 0, u.rows.count, dweight);
        }
#pragma omp for schedule(dynamic) nowait
        for (int64_t slice = 0; slice < (k->parts == 1 ? 0 : tiles * LANES); slice++) {
            gradient_unit u = gradient_unit_of(k, slice / LANES * k->parts);
            u.sums = scratch + slice / LANES * k->parts * k->unit_floats;
            write_tile(k, &u, part_begin(u.rows.count, LANES, slice % LANES),
                       part_begin(u.rows.count, LANES, slice % LANES + 1), dweight);
        }
    }
    return YK_OK;
}

static bool supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return !yki_has_out(desc, YKI_CONV2D_BACKWARD_WEIGHT_DBIAS) &&
           pointwise_supports(device, desc->attrs, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X],
                              &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY],
                              &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT], LEAST_SUMMED_PIXELS);
}

/* On images of few pixels, Zen 4 needs 0.85 to 0.98 of oneDNN's time; other processors have not
 * been measured there. */
static bool weight_gains(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    const yki_operand *dy = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY];
    bool few_pixels = x->dims[2] * x->dims[3] < LEAST_PIXELS;
    return is_large(x, dy) || (few_pixels && ((const yki_cpu_device *)device)->native_bf16);
}

static yk_status prepare_weight(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_X];
    pointwise *k = pointwise_create(device, x, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    bool large = is_large(x, &desc->in[YKI_CONV2D_BACKWARD_WEIGHT_DY]);
    k->spans = cut(x, GRADIENT_PIXELS);
    k->column_parts = parts_of(k->in, large ? TILE : SMALL_TILE_COLUMNS);
    k->row_parts = parts_of(k->out, large ? TILE : SMALL_TILE_ROWS);
    int64_t tiles = k->column_parts * k->row_parts;
    k->parts = parts_of(UNITS, tiles);
    k->parts = k->parts < k->spans.count ? k->parts : k->spans.count;
    k->unit_floats = parts_of(yki_pointwise_vectors(k->in), k->column_parts) * LANES *
                     parts_of(yki_pointwise_vectors(k->out), k->row_parts) * LANES;
    int64_t memories = k->parts == 1 ? k->team : tiles * k->parts;
    k->base.scratch = (size_t)(memories * k->unit_floats) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

const yki_kernel_impl yki_cpu_conv2d_backward_weight_pointwise = {
    .op = &yki_op_conv2d_backward_weight,
    .name = "pointwise",
    .supports = supports_weight,
    .gains = weight_gains,
    .prepare = prepare_weight,
    .run = run_weight};
