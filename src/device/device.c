/* The known devices, and the search for a kernel. */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MAX_INDEX = 9999 };

static const yki_device_type *const types[] = {&yki_device_cpu, &yki_device_ref, &yki_device_sim};

static const yki_device_type *find_type(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i]->name) == length && memcmp(types[i]->name, name, length) == 0)
            return types[i];
    return NULL;
}

static yk_status unknown_device(const char *name)
{
    char known[128];
    size_t at = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types && at < sizeof known; i++)
        at +=
            (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", types[i]->name);
    return yki_error(YK_ERROR_UNSUPPORTED, "device \"%s\": this build has %s", name, known);
}

/* The index after the colon; 0 where there is none. */
static yk_status parse_index(const char *name, const char *colon, int *index)
{
    char *end = NULL;
    long parsed = 0;
    if (*colon) {
        parsed = isdigit((unsigned char)colon[1]) ? strtol(colon + 1, &end, 10) : -1;
        if (parsed < 0 || parsed > MAX_INDEX || *end)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "device \"%s\": expected a type, or type:index", name);
    }
    *index = (int)parsed;
    return YK_OK;
}

yk_status yki_device_create(yki_device **device, const char *name,
                            const yki_device_options *options)
{
    yki_device_options chosen = *options;
    *device = NULL;
    size_t length = strcspn(name, ":");
    const yki_device_type *type = find_type(name, length);
    if (!type)
        return unknown_device(name);
    YK_TRY(parse_index(name, name + length, &chosen.index));
    if (!type->streams && chosen.index > 0)
        return yki_error(YK_ERROR_UNSUPPORTED, "device \"%s\": there is one %s device", name,
                         type->name);
    YK_TRY(type->create(device, &chosen));
    snprintf((*device)->name, sizeof(*device)->name, "%s", name);
    return YK_OK;
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

/* The first that supports desc; NULL if none does. */
static const yki_kernel_impl *choose(const yki_device *device, const yki_kernel_desc *desc)
{
    if (yki_kernel_empty.supports(device, desc))
        return &yki_kernel_empty;
    const yki_kernel_impl *impl =
        desc->op->custom ? yki_custom_kernel(device, desc) : find(device->type, device, desc);
    if (!impl && !desc->op->custom && yki_device_is_host(device))
        impl = find(&yki_device_ref, device, desc);
    if (!impl && yki_kernel_plain.supports(device, desc))
        impl = &yki_kernel_plain;
    return impl;
}

yk_status yki_kernel_create(yki_device *device, const yki_kernel_desc *desc, yki_kernel **kernel)
{
    const yki_kernel_impl *impl = choose(device, desc);
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

void yki_operand_clear_padding(const yki_device *device, const yki_operand *operand, void *memory)
{
    if (operand->ndim < 0 || operand->layout != YKI_BLOCKED)
        return;
    int64_t block = device->block, used = operand->dims[1] % block;
    int64_t blocks = (operand->dims[1] + block - 1) / block;
    int64_t pixels = operand->dims[2] * operand->dims[3];
    size_t size = yk_dtype_size(operand->dtype);
    for (int64_t image = 0; used && image < operand->dims[0]; image++) {
        int64_t last = ((image + 1) * blocks - 1) * pixels;
        for (int64_t pixel = last; pixel < last + pixels; pixel++)
            memset((char *)memory + (size_t)(pixel * block + used) * size, 0,
                   (size_t)(block - used) * size);
    }
}
