/* See nvidia.h. */
#include "nvidia.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_in_folders(const char *file)
{
    const char *folder = getenv("YOKE_CUDA_LIBS");
    while (folder && *folder) {
        char path[4096];
        size_t length = strcspn(folder, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);
        void *library = written < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library)
            return library;
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

void *nvidia_open(const char *const *files, char *reason, size_t size)
{
    for (const char *const *file = files; *file; file++) {
        void *library = open_in_folders(*file);
        if (!library)
            library = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        if (file == files)
            snprintf(reason, size, "%s", dlerror());
    }
    return NULL;
}
