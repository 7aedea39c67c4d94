/* NVIDIA's libraries in a device: each is opened by the first kernel that needs it. */
#ifndef YKI_CUDA_LIBRARIES_H
#define YKI_CUDA_LIBRARIES_H

#include "cuda.h"
#include "libraries/cublas.h"
#include "libraries/cudnn.h"

yk_status yki_cuda_need_cudnn(yki_cuda_device *device, const yki_cudnn **cudnn);
yk_status yki_cuda_need_cublas(yki_cuda_device *device, const yki_cublas **cublas);
/* After what has been prepared for them is freed, and before the device's context goes. */
void yki_cuda_close_libraries(yki_cuda_device *device);

#endif
