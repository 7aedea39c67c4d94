/* The known devices, and opening one by its name. */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/system.h>

#include "base/local_rank.h"
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

const char *yk_device_type(size_t index)
{
    enum { TYPES = sizeof types / sizeof *types };
    return index < TYPES ? types[index]->name : yki_device_module_type(index - TYPES);
}

static yk_status unknown_device(const char *name)
{
    char known[128];
    size_t at = 0;
    const char *type;
    for (size_t i = 0; (type = yk_device_type(i)) && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", type);
    return yki_error(YK_ERROR_UNSUPPORTED, "device \"%.64s\": expected one of %s", name, known);
}

/* A device's name, taken apart. */
typedef struct device_name {
    char type[MAX_TYPE];
    int index; /* this rank's number on its machine, if any */
    bool any;  /* there is no index */
} device_name;

static bool is_known(const char *type)
{
    size_t i = 0;
    while (yk_device_type(i) && strcmp(yk_device_type(i), type) != 0)
        i++;
    return yk_device_type(i);
}

static yk_status parse_name(device_name *parsed, const char *name)
{
    const char *colon = name + strcspn(name, ":");
    char *end = NULL;
    long index = yki_local_rank();
    snprintf(parsed->type, sizeof parsed->type, "%.*s", (int)(colon - name), name);
    if (!is_known(parsed->type))
        return unknown_device(name);
    parsed->any = !*colon;
    if (*colon) {
        index = isdigit((unsigned char)colon[1]) ? strtol(colon + 1, &end, 10) : -1;
        if (index < 0 || index > MAX_INDEX || *end)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "device \"%.64s\": expected a type, or type:index", name);
    }
    parsed->index = (int)index;
    const yki_device_type *type = find_type(parsed->type);
    if (type && !type->streams && !parsed->any && parsed->index > 0)
        return yki_error(YK_ERROR_UNSUPPORTED, "device \"%.64s\": there is one %s device", name,
                         type->name);
    return YK_OK;
}

yk_status yk_device_check(const char *device)
{
    device_name parsed;
    YKI_NOT_NULL(device);
    return parse_name(&parsed, device);
}

yk_status yki_device_create(yki_device **device, const char *name,
                            const yki_device_options *options)
{
    device_name parsed;
    *device = NULL;
    YK_TRY(parse_name(&parsed, name));
    const yki_device_type *type = find_type(parsed.type);
    if (!type) {
        const yki_device_module *module;
        YK_TRY(yki_device_module_open(&module, parsed.type));
        type = module->type;
    }
    yki_device_options chosen = *options;
    chosen.index = parsed.index;
    chosen.any = parsed.any;
    YK_TRY(type->create(device, &chosen));
    if (!(*device)->name[0])
        snprintf((*device)->name, sizeof(*device)->name, "%s", name);
    (*device)->choices.measures = options->measures && yki_device_is_host(*device);
    return YK_OK;
}

void yki_device_destroy(yki_device *device)
{
    if (!device)
        return;
    yki_choices_fini(&device->choices);
    device->type->destroy(device);
}

yk_status yk_device_count(const char *type, int *count)
{
    const yki_device_module *module;
    YKI_NOT_NULL(count);
    *count = 0;
    YKI_NOT_NULL(type);
    if (!is_known(type))
        return unknown_device(type);
    *count = 1;
    if (find_type(type))
        return YK_OK;
    *count = 0;
    YK_TRY(yki_device_module_open(&module, type));
    yk_status status = module->count(count);
    if (status != YK_OK)
        *count = 0;
    return status;
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

static yk_status describe(const char *device, char *text, size_t size)
{
    device_name parsed;
    const yki_device_module *module;
    int count;
    YK_TRY(parse_name(&parsed, device));
    if (find_type(parsed.type))
        return describe_own(device, text, size);
    YK_TRY(yki_device_module_open(&module, parsed.type));
    YK_TRY(module->count(&count));
    return module->describe(parsed.any ? parsed.index % count : parsed.index, text, size);
}

yk_status yk_device_describe(const char *device, char *text, size_t size)
{
    YKI_NOT_NULL(text);
    if (size)
        text[0] = '\0';
    YKI_NOT_NULL(device);
    yk_status status = describe(device, text, size);
    if (status != YK_OK && size)
        text[0] = '\0';
    return status;
}
