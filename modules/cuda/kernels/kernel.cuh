/*
 * What every file of kernels begins with: how kernels are declared, numbers, and lanes.
 *
 * A kernel has one argument, a struct of arguments.h, and THREADS threads in a block. It is
 * launched by its name: "relu_bf16" for vectors of 16 bytes, "relu_bf16_1" for single elements
 * where a shape does not divide into vectors.
 *
 * The files compile with nvcc for GPUs, and with g++ for the simulator of tests/cuda, whose header
 * is included in front of everything.
 */
#ifndef YKI_KERNEL_CUH
#define YKI_KERNEL_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arguments.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

#define THREADS YKI_CUDA_THREADS

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define KERNEL_OF(blocks, name, args, ...)                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks) name(const args a)               \
    {                                                                                              \
        __VA_ARGS__(a);                                                                            \
    }
/* Memory of a block; its contents are undefined. */
#define SHARED(type, name, count) __shared__ type name[count]
#endif

#define KERNEL(name, args, ...) KERNEL_OF(1, name, args, __VA_ARGS__)

/* ---- numbers: in memory T, in arithmetic its real -------------------------------------------- */

struct bf16 {
    uint16_t bits;
};

struct f16 {
    uint16_t bits;
};

template <typename T> struct number {
    typedef float real;
};

template <> struct number<double> {
    typedef double real;
};

template <typename T> using real_of = typename number<T>::real;

DEVICE float widen(float x)
{
    return x;
}

DEVICE double widen(double x)
{
    return x;
}

DEVICE float widen(bf16 x)
{
    return yki_bf16_to_float(x.bits);
}

DEVICE float widen(f16 x)
{
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#else
    return yki_f16_to_float(x.bits);
#endif
}

DEVICE void narrow_to(float *to, float x)
{
    *to = x;
}

DEVICE void narrow_to(double *to, double x)
{
    *to = x;
}

/* The GPU's instructions round as the functions do; only the bits of NaN differ. */
DEVICE void narrow_to(bf16 *to, float x)
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
    to->bits = yki_bf16_from_float(x);
#endif
}

DEVICE void narrow_to(f16 *to, float x)
{
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
    to->bits = yki_f16_from_float(x);
#endif
}

template <typename T> DEVICE T narrow(real_of<T> x)
{
    T result;
    narrow_to(&result, x);
    return result;
}

/* ---- lanes: W elements, which one thread loads and stores at once ---------------------------- */

template <typename T> constexpr int vector_width = 16 / sizeof(T);

/* W elements of T from an address that is a multiple of their size, up to 16 bytes. */
template <typename T, int W> DEVICE void load_raw(const T *from, T (&to)[W])
{
    if constexpr (sizeof(T) * W % 16 == 0) {
#pragma unroll
        for (int i = 0; i < (int)sizeof(T) * W / 16; i++) {
            uint4 bits = ((const uint4 *)from)[i];
            memcpy(to + i * vector_width<T>, &bits, sizeof bits);
        }
    } else if constexpr (sizeof(T) * W == 8) {
        uint2 bits = *(const uint2 *)from;
        memcpy(to, &bits, sizeof bits);
    } else if constexpr (sizeof(T) * W == 4) {
        uchar4 bits = *(const uchar4 *)from;
        memcpy(to, &bits, sizeof bits);
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            to[i] = from[i];
    }
}

template <typename T, int W> DEVICE void store_raw(T *to, const T (&from)[W])
{
    if constexpr (sizeof(T) * W % 16 == 0) {
#pragma unroll
        for (int i = 0; i < (int)sizeof(T) * W / 16; i++) {
            uint4 bits;
            memcpy(&bits, from + i * vector_width<T>, sizeof bits);
            ((uint4 *)to)[i] = bits;
        }
    } else if constexpr (sizeof(T) * W == 8) {
        uint2 bits;
        memcpy(&bits, from, sizeof bits);
        *(uint2 *)to = bits;
    } else if constexpr (sizeof(T) * W == 4) {
        uchar4 bits;
        memcpy(&bits, from, sizeof bits);
        *(uchar4 *)to = bits;
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            to[i] = from[i];
    }
}

template <typename T, int W> DEVICE void widen(const T (&raw)[W], real_of<T> (&to)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] = widen(raw[i]);
}

template <typename T, int W> DEVICE void load(const T *from, real_of<T> (&to)[W])
{
    T raw[W];
    load_raw(from, raw);
    widen(raw, to);
}

template <typename T, int W> DEVICE void store(T *to, const real_of<T> (&from)[W])
{
    T raw[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        raw[i] = narrow<T>(from[i]);
    store_raw(to, raw);
}

/* The number of this thread in its row of blocks. */
DEVICE int64_t thread_number()
{
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

/* Element i of indices, or of class labels, which are int64 if they are wide, and int32 otherwise.
 */
DEVICE int64_t index_at(const void *indices, int32_t wide, int64_t i)
{
    return wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* Tells the host of a sample, in a member of yki_cuda_mistakes. */
DEVICE void report(int32_t *mistake, int64_t sample)
{
    atomicMax(mistake, INT32_MAX - (int32_t)sample);
}

/* ---- declaring a kernel for several types ---------------------------------------------------- */

/* body is a template of the element type and of the number of lanes. */
#define KERNELS_OF(name, args, body, type, suffix)                                                 \
    KERNEL(name##_##suffix, args, body<type, vector_width<type>>)                                  \
    KERNEL(name##_##suffix##_1, args, body<type, 1>)
#define KERNELS(name, args, body)                                                                  \
    KERNELS_OF(name, args, body, float, f32)                                                       \
    KERNELS_OF(name, args, body, double, f64)                                                      \
    KERNELS_OF(name, args, body, bf16, bf16)                                                       \
    KERNELS_OF(name, args, body, f16, f16)
/* body is a template of the element type alone. */
#define SCALAR_KERNELS(name, args, body)                                                           \
    KERNEL(name##_f32, args, body<float>)                                                          \
    KERNEL(name##_f64, args, body<double>)                                                         \
    KERNEL(name##_bf16, args, body<bf16>)                                                          \
    KERNEL(name##_f16, args, body<f16>)

#endif
