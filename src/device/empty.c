/*
 * The kernel of every operator for a batch without samples. It writes zeros to the outputs whose
 * size does not depend on the batch, such as gradients of parameters and the loss. A rank that has
 * run out of samples can therefore run the same steps as the others on any device, and no other
 * kernel has to handle empty batches. The exceptions are batch_norm, which still exchanges
 * statistics with the other ranks when it is synchronised, and the kernels that gather batches,
 * which refuse one of another size.
 */
#include "base/memory.h"
#include "device/device.h"

typedef struct empty {
    yki_kernel base;
    yki_device *device;
    size_t bytes[YKI_MAX_OUT];
} empty;

static bool has_no_elements(const yki_operand *operand)
{
    return operand->ndim > 0 && yki_operand_count(operand) == 0;
}

static bool is_exchanged(const yki_op *op)
{
    return op == &yki_op_batch_norm || op == &yki_op_batch_norm_backward ||
           op == &yki_op_all_gather_batch || op == &yki_op_reduce_scatter_batch;
}

static bool empty_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    bool any = false;
    for (int i = 0; i < desc->in_count; i++)
        any = any || has_no_elements(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        any = any || has_no_elements(&desc->out[i]);
    return any && !is_exchanged(desc->op);
}

static yk_status empty_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    empty *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a kernel for an empty batch");
    k->device = device;
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
        if (run->out[i]) /* it gives no sums */
            YK_TRY(yki_device_fill(k->device, run->out[i], 0, k->bytes[i], run->stream));
    return YK_OK;
}

const yki_kernel_impl yki_kernel_empty = {
    .supports = empty_supports, .prepare = empty_prepare, .run = write_zeros};
