/* See operators.h. */
#include "comm/engine/operators.h"

#include <stdint.h>

#include "comm/engine/reduce.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

#define OPERATOR(NAME, DTYPE, OP)                                                                  \
    static void NAME(void *out, const void *a, const void *b, size_t n)                            \
    {                                                                                              \
        yki_reduce_ranks(&out, 1, (const void *[]){a, b}, 2, n, DTYPE, OP);                        \
    }

#define SAME(x) (x)

#define DTYPE(NAME, DTYPE, T, A, LOAD, STORE)                                                      \
    OPERATOR(sum_##NAME, DTYPE, YK_REDUCE_SUM)                                                     \
    OPERATOR(min_##NAME, DTYPE, YK_REDUCE_MIN)                                                     \
    OPERATOR(max_##NAME, DTYPE, YK_REDUCE_MAX)                                                     \
    OPERATOR(product_##NAME, DTYPE, YK_REDUCE_PRODUCT)                                             \
    static void divide_##NAME(void *data, size_t n, int ranks)                                     \
    {                                                                                              \
        T *to = data;                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = STORE(LOAD(to[i]) / (A)ranks);                                                 \
    }

DTYPE(f32, YK_F32, float, float, SAME, SAME)
DTYPE(f64, YK_F64, double, double, SAME, SAME)
DTYPE(bf16, YK_BF16, uint16_t, float, yki_bf16_to_float, yki_bf16_from_float)
DTYPE(f16, YK_F16, uint16_t, float, yki_f16_to_float, yki_f16_from_float)
DTYPE(i32, YK_I32, int32_t, int32_t, SAME, SAME)
DTYPE(i64, YK_I64, int64_t, int64_t, SAME, SAME)

typedef struct arithmetic {
    yki_engine_operator sum, min, max, product;
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

yki_engine_operator yki_engine_operator_of(yk_dtype dtype, yk_reduce_op op)
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
