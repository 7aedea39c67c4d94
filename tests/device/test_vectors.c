/* The conversions that vectors of 4 lanes have, against those of single numbers. */
#define YKI_WIDTH 4
#include "device/cpu/loops/vector.h"

#include "harness.h"
#include "tensor/f16.h"

YK_TEST(halves_are_widened_to_the_bits_of_single_ones)
{
    for (uint32_t half = 0; half <= UINT16_MAX; half += YKI_WIDTH) {
        uint16_t from[YKI_WIDTH];
        for (uint32_t lane = 0; lane < YKI_WIDTH; lane++)
            from[lane] = (uint16_t)(half + lane);
        yki_bits bits = (yki_bits)yki_widen_f16(from);
        for (int lane = 0; lane < YKI_WIDTH; lane++)
            assert_int_equal(bits[lane], yki_float_bits(yki_f16_to_float(from[lane])));
    }
}

/* Bits that are far apart, and all that are next to a number at which the rule changes or, in the
 * last place of a half, which is rounded to even. */
YK_TEST(floats_are_narrowed_to_the_bits_of_single_ones)
{
    static const uint32_t near[] = {0,           0x33000000u, 0x387fe000u, 0x38800000u,
                                    0x3f801000u, 0x3f803000u, 0x477ff000u, 0x7f800000u,
                                    0x7f801000u, 0x7fffffffu};
    enum { NEAR = sizeof near / sizeof *near, STEP = 997, AROUND = 4096 };
    for (int at = -1; at < NEAR; at++) {
        uint64_t begin = at < 0 ? 0 : (uint64_t)near[at] + UINT32_MAX + 1 - AROUND;
        uint64_t end = at < 0 ? UINT32_MAX : begin + 2 * (uint64_t)AROUND;
        uint32_t step = at < 0 ? STEP : 1;
        for (uint64_t bits = begin; bits < end; bits += YKI_WIDTH / 2 * step) {
            yki_lanes x;
            uint16_t to[YKI_WIDTH];
            for (uint32_t lane = 0; lane < YKI_WIDTH; lane++) /* of either sign */
                x[lane] = yki_float_of_bits(((uint32_t)bits + lane / 2 * step) ^ lane % 2 << 31);
            yki_narrow_f16(to, x);
            for (int lane = 0; lane < YKI_WIDTH; lane++)
                assert_int_equal(to[lane], yki_f16_from_float(x[lane]));
        }
    }
}
