/* One element at a time, f32, bf16 or f16. */
#ifndef YKI_CPU_SCALAR_H
#define YKI_CPU_SCALAR_H

#include <yoke/tensor.h>

#include "tensor/bf16.h"
#include "tensor/f16.h"

/* Element i of a tensor. */
static inline float yki_get(const void *memory, int64_t i, yk_dtype dtype)
{
    if (dtype == YK_F32)
        return ((const float *)memory)[i];
    uint16_t half = ((const uint16_t *)memory)[i];
    return dtype == YK_BF16 ? yki_bf16_to_float(half) : yki_f16_to_float(half);
}

static inline void yki_put(void *memory, int64_t i, float value, yk_dtype dtype)
{
    if (dtype == YK_F32)
        ((float *)memory)[i] = value;
    else
        ((uint16_t *)memory)[i] =
            dtype == YK_BF16 ? yki_bf16_from_float(value) : yki_f16_from_float(value);
}

#endif
