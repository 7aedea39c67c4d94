/* See libraries.h. */
#include "libraries.h"

#include "base/environment.h"
#include "conv_plan.h"

yk_status yki_cuda_need_cudnn(yki_cuda_device *device, const yki_cudnn **cudnn)
{
    if (!device->cudnn) {
        bool found;
        long wanted = 1;
        YK_TRY(yki_env_int("YOKE_CUDA_MEASURE", 0, 1, &wanted, &found));
        YK_TRY(yki_cudnn_open(&device->cudnn));
        device->cudnn->winograd = device->winograd;
        device->measures = wanted && device->launcher->measure;
    }
    *cudnn = device->cudnn;
    return YK_OK;
}

yk_status yki_cuda_need_cublas(yki_cuda_device *device, const yki_cublas **cublas)
{
    if (!device->cublas)
        YK_TRY(yki_cublas_open(&device->cublas));
    *cublas = device->cublas;
    return YK_OK;
}

void yki_cuda_close_libraries(yki_cuda_device *device)
{
    yki_cuda_conv_plans_free(device);
    yki_cudnn_close(device->cudnn);
    yki_cublas_close(device->cublas);
    device->cudnn = NULL;
    device->cublas = NULL;
}
