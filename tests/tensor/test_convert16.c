/*
 * float16 and bfloat16: every one of the 65536 numbers up, and down again from it, from the middle
 * between it and its neighbour (the tie) and from just beside that; scalars and runs alike.
 */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/bf16.h"
#include "tensor/convert16.h"
#include "tensor/f16.h"

enum { ALL = 1 << 16 };

/* By its definition: 1 sign, 5 exponent, 10 fraction bits. */
static double f16_by_definition(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return half >> 15 ? -value : value;
}

static void assert_half(float from, uint16_t expected)
{
    uint16_t got = yki_f16_from_float(from);
    if (got != expected)
        fail_msg("%.9g became 0x%04x, not 0x%04x", (double)from, got, expected);
}

YK_TEST(f16_widens_exactly)
{
    for (uint32_t h = 0; h < ALL; h++) {
        double value = yki_f16_to_float((uint16_t)h), expected = f16_by_definition((uint16_t)h);
        assert_true(isnan(expected) ? isnan(value) : value == expected);
        assert_int_equal(signbit(value) != 0, h >> 15);
    }
}

YK_TEST(f16_rounds_to_nearest_even)
{
    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t h = 0; h < 0x7c00; h++) {
            uint16_t half = (uint16_t)(h | sign << 15), next = (uint16_t)(half + 1);
            double below = f16_by_definition(half);
            double above = h == 0x7bff ? copysign(65536, below) : f16_by_definition(next);
            float tie = (float)((below + above) / 2); /* exact: 12 bits */
            assert_half((float)below, half);
            assert_half(tie, h % 2 ? next : half);
            assert_half(nextafterf(tie, (float)below), half);
            assert_half(nextafterf(tie, (float)above), next);
        }
}

YK_TEST(f16_ends_of_the_range)
{
    assert_half(0x1p-26f, 0);
    assert_half(-0x1p-140f, 0x8000); /* a subnormal f32 */
    assert_half(65504, 0x7bff);
    assert_half(65519.996f, 0x7bff);
    assert_half(65520, 0x7c00);
    assert_half(-1e30f, 0xfc00);
    assert_half(INFINITY, 0x7c00);
    assert_int_equal(yki_f16_from_float(NAN) & 0x7e00, 0x7e00);
    assert_half(yki_float_of_bits(0x7f800001), 0x7e00); /* signalling becomes quiet */
    assert_half(yki_float_of_bits(0xffa02000), 0xff01); /* upper payload bits are kept */
}

/* Runs give the scalars' bits, at every length on both sides of a vector. */
static void check_runs(yk_dtype dtype, float (*widen)(uint16_t), uint16_t (*narrow)(float))
{
    uint16_t *halves = malloc(ALL * sizeof *halves), *back = malloc(ALL * sizeof *back);
    float *floats = malloc(ALL * sizeof *floats);
    for (uint32_t h = 0; h < ALL; h++)
        halves[h] = (uint16_t)(h * 40503u); /* all of them, in another order */
    yki_widen16(floats, halves, dtype, ALL);
    for (uint32_t h = 0; h < ALL; h++) {
        float expected = widen(halves[h]);
        assert_memory_equal(&floats[h], &expected, sizeof expected);
        floats[h] *= 1.0001f;
    }
    yki_narrow16(back, floats, dtype, ALL);
    for (uint32_t h = 0; h < ALL; h++)
        assert_int_equal(back[h], narrow(floats[h]));
    for (size_t count = 0; count < 70; count++) {
        uint16_t some[71];
        memset(some, 0xa5, sizeof some);
        yki_narrow16(some, floats, dtype, count);
        assert_memory_equal(some, back, count * sizeof *some);
        assert_int_equal(some[count], 0xa5a5);
    }
    free(halves);
    free(back);
    free(floats);
}

YK_TEST(f16_runs_equal_scalars)
{
    check_runs(YK_F16, yki_f16_to_float, yki_f16_from_float);
}

YK_TEST(bf16_runs_equal_scalars)
{
    check_runs(YK_BF16, yki_bf16_to_float, yki_bf16_from_float);
}
