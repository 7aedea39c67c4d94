/*
 * The one table of backends that are modules (base/module.h). A site may have more: any file
 * libyoke-NAME.so is a backend NAME.
 */
#define _GNU_SOURCE
#include "comm/backend/modules.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "base/open_files.h"

typedef struct known_module {
    const char *backend, *file;
    const char *package; /* of Debian, with the library that it needs */
    const char *sign;    /* an environment variable that tells that it is the right one, or NULL */
} known_module;

/* Of several modules for one backend the first with a sign of its launcher is taken, and without
 * any sign the first that is there. */
static const known_module known_modules[] = {
    {"gloo", "libyoke-gloo.so", "libgloo-dev", NULL},
    {"mpi", "libyoke-mpi-openmpi.so", "libopenmpi-dev", "OMPI_COMM_WORLD_SIZE"},
    {"mpi", "libyoke-mpi-mpich.so", "libmpich-dev", "PMI_SIZE"},
    {"nccl", "libyoke-nccl.so", "libnccl2", NULL}, /* which it opens itself */
};

enum { KNOWN = sizeof known_modules / sizeof *known_modules };

static const yki_module_contract contract = {"yk_backend_module", "the backend contract",
                                             YK_BACKEND_VERSION, sizeof(yk_backend_ops)};

/* ---- opening --------------------------------------------------------------------------------- */

static yk_status open_file(const yk_backend_ops **ops, const char *path, const char *package)
{
    const void *table;
    yk_status status = yki_module_open(&table, path, &contract, package);
    *ops = table;
    return status;
}

static bool is_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name) &&
           strlen(name) < 64;
}

/* The known module to open for a backend; NULL when none is there. */
static const known_module *choose_module(char path[YKI_MODULE_PATH], const char *name)
{
    const known_module *found = NULL;
    for (int i = 0; i < KNOWN; i++) {
        char candidate[YKI_MODULE_PATH];
        const known_module *known = &known_modules[i];
        if (strcmp(known->backend, name) != 0 || !yki_module_locate(candidate, known->file))
            continue;
        bool sure = known->sign && getenv(known->sign);
        if (!found || sure) {
            found = known;
            memcpy(path, candidate, YKI_MODULE_PATH);
        }
        if (sure)
            break;
    }
    return found;
}

static yk_status missing_module(const char *name)
{
    char folder[YKI_MODULE_PATH];
    yki_module_folder(folder);
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(known_modules[i].backend, name) == 0)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "the backend \"%s\" is not installed: %s is not in %.200s; build yoke "
                             "where Debian's package %s is installed, or set YOKE_MODULES",
                             name, known_modules[i].file, folder, known_modules[i].package);
    return yki_error(
        YK_ERROR_INVALID_ARGUMENT,
        "unknown backend \"%s\": there are self, shm, tcp, gloo, mpi and nccl, and modules "
        "libyoke-NAME.so in %.200s",
        name, folder);
}

/* The file of the module of that name; *known is NULL for one that the table does not have. */
static yk_status locate(char path[YKI_MODULE_PATH], const known_module **known, const char *name)
{
    char file[80];
    if (!is_name(name))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "unknown backend \"%s\"", name);
    *known = choose_module(path, name);
    if (*known)
        return YK_OK;
    snprintf(file, sizeof file, "libyoke-%s.so", name);
    return yki_module_locate(path, file) ? YK_OK : missing_module(name);
}

yk_status yki_module_exists(const char *name)
{
    char path[YKI_MODULE_PATH];
    const known_module *known;
    return locate(path, &known, name);
}

yk_status yki_module_find(const yk_backend_ops **ops, const char *name)
{
    char path[YKI_MODULE_PATH];
    const known_module *known;
    *ops = NULL;
    YK_TRY(locate(path, &known, name));
    yki_allow_more_open_files(); /* a network may connect each rank with every other */
    return open_file(ops, path, known ? known->package : NULL);
}

yk_status yki_module_share_text(const char *name, char *text, size_t size, double timeout_s)
{
    char path[YKI_MODULE_PATH];
    if (!choose_module(path, name))
        return YK_ERROR_NOT_FOUND;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    yk_backend_share_text_function *share =
        object ? (yk_backend_share_text_function *)dlsym(object, "yk_backend_share_text") : NULL;
    return share ? share(text, size, timeout_s) : YK_ERROR_NOT_FOUND;
}

/* ---- listing --------------------------------------------------------------------------------- */

const char *yk_backend_module_file(size_t index, const char **backend)
{
    if (index >= KNOWN)
        return NULL;
    if (backend)
        *backend = known_modules[index].backend;
    return known_modules[index].file;
}

yk_status yk_backend_module_check(size_t index)
{
    char path[YKI_MODULE_PATH];
    const yk_backend_ops *ops;
    if (index >= KNOWN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no module %zu", index);
    const known_module *known = &known_modules[index];
    if (yki_module_locate(path, known->file)) {
        YK_TRY(open_file(&ops, path, known->package));
        return ops->available ? ops->available() : YK_OK;
    }
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "not installed; build yoke where Debian's package %s is installed",
                     known->package);
}
