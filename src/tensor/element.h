/* Single elements of any dtype as doubles: for code that is plain rather than fast. */
#ifndef YKI_ELEMENT_H
#define YKI_ELEMENT_H

#include <math.h>
#include <stdbool.h>

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

/* Class labels and indices are int32 or int64. */
static inline bool yki_is_index(yk_dtype dtype)
{
    return dtype == YK_I32 || dtype == YK_I64;
}

/* An index, which is int32 or int64. */
static inline int64_t yki_index_at(yk_dtype dtype, const void *memory, int64_t i)
{
    return dtype == YK_I64 ? ((const int64_t *)memory)[i] : ((const int32_t *)memory)[i];
}

/* The whole number next to this one, within a range; even of two, and 0 for NaN. */
static inline double yki_round_whole(double number, double least, double most)
{
    if (!(number > least))
        return isnan(number) ? 0 : least;
    return number < most ? rint(number) : most;
}

/*
 * A float that becomes in 16 bits what the double does, so that it is rounded once: it is cut off,
 * and its last bit says whether that has changed it (rounding to odd).
 */
static inline float yki_round_odd(double number)
{
    float nearest = (float)number;
    uint32_t bits = yki_float_bits(nearest);
    if ((double)nearest == number)
        return nearest;
    bits -= fabs((double)nearest) > fabs(number);
    return yki_float_of_bits(bits | 1u);
}

/* Rounds to the nearest number of the dtype, even of two; integers end where their range does. */
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
        ((uint16_t *)memory)[i] = yki_bf16_from_float(yki_round_odd(number));
        break;
    case YK_F16:
        ((uint16_t *)memory)[i] = yki_f16_from_float(yki_round_odd(number));
        break;
    case YK_I32:
        ((int32_t *)memory)[i] = (int32_t)yki_round_whole(number, INT32_MIN, INT32_MAX);
        break;
    case YK_I64:
        ((int64_t *)memory)[i] =
            number >= 0x1p63 ? INT64_MAX : (int64_t)yki_round_whole(number, -0x1p63, 0x1p63);
        break;
    case YK_U8:
        ((uint8_t *)memory)[i] = (uint8_t)yki_round_whole(number, 0, UINT8_MAX);
        break;
    default:
        break;
    }
}

#endif
