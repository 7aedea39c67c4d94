/* See module.h: the one table of devices that are modules. */
#include "device/module.h"

#include <string.h>

#include "base/module.h"

typedef struct known_module {
    const char *type, *file;
    const char *needs; /* to build it */
} known_module;

static const known_module known_modules[] = {
    {"cuda", "libyoke-cuda.so", "CUDA's nvcc (from NVIDIA: cuda-nvcc)"},
};

enum { KNOWN = sizeof known_modules / sizeof *known_modules };

static const yki_module_contract contract = {"yki_device_module_table", "the device contract",
                                             YOKE_DEVICE_CONTRACT, sizeof(yki_device_module)};

const char *yki_device_module_type(size_t index)
{
    return index < KNOWN ? known_modules[index].type : NULL;
}

static const known_module *find_known(const char *type)
{
    const known_module *known = known_modules;
    while (strcmp(known->type, type) != 0)
        known++;
    return known;
}

yk_status yki_device_module_open(const yki_device_module **module, const char *type)
{
    char path[YKI_MODULE_PATH], folder[YKI_MODULE_PATH];
    const void *table;
    const known_module *known = find_known(type);
    *module = NULL;
    if (!yki_module_locate(path, known->file)) {
        yki_module_folder(folder);
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device %s: its module %s is not in %.200s: build yoke where %s is "
                         "installed, or name the module's folder in YOKE_MODULES",
                         known->type, known->file, folder, known->needs);
    }
    YK_TRY(yki_module_open(&table, path, &contract, NULL));
    *module = table;
    return YK_OK;
}
