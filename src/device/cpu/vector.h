/*
 * Vectors for the inner loops: a pack is 2 * YKI_WIDTH consecutive elements in memory as two
 * vectors of f32. f32: one vector behind the other. bf16: lane l of the first is element 2 l, lane
 * l of the second element 2 l + 1, because then a load is one shift and one mask, and no lane ever
 * crosses; whoever holds a constant for each element spreads it over the lanes in the same way.
 *
 * `bf16` is a constant in every call, so that no branch is left of it after inlining.
 */
#ifndef YKI_CPU_VECTOR_H
#define YKI_CPU_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* all is inlined: nothing is passed by any ABI */
#endif

#define YKI_INLINE static inline __attribute__((always_inline))

typedef float yki_lanes __attribute__((vector_size(4 * YKI_WIDTH)));
typedef uint32_t yki_bits __attribute__((vector_size(4 * YKI_WIDTH)));
typedef double yki_wide __attribute__((vector_size(8 * YKI_WIDTH)));
typedef yki_lanes yki_lanes_at __attribute__((aligned(4), may_alias));
typedef yki_bits yki_bits_at __attribute__((aligned(2), may_alias));

enum { YKI_PACK = 2 * YKI_WIDTH };

typedef struct yki_pack {
    yki_lanes v[2];
} yki_pack;

YKI_INLINE yki_lanes yki_select(yki_bits mask, yki_lanes yes, yki_lanes no)
{
    return (yki_lanes)(((yki_bits)yes & mask) | ((yki_bits)no & ~mask));
}

YKI_INLINE yki_lanes yki_splat(float value)
{
    return value - (yki_lanes){0};
}

YKI_INLINE yki_pack yki_load(const void *memory, int64_t element, bool bf16)
{
    if (bf16) {
        yki_bits pairs = *(const yki_bits_at *)((const uint16_t *)memory + element);
        return (yki_pack){{(yki_lanes)(pairs << 16), (yki_lanes)(pairs & 0xffff0000u)}};
    }
    const float *from = (const float *)memory + element;
    return (yki_pack){{*(const yki_lanes_at *)from, *(const yki_lanes_at *)(from + YKI_WIDTH)}};
}

/*
 * To bf16 in the upper half: to nearest, ties to even. NaN is left as it is: every value stored has
 * been through arithmetic or came from bf16, so that its upper half alone is a NaN.
 */
YKI_INLINE yki_bits yki_round(yki_lanes x)
{
    yki_bits bits = (yki_bits)x;
    yki_bits half = ((bits >> 16) & 1u) + 0x7fffu;
    return bits + (half & (yki_bits)(x == x));
}

YKI_INLINE yki_bits yki_narrow_pack(yki_pack x)
{
    return (yki_round(x.v[0]) >> 16) | (yki_round(x.v[1]) & 0xffff0000u);
}

YKI_INLINE void yki_store(void *memory, int64_t element, yki_pack x, bool bf16)
{
    if (bf16) {
        *(yki_bits_at *)((uint16_t *)memory + element) = yki_narrow_pack(x);
        return;
    }
    float *to = (float *)memory + element;
    *(yki_lanes_at *)to = x.v[0];
    *(yki_lanes_at *)(to + YKI_WIDTH) = x.v[1];
}

/*
 * Past the caches, where the processor can: a big result would only push out of them what is needed
 * sooner. `memory + element` must be aligned to a vector; yki_stream_end() when all is written.
 */
YKI_INLINE void yki_stream(void *memory, int64_t element, yki_pack x, bool bf16)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    float *to = bf16 ? (float *)((uint16_t *)memory + element) : (float *)memory + element;
    if (bf16) {
        _mm512_stream_ps(to, (__m512)yki_narrow_pack(x));
        return;
    }
    _mm512_stream_ps(to, (__m512)x.v[0]);
    _mm512_stream_ps(to + YKI_WIDTH, (__m512)x.v[1]);
#elif defined(__AVX__) && YKI_WIDTH == 8
    float *to = bf16 ? (float *)((uint16_t *)memory + element) : (float *)memory + element;
    if (bf16) {
        _mm256_stream_ps(to, (__m256)yki_narrow_pack(x));
        return;
    }
    _mm256_stream_ps(to, (__m256)x.v[0]);
    _mm256_stream_ps(to + YKI_WIDTH, (__m256)x.v[1]);
#else
    yki_store(memory, element, x, bf16);
#endif
}

YKI_INLINE void yki_stream_end(void)
{
#if defined(__AVX__)
    _mm_sfence();
#endif
}

YKI_INLINE bool yki_can_stream(const void *memory, int64_t element, bool bf16)
{
    return ((uintptr_t)memory + (size_t)element * (bf16 ? 2 : 4)) % sizeof(yki_lanes) == 0;
}

/*
 * Asks for the cache lines of a pack ahead of time: runs of one channel block are short and lie far
 * apart, which the processor's own prefetching does not follow.
 */
YKI_INLINE void yki_prefetch(const void *memory, int64_t element, bool bf16)
{
    const char *at = (const char *)memory + element * (bf16 ? 2 : 4);
    for (int line = 0; line < YKI_PACK * (bf16 ? 2 : 4); line += 64)
        __builtin_prefetch(at + line);
}

/* The first `count` elements of a pack, the others zero; and the reverse. */
YKI_INLINE yki_pack yki_load_part(const void *memory, int64_t element, int64_t count, bool bf16)
{
    size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    float part[YKI_PACK] = {0};
    memcpy(part, (const char *)memory + (size_t)element * size, (size_t)count * size);
    return yki_load(part, 0, bf16);
}

YKI_INLINE void yki_store_part(void *memory, int64_t element, int64_t count, yki_pack x, bool bf16)
{
    size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    float part[YKI_PACK];
    yki_store(part, 0, x, bf16);
    memcpy((char *)memory + (size_t)element * size, part, (size_t)count * size);
}

/* Which element of a pack lies in a lane of vector j. */
YKI_INLINE int yki_element(int j, int lane, bool bf16)
{
    return bf16 ? 2 * lane + j : YKI_WIDTH * j + lane;
}

/* One constant an element, in the order of memory, into lanes. */
YKI_INLINE yki_pack yki_spread(const float *values, bool bf16)
{
    yki_pack pack;
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            pack.v[j][lane] = values[yki_element(j, lane, bf16)];
    return pack;
}

/* Lanes whose element is below count: all ones. */
YKI_INLINE void yki_first(int64_t count, yki_bits mask[2], bool bf16)
{
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            mask[j][lane] = yki_element(j, lane, bf16) < count ? UINT32_MAX : 0;
}

#endif
