/* See driver.h. */
#include "gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "gpu/images.h"

yki_cuda_driver yki_cu;

enum { AS_OF = 12000 }; /* the version of CUDA whose calls driver.h declares */

typedef yki_cu_result get_version_function(int *version);
typedef yki_cu_result get_address_function(const char *name, void **address, int version,
                                           unsigned long long flags, int *found);

/* ---- errors ---------------------------------------------------------------------------------- */

yk_status yki_cuda_failed(yk_status status, yki_cu_result result, const char *call)
{
    const char *name = NULL, *text = NULL;
    yki_cu.GetErrorName(result, &name);
    yki_cu.GetErrorString(result, &text);
    bool captures = result >= YKI_CU_FIRST_OF_CAPTURES && result <= YKI_CU_LAST_OF_CAPTURES;
    return yki_error(status, "device cuda: %s failed with %s: %s%s", call,
                     name ? name : "an unknown error", text ? text : "no description",
                     captures ? "; with YOKE_CUDA_GRAPHS=0, nothing is recorded" : "");
}

yk_status yki_cuda_check(yki_cu_result result, const char *call)
{
    return result == YKI_CU_SUCCESS ? YK_OK : yki_cuda_failed(YK_ERROR_INTERNAL, result, call);
}

/* ---- opening --------------------------------------------------------------------------------- */

static yk_status missing_driver(const char *reason)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: there is no NVIDIA driver (%s): install it (Debian: package "
                     "nvidia-driver; in a container, start it with --gpus all)",
                     reason);
}

/* A driver may be installed as well, which the loader has not come to. */
static yk_status stub_library(void)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: libcuda.so.1 is the toolkit's stub, to link with: take its "
                     "folder, stubs, out of LD_LIBRARY_PATH");
}

static yk_status old_driver(int version)
{
    return yki_error(YK_ERROR_UNSUPPORTED,
                     "device cuda: the NVIDIA driver supports CUDA %d.%d, but the kernels of this "
                     "build need CUDA %d.%d: install a newer driver",
                     version / 1000, version % 1000 / 10, yki_cuda_images_version / 1000,
                     yki_cuda_images_version % 1000 / 10);
}

static yk_status find_calls(get_address_function *get)
{
    const struct {
        const char *name;
        void *at;
    } calls[] = {
#define CALL(name, arguments) {"cu" #name, &yki_cu.name},
        YKI_CUDA_CALLS(CALL)
#undef CALL
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int found;
        if (get(calls[i].name, calls[i].at, AS_OF, 0, &found) != YKI_CU_SUCCESS ||
            !*(void **)calls[i].at)
            return yki_error(YK_ERROR_UNSUPPORTED, "device cuda: the NVIDIA driver has no %s",
                             calls[i].name);
    }
    return YK_OK;
}

static yk_status start_driver(void)
{
    yki_cu_result result = yki_cu.Init(0);
    if (result == YKI_CU_NO_DEVICE)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device cuda: the NVIDIA driver finds no GPU; `nvidia-smi` lists those "
                         "that there are, and CUDA_VISIBLE_DEVICES may hide them");
    if (result == YKI_CU_SYSTEM_DRIVER_MISMATCH)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device cuda: libcuda.so.1 and the kernel's NVIDIA driver are of "
                         "different versions: reboot after the update of the driver");
    return result == YKI_CU_SUCCESS ? YK_OK
                                    : yki_cuda_failed(YK_ERROR_UNSUPPORTED, result, "cuInit");
}

static yk_status open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return missing_driver(dlerror());
    get_version_function *get_version =
        (get_version_function *)dlsym(library, "cuDriverGetVersion");
    get_address_function *get = (get_address_function *)dlsym(library, "cuGetProcAddress_v2");
    yki_cu_result result = get_version ? get_version(&yki_cu.version) : YKI_CU_NOT_FOUND;
    if (result == YKI_CU_STUB_LIBRARY)
        return stub_library();
    if (result != YKI_CU_SUCCESS)
        return missing_driver("libcuda.so.1 has no version");
    if (!get || yki_cu.version < yki_cuda_images_version)
        return old_driver(yki_cu.version);
    YK_TRY(find_calls(get));
    return start_driver();
}

static struct {
    pthread_once_t once;
    yk_status status;
    char line[YKI_ERROR_LINE];
} opened = {.once = PTHREAD_ONCE_INIT};

static void open_once(void)
{
    opened.status = open_driver();
    if (opened.status != YK_OK)
        snprintf(opened.line, sizeof opened.line, "%s", yki_error_text());
}

yk_status yki_cuda_driver_open(void)
{
    pthread_once(&opened.once, open_once);
    return opened.status == YK_OK ? YK_OK : yki_error(opened.status, "%s", opened.line);
}
