/*
 * Kernels for operands in a device's own layout, made of kernels that only know row-major ones. It
 * is how host devices run whatever they have no kernel of their own for, and other devices the
 * operators of programs.
 *
 * And the other way round: other devices have kernels for images in their own layout alone, but
 * parameters of four dimensions are row-major, and so is what is computed of them, such as a
 * penalty on the weights of a convolution.
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

/* ---- parameters as images -------------------------------------------------------------------- */

/* The operand that is the weight of a convolution, or its gradient: row-major, as kernels want it.
 * NULL where there is none. */
static const yki_operand *filters_of(const yki_kernel_desc *desc)
{
    if (desc->op == &yki_op_conv2d)
        return &desc->in[YKI_CONV2D_WEIGHT];
    if (desc->op == &yki_op_conv2d_backward_data)
        return &desc->in[YKI_CONV2D_BACKWARD_DATA_WEIGHT];
    if (desc->op == &yki_op_conv2d_backward_weight)
        return &desc->out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT];
    if (desc->op == &yki_op_conv_transpose2d)
        return &desc->in[YKI_CONV_TRANSPOSE2D_WEIGHT];
    return NULL;
}

/* Gives operands the layout in which the device keeps images. Whether that changed one of them. */
static bool relay(const yki_device *device, yki_operand *operands, int count,
                  const yki_operand *filters)
{
    bool any = false;
    for (yki_operand *o = operands; o < operands + count; o++) {
        if (o == filters || o->ndim < 0 || o->layout != YKI_PLAIN)
            continue;
        o->layout = device->type->layout(device, o);
        any |= o->layout != YKI_PLAIN;
    }
    return any;
}

static bool relay_all(const yki_device *device, yki_kernel_desc *desc)
{
    bool in = relay(device, desc->in, desc->in_count, filters_of(desc));
    bool out = relay(device, desc->out, desc->out_count, filters_of(desc));
    return in || out;
}

static bool relaid_supports(const yki_device *device, const yki_kernel_desc *desc)
{
    yki_kernel_desc inner = *desc;
    return !yki_device_is_host(device) && !desc->op->custom && desc->op != &yki_op_reorder &&
           relay_all(device, &inner);
}

static yk_status relaid_prepare(yki_device *device, const yki_kernel_desc *desc,
                                yki_kernel **kernel)
{
    yki_kernel_desc inner = *desc;
    relay_all(device, &inner);
    return yki_copied_prepare(device, desc, &inner, kernel);
}

const yki_kernel_impl yki_kernel_relaid = {.supports = relaid_supports,
                                           .prepare = relaid_prepare,
                                           .run = yki_copied_run,
                                           .destroy = yki_copied_destroy,
                                           .pack = yki_copied_pack,
                                           .same_pack = yki_copied_same_pack};
