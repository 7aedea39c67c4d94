/*
 * add and multiply where a side is broadcast, and reduce, which sums a gradient over what was
 * repeated. Memory is walked as (images, blocks, rows, columns, lanes), a plain tensor having
 * blocks of one channel; an operand that is repeated along a dimension has a stride of 0 there.
 *
 * Each sum is made by one thread in an order that depends on shapes alone, in double.
 */
#include "device/broadcast.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"
#include "device/cpu/scalar.h"

enum { WALK = 5, COLUMN = 3, LANE = 4, CHUNK = 128 };

typedef struct broadcast {
    yki_kernel base;
    const yki_device *device;
    yki_operand out;
    yk_dtype dtype;
    bool multiply;
    int64_t channels;                  /* of the walk */
    int64_t sizes[WALK];               /* of the larger tensor */
    int64_t a[WALK], b[WALK], y[WALK]; /* strides */
    int inner;                         /* the dimension of the innermost loop */
    int team;
} broadcast;

/* ---- strides --------------------------------------------------------------------------------- */

static void describe_walk(broadcast *k, const yki_operand *large)
{
    int64_t dims[YK_MAX_DIMS], b = large->layout == YKI_BLOCKED ? k->device->block : 1;
    yki_broadcast_dims(large->ndim, large->dims, dims);
    const int64_t sizes[WALK] = {dims[0], (dims[1] + b - 1) / b, dims[2], dims[3], b};
    memcpy(k->sizes, sizes, sizeof sizes);
    k->channels = dims[1];
    k->inner = b > 1 ? LANE : COLUMN;
}

static void describe_operand(const broadcast *k, const yki_operand *x, int64_t strides[WALK])
{
    int64_t dims[YK_MAX_DIMS], block = k->sizes[LANE];
    bool is_blocked = x->layout == YKI_BLOCKED;
    yki_broadcast_dims(x->ndim, x->dims, dims);
    int64_t own = is_blocked ? block : 1, pixels = dims[2] * dims[3];
    int64_t channels = (dims[1] + own - 1) / own * own;
    strides[0] = dims[0] == 1 ? 0 : channels * pixels;
    strides[1] = dims[1] == 1 ? 0 : block * pixels;
    strides[2] = dims[2] == 1 ? 0 : dims[3] * own;
    strides[3] = dims[3] == 1 ? 0 : own;
    strides[4] = dims[1] == 1 ? 0 : is_blocked ? 1 : pixels;
}

/* A side in blocks is only known beside a result in blocks. */
static bool broadcast_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *large = desc->op == &yki_op_reduce ? &desc->in[0] : &desc->out[0];
    bool good = yki_is_float(large);
    for (int i = 0; i < desc->in_count; i++)
        good = good && desc->in[i].dtype == large->dtype &&
               (desc->in[i].layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
    const yki_operand *out = &desc->out[0];
    return good && out->dtype == large->dtype &&
           (out->layout == YKI_PLAIN || large->layout == YKI_BLOCKED);
}

static yk_status broadcast_prepare(yki_device *device, const yki_kernel_desc *desc,
                                   yki_kernel **kernel)
{
    broadcast *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a broadcasting kernel");
    bool is_reduce = desc->op == &yki_op_reduce;
    const yki_operand *large = is_reduce ? &desc->in[0] : &desc->out[0];
    k->device = device;
    k->out = desc->out[0];
    k->dtype = large->dtype;
    k->multiply = desc->op == &yki_op_multiply;
    k->team = yki_team(device, yki_operand_elements(device, large));
    describe_walk(k, large);
    describe_operand(k, &desc->in[0], k->a);
    if (!is_reduce)
        describe_operand(k, &desc->in[1], k->b);
    describe_operand(k, &desc->out[0], k->y);
    *kernel = &k->base;
    return YK_OK;
}

/* ---- add, multiply --------------------------------------------------------------------------- */

/* The innermost loop's length: the lanes of the last block may be fewer. */
static int64_t inner_size(const broadcast *k, int64_t block)
{
    int64_t left = k->channels - block * k->sizes[LANE];
    if (k->inner == COLUMN)
        return k->sizes[COLUMN];
    return left < k->sizes[LANE] ? left : k->sizes[LANE];
}

YKI_VECTOR_CLONES
static void combine_f32(float *y, const float *a, int64_t sa, const float *b, int64_t sb,
                        int64_t count, bool multiply)
{
    if (multiply)
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i * sa] * b[i * sb];
    else
        for (int64_t i = 0; i < count; i++)
            y[i] = a[i * sa] + b[i * sb];
}

static void combine(const broadcast *k, const yki_kernel_args *run, int64_t a, int64_t b, int64_t y,
                    int64_t count)
{
    int64_t sa = k->a[k->inner], sb = k->b[k->inner];
    if (k->dtype == YK_F32) {
        combine_f32((float *)run->out[0] + y, (const float *)run->in[0] + a, sa,
                    (const float *)run->in[1] + b, sb, count, k->multiply);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        float left = yki_get(run->in[0], a + i * sa, k->dtype);
        float right = yki_get(run->in[1], b + i * sb, k->dtype);
        yki_put(run->out[0], y + i, k->multiply ? left * right : left + right, k->dtype);
    }
}

/* One row of one block. */
static void combine_row(const broadcast *k, const yki_kernel_args *run, int64_t n, int64_t block,
                        int64_t row)
{
    int64_t a = n * k->a[0] + block * k->a[1] + row * k->a[2];
    int64_t b = n * k->b[0] + block * k->b[1] + row * k->b[2];
    int64_t y = n * k->y[0] + block * k->y[1] + row * k->y[2];
    int64_t count = inner_size(k, block), columns = k->inner == COLUMN ? 1 : k->sizes[COLUMN];
    for (int64_t w = 0; w < columns; w++)
        combine(k, run, a + w * k->a[COLUMN], b + w * k->b[COLUMN], y + w * k->y[COLUMN], count);
}

static yk_status combine_all(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const broadcast *k = (const broadcast *)kernel;
    int64_t rows = k->sizes[2], blocks = k->sizes[1];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t i = 0; i < k->sizes[0] * blocks * rows; i++)
        combine_row(k, run, i / rows / blocks, i / rows % blocks, i % rows);
    yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

/* ---- reduce ---------------------------------------------------------------------------------- */

static bool is_summed(const broadcast *k, int dimension)
{
    return k->y[dimension] == 0;
}

/* Adds dy from element `at` on: `count` elements next to each other, to as many sums or to one. */
static void add_inner(const broadcast *k, const void *dy, int64_t at, int64_t count, double *sums)
{
    int64_t stride = k->a[k->inner], step = is_summed(k, k->inner) ? 0 : 1;
    for (int64_t i = 0; i < count; i++)
        sums[i * step] += yki_get(dy, at + i * stride, k->dtype);
}

/* Adds what is repeated, from element `at` on, along the dimensions before the innermost; the block
 * says how many lanes there are. */
static void add_outer(const broadcast *k, const void *dy, int dimension, int64_t at, int64_t block,
                      int64_t first, int64_t most, double *sums)
{
    if (dimension == k->inner) {
        int64_t count = inner_size(k, block) - first;
        add_inner(k, dy, at + first * k->a[k->inner], count < most ? count : most, sums);
        return;
    }
    int64_t size = is_summed(k, dimension) ? k->sizes[dimension] : 1;
    for (int64_t i = 0; i < size; i++)
        add_outer(k, dy, dimension + 1, at + i * k->a[dimension],
                  dimension == 1 ? block + i : block, first, most, sums);
}

/* The sums of one place in the dimensions before the innermost that are kept. */
static void reduce_place(const broadcast *k, const yki_kernel_args *run, int64_t place)
{
    int64_t from = 0, to = 0, block = 0;
    for (int d = k->inner - 1; d >= 0; d--) {
        int64_t size = is_summed(k, d) ? 1 : k->sizes[d], i = place % size;
        place /= size;
        from += i * k->a[d];
        to += i * k->y[d];
        block = d == 1 ? i : block;
    }
    bool one = is_summed(k, k->inner);
    int64_t length = one ? 1 : inner_size(k, block);
    for (int64_t first = 0; first < length; first += CHUNK) {
        double sums[CHUNK] = {0};
        add_outer(k, run->in[0], 0, from, block, first, one ? INT64_MAX : CHUNK, sums);
        for (int64_t i = 0; i < CHUNK && first + i < length; i++)
            yki_put(run->out[0], to + (first + i) * k->y[k->inner], (float)sums[i], k->dtype);
    }
}

static yk_status reduce_all(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const broadcast *k = (const broadcast *)kernel;
    int64_t places = 1;
    for (int d = 0; d < k->inner; d++)
        places *= is_summed(k, d) ? 1 : k->sizes[d];
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t place = 0; place < places; place++)
        reduce_place(k, run, place);
    yki_operand_clear_padding(k->device, &k->out, run->out[0]);
    return YK_OK;
}

#define IMPL(name, of, function)                                                                   \
    const yki_kernel_impl yki_cpu_##name = {.op = &yki_op_##of,                                    \
                                            .supports = broadcast_supports,                        \
                                            .prepare = broadcast_prepare,                          \
                                            .run = function}
IMPL(add_broadcast, add, combine_all);
IMPL(multiply_broadcast, multiply, combine_all);
IMPL(reduce, reduce, reduce_all);
