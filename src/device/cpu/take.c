/*
 * take_along_dim. Rows are divided among the threads. In 16 bits, a thread adds up the gradient of
 * a row in f32, so that places that are taken several times are rounded once.
 */
#include "device/take.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/convert16.h"
#include "device/cpu/geometry.h"
#include "tensor/element.h"

typedef struct take {
    yki_kernel base;
    yki_take at;
    yk_dtype dtype, index;
    int team;
} take;

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool plain = yki_is_float(&desc->out[0]);
    for (int i = 0; i < desc->in_count; i++)
        plain = plain && desc->in[i].layout == YKI_PLAIN;
    return plain && desc->out[0].layout == YKI_PLAIN;
}

static size_t row_bytes(const take *k)
{
    return yki_align((size_t)(k->at.places * k->at.inner) * sizeof(float), YKI_ALIGNMENT);
}

static yk_status create(yki_device *device, const yki_kernel_desc *desc, const yki_operand *x,
                        const yki_operand *index, yki_kernel **kernel)
{
    take *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a take_along_dim kernel");
    k->at = yki_take_of(desc->attrs, x, index);
    k->dtype = x->dtype;
    k->index = index->dtype;
    k->team = yki_team(device, yki_operand_count(&desc->out[0]));
    *kernel = &k->base;
    return YK_OK;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    return create(device, desc, &desc->in[YKI_TAKE_ALONG_DIM_X],
                  &desc->in[YKI_TAKE_ALONG_DIM_INDEX], kernel);
}

static yk_status check_index(const take *k, const void *index)
{
    const int64_t count = (k->at.shared ? 1 : k->at.rows) * k->at.taken;
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = yki_index_at(k->index, index, i);
        if (place < 0 || place >= k->at.places)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "index %lld is outside 0..%lld",
                             (long long)place, (long long)k->at.places - 1);
    }
    return YK_OK;
}

/* Where the place that is the n-th of a row begins, in elements of the row. */
static int64_t place_of(const take *k, const void *index, int64_t row, int64_t n)
{
    const int64_t i = k->at.shared ? n : row * k->at.taken + n;
    return yki_index_at(k->index, index, i) * k->at.inner;
}

static yk_status run_forward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const take *k = (const take *)kernel;
    const void *index = run->in[YKI_TAKE_ALONG_DIM_INDEX];
    const char *x = run->in[YKI_TAKE_ALONG_DIM_X];
    char *y = run->out[YKI_TAKE_ALONG_DIM_Y];
    const size_t size = yk_dtype_size(k->dtype), bytes = (size_t)k->at.inner * size;
    YK_TRY(check_index(k, index));
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t row = 0; row < k->at.rows; row++) {
        const char *from = x + (size_t)row * (size_t)k->at.places * bytes;
        char *to = y + (size_t)row * (size_t)k->at.taken * bytes;
        if (bytes == sizeof(float)) /* a copy of a known size is no call */
            for (int64_t n = 0; n < k->at.taken; n++)
                memcpy(to + (size_t)n * sizeof(float),
                       from + (size_t)place_of(k, index, row, n) * size, sizeof(float));
        else
            for (int64_t n = 0; n < k->at.taken; n++)
                memcpy(to + (size_t)n * bytes, from + (size_t)place_of(k, index, row, n) * size,
                       bytes);
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_take_along_dim = {
    .op = &yki_op_take_along_dim, .supports = supports, .prepare = prepare, .run = run_forward};

/* ---- gradient -------------------------------------------------------------------------------- */

static yk_status prepare_backward(yki_device *device, const yki_kernel_desc *desc,
                                  yki_kernel **kernel)
{
    YK_TRY(create(device, desc, &desc->out[YKI_TAKE_ALONG_DIM_BACKWARD_DX],
                  &desc->in[YKI_TAKE_ALONG_DIM_BACKWARD_INDEX], kernel));
    const take *k = (const take *)*kernel;
    (*kernel)->scratch = k->dtype == YK_F32 ? 0 : (size_t)k->team * row_bytes(k);
    return YK_OK;
}

static void add_f32(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

static void add_16_bit(float *to, yk_dtype dtype, const uint16_t *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += dtype == YK_BF16 ? yki_bf16_to_float(from[i]) : yki_f16_to_float(from[i]);
}

/* The gradient of a row: dy (taken, inner) -> sums (places, inner). */
static void add_row(const take *k, const void *index, int64_t row, const char *dy, float *sums)
{
    const size_t bytes = (size_t)k->at.inner * yk_dtype_size(k->dtype);
    memset(sums, 0, (size_t)(k->at.places * k->at.inner) * sizeof *sums);
    for (int64_t n = 0; n < k->at.taken; n++) {
        float *to = sums + place_of(k, index, row, n);
        const void *from = dy + (size_t)n * bytes;
        if (k->dtype == YK_F32)
            add_f32(to, from, k->at.inner);
        else
            add_16_bit(to, k->dtype, from, k->at.inner);
    }
}

static yk_status run_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const take *k = (const take *)kernel;
    const void *index = run->in[YKI_TAKE_ALONG_DIM_BACKWARD_INDEX];
    const char *dy = run->in[YKI_TAKE_ALONG_DIM_BACKWARD_DY];
    char *dx = run->out[YKI_TAKE_ALONG_DIM_BACKWARD_DX];
    const size_t bytes = (size_t)k->at.inner * yk_dtype_size(k->dtype);
    const size_t count = (size_t)(k->at.places * k->at.inner);
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t row = 0; row < k->at.rows; row++) {
        const char *from = dy + (size_t)row * (size_t)k->at.taken * bytes;
        char *to = dx + (size_t)row * (size_t)k->at.places * bytes;
        if (k->dtype == YK_F32) {
            add_row(k, index, row, from, (float *)(void *)to);
            continue;
        }
        char *room = (char *)run->scratch + (size_t)omp_get_thread_num() * row_bytes(k);
        add_row(k, index, row, from, (float *)(void *)room);
        yki_cpu_narrow((uint16_t *)(void *)to, (const float *)(void *)room, k->dtype, count, 1);
    }
    return YK_OK;
}

const yki_kernel_impl yki_cpu_take_along_dim_backward = {.op = &yki_op_take_along_dim_backward,
                                                         .supports = supports,
                                                         .prepare = prepare_backward,
                                                         .run = run_backward};
