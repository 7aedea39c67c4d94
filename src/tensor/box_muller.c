/*
 * Box and Muller's transform, "A Note on the Generation of Random Normal Deviates" (1958), to the
 * bit as PyTorch's AVX2 code computes it: with the polynomials of Moshier's Cephes library for log,
 * sin and cos in single precision, evaluated without branches in the order of Pommier's
 * sse_mathfun, and with a fused multiply-add wherever a product is added to. A compiler must
 * therefore neither fuse nor split anything here (CMake says so): what is fused says fmaf.
 *
 * Arguments are what the transform needs, 0 < x <= 1 for log and 0 <= x < 2 pi for the angle.
 */
#include "tensor/box_muller.h"

#include <math.h>

#include "tensor/float_bits.h"

#define ALWAYS_INLINE inline __attribute__((always_inline)) /* into both of transform */

enum { HALF = 8 };

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); log x = e log 2 + log(1 + (m - 1)). */
static ALWAYS_INLINE float log_cephes(float x)
{
    uint32_t bits = yki_float_bits(x);
    float e = (float)((int32_t)(bits >> 23) - 126);
    float m = yki_float_of_bits((bits & 0x007fffffu) | 0x3f000000u); /* [1/2, 1) */
    uint32_t small = m < 0.707106781186547524f ? 0xffffffffu : 0;
    float doubled = yki_float_of_bits(yki_float_bits(m) & small);
    e -= yki_float_of_bits(yki_float_bits(1.0f) & small);
    m = m - 1.0f + doubled;
    float z = m * m, y = 7.0376836292e-2f;
    y = fmaf(y, m, -1.1514610310e-1f);
    y = fmaf(y, m, 1.1676998740e-1f);
    y = fmaf(y, m, -1.2420140846e-1f);
    y = fmaf(y, m, 1.4249322787e-1f);
    y = fmaf(y, m, -1.6668057665e-1f);
    y = fmaf(y, m, 2.0000714765e-1f);
    y = fmaf(y, m, -2.4999993993e-1f);
    y = fmaf(y, m, 3.3333331174e-1f);
    y = y * m;
    y = fmaf(y, z, e * -2.12194440e-4f); /* log 2 in two parts: this small one ... */
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, m + y); /* ... and one of few bits */
}

/* The angle less a multiple of pi / 2 (in three parts), and polynomials around 0 for the rest. */
static ALWAYS_INLINE void sincos_cephes(float x, float *sine, float *cosine)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1; /* x / (pi / 4), made even */
    float n = (float)octant;
    x = fmaf(n, -0.78515625f, x);
    x = fmaf(n, -2.4187564849853515625e-4f, x);
    x = fmaf(n, -3.77489497744594108e-8f, x);

    float z = x * x, c = 2.443315711809948e-5f, s = -1.9515295891e-4f;
    c = fmaf(c, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f);
    c = c * z;
    c = fmaf(c, z, -(z * 0.5f)) + 1.0f;
    s = fmaf(s, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f);
    s = s * z;
    s = fmaf(s, x, x);

    uint32_t turns = (uint32_t)octant, swap = 0u - ((turns >> 1) & 1u);
    uint32_t sine_bits = (yki_float_bits(s) & ~swap) | (yki_float_bits(c) & swap);
    uint32_t cosine_bits = (yki_float_bits(c) & ~swap) | (yki_float_bits(s) & swap);
    *sine = yki_float_of_bits(sine_bits ^ (turns & 4u) << 29);
    *cosine = yki_float_of_bits(cosine_bits ^ (~(turns - 2u) & 4u) << 29);
}

static ALWAYS_INLINE void transform(float *data, int64_t blocks, float mean, float deviation)
{
    const float two_pi = 6.28318530717958647692f;
    for (int64_t block = 0; block < blocks; block++) {
        float *first = data + block * 2 * HALF, *second = first + HALF;
#pragma omp simd
        for (int i = 0; i < HALF; i++) {
            float sine, cosine;
            float radius = sqrtf(-2.0f * log_cephes(1.0f - first[i])); /* never log(0) */
            sincos_cephes(two_pi * second[i], &sine, &cosine);
            first[i] = fmaf(radius * cosine, deviation, mean);
            second[i] = fmaf(radius * sine, deviation, mean);
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void transform_avx2(float *data, int64_t blocks,
                                                               float mean, float deviation)
{
    transform(data, blocks, mean, deviation);
}
#endif

/* Where there is no fused multiply-add, fmaf computes the same in software, slowly. */
void yki_box_muller_f32(float *data, int64_t blocks, float mean, float deviation)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        transform_avx2(data, blocks, mean, deviation);
        return;
    }
#endif
    transform(data, blocks, mean, deviation);
}
