/* See reduce.h. */
#include "reduce.h"

#include "library.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

static double combine(double a, double b, nccl_op op)
{
    return op == NCCL_PROD  ? a * b
           : op == NCCL_MAX ? (a > b ? a : b)
           : op == NCCL_MIN ? (a < b ? a : b)
                            : a + b;
}

/* In the type T, with LOAD and STORE from and to what is in memory. */
#define LOOP(M, T, LOAD, STORE)                                                                    \
    for (size_t i = 0; i < count; i++) {                                                           \
        T sum = LOAD(((const M *)from[0])[i]);                                                     \
        for (int r = 1; r < ranks; r++)                                                            \
            sum = (T)combine((double)sum, (double)LOAD(((const M *)from[r])[i]), op);              \
        if (op == NCCL_AVG)                                                                        \
            sum = sum / (T)ranks;                                                                  \
        ((M *)to[0])[i] = STORE(sum);                                                              \
    }                                                                                              \
    break

#define SAME(x) (x)

static int64_t combine64(int64_t a, int64_t b, nccl_op op)
{
    return op == NCCL_PROD  ? (int64_t)((uint64_t)a * (uint64_t)b)
           : op == NCCL_MAX ? (a > b ? a : b)
           : op == NCCL_MIN ? (a < b ? a : b)
                            : (int64_t)((uint64_t)a + (uint64_t)b);
}

static void reduce64(int64_t *to, const void *const *from, int ranks, size_t count, nccl_op op)
{
    for (size_t i = 0; i < count; i++) {
        int64_t sum = ((const int64_t *)from[0])[i];
        for (int r = 1; r < ranks; r++)
            sum = combine64(sum, ((const int64_t *)from[r])[i], op);
        to[i] = op == NCCL_AVG ? sum / ranks : sum;
    }
}

static void reduce32(int32_t *to, const void *const *from, int ranks, size_t count, nccl_op op)
{
    for (size_t i = 0; i < count; i++) {
        int32_t sum = ((const int32_t *)from[0])[i];
        for (int r = 1; r < ranks; r++)
            sum = (int32_t)combine64(sum, ((const int32_t *)from[r])[i], op);
        to[i] = op == NCCL_AVG ? sum / ranks : sum;
    }
}

void fake_nccl_reduce(void *const *to, int copies, const void *const *from, int ranks, size_t count,
                      yk_dtype dtype, yk_reduce_op reduce)
{
    nccl_op op = (nccl_op)reduce; /* as the fake has put it there */
    (void)copies;
    switch (dtype) {
    case YK_F32:
        LOOP(float, float, SAME, SAME);
    case YK_F64:
        LOOP(double, double, SAME, SAME);
    case YK_BF16:
        LOOP(uint16_t, float, yki_bf16_to_float, yki_bf16_from_float);
    case YK_F16:
        LOOP(uint16_t, float, yki_f16_to_float, yki_f16_from_float);
    case YK_I64:
        reduce64(to[0], from, ranks, count, op);
        break;
    case YK_I32:
        reduce32(to[0], from, ranks, count, op);
        break;
    default:
        break;
    }
}
