/* The loops are plain C, compiled for several instruction sets where the compiler can do so. */
#include "comm/engine/reduce.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ANY_TARGET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ANY_TARGET
#endif

/* ---- 16-bit floats --------------------------------------------------------------------------- */

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

static inline uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

/* An f16's exponent is moved by a multiplication, which also makes subnormals right. */
static inline float from_f16(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    float value = float_of(magnitude << 13) * 0x1p112f;
    uint32_t bits = magnitude >= 0x7c00u ? magnitude << 13 | 0x7f800000u : bits_of(value);
    return float_of(bits | (uint32_t)(half & 0x8000u) << 16);
}

/* Below f16's smallest normal number, adding 1/2 rounds to a multiple of its smallest step. */
static inline uint16_t to_f16(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return (uint16_t)((bits >> 16 & 0x8000u) | half);
}

/* ---- loops ----------------------------------------------------------------------------------- */

#define SAME(x)     (x)
#define ADD(a, b)   ((a) + (b))
#define MUL(a, b)   ((a) * (b))
/* Of two operands, the one that is NaN: a comparison with NaN is false, and a NaN differs from
 * itself. */
#define MIN(a, b)   ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b)   ((a) > (b) || (a) != (a) ? (a) : (b))
#define ADD32(a, b) ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define MUL32(a, b) ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define ADD64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define MUL64(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

#define LOOP(NAME, T, LOAD, OP, STORE)                                                             \
    ANY_TARGET static void NAME(void *out, const void *left, const void *right, size_t n)          \
    {                                                                                              \
        T *to = out;                                                                               \
        const T *a = left, *b = right;                                                             \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = STORE(OP(LOAD(a[i]), LOAD(b[i])));                                             \
    }

#define DTYPE(NAME, T, A, LOAD, SUM, PRODUCT, STORE)                                               \
    LOOP(sum_##NAME, T, LOAD, SUM, STORE)                                                          \
    LOOP(min_##NAME, T, LOAD, MIN, STORE)                                                          \
    LOOP(max_##NAME, T, LOAD, MAX, STORE)                                                          \
    LOOP(product_##NAME, T, LOAD, PRODUCT, STORE)                                                  \
    static void divide_##NAME(void *data, size_t n, int ranks)                                     \
    {                                                                                              \
        T *to = data;                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = STORE(LOAD(to[i]) / (A)ranks);                                                 \
    }

DTYPE(f32, float, float, SAME, ADD, MUL, SAME)
DTYPE(f64, double, double, SAME, ADD, MUL, SAME)
DTYPE(bf16, uint16_t, float, from_bf16, ADD, MUL, to_bf16)
DTYPE(f16, uint16_t, float, from_f16, ADD, MUL, to_f16)
DTYPE(i32, int32_t, int32_t, SAME, ADD32, MUL32, SAME)
DTYPE(i64, int64_t, int64_t, SAME, ADD64, MUL64, SAME)

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct arithmetic {
    yki_engine_reduce_function sum, min, max, product;
    void (*divide)(void *data, size_t n, int ranks);
} arithmetic;

#define ARITHMETIC(NAME)                                                                           \
    {                                                                                              \
        sum_##NAME, min_##NAME, max_##NAME, product_##NAME, divide_##NAME                          \
    }

static const arithmetic table[YK_DTYPE_COUNT] = {
    [YK_F32] = ARITHMETIC(f32), [YK_F64] = ARITHMETIC(f64), [YK_BF16] = ARITHMETIC(bf16),
    [YK_F16] = ARITHMETIC(f16), [YK_I32] = ARITHMETIC(i32), [YK_I64] = ARITHMETIC(i64),
};

yki_engine_reduce_function yki_engine_reduce(yk_dtype dtype, yk_reduce_op op)
{
    const arithmetic *of = &table[dtype];
    switch (op) {
    case YK_REDUCE_MIN:
        return of->min;
    case YK_REDUCE_MAX:
        return of->max;
    case YK_REDUCE_PRODUCT:
        return of->product;
    default:
        return of->sum;
    }
}

void yki_engine_divide(void *data, size_t n, yk_dtype dtype, int ranks)
{
    table[dtype].divide(data, n, ranks);
}

bool yki_engine_divides_before(yk_dtype dtype, yk_reduce_op op)
{
    return op == YK_REDUCE_AVG && dtype == YK_F16;
}

bool yki_engine_divides_after(yk_dtype dtype, yk_reduce_op op)
{
    return op == YK_REDUCE_AVG && dtype != YK_F16;
}
