/*
 * Convolutions in f32 whose windows do not overlap, because their stride is their size, on AVX-512:
 * the transposed ones of U-Nets, and the gradient of x where a network divides images into patches
 * or halves them. Each tap of the filter is a product of matrices, pixels by channels, whose
 * results are every stride-th pixel of every stride-th row (pointwise.h). No result is added to
 * another.
 *
 * A unit of work is some rows of one image. Its pixels fit the second-level cache, and the weights
 * that are used at a time the first. Units depend on the shape alone, and a result is summed in
 * the same order in any of them, so it has the same bits with any number of threads.
 */
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/onednn.h"
#include "device/cpu/units.h"
#include "device/cpu/x86/pointwise.h"

enum {
    LANES = YKI_POINTWISE_LANES,
    VECTORS = YKI_POINTWISE_VECTORS,
    SIDE = VECTORS * LANES,
    WEIGHTS = 8 << 10,      /* that are multiplied at a time: 32 KiB */
    SPAN_FLOATS = 64 << 10, /* of x that a unit reads at most, but for a single row: 256 KiB */
    SPAN_PIXELS = 512,      /* of a unit, whose sums stay in the caches */
    LEAST_COLUMNS = 8       /* of x: a row's pixels are multiplied together */
};

typedef struct patches {
    yki_kernel base;
    int64_t in, out; /* channels */
    int64_t images, rows, columns;
    int64_t side;      /* of a window */
    int64_t unit_rows; /* of a unit, but for an image's last one */
    int64_t image_units;
    int64_t sums; /* floats of scratch memory for each thread */
    int bias;     /* which input it is, or -1 */
    int team;
    bool stream;
} patches;

/* ---- preparation ----------------------------------------------------------------------------- */

/* x and dy are both called in, and y and dx out. */
static bool patches_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_attrs *a = desc->attrs;
    const yki_operand *in = &desc->in[0], *weight = &desc->in[1], *out = &desc->out[0];
    return device->block == LANES && in->dtype == YK_F32 && out->dtype == YK_F32 &&
           in->layout == YKI_BLOCKED && out->layout == YKI_BLOCKED && yki_is_square(a) &&
           weight->dims[2] == weight->dims[3] && a->stride[0] == weight->dims[2] &&
           a->stride[0] > 1 && a->padding[0] == 0 && a->dilation[0] == 1 && a->groups == 1 &&
           out->dims[2] == in->dims[2] * a->stride[0] && out->dims[3] == in->dims[3] * a->stride[0];
}

/* oneDNN is as fast where rows are short, or vectors not filled. */
static bool patches_gain(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->in[0].dims[3] >= LEAST_COLUMNS && desc->out[0].dims[1] % LANES == 0;
}

static int64_t parts_of(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void divide(patches *k)
{
    int64_t most =
        least(SPAN_FLOATS / (yki_pointwise_vectors(k->in) * LANES), SPAN_PIXELS) / k->columns;
    k->unit_rows = most < 1 ? 1 : least(most, k->rows);
    k->image_units = parts_of(k->rows, k->unit_rows);
    k->sums = k->unit_rows * k->columns * SIDE;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, int bias,
                         yki_kernel **kernel)
{
    const yki_operand *in = &desc->in[0], *out = &desc->out[0];
    patches *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a convolution");
    k->in = in->dims[1];
    k->out = out->dims[1];
    k->images = in->dims[0];
    k->rows = in->dims[2];
    k->columns = in->dims[3];
    k->side = desc->attrs->stride[0];
    k->bias = bias;
    k->team = device->threads;
    k->stream = yki_streams(device, out);
    divide(k);
    k->base.pack_input = 1;
    k->base.pack_bytes =
        (size_t)(k->side * k->side * k->in * yki_pointwise_vectors(k->out) * LANES) * sizeof(float);
    k->base.scratch = (size_t)(k->team * k->sums) * sizeof(float);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status prepare_transposed(yki_device *device, const yki_kernel_desc *desc,
                                    yki_kernel **kernel)
{
    const bool biased = yki_has_in(desc, YKI_CONV_TRANSPOSE2D_BIAS);
    return prepare(device, desc, biased ? YKI_CONV_TRANSPOSE2D_BIAS : -1, kernel);
}

static yk_status prepare_data(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare(device, desc, -1, kernel);
}

/* ---- weights: (taps, groups of columns, channels that are summed over, columns) -------------- */

/* Of a tap, from the channel that is the first of a group of columns on. */
static int64_t packed_at(const patches *k, int64_t tap, const yki_pointwise_columns *c)
{
    return (tap * yki_pointwise_vectors(k->out) * LANES + c->first) * k->in;
}

static yk_status patches_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                              yki_stream *stream)
{
    (void)stream;
    const patches *k = (const patches *)kernel;
    const int64_t taps = k->side * k->side, groups = yki_pointwise_groups(k->out, VECTORS);
#pragma omp parallel for schedule(dynamic) num_threads(k->team) if (k->team > 1)
    for (int64_t unit = 0; unit < taps * groups; unit++) {
        const yki_pointwise_columns c = yki_pointwise_group(k->out, VECTORS, unit % groups);
        const int64_t tap = unit / groups, left = k->out - c.first;
        yki_pointwise_pack(
            &(yki_pointwise_weights){.weight = (const float *)parameter + c.first * taps + tap,
                                     .row = k->out * taps,
                                     .column = taps,
                                     .rows = k->in,
                                     .columns = (int)least(left, SIDE),
                                     .vectors = c.vectors},
            (float *)packed + packed_at(k, tap, &c));
    }
    return YK_OK;
}

static bool patches_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const patches *a = (const patches *)kernel, *b = (const patches *)other;
    return a->in == b->in && a->out == b->out && a->side == b->side;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Some rows of an image, and where they and their results begin. */
typedef struct rows {
    int64_t count;
    const float *in;
    float *out;
} rows;

static rows rows_at(const patches *k, const yki_kernel_args *run, int64_t unit)
{
    const int64_t image = unit / k->image_units, first = unit % k->image_units * k->unit_rows;
    const int64_t pixels = k->rows * k->columns, results = pixels * k->side * k->side;
    const int64_t results_before = first * k->side * k->columns * k->side;
    return (rows){
        .count = least(k->unit_rows, k->rows - first),
        .in = (const float *)run->in[0] +
              (image * yki_pointwise_vectors(k->in) * pixels + first * k->columns) * LANES,
        .out = (float *)run->out[0] +
               (image * yki_pointwise_vectors(k->out) * results + results_before) * LANES};
}

/* One tap of the rows, for one group of columns. */
static void multiply_tap(const patches *k, const rows *r, const float *packed, int64_t tap,
                         const yki_pointwise_columns *c, const float *start, float *sums)
{
    const int64_t pixels = k->rows * k->columns, width = c->vectors * LANES;
    const int64_t out_columns = k->columns * k->side, down = tap / k->side, across = tap % k->side;
    const int64_t depth = WEIGHTS / width / LANES * LANES;
    const float *weights = packed + packed_at(k, tap, c);
    float *out = r->out + c->first * pixels * k->side * k->side;
    yki_pointwise_product p = {.x_block = pixels * LANES,
                               .y_block = pixels * k->side * k->side * LANES,
                               .y_step = k->side * LANES,
                               .pixels = k->columns,
                               .vectors = c->vectors,
                               .stream = k->stream && (uintptr_t)out % YKI_ALIGNMENT == 0};
    for (int64_t channel = 0; channel < k->in; channel += depth) {
        const bool last = channel + depth >= k->in;
        p.depth = last ? k->in - channel : depth;
        p.weights = weights + channel * width;
        p.next = p.weights + p.depth * width;
        p.start = channel == 0 ? start : NULL;
        for (int64_t row = 0; row < r->count; row++) {
            p.x = r->in + channel * pixels + row * k->columns * LANES;
            p.y = last ? out + ((row * k->side + down) * out_columns + across) * LANES : NULL;
            p.sums = sums + row * k->columns * width;
            yki_pointwise_multiply(&p);
        }
    }
}

static void multiply_rows(const patches *k, const yki_kernel_args *run, const rows *r, float *sums)
{
    const float *bias = k->bias < 0 ? NULL : run->in[k->bias];
    for (int64_t group = 0; group < yki_pointwise_groups(k->out, VECTORS); group++) {
        const yki_pointwise_columns c = yki_pointwise_group(k->out, VECTORS, group);
        float start[SIDE];
        yki_pointwise_read_bias(bias, c.first, k->out, start);
        for (int64_t tap = 0; tap < k->side * k->side; tap++)
            multiply_tap(k, r, run->in[1], tap, &c, start, sums);
    }
}

static yk_status run_patches(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const patches *k = (const patches *)kernel;
    yki_units units;
    yki_units_divide(&units, k->images * k->image_units, 1, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
        float *sums = (float *)run->scratch + omp_get_thread_num() * k->sums;
        for (int64_t unit = -1; (unit = yki_units_next(&units, unit)) >= 0;) {
            const rows r = rows_at(k, run, unit);
            multiply_rows(k, run, &r, sums);
        }
    }
    return YK_OK;
}

#define IMPL(label, operation, make)                                                               \
    const yki_kernel_impl yki_cpu_##label = {.op = &yki_op_##operation,                            \
                                             .name = "patches",                                    \
                                             .supports = patches_supports,                         \
                                             .gains = patches_gain,                                \
                                             .prepare = make,                                      \
                                             .run = run_patches,                                   \
                                             .pack = patches_pack,                                 \
                                             .same_pack = patches_same_pack}
IMPL(conv_transpose2d_patches, conv_transpose2d, prepare_transposed);
IMPL(conv2d_backward_data_patches, conv2d_backward_data, prepare_data);
