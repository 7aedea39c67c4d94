/*
 * See convert16.h. Each loop is compiled for AVX-512, AVX2 and the baseline, and chosen at run
 * time. bf16 needs no more than shifts, which the compiler vectorises; f16 has instructions
 * (F16C, AVX-512) that do in one step what f16.h takes a dozen for.
 */
#include "tensor/convert16.h"

#include "base/cpu_features.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET_AVX2   __attribute__((target("avx2,f16c")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw")))
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* -O2 vectorises too timidly */
#endif

typedef void (*widen_fn)(float *restrict to, const uint16_t *restrict from, size_t count);
typedef void (*narrow_fn)(uint16_t *restrict to, const float *restrict from, size_t count);

typedef struct conversions {
    widen_fn widen_bf16, widen_f16;
    narrow_fn narrow_bf16, narrow_f16;
} conversions;

#define LOOP(NAME, TO, FROM, CONVERT, TARGET)                                                      \
    TARGET static void NAME(TO *restrict to, const FROM *restrict from, size_t count)              \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] = CONVERT(from[i]);                                                              \
    }
#define BF16_LOOPS(SET, TARGET)                                                                    \
    LOOP(widen_bf16_##SET, float, uint16_t, yki_bf16_to_float, TARGET)                             \
    LOOP(narrow_bf16_##SET, uint16_t, float, yki_bf16_from_float, TARGET)

BF16_LOOPS(base, )
LOOP(widen_f16_base, float, uint16_t, yki_f16_to_float, )
LOOP(narrow_f16_base, uint16_t, float, yki_f16_from_float, )

static const conversions set_base = {widen_bf16_base, widen_f16_base, narrow_bf16_base,
                                     narrow_f16_base};

#if defined(__x86_64__)
BF16_LOOPS(avx2, TARGET_AVX2)
BF16_LOOPS(avx512, TARGET_AVX512)

TARGET_AVX2 static void widen_f16_avx2(float *restrict to, const uint16_t *restrict from,
                                       size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    widen_f16_base(to + i, from + i, count - i);
}

TARGET_AVX2 static void narrow_f16_avx2(uint16_t *restrict to, const float *restrict from,
                                        size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    narrow_f16_base(to + i, from + i, count - i);
}

TARGET_AVX512 static void widen_f16_avx512(float *restrict to, const uint16_t *restrict from,
                                           size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + i))));
    widen_f16_base(to + i, from + i, count - i);
}

TARGET_AVX512 static void narrow_f16_avx512(uint16_t *restrict to, const float *restrict from,
                                            size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    narrow_f16_base(to + i, from + i, count - i);
}

static const conversions set_avx2 = {widen_bf16_avx2, widen_f16_avx2, narrow_bf16_avx2,
                                     narrow_f16_avx2};
static const conversions set_avx512 = {widen_bf16_avx512, widen_f16_avx512, narrow_bf16_avx512,
                                       narrow_f16_avx512};
#endif

static const conversions *choose_conversions(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw"))
        return &set_avx512;
    if (yki_cpu_has_avx2_f16c())
        return &set_avx2;
#endif
    return &set_base;
}

void yki_widen16(float *to, const uint16_t *from, yk_dtype dtype, size_t count)
{
    const conversions *set = choose_conversions();
    (dtype == YK_F16 ? set->widen_f16 : set->widen_bf16)(to, from, count);
}

void yki_narrow16(uint16_t *to, const float *from, yk_dtype dtype, size_t count)
{
    const conversions *set = choose_conversions();
    (dtype == YK_F16 ? set->narrow_f16 : set->narrow_bf16)(to, from, count);
}
