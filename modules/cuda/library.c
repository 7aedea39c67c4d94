/* See library.h. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { PATH = 4096 };

/* In each folder of YOKE_CUDA_LIBS. */
static void *open_in_folders(const char *file)
{
    const char *folder = getenv("YOKE_CUDA_LIBS");
    while (folder && *folder) {
        char path[PATH];
        size_t length = strcspn(folder, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);
        void *library = written < PATH ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library)
            return library;
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

static void *open_any(const yki_cuda_library *library)
{
    for (const char *const *file = library->files; *file; file++) {
        void *found = open_in_folders(*file);
        if (!found)
            found = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (found)
            return found;
    }
    return NULL;
}

yk_status yki_cuda_library_open(const yki_cuda_library *library, void *table)
{
    void *opened = open_any(library);
    if (!opened)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device cuda: %s cannot be opened (%s): install %s, or put its folder "
                         "into YOKE_CUDA_LIBS",
                         library->what, dlerror(), library->package);
    for (size_t i = 0; library->symbols[i]; i++) {
        void *function = dlsym(opened, library->symbols[i]);
        if (!function)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "device cuda: this %s has no %s: it is too old; install %s",
                             library->what, library->symbols[i], library->package);
        memcpy((char *)table + i * sizeof function, &function, sizeof function);
    }
    return YK_OK;
}
