/*
 * The sources of a block are combined into an accumulator, in rank order whatever the number of
 * ranks, so that the result is bitwise the same wherever and however often it is computed. Blocks
 * are small, so that the copies to where the result goes come from the first-level cache.
 * (Non-temporal stores were measured: they double the time wherever a third level holds the data.)
 *
 * Accumulators have the elements' type; those of bf16 and f16 are f32, rounded to nearest even at
 * the end. Averages over a power of two of ranks multiply, which gives the bits of a division in a
 * fraction of its time. Integer sums and products wrap around. Where a rank has NaN, min and max
 * are NaN. The loops are plain C; each is compiled for AVX-512, AVX2 and the baseline, and
 * chosen once at run time.
 */
#include "comm/engine/reduce.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tensor/bf16.h"
#include "tensor/f16.h"

/* A target may be a source, at the same index alone: so the loops' rounds are independent. */
#if defined(__clang__)
#define INDEPENDENT_ROUNDS _Pragma("clang loop vectorize(assume_safety)")
#else
#pragma GCC optimize("O3") /* -O2 vectorises too timidly */
#define INDEPENDENT_ROUNDS _Pragma("GCC ivdep")
#endif

enum { BLOCK_BYTES = 2 << 10, OPS = 4 };

typedef uint16_t bf16, f16;

#define LOAD_PLAIN(x) (x)
#define ADD(a, b)     ((a) + (b))
#define MUL(a, b)     ((a) * (b))
/* The operand that is NaN, if one is: a comparison with NaN is false, and a NaN differs from
 * itself. */
#define MIN(a, b)     ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) || (a) != (a) ? (a) : (b))
/* Signed integers, where overflow is to wrap around. */
#define WADD32(a, b)  ((int32_t)((uint32_t)(a) + (uint32_t)(b)))
#define WMUL32(a, b)  ((int32_t)((uint32_t)(a) * (uint32_t)(b)))
#define WADD64(a, b)  ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WMUL64(a, b)  ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

typedef void (*pair_fn)(void *acc, const void *a, const void *b, size_t n);
typedef void (*more_fn)(void *acc, const void *b, size_t n);
typedef void (*divide_fn)(void *acc, size_t n, int world);
typedef void (*store_fn)(void *to, const void *acc, size_t n);
typedef void (*fused_fn)(void *const *to, const void *const *from, size_t n, double factor);

typedef struct kernels {
    pair_fn pair[OPS]; /* acc = a op b; by yk_reduce_op without YK_REDUCE_AVG: see op_index */
    more_fn more[OPS]; /* acc = acc op b */
    divide_fn divide;  /* acc = acc / world */
    store_fn store;    /* to = acc; NULL: a plain copy */
    fused_fn two;      /* the sum of two, times the factor, to both at once; or NULL */
    fused_fn four;     /* of four, to all four; or NULL */
} kernels;

/* The loops of one operator, elements T, accumulator A. acc may be a itself. */
#define OPERATOR(NAME, T, A, LOAD, OP, TARGET)                                                     \
    TARGET static void pair_##NAME(void *out, const void *left, const void *right, size_t n)       \
    {                                                                                              \
        A *acc = out;                                                                              \
        const T *a = left, *b = right;                                                             \
        INDEPENDENT_ROUNDS for (size_t i = 0; i < n; i++) acc[i] = OP(LOAD(a[i]), LOAD(b[i]));     \
    }                                                                                              \
    TARGET static void more_##NAME(void *out, const void *right, size_t n)                         \
    {                                                                                              \
        A *acc = out;                                                                              \
        const T *b = right;                                                                        \
        INDEPENDENT_ROUNDS for (size_t i = 0; i < n; i++) acc[i] = OP(acc[i], LOAD(b[i]));         \
    }

/* Without the way through an accumulator; the order of the additions is the same. */
#define TWO(NAME, T, TARGET)                                                                       \
    TARGET static void NAME(void *const *to, const void *const *from, size_t n, double factor)     \
    {                                                                                              \
        const T *a = from[0], *b = from[1], scale = (T)factor;                                     \
        T *x = to[0], *y = to[1];                                                                  \
        INDEPENDENT_ROUNDS for (size_t i = 0; i < n; i++)                                          \
        {                                                                                          \
            T sum = (a[i] + b[i]) * scale;                                                         \
            x[i] = sum;                                                                            \
            y[i] = sum;                                                                            \
        }                                                                                          \
    }
#define FOUR(NAME, T, TARGET)                                                                      \
    TARGET static void NAME(void *const *to, const void *const *from, size_t n, double factor)     \
    {                                                                                              \
        const T *a = from[0], *b = from[1], *c = from[2], *d = from[3], scale = (T)factor;         \
        T *w = to[0], *x = to[1], *y = to[2], *z = to[3];                                          \
        INDEPENDENT_ROUNDS for (size_t i = 0; i < n; i++)                                          \
        {                                                                                          \
            T sum = (((a[i] + b[i]) + c[i]) + d[i]) * scale;                                       \
            w[i] = sum;                                                                            \
            x[i] = sum;                                                                            \
            y[i] = sum;                                                                            \
            z[i] = sum;                                                                            \
        }                                                                                          \
    }

/* All of one dtype at one instruction set. */
#define DTYPE(NAME, T, A, LOAD, SUM, PRODUCT, STORE, TWO_, FOUR_, TARGET)                          \
    OPERATOR(sum_##NAME, T, A, LOAD, SUM, TARGET)                                                  \
    OPERATOR(min_##NAME, T, A, LOAD, MIN, TARGET)                                                  \
    OPERATOR(max_##NAME, T, A, LOAD, MAX, TARGET)                                                  \
    OPERATOR(product_##NAME, T, A, LOAD, PRODUCT, TARGET)                                          \
    TARGET static void divide_##NAME(void *out, size_t n, int world)                               \
    {                                                                                              \
        A *acc = out, divisor = (A)world, inverse = 1 / divisor;                                   \
        bool exact = (world & (world - 1)) == 0 && inverse != 0;                                   \
        for (size_t i = 0; exact && i < n; i++)                                                    \
            acc[i] = acc[i] * inverse;                                                             \
        for (size_t i = 0; !exact && i < n; i++)                                                   \
            acc[i] = acc[i] / divisor;                                                             \
    }                                                                                              \
    static const kernels kernels_##NAME = {                                                        \
        {pair_sum_##NAME, pair_min_##NAME, pair_max_##NAME, pair_product_##NAME},                  \
        {more_sum_##NAME, more_min_##NAME, more_max_##NAME, more_product_##NAME},                  \
        divide_##NAME,                                                                             \
        STORE,                                                                                     \
        TWO_,                                                                                      \
        FOUR_,                                                                                     \
    };

#define STORE(NAME, T, NARROW, TARGET)                                                             \
    TARGET static void NAME(void *out, const void *accumulator, size_t n)                          \
    {                                                                                              \
        T *to = out;                                                                               \
        const float *acc = accumulator;                                                            \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = NARROW(acc[i]);                                                                \
    }

#define INSTRUCTION_SET(SET, TARGET)                                                               \
    STORE(store_bf16_##SET, bf16, yki_bf16_from_float, TARGET)                                     \
    STORE(store_f16_##SET, f16, yki_f16_from_float, TARGET)                                        \
    TWO(two_f32_##SET, float, TARGET)                                                              \
    TWO(two_f64_##SET, double, TARGET)                                                             \
    FOUR(four_f32_##SET, float, TARGET)                                                            \
    FOUR(four_f64_##SET, double, TARGET)                                                           \
    DTYPE(f32_##SET, float, float, LOAD_PLAIN, ADD, MUL, NULL, two_f32_##SET, four_f32_##SET,      \
          TARGET)                                                                                  \
    DTYPE(f64_##SET, double, double, LOAD_PLAIN, ADD, MUL, NULL, two_f64_##SET, four_f64_##SET,    \
          TARGET)                                                                                  \
    DTYPE(bf16_##SET, bf16, float, yki_bf16_to_float, ADD, MUL, store_bf16_##SET, NULL, NULL,      \
          TARGET)                                                                                  \
    DTYPE(f16_##SET, f16, float, yki_f16_to_float, ADD, MUL, store_f16_##SET, NULL, NULL, TARGET)  \
    DTYPE(i32_##SET, int32_t, int32_t, LOAD_PLAIN, WADD32, WMUL32, NULL, NULL, NULL, TARGET)       \
    DTYPE(i64_##SET, int64_t, int64_t, LOAD_PLAIN, WADD64, WMUL64, NULL, NULL, NULL, TARGET)       \
    static const kernels *const set_##SET[YK_DTYPE_COUNT] = {                                      \
        [YK_F32] = &kernels_f32_##SET,   [YK_F64] = &kernels_f64_##SET,                            \
        [YK_BF16] = &kernels_bf16_##SET, [YK_F16] = &kernels_f16_##SET,                            \
        [YK_I32] = &kernels_i32_##SET,   [YK_I64] = &kernels_i64_##SET,                            \
    };

INSTRUCTION_SET(base, )
#if defined(__x86_64__)
INSTRUCTION_SET(avx2, __attribute__((target("avx2"))))
INSTRUCTION_SET(avx512, __attribute__((target("avx512f,avx512bw"))))
#endif

static const kernels *choose_reduce_kernels(yk_dtype dtype)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw"))
        return set_avx512[dtype];
    if (__builtin_cpu_supports("avx2"))
        return set_avx2[dtype];
#endif
    return set_base[dtype];
}

static int op_index(yk_reduce_op op)
{
    static const int index[] = {[YK_REDUCE_SUM] = 0,
                                [YK_REDUCE_AVG] = 0,
                                [YK_REDUCE_MIN] = 1,
                                [YK_REDUCE_MAX] = 2,
                                [YK_REDUCE_PRODUCT] = 3};
    return index[op];
}

/* One block; acc is where the result may be built up. */
static void reduce_block(const kernels *k, int op, bool average, void *acc, const char *const *from,
                         size_t offset, int world, size_t n)
{
    k->pair[op](acc, from[0] + offset, from[1] + offset, n);
    for (int r = 2; r < world; r++)
        k->more[op](acc, from[r] + offset, n);
    if (average)
        k->divide(acc, n, world);
}

void yki_reduce_ranks(void *const *to, int copies, const void *const *from, int world, size_t count,
                      yk_dtype dtype, yk_reduce_op op)
{
    _Alignas(64) char scratch[BLOCK_BYTES];
    const kernels *k = choose_reduce_kernels(dtype);
    size_t size = yk_dtype_size(dtype);
    size_t block = BLOCK_BYTES / (k->store ? sizeof(float) : size);
    fused_fn fused = world == 2 ? k->two : world == 4 ? k->four : NULL;
    if (fused && copies == world && (op == YK_REDUCE_SUM || op == YK_REDUCE_AVG)) {
        fused(to, from, count, op == YK_REDUCE_AVG ? 1.0 / world : 1);
        return;
    }
    /* With two sources the first target can be written at once, even where it is a source. */
    bool direct = world == 2 && !k->store;
    for (size_t start = 0; start < count; start += block) {
        size_t n = count - start < block ? count - start : block, offset = start * size;
        char *first = (char *)to[0] + offset;
        void *acc = direct ? first : scratch;
        reduce_block(k, op_index(op), op == YK_REDUCE_AVG, acc, (const char *const *)from, offset,
                     world, n);
        if (k->store)
            k->store(first, acc, n);
        else if (!direct)
            memcpy(first, acc, n * size);
        for (int i = 1; i < copies; i++)
            memcpy((char *)to[i] + offset, first, n * size);
    }
}
