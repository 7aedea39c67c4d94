/*
 * softmax, log_softmax, layer_norm and rms_norm of plain f32 rows: the last dimension of x, or
 * those that weight has. The former take blocked rows, too: the channels of a block are rows beside
 * each other. Rows are divided among the threads. The norms' sums over rows are made of parts that
 * depend on the shape alone and in their order, so results do not depend on the number of threads.
 * What the norms share reads operands by layer_norm's numbers, which are those of rms_norm too.
 */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"

/* Parts of a norm's sums: enough for many threads, but their sums shall be little memory next
 * to the rows. */
enum { LEAST_PARTS = 4, MOST_PARTS = 64, PART_ROWS = 16 };

enum { FORWARD_ROWS = 4 /* of a norm, in a call of the loops, which take as many at a time */ };

typedef struct rows {
    yki_kernel base;
    const yki_cpu_loops *loops;
    const yki_softmax_loops *softmax; /* or those of log_softmax */
    yki_row_slopes *slopes;           /* of a norm */
    int64_t count, length;            /* of rows, and of a row */
    yki_geometry shape; /* of these, if it is blocked; count is then that of rows of blocks */
    int64_t parts;
    int team;
    bool far; /* see yki_cpu_loops.normalise_rows */
    double eps;
    bool out[YKI_MAX_OUT];
} rows;

static bool is_plain_f32(const yki_operand *operand)
{
    return operand->ndim < 0 || (operand->dtype == YK_F32 && operand->layout == YKI_PLAIN);
}

static bool rows_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool good = true;
    for (int i = 0; i < desc->in_count; i++)
        good = good && is_plain_f32(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        good = good && is_plain_f32(&desc->out[i]);
    return good;
}

static int64_t row_length(const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[0];
    if (desc->op == &yki_op_layer_norm || desc->op == &yki_op_rms_norm)
        return yki_operand_count(&desc->in[YKI_LAYER_NORM_WEIGHT]);
    if (desc->op == &yki_op_layer_norm_backward || desc->op == &yki_op_rms_norm_backward)
        return yki_operand_count(&desc->in[YKI_LAYER_NORM_BACKWARD_WEIGHT]);
    return x->dims[x->ndim - 1];
}

static yk_status rows_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    rows *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel over rows");
    const yki_operand *x = &desc->in[0];
    k->loops = yki_cpu_loops_of(device);
    k->length = row_length(desc);
    k->count = yki_operand_count(x) / k->length;
    k->team = yki_team(device, 4 * k->count * k->length);
    k->eps = desc->attrs ? desc->attrs->eps : 0;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        k->out[i] = yki_has_out(desc, i);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- softmax, log_softmax, whose operands have the same numbers ------------------------------ */

/* All in one layout. */
static bool softmax_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_layout layout = desc->out[0].layout;
    bool good = desc->out[0].dtype == YK_F32;
    for (int i = 0; i < desc->in_count; i++)
        good = good && desc->in[i].dtype == YK_F32 && desc->in[i].layout == layout;
    return layout == YKI_BLOCKED ? good : rows_supports(device, desc);
}

static yk_status softmax_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    YK_TRY(rows_prepare(device, desc, kernel));
    rows *k = (rows *)*kernel;
    const bool is_softmax = desc->op == &yki_op_softmax || desc->op == &yki_op_softmax_backward;
    k->softmax = is_softmax ? &k->loops->softmax : &k->loops->log_softmax;
    if (desc->out[0].layout == YKI_BLOCKED) {
        k->shape = yki_geometry_of(device, &desc->out[0]);
        k->count = k->shape.images * k->shape.blocks * k->shape.rows;
    }
    return YK_OK;
}

/* Where the rows of a number begin, and of how many channels they are; 0: they are plain. */
static int64_t rows_at(const rows *k, int64_t number, int64_t *channels)
{
    const yki_geometry *g = &k->shape;
    *channels = 0;
    if (g->b == 0)
        return number * k->length;
    const int64_t left = g->channels - number / g->rows % g->blocks * g->b;
    *channels = left < g->b ? left : g->b;
    return number * k->length * g->b;
}

static yk_status softmax(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    const float *x = run->in[YKI_SOFTMAX_X];
    float *y = run->out[YKI_SOFTMAX_Y];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t r = 0; r < k->count; r++) {
        int64_t channels, at = rows_at(k, r, &channels);
        if (channels > 0)
            k->softmax->lanes(x + at, y + at, k->length, channels);
        else
            k->softmax->row(x + at, y + at, k->length);
    }
    return YK_OK;
}

/* dx = y (dy - sum(dy y)), and of log_softmax dy - exp(y) sum(dy). */
static yk_status softmax_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    const float *y = run->in[YKI_SOFTMAX_BACKWARD_Y], *dy = run->in[YKI_SOFTMAX_BACKWARD_DY];
    float *dx = run->out[YKI_SOFTMAX_BACKWARD_DX];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t r = 0; r < k->count; r++) {
        int64_t channels, at = rows_at(k, r, &channels);
        if (channels > 0)
            k->softmax->lane_slopes(y + at, dy + at, dx + at, k->length, channels);
        else
            k->softmax->slopes(y + at, dy + at, dx + at, k->length);
    }
    return YK_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether rows are made of whole lines of a cache, each of one or two vectors. */
static bool fills_lines(const yki_device *device, const rows *k)
{
    return device->block >= 8 && k->length % 16 == 0;
}

/* ---- layer_norm: y = h weight + bias, h = (x - mean) invstd; rms_norm: mean and bias are 0 --- */

static yk_status norm_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    YK_TRY(rows_prepare(device, desc, kernel));
    rows *k = (rows *)*kernel;
    k->far = fills_lines(device, k) && yki_exceed_caches(device, &desc->in[0], &desc->out[0]);
    return YK_OK;
}

/* Whether rows are taken as far ones, whose vectors must be aligned. */
static bool is_far(const rows *k, const void *result)
{
    return k->far && (uintptr_t)result % YKI_ALIGNMENT == 0;
}

static yk_status layer_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    const float *x = run->in[YKI_LAYER_NORM_X], *weight = run->in[YKI_LAYER_NORM_WEIGHT],
                *bias = run->in[YKI_LAYER_NORM_BIAS];
    float *y = run->out[YKI_LAYER_NORM_Y];
    const bool far = is_far(k, y);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t r = 0; r < k->count; r += FORWARD_ROWS)
            k->loops->normalise_rows(x + r * k->length, weight, bias, y + r * k->length,
                                     least(k->count - r, FORWARD_ROWS), k->length, k->eps, far);
        if (far)
            yki_stream_settle();
    }
    return YK_OK;
}

static yk_status rms_norm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
    const float *x = run->in[YKI_RMS_NORM_X], *weight = run->in[YKI_RMS_NORM_WEIGHT];
    float *y = run->out[YKI_RMS_NORM_Y];
    const bool far = is_far(k, y);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t r = 0; r < k->count; r += FORWARD_ROWS)
            k->loops->scale_rows(x + r * k->length, weight, y + r * k->length,
                                 least(k->count - r, FORWARD_ROWS), k->length, k->eps, far);
        if (far)
            yki_stream_settle();
    }
    return YK_OK;
}

static yk_status norm_prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                       yki_kernel **kernel)
{
    YK_TRY(rows_prepare(device, desc, kernel));
    rows *k = (rows *)*kernel;
    k->slopes =
        desc->op == &yki_op_rms_norm_backward ? k->loops->scaled_row_slopes : k->loops->row_slopes;
    k->far = fills_lines(device, k) && yki_streams(device, &desc->out[YKI_LAYER_NORM_BACKWARD_DX]);
    k->parts = least(k->count / PART_ROWS, MOST_PARTS);
    k->parts = k->parts > LEAST_PARTS ? k->parts : least(k->count, LEAST_PARTS);
    k->base.scratch = 2 * (size_t)(k->parts * k->length) * sizeof(double);
    return YK_OK;
}

static yki_row_sums sums_of_part(const rows *k, void *scratch, int64_t part)
{
    double *sums = (double *)scratch + 2 * part * k->length;
    return (yki_row_sums){sums, sums + k->length};
}

/* Some rows of dx, and their sums of dy and dy h. */
static void part_slopes(const rows *k, const yki_kernel_args *run, int64_t part)
{
    const float *x = run->in[YKI_LAYER_NORM_BACKWARD_X], *dy = run->in[YKI_LAYER_NORM_BACKWARD_DY];
    float *dx = run->out[YKI_LAYER_NORM_BACKWARD_DX];
    yki_row_sums sums = sums_of_part(k, run->scratch, part);
    memset(sums.sums, 0, 2 * (size_t)k->length * sizeof(double));
    const int64_t first = k->count * part / k->parts, end = k->count * (part + 1) / k->parts;
    const int64_t at = first * k->length;
    k->slopes(x + at, dy + at, run->in[YKI_LAYER_NORM_BACKWARD_WEIGHT], dx + at, sums, end - first,
              k->length, k->eps, is_far(k, dx));
}

/* An output, if it is wanted; rms_norm's never has the last. */
static void round_sums(const rows *k, const yki_kernel_args *run, int out, const double *sums,
                       int64_t begin, int64_t end)
{
    float *to = k->out[out] ? run->out[out] : NULL;
    for (int64_t i = begin; to && i < end; i++)
        to[i] = (float)sums[i];
}

/* The parts' sums of the calling thread's columns. */
static void add_parts(const rows *k, const yki_kernel_args *run)
{
    yki_row_sums all = sums_of_part(k, run->scratch, 0);
    int64_t begin, end;
    yki_share(k->length, &begin, &end);
    for (int64_t part = 1; part < k->parts; part++) {
        yki_row_sums more = sums_of_part(k, run->scratch, part);
        for (int64_t i = begin; i < end; i++) {
            all.sums[i] += more.sums[i];
            all.products[i] += more.products[i];
        }
    }
    round_sums(k, run, YKI_LAYER_NORM_BACKWARD_DWEIGHT, all.products, begin, end);
    round_sums(k, run, YKI_LAYER_NORM_BACKWARD_DBIAS, all.sums, begin, end);
}

static yk_status norm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const rows *k = (const rows *)kernel;
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    {
#pragma omp for
        for (int64_t part = 0; part < k->parts; part++)
            part_slopes(k, run, part);
        if (k->far)
            yki_stream_settle();
        add_parts(k, run);
    }
    return YK_OK;
}

#define IMPL(name, place, check, make, run_it)                                                     \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .inplace = place, .supports = check, .prepare = make, .run = run_it}
IMPL(softmax, 1, softmax_supports, softmax_prepare, softmax);
IMPL(softmax_backward, 1, softmax_supports, softmax_prepare, softmax_backward);
IMPL(log_softmax, 1, softmax_supports, softmax_prepare, softmax);
IMPL(log_softmax_backward, 1, softmax_supports, softmax_prepare, softmax_backward);
IMPL(layer_norm, 0, rows_supports, norm_prepare, layer_norm);
IMPL(layer_norm_backward, 0, rows_supports, norm_prepare_backward, norm_backward);
IMPL(rms_norm, 0, rows_supports, norm_prepare, rms_norm);
IMPL(rms_norm_backward, 0, rows_supports, norm_prepare_backward, norm_backward);
