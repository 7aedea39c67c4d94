/*
 * bfloat16: the upper half of an f32 (8 bits of exponent, 7 of mantissa). Rounding is to nearest,
 * ties to even, as VCVTNEPS2BF16 does it; a NaN stays a (quiet) NaN. Integers alone, without a
 * branch, so that compilers vectorise loops over it.
 */
#ifndef YKI_BF16_H
#define YKI_BF16_H

#include "tensor/float_bits.h"

YKI_HOST_DEVICE float yki_bf16_to_float(uint16_t half)
{
    return yki_float_of_bits((uint32_t)half << 16);
}

YKI_HOST_DEVICE uint16_t yki_bf16_from_float(float value)
{
    uint32_t bits = yki_float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

#endif
