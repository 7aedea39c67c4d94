/* permute of plain values; blocked ones are copied before and after (device/plain.c). */
#include <string.h>

#include "base/memory.h"
#include "device/cpu/geometry.h"

typedef struct permute {
    yki_kernel base;
    int64_t sizes[YK_MAX_DIMS], stride[YK_MAX_DIMS]; /* of y, and of x along its dimensions */
    size_t size;                                     /* of an element */
    int team;
} permute;

static bool permute_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    const yki_operand *x = &desc->in[0], *y = &desc->out[0];
    return yki_alike(x, y) && x->layout == YKI_PLAIN;
}

static yk_status permute_prepare(yki_device *device, const yki_kernel_desc *desc,
                                 yki_kernel **kernel)
{
    permute *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a permute kernel");
    const yki_operand *x = &desc->in[0], *y = &desc->out[0];
    int64_t strides[YK_MAX_DIMS], product = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        strides[d] = product;
        product *= x->dims[d];
    }
    const int missing = YK_MAX_DIMS - y->ndim;
    for (int d = 0; d < YK_MAX_DIMS; d++) {
        k->sizes[d] = d < missing ? 1 : y->dims[d - missing];
        k->stride[d] = d < missing ? 0 : strides[desc->attrs->dims[d - missing]];
    }
    k->size = yk_dtype_size(x->dtype);
    k->team = yki_team(device, product);
    *kernel = &k->base;
    return YK_OK;
}

/* Elements `step` apart, one after another. */
#define GATHER(TYPE)                                                                               \
    static void gather_##TYPE(TYPE *restrict y, const TYPE *restrict x, int64_t step,              \
                              int64_t count)                                                       \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            y[i] = x[i * step];                                                                    \
    }
GATHER(uint16_t)
GATHER(uint32_t)

static void permute_row(const permute *k, const void *x, void *y, int64_t row)
{
    int64_t from = 0, rest = row;
    const int64_t count = k->sizes[YK_MAX_DIMS - 1], step = k->stride[YK_MAX_DIMS - 1];
    for (int d = YK_MAX_DIMS - 2; d >= 0; d--) {
        from += rest % k->sizes[d] * k->stride[d];
        rest /= k->sizes[d];
    }
    if (step == 1)
        memcpy((char *)y + (size_t)(row * count) * k->size,
               (const char *)x + (size_t)from * k->size, (size_t)count * k->size);
    else if (k->size == 2)
        gather_uint16_t((uint16_t *)y + row * count, (const uint16_t *)x + from, step, count);
    else
        gather_uint32_t((uint32_t *)y + row * count, (const uint32_t *)x + from, step, count);
}

static yk_status permute_run(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const permute *k = (const permute *)kernel;
#pragma omp parallel for num_threads(k->team) if (k->team > 1)
    for (int64_t row = 0; row < k->sizes[0] * k->sizes[1] * k->sizes[2]; row++)
        permute_row(k, run->in[0], run->out[0], row);
    return YK_OK;
}

const yki_kernel_impl yki_cpu_permute = {.op = &yki_op_permute,
                                         .supports = permute_supports,
                                         .prepare = permute_prepare,
                                         .run = permute_run};
