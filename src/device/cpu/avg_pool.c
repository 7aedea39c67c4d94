/*
 * Average pooling over (images, blocks, pixels, b), forward and gradient: each pixel of the result
 * is a sum over a window, whose rows and columns are found in advance. For a gradient, these are
 * the windows that have the pixel. So nothing has to be cleared first, and threads, which take
 * whole blocks, never write to the same place. Plain maps, of few channels, have loops of their
 * own, since their pixels are single numbers.
 */
#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/scalar.h"
#include "device/cpu/units.h"
#include "graph/pool.h"

typedef struct average {
    yki_kernel base;
    const yki_cpu_loops *loops;
    yki_geometry from, to; /* of what is summed, and of the results */
    yki_windows windows;
    bool weighs_pixels; /* weights are those of the pixels that are summed, not of results */
    size_t from_image, to_image; /* bytes of a block of channels */
    int team;
    int64_t grain; /* blocks that a thread takes at a time */
} average;

/* ---- windows --------------------------------------------------------------------------------- */

/* What window i of avg_pool2d has along dimension d of so many pixels: padding is left out. */
static yki_window_range window_of(const yki_attrs *a, int d, int64_t i, int64_t pixels)
{
    const int64_t begin = i * a->stride[d] - a->padding[d], end = begin + a->kernel[d];
    return (yki_window_range){begin < 0 ? 0 : begin, end < pixels ? end : pixels};
}

/* The windows of avg_pool2d that have pixel i along dimension d, of so many. */
static yki_window_range holders_of(const yki_attrs *a, int d, int64_t i, int64_t windows)
{
    const int64_t stride = a->stride[d], place = i + a->padding[d];
    const int64_t reach = place - a->kernel[d] + 1, last = place / stride;
    return (yki_window_range){reach <= 0 ? 0 : (reach + stride - 1) / stride,
                              last < windows ? last + 1 : windows};
}

/* What output i of adaptive pooling has; and, with numbers exchanged, the outputs that have input
 * i. */
static yki_window_range part_of(int64_t i, int64_t outputs, int64_t inputs)
{
    return (yki_window_range){i * inputs / outputs, ((i + 1) * inputs + outputs - 1) / outputs};
}

static int64_t size_of(yki_window_range range)
{
    return range.end - range.begin;
}

/* The memory that follows a kernel. */
typedef struct tables {
    yki_window_range *rows, *columns; /* of the results */
    float *weights;
} tables;

static void find_windows(const average *k, const yki_attrs *a, bool is_gradient, const tables *t)
{
    for (int64_t i = 0; i < k->to.rows; i++)
        t->rows[i] =
            is_gradient ? holders_of(a, 0, i, k->from.rows) : window_of(a, 0, i, k->from.rows);
    for (int64_t i = 0; i < k->to.columns; i++)
        t->columns[i] = is_gradient ? holders_of(a, 1, i, k->from.columns)
                                    : window_of(a, 1, i, k->from.columns);
}

static int64_t counted(const yki_attrs *a, int d, int64_t i, int64_t pixels)
{
    return yki_pool_counted(i, a->kernel[d], a->stride[d], a->padding[d], a->count_include_pad,
                            pixels);
}

/* Of the outputs of avg_pool2d, of `x`; returns whether all are the same. */
static bool weigh_windows(const yki_attrs *a, const yki_geometry *x, const yki_geometry *y,
                          float *weights)
{
    bool same = true;
    for (int64_t p = 0; p < y->rows; p++)
        for (int64_t q = 0; q < y->columns; q++) {
            float *weight = &weights[p * y->columns + q];
            *weight = 1 / (float)(counted(a, 0, p, x->rows) * counted(a, 1, q, x->columns));
            same = same && *weight == weights[0];
        }
    return same;
}

static void find_parts(const average *k, const tables *t)
{
    for (int64_t i = 0; i < k->to.rows; i++)
        t->rows[i] = part_of(i, k->to.rows, k->from.rows);
    for (int64_t i = 0; i < k->to.columns; i++)
        t->columns[i] = part_of(i, k->to.columns, k->from.columns);
}

/* Of the outputs of adaptive pooling, of `x`. */
static void weigh_parts(const yki_geometry *x, const yki_geometry *y, float *weights)
{
    for (int64_t p = 0; p < y->rows; p++)
        for (int64_t q = 0; q < y->columns; q++)
            weights[p * y->columns + q] = 1 / (float)(size_of(part_of(p, y->rows, x->rows)) *
                                                      size_of(part_of(q, y->columns, x->columns)));
}

/* ---- preparation ----------------------------------------------------------------------------- */

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->in[0].ndim == 4 && yki_alike(&desc->in[0], &desc->out[0]);
}

/*
 * How many rows of a map are fetched in advance, or 0 where a cache holds it: more than a window
 * has, by as much memory as is read while a fetch is under way. Blocks follow each other in memory,
 * so that the last rows of one fetch the first rows of the next. A mean of a whole map reads a
 * single run, which processors fetch by themselves.
 */
static int64_t rows_ahead(const yki_device *device, const yki_kernel_desc *desc,
                          const yki_geometry *from, const yki_geometry *to)
{
    enum { FAR = 8192 /* bytes */ };
    if (from->pixels <= to->pixels || to->pixels == 1 ||
        !yki_exceed_caches(device, &desc->in[0], &desc->out[0]))
        return 0;
    const int64_t row = from->columns * from->b * (int64_t)yk_dtype_size(desc->in[0].dtype);
    return (from->rows + to->rows - 1) / to->rows + FAR / row;
}

/* A kernel whose windows are not known yet, with memory for them and for so many weights. */
static yk_status create(yki_device *device, const yki_kernel_desc *desc, int64_t weights,
                        average **made, tables *t)
{
    const yki_geometry to = yki_geometry_of(device, &desc->out[0]);
    const int64_t rows = to.rows, columns = to.columns;
    const size_t ranges = (size_t)(rows + columns) * sizeof(yki_window_range);
    const size_t bytes = sizeof(average) + ranges + (size_t)weights * sizeof(float);
    average *k = *made = yki_calloc(1, bytes);
    if (!k)
        return yki_error_memory(bytes, "an average pooling kernel");
    t->rows = (yki_window_range *)(k + 1);
    t->columns = t->rows + rows;
    t->weights = (float *)(t->columns + columns);
    k->loops = yki_cpu_loops_of(device);
    k->from = yki_geometry_of(device, &desc->in[0]);
    k->to = to;
    k->windows = (yki_windows){.dtype = desc->in[0].dtype,
                               .rows = rows,
                               .columns = columns,
                               .pitch = k->from.columns,
                               .of_rows = t->rows,
                               .of_columns = t->columns,
                               .weights = t->weights,
                               .one_weight = true,
                               .ahead = rows_ahead(device, desc, &k->from, &k->to),
                               .stream = yki_streams(device, &desc->out[0]) &&
                                         yki_exceed_caches(device, &desc->in[0], &desc->out[0])};
    const size_t size = yk_dtype_size(desc->in[0].dtype);
    k->from_image = (size_t)(k->from.pixels * k->from.b) * size;
    k->to_image = (size_t)(k->to.pixels * k->to.b) * size;
    const int64_t pixels = k->from.pixels > k->to.pixels ? k->from.pixels : k->to.pixels;
    const int64_t blocks = k->from.images * k->from.blocks;
    k->team = yki_team(device, blocks * pixels * k->from.b);
    k->grain = yki_grain(blocks, pixels * k->from.b, k->team);
    return YK_OK;
}

static yk_status prepare_avg(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    average *k;
    tables t;
    const bool is_gradient = desc->op == &yki_op_avg_pool2d_backward;
    const yki_geometry y = yki_geometry_of(device, is_gradient ? &desc->in[0] : &desc->out[0]);
    YK_TRY(create(device, desc, y.pixels, &k, &t));
    find_windows(k, desc->attrs, is_gradient, &t);
    k->windows.one_weight =
        weigh_windows(desc->attrs, is_gradient ? &k->to : &k->from, &y, t.weights);
    k->weighs_pixels = is_gradient && !k->windows.one_weight;
    *kernel = &k->base;
    return YK_OK;
}

static yk_status prepare_adaptive(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    average *k;
    tables t;
    const bool is_gradient = desc->op == &yki_op_adaptive_avg_pool2d_backward;
    const yki_geometry y = yki_geometry_of(device, is_gradient ? &desc->in[0] : &desc->out[0]);
    YK_TRY(create(device, desc, y.pixels, &k, &t));
    find_parts(k, &t);
    weigh_parts(is_gradient ? &k->to : &k->from, &y, t.weights);
    k->windows.one_weight = false;
    k->weighs_pixels = is_gradient;
    *kernel = &k->base;
    return YK_OK;
}

/* The means of whole images are those of one row. */
static yk_status prepare_global(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    average *k;
    tables t;
    const yki_geometry x = yki_geometry_of(device, &desc->in[0]);
    YK_TRY(create(device, desc, 1, &k, &t));
    t.rows[0] = (yki_window_range){0, 1};
    t.columns[0] = (yki_window_range){0, x.pixels};
    t.weights[0] = 1 / (float)x.pixels;
    *kernel = &k->base;
    return YK_OK;
}

/* Every pixel gets its share of the one of dy. */
static yk_status prepare_global_backward(yki_device *device, const yki_kernel_desc *desc,
                                         yki_kernel **kernel)
{
    average *k;
    tables t;
    YK_TRY(create(device, desc, 1, &k, &t));
    find_parts(k, &t);
    t.weights[0] = 1 / (float)k->to.pixels;
    *kernel = &k->base;
    return YK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* One plane of plain memory. */
static void average_plane(const average *k, const void *x, void *y)
{
    const yki_windows *w = &k->windows;
    for (int64_t p = 0; p < w->rows; p++)
        for (int64_t q = 0; q < w->columns; q++) {
            const int64_t at = p * w->columns + q;
            double total = 0;
            for (int64_t r = w->of_rows[p].begin; r < w->of_rows[p].end; r++)
                for (int64_t s = w->of_columns[q].begin; s < w->of_columns[q].end; s++) {
                    const int64_t from = r * w->pitch + s;
                    const float value = yki_get(x, from, w->dtype);
                    total += k->weighs_pixels ? w->weights[from] * value : value;
                }
            if (!k->weighs_pixels)
                total *= w->weights[w->one_weight ? 0 : at];
            yki_put(y, at, (float)total, w->dtype);
        }
}

static void average_block(const average *k, const void *x, void *y)
{
    if (k->from.b == 1)
        average_plane(k, x, y);
    else if (k->weighs_pixels)
        k->loops->sum_weighted(&k->windows, x, y);
    else
        k->loops->average(&k->windows, x, y);
}

static yk_status average_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const average *k = (const average *)kernel;
    const char *from = run->in[0];
    char *to = run->out[0];
    yki_units blocks;
    yki_units_divide(&blocks, k->from.images * k->from.blocks, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t i = -1; (i = yki_units_next(&blocks, i)) >= 0;)
        average_block(k, from + (size_t)i * k->from_image, to + (size_t)i * k->to_image);
    return YK_OK;
}

#define IMPL(name, make)                                                                           \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .supports = supports, .prepare = make, .run = average_run}
IMPL(avg_pool2d, prepare_avg);
IMPL(avg_pool2d_backward, prepare_avg);
IMPL(global_avg_pool2d, prepare_global);
IMPL(global_avg_pool2d_backward, prepare_global_backward);
IMPL(adaptive_avg_pool2d, prepare_adaptive);
IMPL(adaptive_avg_pool2d_backward, prepare_adaptive);
