/* See libraries.h. */
#include "libraries.h"

yk_status yki_cuda_need_cudnn(yki_cuda_device *device, const yki_cudnn **cudnn)
{
    if (!device->cudnn) {
        YK_TRY(yki_cudnn_open(&device->cudnn));
        device->cudnn->winograd = device->winograd;
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
    yki_cudnn_close(device->cudnn);
    yki_cublas_close(device->cublas);
    device->cudnn = NULL;
    device->cublas = NULL;
}
