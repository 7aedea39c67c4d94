/* See nvidia.h. */
#include "nvidia.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loader's reason names the file, or only one that the file needs. */
static void describe(const char *path, char *reason, size_t size)
{
    const char *why = dlerror();
    if (strncmp(why, path, strlen(path)) == 0)
        snprintf(reason, size, "%s", why);
    else
        snprintf(reason, size, "%s: %s", path, why);
}

/* On failure, writes to `reason` why the first existing file cannot be opened. If no file exists,
 * leaves it unchanged. */
static void *open_in_folders(const char *file, char *reason, size_t size)
{
    const char *folder = getenv("YOKE_CUDA_LIBS");
    while (folder && *folder) {
        char path[4096];
        size_t length = strcspn(folder, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, file);
        bool exists = written < (int)sizeof path && access(path, F_OK) == 0;
        void *library = exists ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library)
            return library;
        if (exists && !*reason)
            describe(path, reason, size);
        folder += length + (folder[length] == ':');
    }
    return NULL;
}

void *nvidia_open_in_folders(const char *file)
{
    char reason[256] = "";
    return open_in_folders(file, reason, sizeof reason);
}

void *nvidia_open(const char *const *files, char *reason, size_t size)
{
    char newest[512] = "";
    *reason = '\0';
    for (const char *const *file = files; *file; file++) {
        void *library = open_in_folders(*file, reason, size);
        if (!library)
            library = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        if (!*newest)
            snprintf(newest, sizeof newest, "%s", dlerror());
    }
    if (!*reason)
        snprintf(reason, size, "%s", newest);
    return NULL;
}
