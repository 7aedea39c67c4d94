/*
 * Strips with AVX-512. CMake gives this file its flags; nothing here runs unless the processor has
 * them.
 */
#include "device/cpu/strip.h"

#if defined(__x86_64__)
#include <stddef.h>

#define YKI_WIDTH 16
#include "device/cpu/apart.h"

enum { LANES = YKI_STRIP_LANES, OUT = YKI_STRIP_OUT };

/* Before loops over results: sums stay in registers only if these are unrolled. */
#define UNROLL _Pragma("GCC unroll 14")

void yki_strip_read(const yki_strip *strip, const yki_strip_image *image, int32_t down,
                    int32_t across, float *matrix)
{
    __m512i row = _mm512_add_epi32(_mm512_loadu_si512(strip->down), _mm512_set1_epi32(down));
    __m512i column = _mm512_add_epi32(_mm512_loadu_si512(strip->across), _mm512_set1_epi32(across));
    __m512i rows = _mm512_set1_epi32(image->rows), columns = _mm512_set1_epi32(image->columns);
    /* Unsigned, what is negative is too large. */
    __mmask16 inside =
        _mm512_mask_cmplt_epu32_mask(_mm512_cmplt_epu32_mask(row, rows), column, columns);
    int32_t at[LANES];
    _mm512_storeu_si512(at, _mm512_add_epi32(_mm512_mullo_epi32(row, columns), column));
    const int64_t x_block = (int64_t)image->rows * image->columns * LANES;
    for (int i = 0; i < strip->count; i++) {
        __mmask16 all = inside >> i & 1 ? 0xffff : 0;
        const float *from = image->x + (all ? at[i] * (int64_t)LANES : 0);
        float *to = matrix + i * LANES;
        for (int64_t block = 0; block < image->blocks; block++) {
            if (image->ahead)
                _mm_prefetch((const char *)(from + image->ahead), _MM_HINT_T0);
            _mm512_store_ps(to, _mm512_maskz_loadu_ps(all, from));
            from += x_block;
            to += strip->count * LANES;
        }
    }
}

YKI_FORCE_INLINE void put(float *to, __m512 result, bool stream)
{
    if (stream)
        _mm512_stream_ps(to, result);
    else
        _mm512_storeu_ps(to, result);
}

/* The count is a constant. */
YKI_FORCE_INLINE void multiply(int count, const yki_strip_product *p)
{
    __m512 low[YKI_STRIP], high[YKI_STRIP];
    __m512 start_low = p->start ? _mm512_loadu_ps(p->start) : _mm512_setzero_ps();
    __m512 start_high = p->start ? _mm512_loadu_ps(p->start + LANES) : _mm512_setzero_ps();
    UNROLL
    for (int i = 0; i < count; i++) {
        low[i] = start_low;
        high[i] = start_high;
    }
    const float *matrix = p->matrix, *weights = p->weights;
    for (int64_t left = p->depth; left > 0; left -= LANES, matrix += count * LANES)
        for (int k = 0; k < LANES; k++, weights += OUT) {
            __m512 weight_low = _mm512_load_ps(weights);
            __m512 weight_high = _mm512_load_ps(weights + LANES);
            UNROLL
            for (int i = 0; i < count; i++) {
                __m512 x = _mm512_set1_ps(matrix[i * LANES + k]);
                __asm__("" : "+v"(x)); /* or the compiler loads it for both */
                low[i] = _mm512_fmadd_ps(x, weight_low, low[i]);
                high[i] = _mm512_fmadd_ps(x, weight_high, high[i]);
            }
        }
    UNROLL
    for (int i = 0; i < count; i++) {
        put(p->y + i * LANES, low[i], p->stream);
        put(p->y + p->y_block + i * LANES, high[i], p->stream);
    }
}

#define MULTIPLY_CASE(count)                                                                       \
    case count:                                                                                    \
        multiply(count, p);                                                                        \
        break

void yki_strip_multiply(const yki_strip_product *p)
{
    switch (p->count) {
        MULTIPLY_CASE(1);
        MULTIPLY_CASE(2);
        MULTIPLY_CASE(3);
        MULTIPLY_CASE(4);
        MULTIPLY_CASE(5);
        MULTIPLY_CASE(6);
        MULTIPLY_CASE(7);
        MULTIPLY_CASE(8);
        MULTIPLY_CASE(9);
        MULTIPLY_CASE(10);
        MULTIPLY_CASE(11);
        MULTIPLY_CASE(12);
        MULTIPLY_CASE(13);
    default:
        multiply(YKI_STRIP, p);
    }
}

void yki_strip_pack(const float *weight, int64_t inputs, float *packed)
{
    const int64_t filter = inputs * YKI_STRIP_TAPS;
    for (int64_t in = 0; in < inputs; in++)
        for (int64_t first = 0; first < OUT; first += LANES) {
            yki_apart taps[YKI_STRIP_TAPS];
            yki_apart_load_taps(weight + first * filter + in * YKI_STRIP_TAPS, filter, taps);
            for (int64_t t = 0; t < YKI_STRIP_TAPS; t++)
                _mm512_store_ps(packed + (t * inputs + in) * OUT + first, taps[t]);
        }
}
#endif
