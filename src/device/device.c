/* The known devices, and the search for a kernel. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const yki_device_type *const types[] = {&yki_device_cpu, &yki_device_ref, &yki_device_sim};

yk_status yki_device_create(yki_device **device, const char *name, int threads, bool winograd)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i]->create(device, threads, winograd);
    return yki_error(YK_ERROR_UNSUPPORTED, "device %s: this build has cpu, ref and sim", name);
}

void yki_device_destroy(yki_device *device)
{
    if (device)
        device->type->destroy(device);
}

static const yki_kernel_impl *find(const yki_device_type *type, const yki_device *device,
                                   const yki_kernel_desc *desc)
{
    for (const yki_kernel_impl *const *impl = type->kernels; *impl; impl++)
        if ((*impl)->op == desc->op && (*impl)->supports(device, desc))
            return *impl;
    return NULL;
}

yk_status yki_kernel_create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_kernel_impl *impl = &yki_kernel_empty;
    if (!impl->supports(device, desc))
        impl = find(device->type, device, desc);
    if (!impl)
        impl = find(&yki_device_ref, device, desc);
    if (!impl)
        return yki_error(YK_ERROR_UNSUPPORTED, "device %s has no kernel for %s in %s",
                         device->type->name, desc->op->name, yk_dtype_name(desc->in[0].dtype));
    YK_TRY(impl->prepare(device, desc, kernel));
    (*kernel)->impl = impl;
    return YK_OK;
}

void yki_kernel_destroy(yki_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->impl && kernel->impl->destroy)
        kernel->impl->destroy(kernel);
    else
        free(kernel);
}

int64_t yki_operand_count(const yki_operand *operand)
{
    int64_t count = operand->ndim < 0 ? 0 : 1;
    for (int i = 0; i < operand->ndim; i++)
        count *= operand->dims[i];
    return count;
}

int64_t yki_operand_elements(const yki_device *device, const yki_operand *operand)
{
    int64_t count = yki_operand_count(operand);
    if (operand->layout == YKI_BLOCKED)
        count = count / operand->dims[1] *
                (int64_t)yki_align((size_t)operand->dims[1], (size_t)device->block);
    return count;
}

size_t yki_operand_bytes(const yki_device *device, const yki_operand *operand)
{
    return (size_t)yki_operand_elements(device, operand) * yk_dtype_size(operand->dtype);
}
