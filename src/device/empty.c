/*
 * What every operator makes of a batch without samples: nothing, but for what does not depend on
 * the batch's size (gradients of parameters, the loss), which becomes zero. So a rank that has run
 * out of samples goes through the same steps as the others, on any device, and no kernel needs to
 * think of it. batch_norm alone is not this simple: synchronised, it still meets the other ranks.
 */
#include <string.h>

#include "base/memory.h"
#include "device/device.h"

typedef struct empty {
    yki_kernel base;
    size_t bytes[YKI_MAX_OUT];
} empty;

static bool has_no_elements(const yki_operand *operand)
{
    return operand->ndim > 0 && yki_operand_count(operand) == 0;
}

static bool supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool any = false;
    for (int i = 0; i < desc->in_count; i++)
        any = any || has_no_elements(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        any = any || has_no_elements(&desc->out[i]);
    return any && desc->op != &yki_op_batch_norm && desc->op != &yki_op_batch_norm_backward;
}

static yk_status prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    empty *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel for an empty batch");
    for (int i = 0; i < desc->out_count; i++)
        if (desc->out[i].ndim >= 0)
            k->bytes[i] = yki_operand_bytes(device, &desc->out[i]);
    *kernel = &k->base;
    return YK_OK;
}

static yk_status write_zeros(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const empty *k = (const empty *)kernel;
    for (int i = 0; i < YKI_MAX_OUT; i++)
        if (k->bytes[i])
            memset(run->out[i], 0, k->bytes[i]);
    return YK_OK;
}

const yki_kernel_impl yki_kernel_empty = {
    .supports = supports, .prepare = prepare, .run = write_zeros};
