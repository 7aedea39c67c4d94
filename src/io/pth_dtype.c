/* See pth_dtype.h. Elements are read with memcpy: a view may lie at any address. */
#include "io/pth_dtype.h"

#include <math.h>
#include <string.h>

#define DEFINE_READ(name, type)                                                                    \
    static double name(const void *element)                                                        \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, element, sizeof value);                                                     \
        return (double)value;                                                                      \
    }

DEFINE_READ(read_f32, float)
DEFINE_READ(read_f64, double)
DEFINE_READ(read_i64, int64_t)
DEFINE_READ(read_i32, int32_t)
DEFINE_READ(read_i16, int16_t)
DEFINE_READ(read_i8, int8_t)
DEFINE_READ(read_u8, uint8_t)

/* The upper half of a float32. */
static double read_bf16(const void *element)
{
    uint16_t half;
    memcpy(&half, element, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. */
static double read_f16(const void *element)
{
    uint16_t half;
    memcpy(&half, element, sizeof half);
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return half >> 15 ? -value : value;
}

static const yki_pth_dtype dtypes[] = {
    {"FloatStorage", 4, YK_F32, read_f32},
    {"DoubleStorage", 8, YK_F64, read_f64},
    {"BFloat16Storage", 2, YK_BF16, read_bf16},
    {"HalfStorage", 2, YK_F16, read_f16},
    {"LongStorage", 8, YK_I64, read_i64},
    {"IntStorage", 4, YK_I32, read_i32},
    {"ShortStorage", 2, YK_DTYPE_COUNT, read_i16},
    {"CharStorage", 1, YK_DTYPE_COUNT, read_i8},
    {"ByteStorage", 1, YK_U8, read_u8},
    {"BoolStorage", 1, YK_DTYPE_COUNT, read_u8},
};

const yki_pth_dtype *yki_pth_dtype_find(const yki_pickle_value *storage_class)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (yki_pickle_is_global(storage_class, "torch", dtypes[i].storage))
            return &dtypes[i];
    return NULL;
}

int64_t yki_pth_to_integer(double value, int64_t minimum, int64_t maximum)
{
    if (isnan(value))
        return 0;
    if (value <= (double)minimum)
        return minimum;
    return value >= (double)maximum ? maximum : (int64_t)value;
}
