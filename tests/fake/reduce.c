/* See reduce.h. It favours plainness over speed, and takes nothing from the library under test. */
#include "reduce.h"

#include <math.h>
#include <string.h>

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                                 : ldexpf((float)mantissa, -24);
    return half >> 15 ? -value : value;
}

/* Rounds to nearest, ties to even, with the mode that the processor is in. */
static uint16_t to_f16(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < 0x1p-14f) /* subnormal: multiples of 2^-24 */
        return (uint16_t)(sign + (uint16_t)lrintf(ldexpf(size, 24)));
    int exponent;
    frexpf(size, &exponent);
    uint32_t mantissa = (uint32_t)lrintf(ldexpf(size, 11 - exponent)); /* 1024 ... 2048 */
    return (uint16_t)(sign + (uint32_t)((exponent + 13) << 10) + mantissa);
}

#define COMBINE(a, b, op)                                                                          \
    ((op) == YK_REDUCE_MIN       ? ((b) < (a) || (b) != (b) ? (b) : (a))                           \
     : (op) == YK_REDUCE_MAX     ? ((b) > (a) || (b) != (b) ? (b) : (a))                           \
     : (op) == YK_REDUCE_PRODUCT ? (a) * (b)                                                       \
                                 : (a) + (b))

/* reduce_TYPE: elements of `type`, combined as `wide`; integers wrap around as unsigned. */
#define REDUCE(name, type, wide, FROM, TO)                                                         \
    static void name(type *out, const void *const *parts, const int *order, int ranks,             \
                     size_t count, yk_reduce_op op)                                                \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            wide value = FROM(((const type *)parts[order[0]])[i]);                                 \
            for (int r = 1; r < ranks; r++) {                                                      \
                wide next = FROM(((const type *)parts[order[r]])[i]);                              \
                value = (wide)COMBINE(value, next, op);                                            \
            }                                                                                      \
            out[i] = TO(op == YK_REDUCE_AVG ? value / (wide)ranks : value);                        \
        }                                                                                          \
    }

#define SAME(value) (value)
REDUCE(reduce_f32, float, float, SAME, SAME)
REDUCE(reduce_f64, double, double, SAME, SAME)
REDUCE(reduce_bf16, uint16_t, float, from_bf16, to_bf16)
REDUCE(reduce_f16, uint16_t, float, from_f16, to_f16)

/* Sums and products are the same modulo 2^n whatever the sign; comparisons are not. */
#define REDUCE_INTEGER(name, type, whole)                                                          \
    static void name(type *out, const void *const *parts, const int *order, int ranks,             \
                     size_t count, yk_reduce_op op)                                                \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            type value = ((const type *)parts[order[0]])[i];                                       \
            for (int r = 1; r < ranks; r++) {                                                      \
                type next = ((const type *)parts[order[r]])[i];                                    \
                value = op == YK_REDUCE_MIN       ? (next < value ? next : value)                  \
                        : op == YK_REDUCE_MAX     ? (next > value ? next : value)                  \
                        : op == YK_REDUCE_PRODUCT ? (type)((whole)value * (whole)next)             \
                                                  : (type)((whole)value + (whole)next);            \
            }                                                                                      \
            out[i] = op == YK_REDUCE_AVG ? value / ranks : value;                                  \
        }                                                                                          \
    }
REDUCE_INTEGER(reduce_i32, int32_t, uint32_t)
REDUCE_INTEGER(reduce_i64, int64_t, uint64_t)

void fake_reduce(void *out, const void *const *parts, const int *order, int ranks, size_t count,
                 yk_dtype dtype, yk_reduce_op op)
{
    switch (dtype) {
    case YK_F64:
        reduce_f64(out, parts, order, ranks, count, op);
        break;
    case YK_BF16:
        reduce_bf16(out, parts, order, ranks, count, op);
        break;
    case YK_F16:
        reduce_f16(out, parts, order, ranks, count, op);
        break;
    case YK_I32:
        reduce_i32(out, parts, order, ranks, count, op);
        break;
    case YK_I64:
        reduce_i64(out, parts, order, ranks, count, op);
        break;
    default:
        reduce_f32(out, parts, order, ranks, count, op);
    }
}
