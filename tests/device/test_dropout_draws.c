/*
 * Masks of dropout, which the loops of the cpu device draw a vector at a time: the bits of
 * yki_dropout_keeps, with every width of vectors that this processor has.
 */
#include <string.h>

#include "device/cpu/loops/loops.h"
#include "harness.h"

enum { MOST_TABLES = 3, MOST = 160 /* elements; a multiple of every vector */ };

/* Returns how many tables there are. */
static int find_tables(const yki_cpu_loops *tables[MOST_TABLES])
{
    int count = 0;
    tables[count++] = &yki_cpu_loops_generic;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        tables[count++] = &yki_cpu_loops_avx2;
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        tables[count++] = &yki_cpu_loops_avx512;
#endif
    return count;
}

/* The number of 53 bits that decides about an element. */
static uint64_t number_of(const yki_dropout_draw *draw, uint64_t element)
{
    return yki_mix64(draw->stem ^ (draw->origin + element)) >> 11;
}

static void expect_mask(const yki_cpu_loops *loops, const yki_dropout_draw *draw, uint64_t first,
                        int64_t count)
{
    const int width = loops->pack / 2;
    uint16_t kept[MOST] = {0};
    loops->draw(draw, first, count, kept);
    for (int64_t i = 0; i < count; i++) {
        const int expected = yki_dropout_keeps(draw, first + (uint64_t)i);
        assert_int_equal(kept[i / width] >> i % width & 1, expected);
    }
}

YK_TEST(masks_have_the_bits_of_single_elements)
{
    static const double ps[] = {0, 0.1, 0.25, 0.5, 0.9, 0x1.fffffffffffffp-1};
    static const uint64_t firsts[] = {0, 3, (1u << 30) - 5, UINT32_MAX - 7, UINT64_C(1) << 40};
    const yki_cpu_loops *tables[MOST_TABLES];
    const int count = find_tables(tables);
    for (int t = 0; t < count; t++)
        for (uint64_t salt = 0; salt < 50; salt++)
            for (size_t i = 0; i < sizeof ps / sizeof *ps; i++)
                for (size_t j = 0; j < sizeof firsts / sizeof *firsts; j++) {
                    const yki_dropout_draw draw = yki_dropout_draw_of(7, 8, salt, ps[i]);
                    expect_mask(tables[t], &draw, firsts[j], j % 2 ? MOST : 1 + (int64_t)salt);
                }
}

/* Vectors decide by the first 31 bits, which are not enough here. */
YK_TEST(the_least_number_is_kept_and_the_next_is_not)
{
    const yki_cpu_loops *tables[MOST_TABLES];
    const int count = find_tables(tables);
    for (int t = 0; t < count; t++)
        for (uint64_t element = 0; element < MOST; element++) {
            yki_dropout_draw draw = yki_dropout_draw_of(7, 8, 9, 0.5);
            draw.least = number_of(&draw, element);
            expect_mask(tables[t], &draw, 0, MOST);
            draw.least++;
            expect_mask(tables[t], &draw, 0, MOST);
        }
}

static void fill_with_threes(float *wide, uint16_t *bf16, uint16_t *f16)
{
    for (int64_t i = 0; i < MOST; i++) {
        wide[i] = 3;
        bf16[i] = 0x4040; /* 3 */
        f16[i] = 0x4200;
    }
}

/* A three is doubled if it is kept, and otherwise 0. */
static void expect_dropped(float wide, uint16_t bf16, uint16_t f16, bool is_new, bool is_kept)
{
    assert_true(wide == (!is_new ? 3.0f : is_kept ? 6.0f : 0.0f));
    assert_int_equal(bf16, !is_new ? 0x4040 : is_kept ? 0x40c0 : 0);
    assert_int_equal(f16, !is_new ? 0x4200 : is_kept ? 0x4600 : 0);
}

/* Rows, and channels of 63 pixels: all counts, in place, and in each dtype. */
YK_TEST(drawn_elements_are_dropped_without_a_mask)
{
    const yki_cpu_loops *tables[MOST_TABLES];
    const int table_count = find_tables(tables);
    const yki_dropout_draw draw = yki_dropout_draw_of(1, 2, 3, 0.5);
    for (int t = 0; t < 2 * table_count; t++)
        for (int64_t count = 1; count < MOST; count++) {
            const yki_cpu_loops *loops = tables[t / 2];
            const uint64_t width = (uint64_t)loops->pack / 2;
            const yki_dropout_places row = {5, width, 1}, block = {5, 1, 63};
            const yki_dropout_places *places = t % 2 ? &block : &row;
            float wide[MOST];
            uint16_t bf16[MOST], f16[MOST];
            fill_with_threes(wide, bf16, f16);
            loops->drop_drawn(YK_F32, &draw, places, wide, wide, 2, count);
            loops->drop_drawn(YK_BF16, &draw, places, bf16, bf16, 2, count);
            loops->drop_drawn(YK_F16, &draw, places, f16, f16, 2, count);
            for (uint64_t i = 0; i < MOST; i++) {
                const uint64_t element =
                    places->first + i / width * places->vector_step + i % width * places->lane_step;
                expect_dropped(wide[i], bf16[i], f16[i], (int64_t)i < count,
                               yki_dropout_keeps(&draw, element));
            }
        }
}

/* Of all counts, in place, and in each dtype. */
YK_TEST(dropped_elements_are_zero_and_the_others_are_scaled)
{
    const yki_cpu_loops *tables[MOST_TABLES];
    const int table_count = find_tables(tables);
    const yki_dropout_draw draw = yki_dropout_draw_of(1, 2, 3, 0.5);
    for (int t = 0; t < table_count; t++)
        for (int64_t count = 1; count < MOST; count++) {
            uint16_t kept[MOST];
            float wide[MOST];
            uint16_t bf16[MOST], f16[MOST];
            fill_with_threes(wide, bf16, f16);
            tables[t]->draw(&draw, 5, count, kept);
            tables[t]->drop(YK_F32, wide, kept, wide, 2, count);
            tables[t]->drop(YK_BF16, bf16, kept, bf16, 2, count);
            tables[t]->drop(YK_F16, f16, kept, f16, 2, count);
            for (int64_t i = 0; i < MOST; i++) {
                expect_dropped(wide[i], bf16[i], f16[i], i < count,
                               yki_dropout_keeps(&draw, 5 + (uint64_t)i));
            }
        }
}
