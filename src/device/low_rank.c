/*
 * See low_rank.h. Each pass takes a row, or a few, from memory once, and does all that it has to do
 * with what is in the first-level cache then.
 *
 * Every rank computes the same result from the same factors, on whatever processor. The bits
 * therefore do not depend on the width of vectors: sums have a fixed order, and this file is
 * compiled without contraction.
 */
#include "device/low_rank.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"

enum {
    LANES = 32, /* partial sums of a product */
    ROWS = 4,   /* that are read side by side */
    TILE = 256  /* columns whose result stays in the first-level cache */
};

/* Into each clone of its callers. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The partial sums, by halves. */
ALWAYS_INLINE float sum_of(float *lanes)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

/* Element i is added to lane i mod LANES. */
ALWAYS_INLINE float dot(const float *a, const float *b, int64_t count)
{
    float lanes[LANES] = {0};
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (int64_t i = whole; i < count; i++)
        lanes[i - whole] += a[i] * b[i];
    return sum_of(lanes);
}

/* a += more, then the product of a and b. */
ALWAYS_INLINE float add_and_dot(float *restrict a, const float *restrict more,
                                const float *restrict b, int64_t count)
{
    float lanes[LANES] = {0};
    int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++) {
            a[i + j] += more[i + j];
            lanes[j] += a[i + j] * b[i + j];
        }
    for (int64_t i = whole; i < count; i++) {
        a[i] += more[i];
        lanes[i - whole] += a[i] * b[i];
    }
    return sum_of(lanes);
}

/* y += a * x */
ALWAYS_INLINE void add_scaled(float *restrict y, float a, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

/* The same for ROWS rows of x, one after the other. */
ALWAYS_INLINE void add_scaled_rows(float *restrict y, const float *restrict a,
                                   const float *restrict x, int64_t count)
{
    const float *x1 = x + count, *x2 = x1 + count, *x3 = x2 + count;
    for (int64_t i = 0; i < count; i++)
        y[i] = (((y[i] + a[0] * x[i]) + a[1] * x1[i]) + a[2] * x2[i]) + a[3] * x3[i];
}

/* error = row - share * result, row = result */
ALWAYS_INLINE void replace(float *restrict row, float *restrict error, float share,
                           const float *restrict result, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        error[i] = row[i] - share * result[i];
        row[i] = result[i];
    }
}

static void begin(const yki_low_rank_args *args)
{
    if (*args->warm && !args->always_draws)
        return;
    for (int64_t i = 0; i < args->at.rank * args->at.m; i++)
        args->at.q[i] = yki_low_rank_draw(*args->key, args->number, (uint64_t)i);
}

YKI_VECTOR_CLONES
static void orthonormalise(float *columns, int64_t length, int64_t count, double epsilon)
{
    for (int64_t k = 0; k < count; k++) {
        float *column = columns + k * length;
        double norm = sqrt((double)dot(column, column, length)) + epsilon;
        float scale = norm > 0 ? (float)(1 / norm) : 0;
        for (int64_t i = 0; i < length; i++)
            column[i] *= scale;
        for (int64_t l = k + 1; l < count; l++) {
            float *other = columns + l * length;
            add_scaled(other, -dot(column, other, length), column, length);
        }
    }
}

static void orthonormalise_factor(const yki_low_rank *x, yki_low_rank_op op, double epsilon)
{
    if (op == YKI_LOW_RANK_ORTHONORMALISE_P)
        orthonormalise(x->p, x->n, x->rank, epsilon);
    else
        orthonormalise(x->q, x->m, x->rank, epsilon);
}

YKI_VECTOR_CLONES
static void project(const yki_low_rank *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *row = x->matrix + i * x->m;
        x->p[i] =
            x->error ? add_and_dot(row, x->error + i * x->m, x->q, x->m) : dot(row, x->q, x->m);
        for (int64_t k = 1; k < x->rank; k++)
            x->p[k * x->n + i] = dot(row, x->q + k * x->m, x->m);
    }
}

YKI_VECTOR_CLONES
static void project_back(const yki_low_rank *x)
{
    int64_t whole = x->n - x->n % ROWS;
    memset(x->q, 0, (size_t)(x->rank * x->m) * sizeof *x->q);
    for (int64_t i = 0; i < whole; i += ROWS)
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled_rows(x->q + k * x->m, x->p + k * x->n + i, x->matrix + i * x->m, x->m);
    for (int64_t i = whole; i < x->n; i++)
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled(x->q + k * x->m, x->p[k * x->n + i], x->matrix + i * x->m, x->m);
}

YKI_VECTOR_CLONES
static void approximate(const yki_low_rank *x, float share)
{
    float result[TILE];
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t j = 0; j < x->m; j += TILE) {
            int64_t at = i * x->m + j, count = x->m - j < TILE ? x->m - j : TILE;
            memset(result, 0, (size_t)count * sizeof *result);
            for (int64_t k = 0; k < x->rank; k++)
                add_scaled(result, x->p[k * x->n + i], x->q + k * x->m + j, count);
            if (x->error)
                replace(x->matrix + at, x->error + at, share, result, count);
            else
                memcpy(x->matrix + at, result, (size_t)count * sizeof *result);
        }
}

static void spoil(const yki_low_rank *x)
{
    for (int64_t e = 0; e < x->n * x->m; e++)
        x->matrix[e] = NAN;
    if (x->error)
        memset(x->error, 0, (size_t)(x->n * x->m) * sizeof *x->error);
}

void yki_low_rank_run(const yki_low_rank_args *args)
{
    const yki_low_rank *x = &args->at;
    switch (args->op) {
    case YKI_LOW_RANK_BEGIN:
        begin(args);
        break;
    case YKI_LOW_RANK_ORTHONORMALISE_P:
    case YKI_LOW_RANK_ORTHONORMALISE_Q:
        for (size_t i = 0; i < args->matrix_count; i++)
            orthonormalise_factor(&args->matrices[i], args->op, args->epsilon);
        break;
    case YKI_LOW_RANK_PROJECT:
        project(x);
        break;
    case YKI_LOW_RANK_PROJECT_BACK:
        project_back(x);
        break;
    case YKI_LOW_RANK_APPROXIMATE:
        if (*args->bad != 0)
            spoil(x);
        else
            approximate(x, args->share);
        break;
    case YKI_LOW_RANK_END:
        *args->warm = *args->bad == 0;
        *args->count += *args->bad == 0;
        break;
    }
}
