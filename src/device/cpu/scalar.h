/* One element at a time, f32 or bf16. */
#ifndef YKI_CPU_SCALAR_H
#define YKI_CPU_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/bf16.h"

/* Element i of a tensor in f32 or bf16. */
static inline float yki_get(const void *memory, int64_t i, bool bf16)
{
    return bf16 ? yki_bf16_to_float(((const uint16_t *)memory)[i]) : ((const float *)memory)[i];
}

static inline void yki_put(void *memory, int64_t i, float value, bool bf16)
{
    if (bf16)
        ((uint16_t *)memory)[i] = yki_bf16_from_float(value);
    else
        ((float *)memory)[i] = value;
}

#endif
