/* See module.h. */
#define _GNU_SOURCE
#include "base/module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of the object that contains this function. For a program, dladdr() only knows
 * argv[0]. */
void yki_module_folder(char folder[YKI_MODULE_PATH])
{
    Dl_info info;
    char *real = NULL;
    if (dladdr((void *)(uintptr_t)yki_module_folder, &info))
        real = realpath(info.dli_fname, NULL);
    if (!real)
        real = realpath("/proc/self/exe", NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    snprintf(folder, YKI_MODULE_PATH, "%.*s", slash ? (int)(slash - real) : 1, slash ? real : ".");
    free(real);
}

bool yki_module_locate(char path[YKI_MODULE_PATH], const char *file)
{
    const char *folders = getenv("YOKE_MODULES");
    for (const char *at = folders ? folders : ""; *at;) {
        size_t length = strcspn(at, ":");
        if (length > 0 &&
            snprintf(path, YKI_MODULE_PATH, "%.*s/%s", (int)length, at, file) < YKI_MODULE_PATH &&
            access(path, R_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    char folder[YKI_MODULE_PATH];
    yki_module_folder(folder);
    return snprintf(path, YKI_MODULE_PATH, "%s/%s", folder, file) < YKI_MODULE_PATH &&
           access(path, R_OK) == 0;
}

/* What every table starts with. */
typedef struct table_head {
    uint32_t version, size;
} table_head;

yk_status yki_module_open(const void **table, const char *path, const yki_module_contract *contract,
                          const char *package)
{
    *table = NULL;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return yki_error(YK_ERROR_UNSUPPORTED, "cannot load %s%s%s%s", dlerror(),
                         package ? " (Debian: install " : "", package ? package : "",
                         package ? ")" : "");
    const table_head *head = dlsym(object, contract->symbol);
    if (!head)
        return yki_error(YK_ERROR_UNSUPPORTED, "%s does not implement %s: it has no %s", path,
                         contract->what, contract->symbol);
    if (head->version != contract->version || head->size < contract->size)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s was built for version %u of %s, but version %u is needed: rebuild it",
                         path, (unsigned)head->version, contract->what,
                         (unsigned)contract->version);
    *table = head;
    return YK_OK;
}
