/* See libraries.h. */
#include "libraries.h"

#include <stdio.h>
#include <string.h>

#include "base/environment.h"

/* A device says with which libraries it works: the bits of its results depend on them. */
static void add_to_description(yki_cuda_device *device, const char *library, const char *version)
{
    char *text = device->base.description;
    size_t length = strlen(text);
    snprintf(text + length, sizeof device->base.description - length, ", %s %s", library, version);
}

yk_status yki_cuda_need_cudnn(yki_cuda_device *device, const yki_cudnn **cudnn)
{
    if (!device->cudnn) {
        bool found;
        long wanted = 1, fuses = 1, besides = 0;
        YK_TRY(yki_env_int("YOKE_CUDA_MEASURE", 0, 1, &wanted, &found));
        YK_TRY(yki_env_int("YOKE_CUDA_FUSE", 0, 1, &fuses, &found));
        YK_TRY(yki_env_int("YOKE_CUDA_BESIDE", 0, 1, &besides, &found));
        YK_TRY(yki_cudnn_open(&device->cudnn));
        char version[16];
        yki_cudnn_version_text(device->cudnn, version);
        add_to_description(device, "cuDNN", version);
        device->cudnn->winograd = device->winograd;
        device->measures = wanted && device->launcher->measure;
        device->fuses = fuses;
        if (found)
            device->besides = besides ? YKI_CUDA_BESIDE_ALWAYS : YKI_CUDA_BESIDE_NEVER;
    }
    *cudnn = device->cudnn;
    return YK_OK;
}

yk_status yki_cuda_need_cublas(yki_cuda_device *device, const yki_cublas **cublas)
{
    if (!device->cublas) {
        YK_TRY(yki_cublas_open(&device->cublas));
        char version[24];
        size_t number = device->cublas->calls.get_version();
        snprintf(version, sizeof version, "%zu.%zu.%zu", number / 10000, number / 100 % 100,
                 number % 100);
        add_to_description(device, "cuBLASLt", version);
    }
    *cublas = device->cublas;
    return YK_OK;
}

void yki_cuda_close_libraries(yki_cuda_device *device)
{
    yki_cudnn_close(device->cudnn);
    yki_cublas_close(device->cublas);
    device->cudnn = NULL;
    device->cublas = NULL;
}
