/* One bf16 at a time: the upper half of an f32, rounded to nearest even; NaN stays NaN. */
#ifndef YKI_CPU_SCALAR_H
#define YKI_CPU_SCALAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float yki_widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t yki_narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

/* Element i of a tensor in f32 or bf16. */
static inline float yki_get(const void *memory, int64_t i, bool bf16)
{
    return bf16 ? yki_widen(((const uint16_t *)memory)[i]) : ((const float *)memory)[i];
}

static inline void yki_put(void *memory, int64_t i, float value, bool bf16)
{
    if (bf16)
        ((uint16_t *)memory)[i] = yki_narrow(value);
    else
        ((float *)memory)[i] = value;
}

#endif
