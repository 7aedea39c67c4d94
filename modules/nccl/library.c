/* See library.h. */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/nvidia.h"

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
    opened.MemAlloc = (nccl_result(*)(void **, size_t))dlsym(object, "ncclMemAlloc");
    opened.MemFree = (nccl_result(*)(void *))dlsym(object, "ncclMemFree");
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

/* Tests name a library of their own. */
static void *open_file(char *reason, size_t size)
{
    const char *other = getenv("YOKE_TEST_NCCL");
    const char *const files[] = {other ? other : FILE_NAME, NULL};
    return nvidia_open(files, reason, size);
}

static void open_once(void)
{
    char reason[200];
    void *object = open_file(reason, sizeof reason);
    if (!object) {
        snprintf(complaint, sizeof complaint,
                 "NCCL cannot be opened (%s): install NVIDIA's package libnccl2, or put its "
                 "folder into YOKE_CUDA_LIBS",
                 reason);
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
