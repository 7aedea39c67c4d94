/* See library.h. */
#include "libraries/library.h"

#include <dlfcn.h>
#include <string.h>

#include "../common/nvidia.h"
#include "base/error.h"

yk_status yki_cuda_library_open(const yki_cuda_library *library, void *table)
{
    char reason[256];
    void *opened = nvidia_open(library->files, reason, sizeof reason);
    if (!opened)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "device cuda: %s cannot be opened (%s): install %s, or put its folder "
                         "into YOKE_CUDA_LIBS",
                         library->what, reason, library->package);
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
