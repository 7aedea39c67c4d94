/*
 * The one table of backends that are modules. A module lies next to libyoke (or next to the
 * program, where that is linked with the library's objects) or in a folder of YOKE_MODULES, where a
 * site may also have modules of its own: any file libyoke-NAME.so there is a backend NAME.
 *
 * Modules are never closed: their libraries start threads and register functions that must not
 * disappear.
 */
#define _GNU_SOURCE
#include "comm/modules.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"

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
    {"nccl", "libyoke-nccl.so", "libnccl-dev", NULL},
};

enum { PATH = 4096, KNOWN = sizeof known_modules / sizeof *known_modules };

/* ---- where modules lie ----------------------------------------------------------------------- */

/* The folder of the object that contains this function. Of a program, dladdr() knows no more than
 * argv[0]. */
static void own_folder(char folder[PATH])
{
    Dl_info info;
    char *real = NULL;
    if (dladdr((void *)(uintptr_t)own_folder, &info))
        real = realpath(info.dli_fname, NULL);
    if (!real)
        real = realpath("/proc/self/exe", NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    snprintf(folder, PATH, "%.*s", slash ? (int)(slash - real) : 1, slash ? real : ".");
    free(real);
}

/* Whether the file is in one of the folders; then its path. */
static bool find_file(char path[PATH], const char *file)
{
    const char *folders = getenv("YOKE_MODULES");
    for (const char *at = folders ? folders : ""; *at;) {
        size_t length = strcspn(at, ":");
        if (length > 0 && snprintf(path, PATH, "%.*s/%s", (int)length, at, file) < PATH &&
            access(path, R_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    char folder[PATH];
    own_folder(folder);
    return snprintf(path, PATH, "%s/%s", folder, file) < PATH && access(path, R_OK) == 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static yk_status open_file(const yk_backend_ops **ops, const char *path, const char *package)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return yki_error(YK_ERROR_UNSUPPORTED, "cannot load %s%s%s%s", dlerror(),
                         package ? " (Debian: install " : "", package ? package : "",
                         package ? ")" : "");
    const yk_backend_ops *found = dlsym(object, "yk_backend_module");
    if (!found)
        return yki_error(YK_ERROR_UNSUPPORTED, "%s is no backend: it has no yk_backend_module",
                         path);
    if (found->version != YK_BACKEND_VERSION || found->size < sizeof *found)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s was built for version %u of the backend contract, this is version %d: "
                         "build it again",
                         path, found->version, YK_BACKEND_VERSION);
    *ops = found;
    return YK_OK;
}

static bool is_name(const char *name)
{
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name) &&
           strlen(name) < 64;
}

/* The known module to open for a backend; NULL when none is there. */
static const known_module *choose_module(char path[PATH], const char *name)
{
    const known_module *found = NULL;
    for (int i = 0; i < KNOWN; i++) {
        char candidate[PATH];
        const known_module *known = &known_modules[i];
        if (strcmp(known->backend, name) != 0 || !find_file(candidate, known->file))
            continue;
        bool sure = known->sign && getenv(known->sign);
        if (!found || sure) {
            found = known;
            memcpy(path, candidate, PATH);
        }
        if (sure)
            break;
    }
    return found;
}

static yk_status missing_module(const char *name)
{
    char folder[PATH];
    own_folder(folder);
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(known_modules[i].backend, name) == 0)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "the backend \"%s\" is not installed: %s is not in %.200s; build yoke "
                             "where Debian's package %s is installed, or set YOKE_MODULES",
                             name, known_modules[i].file, folder, known_modules[i].package);
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "unknown backend \"%s\"", name);
}

yk_status yki_module_find(const yk_backend_ops **ops, const char *name)
{
    char path[PATH], file[80];
    *ops = NULL;
    if (!is_name(name))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "unknown backend \"%s\"", name);
    const known_module *known = choose_module(path, name);
    if (known)
        return open_file(ops, path, known->package);
    snprintf(file, sizeof file, "libyoke-%s.so", name);
    return find_file(path, file) ? open_file(ops, path, NULL) : missing_module(name);
}

yk_status yki_module_share_text(const char *name, char *text, size_t size)
{
    char path[PATH];
    if (!choose_module(path, name))
        return YK_ERROR_NOT_FOUND;
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    yk_backend_share_text_function *share =
        object ? (yk_backend_share_text_function *)dlsym(object, "yk_backend_share_text") : NULL;
    return share ? share(text, size) : YK_ERROR_NOT_FOUND;
}

/* ---- listing --------------------------------------------------------------------------------- */

const char *yk_backend_module_file(size_t index, const char **backend)
{
    if (index >= KNOWN)
        return NULL;
    *backend = known_modules[index].backend;
    return known_modules[index].file;
}

yk_status yk_backend_module_check(size_t index)
{
    char path[PATH];
    const yk_backend_ops *ops;
    if (index >= KNOWN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no module %zu", index);
    const known_module *known = &known_modules[index];
    if (find_file(path, known->file))
        return open_file(&ops, path, known->package);
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "not installed; build yoke where Debian's package %s is installed",
                     known->package);
}
