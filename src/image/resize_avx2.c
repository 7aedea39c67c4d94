/*
 * The passes of resizing with AVX2. A weight is split in two, so that one instruction multiplies
 * and adds two bytes with two halves of weights (pmaddwd): high and low halves are summed apart and
 * joined at the end.
 */
#include "image/resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))

/* (h << 12) + l, rounded to integers. */
TARGET static inline __m256i join(__m256i high, __m256i low)
{
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, YKI_WEIGHT_SPLIT), low);
    sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1 << (YKI_WEIGHT_BITS - 1)));
    return _mm256_srai_epi32(sum, YKI_WEIGHT_BITS);
}

/* Four weights: the first two in each 32 bits of the lower lane, the others in the upper. */
TARGET static inline __m256i spread(const int16_t *weights)
{
    int64_t four;
    memcpy(&four, weights, sizeof four);
    return _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(four),
                                       _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

/* Four pixels a time: (r0 r1)(g0 g1)(b0 b1)() in the lower lane, pixels 2 and 3 in the upper. */
TARGET void yki_resize_row_avx2(const yki_resize_axis *x, int pixels, int channels,
                                const uint8_t *in, uint8_t *out)
{
    const __m256i pairs =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /* */
                         6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const int16_t *high = x->high, *low = x->low;
    (void)channels;
    for (int i = 0; i < pixels; i++, high += x->taps, low += x->taps, out += 3) {
        const uint8_t *from = in + 3 * (size_t)x->first[i];
        __m256i high_sum = _mm256_setzero_si256(), low_sum = high_sum;
        for (int t = 0; t < x->count[i]; t += 4, from += 12) {
            __m256i bytes =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)from));
            bytes = _mm256_shuffle_epi8(bytes, pairs);
            high_sum = _mm256_add_epi32(high_sum, _mm256_madd_epi16(bytes, spread(high + t)));
            low_sum = _mm256_add_epi32(low_sum, _mm256_madd_epi16(bytes, spread(low + t)));
        }
        /* Both halves of a lane hold sums of two pixels of four: add them before rounding. */
        high_sum = _mm256_add_epi32(high_sum, _mm256_permute2x128_si256(high_sum, high_sum, 1));
        low_sum = _mm256_add_epi32(low_sum, _mm256_permute2x128_si256(low_sum, low_sum, 1));
        __m128i words = _mm256_castsi256_si128(join(high_sum, low_sum));
        words = _mm_packs_epi32(words, words);
        int four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(out, &four, sizeof four);
    }
}

/* Sixteen bytes a time from two rows: (a0 b0)(a1 b1) ... */
TARGET void yki_resize_column_avx2(const yki_resize_axis *y, int i, const uint8_t *in,
                                   size_t stride, size_t bytes, uint8_t *out)
{
    const int16_t *high = y->high + (size_t)i * (size_t)y->taps;
    const int16_t *low = y->low + (size_t)i * (size_t)y->taps;
    int count = y->count[i];
    size_t b = 0;
    for (; b + 16 <= bytes; b += 16) {
        __m256i h0 = _mm256_setzero_si256(), h1 = h0, l0 = h0, l1 = h0;
        for (int t = 0; t < count; t += 2) {
            const uint8_t *from = in + (size_t)t * stride + b;
            __m128i first = _mm_loadu_si128((const __m128i *)(const void *)from), second = first;
            if (t + 1 < count) /* otherwise its weight is 0 */
                second = _mm_loadu_si128((const __m128i *)(const void *)(from + stride));
            __m256i a = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(first, second));
            __m256i c = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(first, second));
            int high_pair, low_pair;
            memcpy(&high_pair, high + t, sizeof high_pair);
            memcpy(&low_pair, low + t, sizeof low_pair);
            __m256i kh = _mm256_set1_epi32(high_pair), kl = _mm256_set1_epi32(low_pair);
            h0 = _mm256_add_epi32(h0, _mm256_madd_epi16(a, kh));
            l0 = _mm256_add_epi32(l0, _mm256_madd_epi16(a, kl));
            h1 = _mm256_add_epi32(h1, _mm256_madd_epi16(c, kh));
            l1 = _mm256_add_epi32(l1, _mm256_madd_epi16(c, kl));
        }
        __m256i words = _mm256_packs_epi32(join(h0, l0), join(h1, l1)); /* lanes 0 2 1 3 */
        words = _mm256_permute4x64_epi64(words, 0xd8);
        __m128i packed =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + b), packed);
    }
    if (b < bytes)
        yki_resize_column_generic(y, i, in + b, stride, bytes - b, out + b);
}

#endif
