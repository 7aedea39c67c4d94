/*
 * 16 channels in a vector register, and their loads and stores as f32, bf16 or f16. Only for files
 * that CMake compiles for AVX-512.
 */
#ifndef YKI_AVX512_H
#define YKI_AVX512_H
#if defined(__AVX512F__)

#include <immintrin.h>

#include <yoke/tensor.h>

#define YKI_FORCE_INLINE static inline __attribute__((always_inline))

typedef __m512 yki_vec;

/* Loads and stores of 16 numbers; dtype is a constant. */
YKI_FORCE_INLINE yki_vec yki_vec_load(const void *data, int64_t at, yk_dtype dtype)
{
    if (dtype == YK_F32)
        return _mm512_loadu_ps((const float *)data + at);
    __m256i halves = _mm256_loadu_si256((const __m256i_u *)((const uint16_t *)data + at));
    if (dtype == YK_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* To bf16: to nearest, ties to even; a NaN comes from arithmetic, so its upper half is a NaN. */
YKI_FORCE_INLINE __m256i yki_vec_narrow(yki_vec a)
{
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __mmask16 number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    bits = _mm512_mask_add_epi32(bits, number, bits, half);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
}

YKI_FORCE_INLINE void yki_vec_store(void *data, int64_t at, yki_vec a, yk_dtype dtype)
{
    if (dtype == YK_F32) {
        _mm512_storeu_ps((float *)data + at, a);
        return;
    }
    __m256i halves =
        dtype == YK_F16 ? _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT) : yki_vec_narrow(a);
    _mm256_storeu_si256((__m256i_u *)((uint16_t *)data + at), halves);
}

/* Past the caches, to the address of a line. ThreadSanitizer does not see such stores. */
YKI_FORCE_INLINE void yki_vec_stream(float *to, yki_vec a)
{
#if defined(__SANITIZE_THREAD__)
    _mm512_storeu_ps(to, a);
#else
    _mm512_stream_ps(to, a);
#endif
}

/* The offsets of 16 numbers that are `lane` apart, for gathers and scatters. */
YKI_FORCE_INLINE __m512i yki_lanes_apart(int64_t lane)
{
    __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mullo_epi32(number, _mm512_set1_epi32((int)lane));
}

#endif
#endif
