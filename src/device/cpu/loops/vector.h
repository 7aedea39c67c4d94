/*
 * Vectors for the inner loops: a pack is 2 * YKI_WIDTH consecutive elements in memory as two
 * vectors of f32. For f32 and f16, one vector follows the other. For bf16, lane l of the first is
 * element 2 l and lane l of the second is element 2 l + 1, because then a load is one shift and one
 * mask, and no value changes its lane. Constants of elements are spread over the lanes in the same
 * way.
 *
 * `dtype` (YK_F32, YK_BF16, YK_F16) is a constant in every call, so that no branch on it remains
 * after inlining.
 */
#ifndef YKI_CPU_VECTOR_H
#define YKI_CPU_VECTOR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <yoke/tensor.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* all is inlined: nothing is passed by any ABI */
#endif

#define YKI_FORCE_INLINE static inline __attribute__((always_inline))

typedef float yki_lanes __attribute__((vector_size(4 * YKI_WIDTH)));
typedef uint32_t yki_bits __attribute__((vector_size(4 * YKI_WIDTH)));
typedef int32_t yki_whole __attribute__((vector_size(4 * YKI_WIDTH)));
typedef double yki_wide __attribute__((vector_size(8 * YKI_WIDTH)));
typedef uint16_t yki_halves __attribute__((vector_size(2 * YKI_WIDTH)));
typedef uint8_t yki_bytes __attribute__((vector_size(YKI_WIDTH)));
typedef yki_lanes yki_lanes_at __attribute__((aligned(4), may_alias));
typedef yki_bits yki_bits_at __attribute__((aligned(2), may_alias));
typedef yki_halves yki_halves_at __attribute__((aligned(2), may_alias));
typedef yki_bytes yki_bytes_at __attribute__((aligned(1), may_alias));

enum { YKI_PACK = 2 * YKI_WIDTH };

/* Calls body(..., dtype) with a constant in the last place. */
#define FOR_EACH_DTYPE(body, dtype, ...)                                                           \
    do {                                                                                           \
        if (dtype == YK_F32)                                                                       \
            body(__VA_ARGS__, YK_F32);                                                             \
        else if (dtype == YK_BF16)                                                                 \
            body(__VA_ARGS__, YK_BF16);                                                            \
        else                                                                                       \
            body(__VA_ARGS__, YK_F16);                                                             \
    } while (0)

/* Keeps the compiler from loading a vector again for each use, or from knowing its value. */
#if defined(__x86_64__)
#define YKI_KEEP_IN_REGISTER(vector) __asm__("" : "+v"(vector))
#elif defined(__aarch64__)
#define YKI_KEEP_IN_REGISTER(vector) __asm__("" : "+w"(vector))
#else
#define YKI_KEEP_IN_REGISTER(vector) (void)(vector)
#endif

typedef struct yki_pack {
    yki_lanes v[2];
} yki_pack;

YKI_FORCE_INLINE yki_lanes yki_select(yki_bits mask, yki_lanes yes, yki_lanes no)
{
    return (yki_lanes)(((yki_bits)yes & mask) | ((yki_bits)no & ~mask));
}

YKI_FORCE_INLINE yki_lanes yki_splat(float value)
{
    return value - (yki_lanes){0};
}

/* x > y ? x : y, so y where either is a NaN; it takes less time than yki_select. */
YKI_FORCE_INLINE yki_lanes yki_larger(yki_lanes x, yki_lanes y)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return yki_select((yki_bits)(x > y), x, y);
#endif
}

/* x < y ? x : y, likewise. */
YKI_FORCE_INLINE yki_lanes yki_smaller(yki_lanes x, yki_lanes y)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_min_ps((__m256)x, (__m256)y);
#else
    return yki_select((yki_bits)(x < y), x, y);
#endif
}

/* x < limit ? 0 : y. */
YKI_FORCE_INLINE yki_lanes yki_zero_below(yki_lanes x, float limit, yki_lanes y)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    const __m512 least = (__m512)yki_splat(limit);
    return (yki_lanes)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)x, least, _CMP_NLT_UQ),
                                          (__m512)y);
#else
    return (yki_lanes)((yki_bits)y & ~(yki_bits)(x < limit));
#endif
}

/* Whether a lane of what a comparison gave is true. */
YKI_FORCE_INLINE bool yki_any(yki_bits mask)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX__) && YKI_WIDTH == 8
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    uint32_t found = 0;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        found |= mask[lane];
    return found != 0;
#endif
}

/* By the sign of x, that of a zero or a NaN, too; it takes less time than a comparison. */
YKI_FORCE_INLINE yki_lanes yki_select_by_sign(yki_lanes x, yki_lanes negative, yki_lanes positive)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    const __mmask16 mask = _mm512_movepi32_mask((__m512i)x);
    return (yki_lanes)_mm512_mask_blend_ps(mask, (__m512)positive, (__m512)negative);
#elif defined(__AVX__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_blendv_ps((__m256)positive, (__m256)negative, (__m256)x);
#else
    return yki_select((yki_bits)((yki_whole)x >> 31), negative, positive);
#endif
}

/* Adding it leaves an integer in the lowest bits. */
#define YKI_ROUNDER 0x1.8p23f

/* The rest of e^x = 2^n rest, from sqrt(1/2) to sqrt(2), to about 2 units in the last place, by
 * Cephes' expf: x = n ln 2 + r, and e^r is a polynomial. `shifted` is n + YKI_ROUNDER. NaN passes.
 */
YKI_FORCE_INLINE yki_lanes yki_exp_rest(yki_lanes x, yki_lanes *shifted)
{
    *shifted = x * 1.44269504088896341f + YKI_ROUNDER;
    yki_lanes n = *shifted - YKI_ROUNDER;
    yki_lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
    yki_lanes p = yki_splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * r * r + r + 1.0f;
}

/* 2^n, n from -126 to 127, and infinity for n = 128; shifted is n + YKI_ROUNDER. */
YKI_FORCE_INLINE yki_lanes yki_power_of_two(yki_lanes shifted)
{
    return (yki_lanes)(((yki_bits)shifted << 23) + 0x3f800000u);
}

/*
 * e^x to about 2 units in the last place. Results are normal numbers from 1e-38 to 2.4e38, and
 * infinity from x = 88.4 on. NaN passes.
 */
YKI_FORCE_INLINE yki_lanes yki_exp(yki_lanes x)
{
    yki_lanes least = yki_splat(-87.3f), most = yki_splat(88.5f), shifted;
    yki_lanes rest = yki_exp_rest(yki_smaller(most, yki_larger(least, x)), &shifted);
    return rest * yki_power_of_two(shifted);
}

/* The same, but 0 where e^x is no normal number: what is far below the others leaves nothing. */
YKI_FORCE_INLINE yki_lanes yki_exp_or_zero(yki_lanes x)
{
    return yki_zero_below(x, -87.3f, yki_exp(x));
}

/* log(x) of positive normal numbers, to about 2 units in the last place: the exponent, and
 * 2 atanh(s) with s = (m - 1) / (m + 1) for the rest m, from sqrt(1/2) to sqrt(2). NaN passes. */
YKI_FORCE_INLINE yki_lanes yki_log(yki_lanes x)
{
    yki_bits bits = (yki_bits)x - 0x3f3504f3u; /* sqrt(1/2) */
    yki_lanes exponent = __builtin_convertvector((yki_whole)bits >> 23, yki_lanes);
    yki_lanes m = (yki_lanes)((bits & 0x007fffffu) + 0x3f3504f3u);
    yki_lanes s = (m - 1.0f) / (m + 1.0f), z = s * s;
    yki_lanes p = yki_splat(1 / 9.0f);
    p = p * z + 1 / 7.0f;
    p = p * z + 1 / 5.0f;
    p = p * z + 1 / 3.0f;
    return 2.0f * (p * z * s + s) + exponent * 0.69314718f + (x - x);
}

YKI_FORCE_INLINE yki_lanes yki_abs(yki_lanes x)
{
    return (yki_lanes)((yki_bits)x & 0x7fffffffu);
}

YKI_FORCE_INLINE yki_lanes yki_sqrt(yki_lanes x)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_sqrt_ps((__m256)x);
#else
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        x[lane] = sqrtf(x[lane]);
    return x;
#endif
}

/*
 * 2^(factor x) to about 2 units in the last place, where that is a normal number. NaN becomes any
 * number. The product is n + r: 2^r is a polynomial, and n is added to its exponent.
 */
YKI_FORCE_INLINE yki_lanes yki_exp2(yki_lanes x, float factor)
{
    yki_lanes shifted = x * factor + YKI_ROUNDER, n = shifted - YKI_ROUNDER, r = x * factor - n;
    yki_lanes p = yki_splat(1.3276469e-3f);
    p = p * r + 9.67554096e-3f;
    p = p * r + 5.55071346e-2f;
    p = p * r + 2.40221202e-1f;
    p = p * r + 6.93146944e-1f;
    p = p * r + 1.00000012f;
    return (yki_lanes)((yki_bits)p + ((yki_bits)shifted << 23));
}

/*
 * YKI_WIDTH halves to f32, and back: by F16C and AVX-512, or as tensor/f16.h computes it, in
 * vectors, because compilers do not make vectors of its code here. Memory of any type, as all
 * accesses here.
 */
YKI_FORCE_INLINE yki_lanes yki_widen_f16(const uint16_t *from)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#elif defined(__F16C__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#else
    const uint32_t rebias = 112u << 23;
    yki_bits half = __builtin_convertvector(*(const yki_halves_at *)from, yki_bits);
    yki_bits sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    yki_bits normal = (magnitude << 13) + rebias, special = normal + rebias;
    yki_whole ordered = (yki_whole)magnitude;
    yki_lanes subnormal = __builtin_convertvector(ordered, yki_lanes) * 0x1p-24f;
    yki_lanes x = (yki_lanes)normal;
    x = yki_select((yki_bits)(ordered < 0x400), subnormal, x);
    x = yki_select((yki_bits)(ordered >= 0x7c00), (yki_lanes)special, x);
    x = yki_select((yki_bits)(ordered > 0x7c00), (yki_lanes)(special | 0x400000u), x);
    return (yki_lanes)(sign | (yki_bits)x);
#endif
}

YKI_FORCE_INLINE void yki_narrow_f16(uint16_t *to, yki_lanes x)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__) && YKI_WIDTH == 8
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
    const uint32_t rebias = 112u << 23;
    yki_bits bits = (yki_bits)x, sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    yki_bits normal = (magnitude - rebias + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    yki_bits subnormal = (yki_bits)((yki_lanes)magnitude + 0.5f) - 0x3f000000u;
    yki_bits nan = 0x7e00u | (magnitude >> 13 & 0x3ffu), infinite = (yki_bits){0} + 0x7c00u;
    yki_whole ordered = (yki_whole)magnitude;
    yki_lanes half = (yki_lanes)normal;
    half = yki_select((yki_bits)(ordered < 0x38800000), (yki_lanes)subnormal, half);
    half = yki_select((yki_bits)(ordered >= 0x477ff000), (yki_lanes)infinite, half);
    half = yki_select((yki_bits)(ordered > 0x7f800000), (yki_lanes)nan, half);
    *(yki_halves_at *)to = __builtin_convertvector(sign | (yki_bits)half, yki_halves);
#endif
}

YKI_FORCE_INLINE size_t yki_size_of(yk_dtype dtype)
{
    return dtype == YK_F32 ? sizeof(float) : sizeof(uint16_t);
}

YKI_FORCE_INLINE yki_pack yki_load(const void *memory, int64_t element, yk_dtype dtype)
{
    if (dtype == YK_F16) {
        const uint16_t *halves = (const uint16_t *)memory + element;
        return (yki_pack){{yki_widen_f16(halves), yki_widen_f16(halves + YKI_WIDTH)}};
    }
    if (dtype == YK_BF16) {
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
YKI_FORCE_INLINE yki_bits yki_round(yki_lanes x)
{
    yki_bits bits = (yki_bits)x;
    yki_bits half = ((bits >> 16) & 1u) + 0x7fffu;
    return bits + (half & (yki_bits)(x == x));
}

YKI_FORCE_INLINE yki_bits yki_narrow_pack(yki_pack x)
{
    return (yki_round(x.v[0]) >> 16) | (yki_round(x.v[1]) & 0xffff0000u);
}

YKI_FORCE_INLINE void yki_store(void *memory, int64_t element, yki_pack x, yk_dtype dtype)
{
    if (dtype == YK_F16) {
        yki_narrow_f16((uint16_t *)memory + element, x.v[0]);
        yki_narrow_f16((uint16_t *)memory + element + YKI_WIDTH, x.v[1]);
        return;
    }
    if (dtype == YK_BF16) {
        *(yki_bits_at *)((uint16_t *)memory + element) = yki_narrow_pack(x);
        return;
    }
    float *to = (float *)memory + element;
    *(yki_lanes_at *)to = x.v[0];
    *(yki_lanes_at *)(to + YKI_WIDTH) = x.v[1];
}

/* ThreadSanitizer does not see stores past the caches. */
#if defined(__AVX512F__) && YKI_WIDTH == 16 && !defined(__SANITIZE_THREAD__)
YKI_FORCE_INLINE void yki_stream_lanes(float *to, yki_lanes x)
{
    _mm512_stream_ps(to, (__m512)x);
}
#elif defined(__AVX__) && YKI_WIDTH == 8 && !defined(__SANITIZE_THREAD__)
YKI_FORCE_INLINE void yki_stream_lanes(float *to, yki_lanes x)
{
    _mm256_stream_ps(to, (__m256)x);
}
#else
YKI_FORCE_INLINE void yki_stream_lanes(float *to, yki_lanes x)
{
    *(yki_lanes_at *)to = x;
}
#endif

/*
 * Stores that bypass the caches, if the processor has them: a big result would only evict what is
 * needed sooner. `memory + element` must be aligned to a vector; call yki_stream_end() after the
 * last one.
 */
YKI_FORCE_INLINE void yki_store_streaming(void *memory, int64_t element, yki_pack x, yk_dtype dtype)
{
#if (defined(__AVX512F__) && YKI_WIDTH == 16) || (defined(__AVX__) && YKI_WIDTH == 8)
    float *to = (float *)((char *)memory + (size_t)element * yki_size_of(dtype));
    if (dtype == YK_F32) {
        yki_stream_lanes(to, x.v[0]);
        yki_stream_lanes(to + YKI_WIDTH, x.v[1]);
        return;
    }
    yki_lanes halves;
    yki_store(&halves, 0, x, dtype);
    yki_stream_lanes(to, halves);
#else
    yki_store(memory, element, x, dtype);
#endif
}

YKI_FORCE_INLINE void yki_stream_end(void)
{
#if defined(__AVX__)
    _mm_sfence();
#endif
}

/* One vector of consecutive elements, all in memory order. */
YKI_FORCE_INLINE yki_lanes yki_load_lanes(const void *memory, int64_t element, yk_dtype dtype)
{
    if (dtype == YK_F32)
        return *(const yki_lanes_at *)((const float *)memory + element);
    const uint16_t *halves = (const uint16_t *)memory + element;
    if (dtype == YK_F16)
        return yki_widen_f16(halves);
    return (yki_lanes)(__builtin_convertvector(*(const yki_halves_at *)halves, yki_bits) << 16);
}

/* A number from each of these places. */
YKI_FORCE_INLINE yki_lanes yki_gather(const float *from, const int32_t *places)
{
#if defined(__AVX512F__) && YKI_WIDTH == 16
    return (yki_lanes)_mm512_i32gather_ps(_mm512_loadu_si512(places), from, sizeof *from);
#elif defined(__AVX2__) && YKI_WIDTH == 8
    return (yki_lanes)_mm256_i32gather_ps(from, _mm256_loadu_si256((const __m256i *)places),
                                          sizeof *from);
#else
    yki_lanes x;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        x[lane] = from[places[lane]];
    return x;
#endif
}

/* The taps in [begin, end) read pixels of x; `corner` is the pixel that the first tap reads. */
YKI_FORCE_INLINE void yki_taps_inside(int64_t corner, int64_t taps, int64_t pixels, int64_t *begin,
                                      int64_t *end)
{
    *begin = corner < 0 ? -corner : 0;
    *end = corner + taps > pixels ? pixels - corner : taps;
}

/* One pixel of a channel block as wide as a vector. */
YKI_FORCE_INLINE yki_lanes yki_load_pixel(const void *memory, int64_t pixel, yk_dtype dtype)
{
    return yki_load_lanes(memory, pixel * YKI_WIDTH, dtype);
}

YKI_FORCE_INLINE void yki_store_lanes(void *memory, int64_t element, yki_lanes x, yk_dtype dtype)
{
    uint16_t *halves = (uint16_t *)memory + element;
    if (dtype == YK_F32)
        *(yki_lanes_at *)((float *)memory + element) = x;
    else if (dtype == YK_F16)
        yki_narrow_f16(halves, x);
#if defined(__AVX512BF16__) && YKI_WIDTH == 16
    else
        *(yki_halves_at *)halves = (yki_halves)_mm512_cvtneps_pbh((__m512)x);
#else
    else
        *(yki_halves_at *)halves = __builtin_convertvector(yki_round(x) >> 16, yki_halves);
#endif
}

/* One pixel, of f32 past the caches if wanted: its neighbour is to follow at once where a vector is
 * half a line. */
YKI_FORCE_INLINE void yki_put_pixel(void *memory, int64_t pixel, yki_lanes x, bool stream,
                                    yk_dtype dtype)
{
    if (stream && dtype == YK_F32)
        yki_stream_lanes((float *)memory + pixel * YKI_WIDTH, x);
    else
        yki_store_lanes(memory, pixel * YKI_WIDTH, x, dtype);
}

YKI_FORCE_INLINE bool yki_can_stream(const void *memory, int64_t element, yk_dtype dtype)
{
    return ((uintptr_t)memory + (size_t)element * yki_size_of(dtype)) % sizeof(yki_lanes) == 0;
}

/* Prefetches the cache line of an element into the second-level cache: what several runs will need
 * would not fit the first-level one. */
YKI_FORCE_INLINE void yki_prefetch_line(const void *memory, int64_t element, yk_dtype dtype)
{
    enum { FOR_READING, SECOND_LEVEL = 2 };
    const char *at = (const char *)memory + (size_t)element * yki_size_of(dtype);
    __builtin_prefetch(at, FOR_READING, SECOND_LEVEL);
}

/* The lines of a pack: the runs of one channel block are short and far apart, and the processor's
 * own prefetching does not follow them. */
YKI_FORCE_INLINE void yki_prefetch(const void *memory, int64_t element, yk_dtype dtype)
{
    for (size_t i = 0; i < YKI_PACK; i += 64 / yki_size_of(dtype))
        yki_prefetch_line(memory, element + (int64_t)i, dtype);
}

/*
 * Pixels [0, rows) x [0, columns) from this one on, of a block as wide as a vector: those of a
 * window's row that it shares with none above it. Processors do not follow several rows of pixels
 * at a time; of a map that is in a cache, this would only be in the way.
 */
YKI_FORCE_INLINE void yki_prefetch_pixels(const void *x, int64_t pixel, int64_t pitch, int64_t rows,
                                          int64_t columns, yk_dtype dtype)
{
    const int64_t of_line = 64 / (YKI_WIDTH * (int64_t)yki_size_of(dtype));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s += of_line)
            yki_prefetch_line(x, (pixel + r * pitch + s) * YKI_WIDTH, dtype);
}

/* The first `count` elements of a pack, the others zero; and the reverse. */
YKI_FORCE_INLINE yki_pack yki_load_part(const void *memory, int64_t element, int64_t count,
                                        yk_dtype dtype)
{
    size_t size = yki_size_of(dtype);
    float part[YKI_PACK] = {0};
    memcpy(part, (const char *)memory + (size_t)element * size, (size_t)count * size);
    return yki_load(part, 0, dtype);
}

YKI_FORCE_INLINE void yki_store_part(void *memory, int64_t element, int64_t count, yki_pack x,
                                     yk_dtype dtype)
{
    size_t size = yki_size_of(dtype);
    float part[YKI_PACK];
    yki_store(part, 0, x, dtype);
    memcpy((char *)memory + (size_t)element * size, part, (size_t)count * size);
}

/* The element of a pack that is in a lane of vector j. */
YKI_FORCE_INLINE int yki_element(int j, int lane, yk_dtype dtype)
{
    return dtype == YK_BF16 ? 2 * lane + j : YKI_WIDTH * j + lane;
}

/* Loads one constant for each element, in memory order, into lanes. */
YKI_FORCE_INLINE yki_pack yki_spread(const float *values, yk_dtype dtype)
{
    yki_pack pack;
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            pack.v[j][lane] = values[yki_element(j, lane, dtype)];
    return pack;
}

/* Lanes whose element is below count: all ones. */
YKI_FORCE_INLINE void yki_first(int64_t count, yki_bits mask[2], yk_dtype dtype)
{
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            mask[j][lane] = yki_element(j, lane, dtype) < count ? UINT32_MAX : 0;
}

#endif
