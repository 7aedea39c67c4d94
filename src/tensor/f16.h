/*
 * float16, IEEE 754 binary16: 5 bits of exponent, 10 of mantissa; 65504 is the largest finite
 * number, 2^-24 the smallest. Rounding is to nearest, ties to even, what is too large becomes
 * infinite, a NaN stays a (quiet) NaN with the upper bits of its payload: bit for bit what
 * VCVTPS2PH and VCVTPH2PS do. Without a branch, so that compilers vectorise loops over it.
 */
#ifndef YKI_F16_H
#define YKI_F16_H

#include "tensor/float_bits.h"

YKI_HOST_DEVICE float yki_f16_to_float(uint16_t half)
{
    const uint32_t rebias = 112u << 23; /* f32's exponent of 1 is 127, f16's is 15 */
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + rebias;
    uint32_t special = normal + rebias; /* an exponent of all ones stays one */
    uint32_t nan = special | 0x400000u;
    uint32_t subnormal = yki_float_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude < 0x400u ? subnormal : normal;
    bits = magnitude >= 0x7c00u ? special : bits;
    bits = magnitude > 0x7c00u ? nan : bits;
    return yki_float_of_bits(sign | bits);
}

YKI_HOST_DEVICE uint16_t yki_f16_from_float(float value)
{
    const uint32_t rebias = 112u << 23;
    uint32_t bits = yki_float_bits(value), sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - rebias + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* In [1/2, 1) an f32 counts in steps of 2^-24, as f16's subnormals do: the sum rounds. */
    uint32_t subnormal = yki_float_bits(yki_float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal; /* 2^-14 */
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;             /* 65520: rounds to infinity */
    half = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : half;
    return (uint16_t)(sign | half);
}

#endif
