/*
 * A libcuda.so.1 that agrees to everything and does nothing: enough for cuDNN to build plans for a
 * GPU that is described to it, without one. The calls whose answers it looks at are below; all
 * others are one function that returns success.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static char object[64]; /* whatever a handle points to */

/* Of any arguments. */
#define AGREE(name)                                                                                \
    EXPORT int name(void)                                                                          \
    {                                                                                              \
        return 0;                                                                                  \
    }
AGREE(yes)
/* Those that cuDNN looks up by dlsym(). */
AGREE(cuCtxGetCurrent)
AGREE(cuCtxGetLimit)
AGREE(cuCtxPopCurrent)
AGREE(cuCtxPushCurrent)
AGREE(cuDeviceGet)
AGREE(cuKernelSetAttribute)
AGREE(cuLaunchCooperativeKernel)
AGREE(cuLaunchKernel)
AGREE(cuLaunchKernelEx)
AGREE(cuLibraryLoadFromFile)
AGREE(cuLibraryUnload)
AGREE(cuLinkAddData)
AGREE(cuLinkComplete)
AGREE(cuLinkCreate)
AGREE(cuLinkDestroy)
AGREE(cuStreamGetCtx)

/* There is no GPU: nothing is started on one. */
EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return 100;
}

EXPORT int cuDeviceGetCount(int *count)
{
    *count = 0;
    return 0;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **name)
{
    (void)error;
    *name = "an error";
    return 0;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
    return cuGetErrorName(error, text);
}

/* The calls whose result is the first argument: a handle, or a number. */
#define GIVE_OBJECT(name)                                                                          \
    EXPORT int name(void **made)                                                                   \
    {                                                                                              \
        *made = object;                                                                            \
        return 0;                                                                                  \
    }
#define GIVE_NUMBER(name, number)                                                                  \
    EXPORT int name(int *value)                                                                    \
    {                                                                                              \
        *value = number;                                                                           \
        return 0;                                                                                  \
    }
GIVE_OBJECT(cuLibraryLoadData)
GIVE_OBJECT(cuLibraryGetKernel)
GIVE_OBJECT(cuLibraryGetModule)
GIVE_OBJECT(cuKernelGetFunction)
GIVE_OBJECT(cuModuleLoadData)
GIVE_OBJECT(cuModuleLoadDataEx)
GIVE_OBJECT(cuModuleGetFunction)
GIVE_NUMBER(cuOccupancyMaxActiveClusters, 66)
GIVE_NUMBER(cuOccupancyMaxPotentialClusterSize, 8)
GIVE_NUMBER(cuOccupancyMaxActiveBlocksPerMultiprocessor, 1)
GIVE_NUMBER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 1)
GIVE_NUMBER(cuFuncGetAttribute, 0)
GIVE_NUMBER(cuKernelGetAttribute, 0)

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version,
                               unsigned long long flags, int *found)
{
    (void)version, (void)flags;
    char later[64];
    snprintf(later, sizeof later, "%s_v2", name);
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *function = strcmp(name, "cuGetProcAddress") == 0 ? dlsym(self, later) : dlsym(self, name);
    if (!*function)
        *function = (void *)yes;
    if (found)
        *found = 0;
    return 0;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version,
                            unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
