/*
 * 3x3 convolutions in bf16 whose groups have 1, 2, 4 or 8 channels, forward and with stride 1 the
 * gradient of x, by dot products of bf16: a lane multiplies two pairs of numbers and adds them in
 * f32. Compiled for a processor with AVX-512 and bf16, for which conv/narrow.c calls it.
 *
 * A pixel is permuted into width / 2 vectors, in which each lane holds two channels of its group:
 * 9 * width / 2 dot products for a vector of results. Where a group is one channel, a lane holds a
 * pixel and the one to its right, and the three taps of a row are two dot products, (w0, w1) on the
 * first pixel and (0, w2) on the second.
 */
#include "device/cpu/loops/loops.h"

#define YKI_WIDTH 16
#include "device/cpu/loops/vector.h"

enum {
    NARROW_STRIP = YKI_NARROW_STRIP,
    SIDE = 3,
    NARROW_DELAY = 3, /* columns between the taps of a row: no sum waits for its last addition */
    NARROW_AHEAD = 2  /* rows that are fetched before they are read */
};

#include "device/cpu/loops/narrow.h"

YKI_FORCE_INLINE int64_t narrow_vectors(const yki_narrow *n)
{
    return n->width == 1 ? 1 : n->width / 2;
}

YKI_FORCE_INLINE int64_t narrow_planes(const yki_narrow *n)
{
    return narrow_vectors(n);
}

/* The ring holds permuted pixels: it is half as large as one of f32. */
YKI_FORCE_INLINE yki_lanes narrow_load(const float *at, yki_bits from, bool permutes)
{
    (void)from;
    (void)permutes;
    return *(const yki_lanes_at *)at;
}

YKI_FORCE_INLINE yki_lanes narrow_add(yki_lanes sum, yki_lanes pixels, yki_lanes weights)
{
    return (yki_lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)pixels, (__m512bh)weights);
}

/* A pixel; the upper half of the vector is undefined. */
YKI_FORCE_INLINE __m512i load_half(const uint16_t *pixel)
{
    return _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i_u *)pixel));
}

/* The number of vectors is a constant. */
YKI_FORCE_INLINE void read_channels(const yki_narrow *n, const uint16_t *row, int64_t left,
                                    int64_t span, float *to, int vectors)
{
    const int64_t plane = narrow_plane(vectors, n->stride);
    const int64_t ahead = NARROW_AHEAD * n->columns * YKI_WIDTH;
    yki_window_range inside = narrow_inside(n, left, span);
    yki_bits group;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        group[lane] = (uint32_t)(lane / (2 * vectors) * vectors);
    bool whole = inside.begin == 0 && inside.end == span;
    for (int k = 0; k < vectors && !whole; k++)
        narrow_clear_outside(to + k * plane * YKI_WIDTH, inside, span);
    for (int64_t i = inside.begin; i < inside.end; i++) {
        const uint16_t *from = row + (left + i) * YKI_WIDTH;
        __m512i pixel = load_half(from);
        __builtin_prefetch(from + ahead);
        for (int k = 0; k < vectors; k++)
            _mm512_storeu_si512(to + (k * plane + i) * YKI_WIDTH,
                                _mm512_permutexvar_epi32((__m512i)(group + (uint32_t)k), pixel));
    }
}

/* Each pixel and the one to its right. */
YKI_FORCE_INLINE void read_neighbours(const yki_narrow *n, const uint16_t *row, int64_t left,
                                      int64_t span, float *to)
{
    const int64_t ahead = NARROW_AHEAD * n->columns * YKI_WIDTH;
    const __m512i none = _mm512_setzero_si512();
    yki_window_range inside = narrow_inside(n, left, span);
    yki_bits both;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        both[lane] = (uint32_t)(lane | (2 * YKI_WIDTH + lane) << 16);
    narrow_clear_outside(to, inside, span);
    if (inside.begin == inside.end)
        return;
    bool first = inside.begin == 0; /* no place has it to its right */
    __m512i pixel = first ? load_half(row + left * YKI_WIDTH) : none;
    for (int64_t i = inside.begin + first; i < inside.end; i++) {
        const uint16_t *from = row + (left + i) * YKI_WIDTH;
        __m512i right = load_half(from);
        __builtin_prefetch(from + ahead);
        _mm512_storeu_si512(to + (i - 1) * YKI_WIDTH,
                            _mm512_permutex2var_epi16(pixel, (__m512i)both, right));
        pixel = right;
    }
    _mm512_storeu_si512(to + (inside.end - 1) * YKI_WIDTH,
                        _mm512_permutex2var_epi16(pixel, (__m512i)both, none));
}

YKI_FORCE_INLINE void narrow_read(const yki_narrow *n, const void *x, int64_t row, int64_t left,
                                  int64_t span, float *to, int64_t planes)
{
    (void)planes;
    const uint16_t *from = (const uint16_t *)x + row * n->columns * YKI_WIDTH;
    if (n->width == 1)
        read_neighbours(n, from, left, span, to);
    else if (n->width == 2)
        read_channels(n, from, left, span, to, 1);
    else if (n->width == 4)
        read_channels(n, from, left, span, to, 2);
    else
        read_channels(n, from, left, span, to, 4);
}

YKI_FORCE_INLINE void narrow_row(const yki_narrow *n, const narrow_ring *ring,
                                 const float *const *rows, const float *weights, void *y,
                                 int64_t element)
{
    const narrow_way depthwise = {SIDE - 1, 1, false, YK_BF16}, once = {SIDE, 1, false, YK_BF16},
                     apart = {SIDE, 2, false, YK_BF16};
    if (n->width == 1)
        narrow_row_as(n, ring, rows, weights, y, element, depthwise);
    else if (n->stride == 1)
        narrow_row_as(n, ring, rows, weights, y, element, once);
    else
        narrow_row_as(n, ring, rows, weights, y, element, apart);
}

void yki_narrow_bf16(const yki_narrow *shape, const void *x, const float *weights, void *y,
                     yki_window_range rows, float *own)
{
    narrow_convolve(shape, x, weights, y, rows, own);
}
