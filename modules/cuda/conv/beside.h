/*
 * Whether the two gradients of a convolution are computed beside each other, in two streams. Few
 * images give a kernel too few blocks to fill the GPU, and any kernel leaves a part of it idle
 * while its last blocks run. The results have the same bits either way.
 */
#ifndef YKI_CUDA_BESIDE_H
#define YKI_CUDA_BESIDE_H

#include "cuda.h"

/* See yki_device_type. */
bool yki_cuda_beside(yki_device *device, const yki_kernel *first, const yki_kernel *second);

#endif
