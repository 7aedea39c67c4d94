/*
 * Inline functions that the kernels of GPUs use as well (modules/cuda): nvcc compiles for the GPU
 * only what is marked.
 *
 * YKI_INLINE is `static inline`. Rules of arithmetic are YKI_RULE functions of YKI_REAL: in C that
 * is double, the numbers in which the ref device computes; in C++ they are templates, so that
 * kernels compute in float too.
 */
#ifndef YKI_INLINE_H
#define YKI_INLINE_H

#ifdef __CUDACC__
#define YKI_INLINE static inline __host__ __device__
#else
#define YKI_INLINE static inline
#endif

#ifdef __cplusplus
#define YKI_RULE template <typename YKI_REAL> YKI_INLINE
#else
#define YKI_RULE YKI_INLINE
#define YKI_REAL double
#endif

#endif
