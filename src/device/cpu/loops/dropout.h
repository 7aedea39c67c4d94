/* The mask of dropout, whose draws graph/dropout.h describes: included by table.h alone. */
#include "graph/dropout.h"

/* Numbers of 64 bits, of which a vector has half as many as of f32. */
typedef uint64_t dropout_words __attribute__((vector_size(4 * YKI_WIDTH)));

/* Elements of a vector, counted from the draw's origin, in two vectors: lane l of the vector is
 * WORD_OF_LANE(l) of both. */
typedef struct dropout_elements {
    dropout_words v[2];
} dropout_elements;

#if YKI_WIDTH == 16 /* those of the first lanes, and those of the last */
#define WORD_OF_LANE(lane) (lane)
#else /* in the order in which halves of words come out of a shuffle */
#define WORD_OF_LANE(lane) ((lane) / 4 * 2 + (lane) % 2 + (lane) % 4 / 2 * (YKI_WIDTH / 2))
#endif

YKI_FORCE_INLINE void set_element(dropout_elements *e, int lane, uint64_t element)
{
    e->v[WORD_OF_LANE(lane) / (YKI_WIDTH / 2)][WORD_OF_LANE(lane) % (YKI_WIDTH / 2)] = element;
}

#if YKI_WIDTH == 16

/* Which lanes are kept: a bit for each. */
typedef __mmask16 kept_lanes;

YKI_FORCE_INLINE uint16_t bits_of_kept(kept_lanes kept)
{
    return kept;
}

/* Times the factor or 0; NaN passes. */
YKI_FORCE_INLINE yki_lanes scale_kept(yki_lanes x, kept_lanes kept, float factor)
{
    return x * (yki_lanes)_mm512_maskz_mov_ps(kept, (__m512)yki_splat(factor));
}

/* yki_dropout_keeps, by the processor's products of 64 bits. */
YKI_FORCE_INLINE __mmask8 keep_words(const yki_dropout_draw *draw, dropout_words a)
{
    enum { REST = 11 /* bits below those that are drawn */ };
    a = (a ^ draw->stem) + YKI_WORD_STEP;
    a = (a ^ a >> 30) * 0xbf58476d1ce4e5b9u;
    a = (a ^ a >> 27) * 0x94d049bb133111ebu;
    a ^= a >> 31;
    const dropout_words least = (draw->least << REST) - (dropout_words){0};
    return _mm512_cmpge_epu64_mask((__m512i)a, (__m512i)least);
}

YKI_FORCE_INLINE kept_lanes keep(const yki_dropout_draw *draw, const dropout_elements *e)
{
    return _mm512_kunpackb(keep_words(draw, e->v[1]), keep_words(draw, e->v[0]));
}

#else

/* Lanes that are kept are all ones, and the others zero. */
typedef yki_bits kept_lanes;

YKI_FORCE_INLINE uint16_t bits_of_kept(kept_lanes kept)
{
#if defined(__AVX__) && YKI_WIDTH == 8
    return (uint16_t)_mm256_movemask_ps((__m256)kept);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        bits |= (kept[lane] & 1u) << lane;
    return (uint16_t)bits;
#endif
}

YKI_FORCE_INLINE yki_lanes scale_kept(yki_lanes x, kept_lanes kept, float factor)
{
    return x * (yki_lanes)((yki_bits)yki_splat(factor) & kept);
}

static yki_bits keep_each(const yki_dropout_draw *draw, const dropout_elements *e)
{
    yki_bits kept;
    for (int lane = 0; lane < YKI_WIDTH; lane++) {
        const int word = WORD_OF_LANE(lane), half = YKI_WIDTH / 2;
        const uint64_t element = e->v[word / half][word % half] - draw->origin;
        kept[lane] = yki_dropout_keeps(draw, element) ? ~0u : 0;
    }
    return kept;
}

#if YKI_WIDTH == 8

/* The lower or the upper halves of words. */
#define LOWER_HALVES(a, b) ((yki_bits)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0x88))
#define UPPER_HALVES(a, b) ((yki_bits)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0xdd))

/* Of the lower half of each word, with a number of 32 bits. */
YKI_FORCE_INLINE dropout_words low_products(dropout_words x, uint32_t factor)
{
    const dropout_words factors = factor - (dropout_words){0};
    return (dropout_words)_mm256_mul_epu32((__m256i)x, (__m256i)factors);
}

/*
 * This is yki_mix64 with the halves of words in two vectors, because there are only products of 32
 * bits. The last product's upper half suffices: what remains of yki_mix64 leaves its first 31 bits
 * alone, which decide unless they are those of the least number that is kept. That happens once in
 * 2^31 draws.
 */
YKI_FORCE_INLINE kept_lanes keep(const yki_dropout_draw *draw, const dropout_elements *e)
{
    enum { DRAWN = 53, DECIDING = 31 /* bits */ };
    const uint32_t m1 = 0x1ce4e5b9u, m1_upper = 0xbf58476du, m2 = 0x133111ebu,
                   m2_upper = 0x94d049bbu;
    dropout_words a = (e->v[0] ^ draw->stem) + YKI_WORD_STEP,
                  b = (e->v[1] ^ draw->stem) + YKI_WORD_STEP;
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
    if (__builtin_expect(bits_of_kept((yki_bits)(drawn == least)) != 0, 0))
        return keep_each(draw, e);
    return (yki_bits)(drawn > least);
}

#else

YKI_FORCE_INLINE kept_lanes keep(const yki_dropout_draw *draw, const dropout_elements *e)
{
    return keep_each(draw, e);
}

#endif
#endif

/* Those of both vectors of a pack, of which the first element is 0. */
YKI_FORCE_INLINE void elements_of_pack(dropout_elements e[2], const yki_dropout_places *places,
                                       yk_dtype dtype)
{
    for (int j = 0; j < 2; j++)
        for (int lane = 0; lane < YKI_WIDTH; lane++) {
            const int place = yki_element(j, lane, dtype);
            set_element(&e[j], lane,
                        (uint64_t)(place / YKI_WIDTH) * places->vector_step +
                            (uint64_t)(place % YKI_WIDTH) * places->lane_step);
        }
}

YKI_FORCE_INLINE kept_lanes keep_from(const yki_dropout_draw *draw, const dropout_elements *e,
                                      uint64_t first)
{
    const uint64_t begin = draw->origin + first;
    const dropout_elements from = {{e->v[0] + begin, e->v[1] + begin}};
    return keep(draw, &from);
}

static void draw(const yki_dropout_draw *shared, uint64_t first, int64_t count, uint16_t *kept)
{
    const yki_dropout_draw own = *shared;
    const yki_dropout_places row = {.lane_step = 1, .vector_step = YKI_WIDTH};
    dropout_elements e[2];
    elements_of_pack(e, &row, YK_F32);
    for (int64_t i = 0; i < count; i += YKI_WIDTH)
        kept[i / YKI_WIDTH] = bits_of_kept(keep_from(&own, &e[0], first + (uint64_t)i));
}

/* While masks are drawn, processors do not reach what comes next in memory by themselves. */
enum { DRAWN_AHEAD = 512 /* elements */ };

YKI_FORCE_INLINE void drop_drawn_as(const yki_dropout_draw *shared,
                                    const yki_dropout_places *places, const void *x, void *y,
                                    float factor, int64_t count, yk_dtype dtype)
{
    const yki_dropout_draw own = *shared;
    const uint64_t step = 2 * places->vector_step;
    uint64_t first = places->first;
    dropout_elements e[2];
    elements_of_pack(e, places, dtype);
    int64_t i = 0;
    for (; i + YKI_PACK <= count; i += YKI_PACK, first += step) {
        yki_prefetch(x, i + DRAWN_AHEAD, dtype);
        yki_prefetch(y, i + DRAWN_AHEAD, dtype);
        yki_pack p = yki_load(x, i, dtype);
        for (int j = 0; j < 2; j++)
            p.v[j] = scale_kept(p.v[j], keep_from(&own, &e[j], first), factor);
        yki_store(y, i, p, dtype);
    }
    if (i == count)
        return;
    yki_pack p = yki_load_part(x, i, count - i, dtype);
    for (int j = 0; j < 2; j++)
        p.v[j] = scale_kept(p.v[j], keep_from(&own, &e[j], first), factor);
    yki_store_part(y, i, count - i, p, dtype);
}

static void drop_drawn(yk_dtype dtype, const yki_dropout_draw *draw,
                       const yki_dropout_places *places, const void *x, void *y, float factor,
                       int64_t count)
{
    FOR_EACH_DTYPE(drop_drawn_as, dtype, draw, places, x, y, factor, count);
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
