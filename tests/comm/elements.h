/* Elements of any dtype, as doubles. */
#ifndef YK_TEST_ELEMENTS_H
#define YK_TEST_ELEMENTS_H

#include "harness.h"

#include "tensor/bf16.h"
#include "tensor/f16.h"

static inline void put(void *data, yk_dtype dtype, size_t i, double value)
{
    switch (dtype) {
    case YK_F64:
        ((double *)data)[i] = value;
        break;
    case YK_BF16:
        ((uint16_t *)data)[i] = yki_bf16_from_float((float)value);
        break;
    case YK_F16:
        ((uint16_t *)data)[i] = yki_f16_from_float((float)value);
        break;
    case YK_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case YK_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    default:
        ((float *)data)[i] = (float)value;
    }
}

static inline double get(const void *data, yk_dtype dtype, size_t i)
{
    switch (dtype) {
    case YK_F64:
        return ((const double *)data)[i];
    case YK_BF16:
        return yki_bf16_to_float(((const uint16_t *)data)[i]);
    case YK_F16:
        return yki_f16_to_float(((const uint16_t *)data)[i]);
    case YK_I32:
        return ((const int32_t *)data)[i];
    case YK_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const float *)data)[i];
    }
}

#endif
