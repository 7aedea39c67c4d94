/*
 * Runs AMX on a processor that has only AVX-512: the intrinsics that src/device/cpu uses, as
 * functions. Included in front of a file for AMX that is compiled without it.
 *
 * A mistake that a processor answers with an exception ends the program: a tile that is not
 * configured, or tiles whose shapes do not fit each other. Tiles read and write the memory of their
 * rows only, where AddressSanitizer sees it.
 */
#ifndef YK_AMXSIM_H
#define YK_AMXSIM_H

#include <stddef.h>
#include <stdint.h>

void amxsim_configure(const void *shapes);
void amxsim_release(void);
void amxsim_zero(int tile);
void amxsim_load(int tile, const void *from, ptrdiff_t row_step);
void amxsim_store(int tile, void *to, ptrdiff_t row_step);
void amxsim_multiply(int sums, int left, int right);

#ifdef __AVX512F__
#include <immintrin.h>

/* To nearest, ties to even; a NaN stays one. */
static inline __m512i amxsim_round(__m512 numbers)
{
    const __m512i bits = _mm512_castps_si512(numbers);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(1 << 22));
    return _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16);
}

static inline __m256i amxsim_narrow(__m512 numbers)
{
    return _mm512_cvtepi32_epi16(amxsim_round(numbers));
}

static inline __m512i amxsim_narrow_pair(__m512 upper, __m512 lower)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(amxsim_narrow(lower)), amxsim_narrow(upper),
                              1);
}

static inline __m512 amxsim_add_products(__m512 sums, __m512i a, __m512i b)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    sums = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), sums);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, upper)),
                           _mm512_castsi512_ps(_mm512_and_si512(b, upper)), sums);
}

#define __AMX_BF16__ 1
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig                  amxsim_configure
#define _tile_release                     amxsim_release
#define _tile_zero                        amxsim_zero
#define _tile_loadd                       amxsim_load
#define _tile_stored                      amxsim_store
#define _tile_dpbf16ps                    amxsim_multiply
#define _mm512_cvtneps_pbh(numbers)       ((__m256bh)amxsim_narrow(numbers))
#define _mm512_cvtne2ps_pbh(upper, lower) ((__m512bh)amxsim_narrow_pair(upper, lower))
#define _mm512_dpbf16_ps(sums, a, b)      amxsim_add_products(sums, (__m512i)(a), (__m512i)(b))
#endif

#endif
