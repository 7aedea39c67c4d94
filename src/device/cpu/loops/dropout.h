/* The mask of dropout, whose draws graph/dropout.h describes: included by table.h alone. */
#include "graph/dropout.h"

/* Bit l is whether lane l is all ones; other lanes are zero. */
YKI_FORCE_INLINE uint16_t bits_of_lanes(yki_bits mask)
{
#if YKI_WIDTH == 16
    return (uint16_t)_mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif defined(__AVX__) && YKI_WIDTH == 8
    return (uint16_t)_mm256_movemask_ps((__m256)mask);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        bits |= (mask[lane] & 1u) << lane;
    return (uint16_t)bits;
#endif
}

/* Lanes are all ones where the element from `first` on is kept. */
static yki_bits each_kept(const yki_dropout_draw *draw, uint64_t first)
{
    yki_bits kept;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        kept[lane] = yki_dropout_keeps(draw, first + (uint64_t)lane) ? ~0u : 0;
    return kept;
}

#if YKI_WIDTH > 4
/* Numbers of 64 bits, of which a vector has half as many as of f32. */
typedef uint64_t dropout_words __attribute__((vector_size(4 * YKI_WIDTH)));

/* The lower or the upper halves of the words of a and of b, which become those of consecutive
 * elements where a has the words of FIRST_ELEMENTS, and b those of two elements later. */
#if YKI_WIDTH == 16
#define FIRST_ELEMENTS                                                                             \
    {                                                                                              \
        0, 1, 4, 5, 8, 9, 12, 13                                                                   \
    }
#define LOWER_HALVES(a, b) ((yki_bits)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0x88))
#define UPPER_HALVES(a, b) ((yki_bits)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0xdd))
#else
#define FIRST_ELEMENTS                                                                             \
    {                                                                                              \
        0, 1, 4, 5                                                                                 \
    }
#define LOWER_HALVES(a, b) ((yki_bits)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0x88))
#define UPPER_HALVES(a, b) ((yki_bits)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0xdd))
#endif

/* Of the lower half of each word, with a number of 32 bits. */
YKI_FORCE_INLINE dropout_words low_products(dropout_words x, uint32_t factor)
{
    const dropout_words factors = factor - (dropout_words){0};
#if YKI_WIDTH == 16
    return (dropout_words)_mm512_mul_epu32((__m512i)x, (__m512i)factors);
#else
    return (dropout_words)_mm256_mul_epu32((__m256i)x, (__m256i)factors);
#endif
}

/*
 * The same. This is yki_mix64 with the halves of words in two vectors, because processors multiply
 * 32 bits faster than 64. The last product's upper half suffices: what remains of yki_mix64 leaves
 * its first 31 bits alone, which decide unless they are those of the least number that is kept.
 * That happens once in 2^31 draws.
 */
YKI_FORCE_INLINE yki_bits kept_from(const yki_dropout_draw *draw, uint64_t first)
{
    enum { DRAWN = 53, DECIDING = 31 /* bits */ };
    const uint32_t m1 = 0x1ce4e5b9u, m1_upper = 0xbf58476du, m2 = 0x133111ebu,
                   m2_upper = 0x94d049bbu;
    const dropout_words elements = FIRST_ELEMENTS;
    dropout_words a = elements + (draw->origin + first), b = a + 2;
    a = (a ^ draw->stem) + YKI_WORD_STEP;
    b = (b ^ draw->stem) + YKI_WORD_STEP;
    a ^= a >> 30;
    b ^= b >> 30;
    const dropout_words p = low_products(a, m1), q = low_products(b, m1);
    yki_bits lower = LOWER_HALVES(p, q), upper = UPPER_HALVES(p, q);
    upper += LOWER_HALVES(a, b) * m1_upper + UPPER_HALVES(a, b) * m1;
    lower ^= lower >> 27 ^ upper << 5;
    upper ^= upper >> 27;
    const yki_bits odd_lanes = (yki_bits)(UINT64_C(0xffffffff00000000) + (dropout_words){0});
    const yki_bits even = (yki_bits)(low_products((dropout_words)lower, m2) >> 32),
                   odd = (yki_bits)low_products((dropout_words)lower >> 32, m2);
    const yki_bits top = (even | (odd & odd_lanes)) + (lower * m2_upper + upper * m2);
    const yki_whole drawn = (yki_whole)(top >> 1);
    const int32_t least = (int32_t)(draw->least >> (DRAWN - DECIDING));
    if (__builtin_expect(bits_of_lanes((yki_bits)(drawn == least)) != 0, 0))
        return each_kept(draw, first);
    return (yki_bits)(drawn > least);
}

#else

YKI_FORCE_INLINE yki_bits kept_from(const yki_dropout_draw *draw, uint64_t first)
{
    return each_kept(draw, first);
}

#endif

static void draw(const yki_dropout_draw *shared, uint64_t first, int64_t count, uint16_t *kept)
{
    const yki_dropout_draw own = *shared;
    for (int64_t i = 0; i < count; i += YKI_WIDTH)
        kept[i / YKI_WIDTH] = bits_of_lanes(kept_from(&own, first + (uint64_t)i));
}

static void draw_lane(const yki_dropout_draw *shared, uint64_t first, int64_t count, int lane,
                      uint16_t *kept)
{
    const yki_dropout_draw own = *shared;
    const yki_bits bit = (1u << lane) - (yki_bits){0};
    for (int64_t i = 0; i < count; i += YKI_WIDTH)
        *(yki_halves_at *)(kept + i) |=
            __builtin_convertvector(kept_from(&own, first + (uint64_t)i) & bit, yki_halves);
}

/* Which bit of a pack's kept is that of each lane. */
YKI_FORCE_INLINE void bits_of_pack(yki_bits bits[2], yk_dtype dtype)
{
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            bits[j][lane] = 1u << yki_element(j, lane, dtype);
}

YKI_FORCE_INLINE yki_pack drop_pack(yki_pack x, const yki_bits bits[2], const uint16_t *kept,
                                    float factor)
{
    const uint32_t both = kept[0] | (uint32_t)kept[1] << YKI_WIDTH;
    const yki_bits keep = both - (yki_bits){0}, factors = (yki_bits)yki_splat(factor);
    for (int j = 0; j < 2; j++)
        x.v[j] *= (yki_lanes)(factors & (yki_bits)((keep & bits[j]) == bits[j]));
    return x;
}

YKI_FORCE_INLINE void drop_as(const void *x, const uint16_t *kept, void *y, float factor,
                              int64_t count, yk_dtype dtype)
{
    yki_bits bits[2];
    bits_of_pack(bits, dtype);
    int64_t i = 0;
    for (; i + YKI_PACK <= count; i += YKI_PACK)
        yki_store(y, i, drop_pack(yki_load(x, i, dtype), bits, kept + i / YKI_WIDTH, factor),
                  dtype);
    if (i < count) {
        const uint16_t last[2] = {kept[i / YKI_WIDTH],
                                  count - i > YKI_WIDTH ? kept[i / YKI_WIDTH + 1] : 0};
        const yki_pack part = yki_load_part(x, i, count - i, dtype);
        yki_store_part(y, i, count - i, drop_pack(part, bits, last, factor), dtype);
    }
}

static void drop(yk_dtype dtype, const void *x, const uint16_t *kept, void *y, float factor,
                 int64_t count)
{
    FOR_EACH_DTYPE(drop_as, dtype, x, kept, y, factor, count);
}
