/*
 * YKI_HOST_DEVICE: an inline function that the kernels of GPUs use as well (modules/cuda). nvcc
 * compiles for the GPU only what is marked.
 */
#ifndef YKI_HOST_DEVICE_H
#define YKI_HOST_DEVICE_H

#ifdef __CUDACC__
#define YKI_HOST_DEVICE static inline __host__ __device__
#else
#define YKI_HOST_DEVICE static inline
#endif

#endif
