/*
 * See planes.h. With AVX2 16 pixels a time: in 48 bytes, the 16 of each channel lie at places that
 * differ modulo 16, so that they fit one vector without colliding, which is then put in order.
 */
#include "image/planes.h"

#include <stdbool.h>

static void split_rest(const uint8_t *row, size_t from, size_t count, uint8_t *const planes[3])
{
    for (size_t i = from; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            planes[c][i] = row[3 * i + c];
}

static void join_rest(const uint8_t *const planes[3], size_t from, size_t count, uint8_t *row)
{
    for (size_t i = from; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            row[3 * i + c] = planes[c][i];
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))

static bool has_vectors(void)
{
    return __builtin_cpu_supports("avx2");
}

TARGET static inline __m128i load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

TARGET static inline void store(uint8_t *bytes, __m128i value)
{
    _mm_storeu_si128((__m128i *)(void *)bytes, value);
}

/* Bytes 0, 3, 6, ... of a, bytes 1, 4, ... of b and bytes 2, 5, ... of c. */
TARGET static inline __m128i every_third(__m128i a, __m128i b, __m128i c)
{
    const __m128i ones = _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0);
    const __m128i twos = _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0);
    return _mm_blendv_epi8(_mm_blendv_epi8(a, b, ones), c, twos);
}

/* Element i of channel c is at 3 i + c; returns how many pixels were split. */
TARGET static size_t split_vectors(const uint8_t *row, size_t count, uint8_t *const planes[3])
{
    const __m128i order = _mm_setr_epi8(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13);
    const __m128i order1 = _mm_add_epi8(order, _mm_set1_epi8(1));
    const __m128i order2 = _mm_add_epi8(order, _mm_set1_epi8(2));
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i a = load(row + 3 * i), b = load(row + 3 * i + 16), c = load(row + 3 * i + 32);
        store(planes[0] + i, _mm_shuffle_epi8(every_third(a, c, b), order));
        store(planes[1] + i, _mm_shuffle_epi8(every_third(b, a, c), order1));
        store(planes[2] + i, _mm_shuffle_epi8(every_third(c, b, a), order2));
    }
    return i;
}

TARGET static size_t join_vectors(const uint8_t *const planes[3], size_t count, uint8_t *row)
{
    const __m128i order = _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    const __m128i order1 = _mm_add_epi8(order, _mm_set1_epi8(5));
    const __m128i order2 = _mm_add_epi8(order, _mm_set1_epi8(10));
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i r = _mm_shuffle_epi8(load(planes[0] + i), order);
        __m128i g = _mm_shuffle_epi8(load(planes[1] + i), order1);
        __m128i b = _mm_shuffle_epi8(load(planes[2] + i), order2);
        store(row + 3 * i, every_third(r, g, b));
        store(row + 3 * i + 16, every_third(g, b, r));
        store(row + 3 * i + 32, every_third(b, r, g));
    }
    return i;
}
#else
static bool has_vectors(void)
{
    return false;
}

static size_t split_vectors(const uint8_t *row, size_t count, uint8_t *const planes[3])
{
    (void)row, (void)count, (void)planes;
    return 0;
}

static size_t join_vectors(const uint8_t *const planes[3], size_t count, uint8_t *row)
{
    (void)row, (void)count, (void)planes;
    return 0;
}
#endif

void yki_planes_split(const uint8_t *row, size_t count, uint8_t *const planes[3])
{
    split_rest(row, has_vectors() ? split_vectors(row, count, planes) : 0, count, planes);
}

void yki_planes_join(const uint8_t *const planes[3], size_t count, uint8_t *row)
{
    join_rest(planes, has_vectors() ? join_vectors(planes, count, row) : 0, count, row);
}

void yki_planes_take(const uint8_t *row, size_t count, int channels, int c, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = row[i * (size_t)channels + (size_t)c];
}
