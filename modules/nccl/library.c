/* See library.h. */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FILE_NAME[] = "libnccl.so.2";

/* Of the process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static nccl_library opened;
static char complaint[400]; /* empty: it is open */

/* The address of a function; sets the complaint where there is none. */
static void *find_function(void *object, const char *name)
{
    void *address = dlsym(object, name);
    if (!address && !complaint[0])
        snprintf(complaint, sizeof complaint, "%s has no function %s: NCCL 2.18 or newer is needed",
                 FILE_NAME, name);
    return address;
}

static void find_functions(void *object)
{
#define NCCL_FIND(name, arguments)                                                                 \
    opened.name = (nccl_result(*) arguments)find_function(object, "nccl" #name);
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    opened.GetErrorString =
        (const char *(*)(nccl_result))find_function(object, "ncclGetErrorString");
    opened.GetLastError = (const char *(*)(nccl_comm *))find_function(object, "ncclGetLastError");
}

static void check_version(void)
{
    int version = 0;
    if (opened.GetVersion(&version) != NCCL_SUCCESS || version < NCCL_OLDEST)
        snprintf(complaint, sizeof complaint,
                 "NCCL %d.%d is too old: 2.18 or newer is needed (NVIDIA's package libnccl2)",
                 version / 10000, version / 100 % 100);
    opened.version = version;
    snprintf(opened.name, sizeof opened.name, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
}

/* In each folder of YOKE_CUDA_LIBS, as the cuda device finds its libraries. */
static void *open_in_folders(void)
{
    const char *folder = getenv("YOKE_CUDA_LIBS");
    void *object = NULL;
    while (!object && folder && *folder) {
        char path[4096];
        size_t length = strcspn(folder, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, FILE_NAME);
        if (written < (int)sizeof path)
            object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        folder += length + (folder[length] == ':');
    }
    return object;
}

/* Tests name a library of their own. */
static void *open_file(void)
{
    const char *other = getenv("YOKE_TEST_NCCL");
    if (other)
        return dlopen(other, RTLD_NOW | RTLD_LOCAL);
    void *object = open_in_folders();
    return object ? object : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

static void open_once(void)
{
    void *object = open_file();
    if (!object) {
        snprintf(complaint, sizeof complaint,
                 "NCCL cannot be opened (%.200s): install NVIDIA's package libnccl2, or put its "
                 "folder into YOKE_CUDA_LIBS",
                 dlerror());
        return;
    }
    find_functions(object);
    if (!complaint[0])
        check_version();
}

yk_status nccl_open_library(const nccl_library **library)
{
    pthread_once(&once, open_once);
    *library = &opened;
    return complaint[0] ? yk_set_error(YK_ERROR_UNSUPPORTED, "%s", complaint) : YK_OK;
}
