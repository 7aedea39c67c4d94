/*
 * Kernels for operands in a device's own layout, made of kernels that only know row-major ones. It
 * is how host devices run whatever they have no kernel of their own for, and other devices the
 * operators of programs.
 */
#include "device/copied.h"

static bool is_plain(const yki_operand *operand)
{
    return operand->ndim < 0 || operand->layout == YKI_PLAIN;
}

static bool plain_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    bool any = false;
    for (int i = 0; i < desc->in_count; i++)
        any = any || !is_plain(&desc->in[i]);
    for (int i = 0; i < desc->out_count; i++)
        any = any || !is_plain(&desc->out[i]);
    return any && (yki_device_is_host(device) ? device->block > 0 && desc->op != &yki_op_reorder
                                              : desc->op->custom != NULL);
}

static yk_status plain_prepare(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_kernel_desc inner = *desc;
    for (int i = 0; i < desc->in_count; i++)
        inner.in[i].layout = YKI_PLAIN;
    for (int i = 0; i < desc->out_count; i++)
        inner.out[i].layout = YKI_PLAIN;
    return yki_copied_prepare(device, desc, &inner, kernel);
}

const yki_kernel_impl yki_kernel_plain = {.supports = plain_supports,
                                          .prepare = plain_prepare,
                                          .run = yki_copied_run,
                                          .destroy = yki_copied_destroy,
                                          .pack = yki_copied_pack,
                                          .same_pack = yki_copied_same_pack};

const yki_kernel_impl yki_kernel_plain_on_host = {.prepare = plain_prepare,
                                                  .run = yki_copied_run,
                                                  .destroy = yki_copied_destroy,
                                                  .on_host = true};
