/* See lanes.h. */
#include "device/cpu/x86/lanes.h"

#include <immintrin.h>

typedef struct lane_masks {
    __mmask16 taken, written; /* of these, the others become zero */
} lane_masks;

static __mmask16 mask_of(int64_t first, int64_t last)
{
    return (__mmask16)(((1u << last) - 1) & ~((1u << first) - 1));
}

static void select_words(uint32_t *to, const uint32_t *low, const uint32_t *high, int64_t pixels,
                         int64_t shift, lane_masks masks)
{
    __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i from = _mm512_add_epi32(lane, _mm512_set1_epi32((int)shift));
    for (int64_t i = 0; i < pixels * YKI_LANES; i += YKI_LANES) {
        __m512i a = _mm512_loadu_si512(low + i), b = _mm512_loadu_si512(high + i);
        __m512i x = _mm512_maskz_permutex2var_epi32(masks.taken, a, from, b);
        _mm512_mask_storeu_epi32(to + i, masks.written, x);
    }
}

static void select_halves(uint16_t *to, const uint16_t *low, const uint16_t *high, int64_t pixels,
                          int64_t shift, lane_masks masks)
{
    __m256i lane = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m256i from = _mm256_add_epi16(lane, _mm256_set1_epi16((short)shift));
    for (int64_t i = 0; i < pixels * YKI_LANES; i += YKI_LANES) {
        __m256i a = _mm256_loadu_si256((const __m256i_u *)(low + i));
        __m256i b = _mm256_loadu_si256((const __m256i_u *)(high + i));
        __m256i x = _mm256_maskz_permutex2var_epi16(masks.taken, a, from, b);
        _mm256_mask_storeu_epi16(to + i, masks.written, x);
    }
}

void yki_lanes_select(void *to, const void *low, const void *high, int64_t pixels, int64_t shift,
                      int64_t first, int64_t last, int64_t end, size_t size)
{
    lane_masks masks = {mask_of(first, last), mask_of(first, end)};
    if (size == sizeof(uint32_t))
        select_words(to, low, high, pixels, shift, masks);
    else
        select_halves(to, low, high, pixels, shift, masks);
}
