/* Single elements of any dtype as doubles: for code that is plain rather than fast. */
#ifndef YKI_ELEMENT_H
#define YKI_ELEMENT_H

#include <yoke/tensor.h>

#include "tensor/bf16.h"
#include "tensor/f16.h"

static inline double yki_element_get(yk_dtype dtype, const void *memory, int64_t i)
{
    switch (dtype) {
    case YK_F32:
        return ((const float *)memory)[i];
    case YK_F64:
        return ((const double *)memory)[i];
    case YK_BF16:
        return yki_bf16_to_float(((const uint16_t *)memory)[i]);
    case YK_F16:
        return yki_f16_to_float(((const uint16_t *)memory)[i]);
    case YK_I32:
        return ((const int32_t *)memory)[i];
    case YK_I64:
        return (double)((const int64_t *)memory)[i];
    case YK_U8:
        return ((const uint8_t *)memory)[i];
    default:
        return 0;
    }
}

static inline void yki_element_set(yk_dtype dtype, void *memory, int64_t i, double number)
{
    switch (dtype) {
    case YK_F32:
        ((float *)memory)[i] = (float)number;
        break;
    case YK_F64:
        ((double *)memory)[i] = number;
        break;
    case YK_BF16:
        ((uint16_t *)memory)[i] = yki_bf16_from_float((float)number);
        break;
    case YK_F16:
        ((uint16_t *)memory)[i] = yki_f16_from_float((float)number);
        break;
    case YK_I32:
        ((int32_t *)memory)[i] = (int32_t)number;
        break;
    case YK_I64:
        ((int64_t *)memory)[i] = (int64_t)number;
        break;
    case YK_U8:
        ((uint8_t *)memory)[i] = (uint8_t)number;
        break;
    default:
        break;
    }
}

#endif
