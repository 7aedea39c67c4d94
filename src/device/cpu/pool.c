/*
 * Max pooling over (images, blocks, pixels, b): each thread takes whole blocks, and each pixel is b
 * adjacent lanes. Backward gathers: each input pixel sums over the windows that have it, in a fixed
 * order and in f32. Thus nothing has to be cleared first, and threads never write to the same
 * place. Plain maps, of few channels, have loops of their own, since their pixels are single
 * numbers.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/loops/loops.h"
#include "device/cpu/loops/scalar.h"
#include "device/cpu/units.h"

enum { MAX_BLOCK = 16 };

typedef struct pool {
    yki_kernel base;
    yki_geometry x, y; /* of the forward operator's input and output */
    yki_attrs attrs;
    yk_dtype dtype;
    bool keep_index;
    bool byte_index; /* else the index is int32_t */
    int team;
    int64_t grain;              /* blocks that a thread takes at a time */
    const yki_cpu_loops *loops; /* for max_pool2d on blocks as wide as a vector, else NULL ... */
    yki_max_pool shape;         /* ... and what they take */
} pool;

/* ---- preparation ----------------------------------------------------------------------------- */

static bool pool_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return desc->in[0].ndim == 4 && yki_alike(&desc->in[0], &desc->out[0]);
}

static bool is_index(const yki_kernel_desc *desc, const yki_operand *index, const yki_operand *like)
{
    return index->dtype == yki_max_pool2d_index_dtype(desc->attrs->kernel) &&
           index->layout == like->layout;
}

static bool supports_max(const yki_device *device, const yki_kernel_desc *desc)
{
    return pool_supports(device, desc) &&
           (!yki_has_out(desc, YKI_MAX_POOL2D_INDEX) ||
            is_index(desc, &desc->out[YKI_MAX_POOL2D_INDEX], &desc->out[YKI_MAX_POOL2D_Y]));
}

static bool supports_max_backward(const yki_device *device, const yki_kernel_desc *desc)
{
    return pool_supports(device, desc) && is_index(desc, &desc->in[YKI_MAX_POOL2D_BACKWARD_INDEX],
                                                   &desc->in[YKI_MAX_POOL2D_BACKWARD_DY]);
}

static yk_status prepare_pool(yki_device *device, const yki_kernel_desc *desc, const yki_operand *x,
                              const yki_operand *y, yki_kernel **kernel)
{
    pool *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a pooling kernel");
    k->x = yki_geometry_of(device, x);
    k->y = yki_geometry_of(device, y);
    k->attrs = *desc->attrs;
    k->dtype = x->dtype;
    k->keep_index = yki_has_out(desc, 1);
    k->byte_index = yki_max_pool2d_index_dtype(k->attrs.kernel) == YK_U8;
    k->team = yki_team(device, yki_operand_elements(device, x));
    k->grain = yki_grain(k->x.images * k->x.blocks, k->x.pixels * k->x.b, k->team);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status pool_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return prepare_pool(device, desc, &desc->in[0], &desc->out[0], kernel);
}

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    return prepare_pool(device, desc, &desc->out[0], &desc->in[0], kernel);
}

/* The windows along dimension d that lie inside the map. */
static yki_window_range windows_inside(const pool *k, int d, int64_t windows, int64_t pixels)
{
    int64_t stride = k->attrs.stride[d], padding = k->attrs.padding[d];
    int64_t begin = (padding + stride - 1) / stride;
    int64_t room = pixels - k->attrs.kernel[d] + padding;
    int64_t end = room < 0 ? 0 : room / stride + 1;
    end = end < windows ? end : windows;
    return (yki_window_range){begin < end ? begin : end, end};
}

/* The loops know indices of one byte only. */
static void shape_loops(pool *k, const yki_device *device, const yki_kernel_desc *desc,
                        bool has_index)
{
    const yki_cpu_loops *loops = yki_cpu_loops_of(device);
    if (k->x.b != loops->pack / 2 || (has_index && !k->byte_index))
        return;
    k->loops = loops;
    k->shape = (yki_max_pool){.dtype = k->dtype,
                              .rows = k->x.rows,
                              .columns = k->x.columns,
                              .y_rows = k->y.rows,
                              .y_columns = k->y.columns,
                              .stream = yki_streams(device, &desc->out[0]) &&
                                        yki_exceed_caches(device, &desc->in[0], &desc->out[0]),
                              .inside_rows = windows_inside(k, 0, k->y.rows, k->x.rows),
                              .inside_columns = windows_inside(k, 1, k->y.columns, k->x.columns)};
    for (int d = 0; d < 2; d++) {
        k->shape.kernel[d] = k->attrs.kernel[d];
        k->shape.stride[d] = k->attrs.stride[d];
        k->shape.padding[d] = k->attrs.padding[d];
    }
}

static yk_status prepare_max(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    YK_TRY(pool_prepare(device, desc, kernel));
    pool *k = (pool *)*kernel;
    shape_loops(k, device, desc, k->keep_index);
    k->shape.ahead = yki_exceed_caches(device, &desc->in[0], &desc->out[0]);
    return YK_OK;
}

static yk_status prepare_max_backward(yki_device *device, const yki_kernel_desc *desc,
                                      yki_kernel **kernel)
{
    YK_TRY(prepare_backward(device, desc, kernel));
    shape_loops((pool *)*kernel, device, desc, true);
    return YK_OK;
}

/* ---- one pixel's lanes ----------------------------------------------------------------------- */

static inline void fetch_lanes(float *restrict lanes, const void *memory, int64_t at, int64_t b,
                               yk_dtype dtype)
{
    for (int64_t c = 0; c < b; c++)
        lanes[c] = yki_get(memory, at + c, dtype);
}

/* With the usual b and all dtypes as constants, compilers turn these loops into single vectors. */
#define FOR_EACH_B(body, first, memory, at, b, dtype)                                              \
    do {                                                                                           \
        if (b == 16)                                                                               \
            body(first, memory, at, 16, dtype);                                                    \
        else if (b == 8)                                                                           \
            body(first, memory, at, 8, dtype);                                                     \
        else                                                                                       \
            body(first, memory, at, b, dtype);                                                     \
    } while (0)

#define FOR_EACH_DTYPE(body, first, memory, at, b, dtype)                                          \
    do {                                                                                           \
        if (dtype == YK_F32)                                                                       \
            FOR_EACH_B(body, first, memory, at, b, YK_F32);                                        \
        else if (dtype == YK_BF16)                                                                 \
            FOR_EACH_B(body, first, memory, at, b, YK_BF16);                                       \
        else                                                                                       \
            FOR_EACH_B(body, first, memory, at, b, YK_F16);                                        \
    } while (0)

static inline void fetch(float *restrict lanes, const void *memory, int64_t at, int64_t b,
                         yk_dtype dtype)
{
    FOR_EACH_DTYPE(fetch_lanes, lanes, memory, at, b, dtype);
}

static inline void put_lanes(const float *restrict lanes, void *memory, int64_t at, int64_t b,
                             yk_dtype dtype)
{
    for (int64_t c = 0; c < b; c++)
        yki_put(memory, at + c, lanes[c], dtype);
}

YKI_VECTOR_CLONES
static void put(void *memory, int64_t at, const float *restrict lanes, int64_t b, yk_dtype dtype)
{
    FOR_EACH_DTYPE(put_lanes, lanes, memory, at, b, dtype);
}

/* ---- the index ------------------------------------------------------------------------------- */

static inline int32_t get_winner(const pool *k, const void *index, int64_t at)
{
    return k->byte_index ? ((const uint8_t *)index)[at] : ((const int32_t *)index)[at];
}

static inline void set_winner(const pool *k, void *index, int64_t at, int32_t winner)
{
    if (k->byte_index)
        ((uint8_t *)index)[at] = (uint8_t)winner;
    else
        ((int32_t *)index)[at] = winner;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The part of a window that is inside the map along one dimension: offsets from .. to - 1. */
typedef struct span {
    int64_t start, from, to;
} span;

/* Window i along dimension d. */
static inline span pool_window(const pool *k, int d, int64_t i, int64_t size)
{
    int64_t start = i * k->attrs.stride[d] - k->attrs.padding[d], kernel = k->attrs.kernel[d];
    int64_t to = size - start < kernel ? size - start : kernel;
    return (span){start, start < 0 ? -start : 0, to};
}

/* The windows that have input pixel i along dimension d: outputs first .. last. */
static inline span holders(const pool *k, int d, int64_t i, int64_t outputs)
{
    int64_t stride = k->attrs.stride[d], place = i + k->attrs.padding[d];
    int64_t reach = place - k->attrs.kernel[d] + 1, last = place / stride;
    int64_t first = reach <= 0 ? 0 : (reach + stride - 1) / stride;
    return (span){place, first, last < outputs ? last + 1 : outputs};
}

/* ---- max: the first of equal maxima wins; NaN is larger than any, as in PyTorch -------------- */

YKI_VECTOR_CLONES
static void max_pixel(const pool *k, const void *x, float *restrict best, int32_t *restrict winner,
                      int64_t base, span h, span w)
{
    int64_t b = k->x.b, columns = k->x.columns;
    int32_t first = (int32_t)(h.from * k->attrs.kernel[1] + w.from);
    fetch(best, x, base + ((h.start + h.from) * columns + w.start + w.from) * b, b, k->dtype);
    for (int c = 0; c < MAX_BLOCK; c++)
        winner[c] = first;
    for (int64_t r = h.from; r < h.to; r++)
        for (int64_t s = w.from; s < w.to; s++) {
            float lanes[MAX_BLOCK] = {0};
            int32_t offset = (int32_t)(r * k->attrs.kernel[1] + s);
            fetch(lanes, x, base + ((h.start + r) * columns + w.start + s) * b, b, k->dtype);
#pragma omp simd
            for (int c = 0; c < MAX_BLOCK; c++) {
                bool larger = lanes[c] > best[c] || isnan(lanes[c]);
                winner[c] = larger ? offset : winner[c];
                best[c] = larger ? lanes[c] : best[c];
            }
        }
}

static void max_by_loops(const pool *k, const yki_kernel_args *run, int64_t block)
{
    int64_t x = block * k->x.pixels * k->x.b, y = block * k->y.pixels * k->x.b;
    size_t size = yk_dtype_size(k->dtype);
    uint8_t *index = k->keep_index ? (uint8_t *)run->out[YKI_MAX_POOL2D_INDEX] + y : NULL;
    k->loops->max_pool(&k->shape, (const char *)run->in[YKI_MAX_POOL2D_X] + (size_t)x * size,
                       (char *)run->out[YKI_MAX_POOL2D_Y] + (size_t)y * size, index);
}

/* The same for single numbers: a plane of plain memory. */
YKI_VECTOR_CLONES
static void max_plane(const pool *k, const void *x, void *y, void *index, int64_t block)
{
    int64_t from = block * k->x.pixels, to = block * k->y.pixels;
    for (int64_t p = 0; p < k->y.rows; p++) {
        span h = pool_window(k, 0, p, k->x.rows);
        for (int64_t q = 0; q < k->y.columns; q++, to++) {
            span w = pool_window(k, 1, q, k->x.columns);
            float best = -INFINITY;
            int32_t winner = (int32_t)(h.from * k->attrs.kernel[1] + w.from);
            for (int64_t r = h.from; r < h.to; r++)
                for (int64_t s = w.from; s < w.to; s++) {
                    int64_t pixel = (h.start + r) * k->x.columns + w.start + s;
                    float value = yki_get(x, from + pixel, k->dtype);
                    bool larger = value > best || isnan(value);
                    winner = larger ? (int32_t)(r * k->attrs.kernel[1] + s) : winner;
                    best = larger ? value : best;
                }
            yki_put(y, to, best, k->dtype);
            if (index)
                set_winner(k, index, to, winner);
        }
    }
}

static void max_block(const pool *k, const yki_kernel_args *run, int64_t block)
{
    if (k->loops) {
        max_by_loops(k, run, block);
        return;
    }
    if (k->x.b == 1) {
        max_plane(k, run->in[YKI_MAX_POOL2D_X], run->out[YKI_MAX_POOL2D_Y],
                  k->keep_index ? run->out[YKI_MAX_POOL2D_INDEX] : NULL, block);
        return;
    }
    int64_t b = k->x.b, base = block * k->x.pixels * b;
    for (int64_t p = 0; p < k->y.rows; p++)
        for (int64_t q = 0; q < k->y.columns; q++) {
            float best[MAX_BLOCK] = {0};
            int32_t winner[MAX_BLOCK] = {0};
            int64_t at = (block * k->y.pixels + p * k->y.columns + q) * b;
            max_pixel(k, run->in[YKI_MAX_POOL2D_X], best, winner, base,
                      pool_window(k, 0, p, k->x.rows), pool_window(k, 1, q, k->x.columns));
            put(run->out[YKI_MAX_POOL2D_Y], at, best, b, k->dtype);
            for (int64_t c = 0; k->keep_index && c < b; c++)
                set_winner(k, run->out[YKI_MAX_POOL2D_INDEX], at + c, winner[c]);
        }
}

/* ---- what an input pixel collects ------------------------------------------------------------ */

YKI_VECTOR_CLONES
static void pool_collect(const pool *k, const void *dy, const void *index, float *restrict sum,
                         int64_t base, span h, span w)
{
    int64_t b = k->y.b;
    for (int64_t p = h.from; p < h.to; p++)
        for (int64_t q = w.from; q < w.to; q++) {
            float lanes[MAX_BLOCK] = {0};
            int32_t winner[MAX_BLOCK] = {0};
            int64_t at = base + (p * k->y.columns + q) * b;
            int64_t row = h.start - p * k->attrs.stride[0];
            int64_t column = w.start - q * k->attrs.stride[1];
            int32_t own = (int32_t)(row * k->attrs.kernel[1] + column);
            fetch(lanes, dy, at, b, k->dtype);
            for (int64_t c = 0; c < b; c++)
                winner[c] = get_winner(k, index, at + c);
#pragma omp simd
            for (int c = 0; c < MAX_BLOCK; c++)
                sum[c] += winner[c] == own ? lanes[c] : 0;
        }
}

/* All input pixels of a plane of plain memory. */
YKI_VECTOR_CLONES
static void collect_plane(const pool *k, const void *dy, const void *index, void *dx, int64_t block)
{
    int64_t base = block * k->y.pixels, to = block * k->x.pixels;
    for (int64_t i = 0; i < k->x.rows; i++) {
        span h = holders(k, 0, i, k->y.rows);
        for (int64_t j = 0; j < k->x.columns; j++, to++) {
            span w = holders(k, 1, j, k->y.columns);
            float sum = 0;
            for (int64_t p = h.from; p < h.to; p++)
                for (int64_t q = w.from; q < w.to; q++) {
                    int64_t at = base + p * k->y.columns + q;
                    int64_t row = h.start - p * k->attrs.stride[0];
                    int64_t column = w.start - q * k->attrs.stride[1];
                    bool won = get_winner(k, index, at) == row * k->attrs.kernel[1] + column;
                    sum += won ? yki_get(dy, at, k->dtype) : 0;
                }
            yki_put(dx, to, sum, k->dtype);
        }
    }
}

static void backward_block(const pool *k, const yki_kernel_args *run, int64_t block,
                           const void *index)
{
    if (k->x.b == 1) {
        collect_plane(k, run->in[0], index, run->out[0], block);
        return;
    }
    int64_t b = k->x.b, base = block * k->y.pixels * b;
    for (int64_t i = 0; i < k->x.rows; i++) {
        span h = holders(k, 0, i, k->y.rows);
        for (int64_t j = 0; j < k->x.columns; j++) {
            float sum[MAX_BLOCK] = {0};
            pool_collect(k, run->in[0], index, sum, base, h, holders(k, 1, j, k->y.columns));
            put(run->out[0], (block * k->x.pixels + i * k->x.columns + j) * b, sum, b, k->dtype);
        }
    }
}

/* ---- running: blocks over threads ------------------------------------------------------------ */

/* A plane of plain f32, which one thread writes: each window adds to its maximum. */
static void scatter_plane(const pool *k, const float *dy, const void *index, float *dx,
                          int64_t block)
{
    const yki_attrs *a = &k->attrs;
    const int64_t columns = k->x.columns, first = block * k->y.pixels, width = a->kernel[1];
    dx += block * k->x.pixels;
    memset(dx, 0, (size_t)k->x.pixels * sizeof *dx);
    for (int64_t p = 0; p < k->y.rows; p++)
        for (int64_t q = 0; q < k->y.columns; q++) {
            int64_t at = first + p * k->y.columns + q, winner = get_winner(k, index, at);
            int64_t row = p * a->stride[0] - a->padding[0] + winner / width;
            int64_t column = q * a->stride[1] - a->padding[1] + winner % width;
            bool inside = row >= 0 && row < k->x.rows && column >= 0 && column < columns;
            if (inside)
                dx[row * columns + column] += dy[at];
        }
}

static void max_backward_block(const pool *k, const yki_kernel_args *run, int64_t block)
{
    const void *index = run->in[YKI_MAX_POOL2D_BACKWARD_INDEX];
    if (k->x.b == 1 && k->dtype == YK_F32) {
        scatter_plane(k, run->in[YKI_MAX_POOL2D_BACKWARD_DY], index,
                      run->out[YKI_MAX_POOL2D_BACKWARD_DX], block);
        return;
    }
    if (!k->loops) {
        backward_block(k, run, block, index);
        return;
    }
    int64_t x = block * k->x.pixels * k->x.b, y = block * k->y.pixels * k->x.b;
    size_t size = yk_dtype_size(k->dtype);
    k->loops->max_pool_backward(
        &k->shape, (const char *)run->in[YKI_MAX_POOL2D_BACKWARD_DY] + (size_t)y * size,
        (const uint8_t *)index + y,
        (char *)run->out[YKI_MAX_POOL2D_BACKWARD_DX] + (size_t)x * size);
}

typedef void (*block_fn)(const pool *k, const yki_kernel_args *run, int64_t block);

static yk_status each_block(const yki_kernel *kernel, const yki_kernel_args *run, block_fn body)
{
    const pool *k = (const pool *)kernel;
    yki_units blocks;
    yki_units_divide(&blocks, k->x.images * k->x.blocks, k->grain, k->team);
#pragma omp parallel num_threads(k->team) if (k->team > 1)
    for (int64_t block = -1; (block = yki_units_next(&blocks, block)) >= 0;)
        body(k, run, block);
    return YK_OK;
}

#define IMPL(name, check, make, body)                                                              \
    static yk_status name(const yki_kernel *kernel, const yki_kernel_args *run)                    \
    {                                                                                              \
        return each_block(kernel, run, body);                                                      \
    }                                                                                              \
    const yki_kernel_impl yki_cpu_##name = {                                                       \
        .op = &yki_op_##name, .supports = check, .prepare = make, .run = name}
IMPL(max_pool2d, supports_max, prepare_max, max_block);
IMPL(max_pool2d_backward, supports_max_backward, prepare_max_backward, max_backward_block);
