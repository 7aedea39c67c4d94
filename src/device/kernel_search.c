/* The search for the kernel of an operator. */
#include "device/device.h"
#include "tensor/element.h"

static const yki_kernel_impl *find(const yki_device_type *type, const yki_device *device,
                                   const yki_kernel_desc *desc)
{
    for (const yki_kernel_impl *const *impl = type->kernels; *impl; impl++)
        if ((*impl)->op == desc->op && (*impl)->supports(device, desc) &&
            (!(*impl)->gains || (*impl)->gains(device, desc)))
            return *impl;
    return NULL;
}

static const yki_kernel_impl *find_ref(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_kernel_impl *impl = find(&yki_device_ref, device, desc);
    return impl && (yki_device_is_host(device) || impl->on_host) ? impl : NULL;
}

/* What the rules say: the first that supports desc and gains; NULL if none does. */
static const yki_kernel_impl *choose(const yki_device *device, const yki_kernel_desc *desc)
{
    if (yki_kernel_empty.supports(device, desc))
        return &yki_kernel_empty;
    const yki_kernel_impl *impl =
        desc->op->custom ? yki_custom_kernel(device, desc) : find(device->type, device, desc);
    if (!impl && !desc->op->custom)
        impl = find_ref(device, desc);
    if (!impl && yki_kernel_plain.supports(device, desc))
        impl = yki_device_is_host(device) ? &yki_kernel_plain : &yki_kernel_plain_on_host;
    if (!impl && yki_kernel_relaid.supports(device, desc))
        impl = &yki_kernel_relaid;
    return impl;
}

/* ---- rows: what is the same for each row of a value is a matrix to kernels ------------------- */

static bool is_of_rows(const yki_kernel_desc *desc)
{
    const yki_op *op = desc->op;
    bool is_loss = op == &yki_op_cross_entropy || op == &yki_op_cross_entropy_backward;
    return op == &yki_op_linear || op == &yki_op_linear_backward_data ||
           op == &yki_op_linear_backward_weight || (is_loss && desc->attrs->classes_last);
}

/* (A, B, C) -> (A B, C), and what has one number for each row, (A, B) -> (A B). Values of three
 * dimensions are plain on every device. */
static void merge_rows(yki_operand *operand, bool is_column)
{
    if (operand->ndim != 3 && !(operand->ndim == 2 && is_column))
        return;
    operand->ndim--;
    operand->dims[0] *= operand->dims[1];
    operand->dims[1] = operand->dims[2];
}

yk_status yki_kernel_create(yki_device *device, const yki_kernel_desc *given, yki_kernel **kernel)
{
    yki_kernel_desc rows = *given;
    const yki_kernel_desc *desc = is_of_rows(given) ? &rows : given;
    for (int i = 0; i < YKI_MAX_IN; i++)
        merge_rows(&rows.in[i],
                   yki_is_index(rows.in[i].dtype) || (given->op == &yki_op_cross_entropy_backward &&
                                                      i == YKI_CROSS_ENTROPY_BACKWARD_LOG_SUMS));
    for (int i = 0; i < YKI_MAX_OUT; i++)
        merge_rows(&rows.out[i],
                   given->op == &yki_op_cross_entropy && i == YKI_CROSS_ENTROPY_LOG_SUMS);
    const yki_kernel_impl *impl = choose(device, desc);
    if (!impl)
        return yki_error(YK_ERROR_UNSUPPORTED, "device %s has no kernel for %s in %s",
                         device->type->name, desc->op->name, yk_dtype_name(desc->in[0].dtype));
    YK_TRY(yki_choose_kernel(device, desc, &impl));
    YK_TRY(impl->prepare(device, desc, kernel));
    (*kernel)->impl = impl;
    return YK_OK;
}

bool yki_kernels_share_pack(const yki_kernel *a, const yki_kernel *b)
{
    return a->impl->same_pack && a->impl->same_pack == b->impl->same_pack &&
           a->impl->same_pack(a, b);
}
