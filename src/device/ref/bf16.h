/*
 * bfloat16: the upper half of a float (8 bits of exponent, 7 of mantissa). Rounding is to nearest,
 * ties to even, as IEEE 754 and as VCVTNEPS2BF16 does it; a NaN stays a (quiet) NaN.
 */
#ifndef YKI_REF_BF16_H
#define YKI_REF_BF16_H

#include <stdint.h>
#include <string.h>

static inline float yki_bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t yki_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    uint32_t even = bits >> 16 & 1;
    return (uint16_t)((bits + 0x7fff + even) >> 16);
}

#endif
