/* The known devices, and the search for a kernel. */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/system.h>

#include "base/local_rank.h"
#include "base/memory.h"
#include "device/module.h"

enum { MAX_INDEX = 9999, MAX_TYPE = 16 };

static const yki_device_type *const types[] = {&yki_device_cpu, &yki_device_ref, &yki_device_sim};

static const yki_device_type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

static yk_status unknown_device(const char *name)
{
    char known[128];
    size_t at = 0;
    const char *module;
    for (size_t i = 0; i < sizeof types / sizeof *types && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s, ", types[i]->name);
    for (size_t i = 0; (module = yki_device_module_type(i)) && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s, ", module);
    return yki_error(YK_ERROR_UNSUPPORTED, "device \"%s\": expected one of %.*s", name,
                     (int)strlen(known) - 2, known);
}

/* A device by its name, taken apart; its module is NULL if it is in the library. */
typedef struct named_device {
    const yki_device_type *type;
    const yki_device_module *module;
    bool any;
    int index;
} named_device;

/* What is after the colon, if there is one. */
static yk_status parse_index(named_device *found, const char *name, const char *colon)
{
    char *end = NULL;
    long parsed = yki_local_rank();
    found->any = !*colon;
    if (*colon) {
        parsed = isdigit((unsigned char)colon[1]) ? strtol(colon + 1, &end, 10) : -1;
        if (parsed < 0 || parsed > MAX_INDEX || *end)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "device \"%s\": expected a type, or type:index", name);
    }
    found->index = (int)parsed;
    return YK_OK;
}

static yk_status find_device(named_device *found, const char *name)
{
    char type[MAX_TYPE];
    size_t length = strcspn(name, ":");
    *found = (named_device){0};
    snprintf(type, sizeof type, "%.*s", (int)length, name);
    found->type = find_type(type);
    if (!found->type) {
        YK_TRY(yki_device_module_open(&found->module, type));
        if (!found->module)
            return unknown_device(name);
        found->type = found->module->type;
    }
    YK_TRY(parse_index(found, name, name + length));
    if (!found->type->streams && !found->any && found->index > 0)
        return yki_error(YK_ERROR_UNSUPPORTED, "device \"%s\": there is one %s device", name,
                         found->type->name);
    return YK_OK;
}

yk_status yki_device_create(yki_device **device, const char *name,
                            const yki_device_options *options)
{
    named_device found;
    *device = NULL;
    YK_TRY(find_device(&found, name));
    yki_device_options chosen = *options;
    chosen.index = found.index;
    chosen.any = found.any;
    YK_TRY(found.type->create(device, &chosen));
    if (!(*device)->name[0])
        snprintf((*device)->name, sizeof(*device)->name, "%s", name);
    return YK_OK;
}

void yki_device_destroy(yki_device *device)
{
    if (device)
        device->type->destroy(device);
}

yk_status yk_device_count(const char *type, int *count)
{
    named_device found;
    YKI_NOT_NULL(type);
    YKI_NOT_NULL(count);
    *count = 0;
    YK_TRY(find_device(&found, type));
    if (found.module)
        return found.module->count(count);
    *count = 1;
    return YK_OK;
}

/* Those in the library describe themselves when they are opened. */
static yk_status describe_own(const char *device, char *text, size_t size)
{
    yki_device *opened;
    YK_TRY(yki_device_create(&opened, device,
                             &(yki_device_options){.threads = yk_threads_default(1)}));
    snprintf(text, size, "%s", opened->description);
    yki_device_destroy(opened);
    return YK_OK;
}

yk_status yk_device_describe(const char *device, char *text, size_t size)
{
    named_device found;
    YKI_NOT_NULL(device);
    YKI_NOT_NULL(text);
    YK_TRY(find_device(&found, device));
    if (!found.module)
        return describe_own(device, text, size);
    int count;
    YK_TRY(found.module->count(&count));
    return found.module->describe(found.any ? found.index % count : found.index, text, size);
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
