/* See low_rank.h. */
#include "device/low_rank.h"

#include <math.h>
#include <string.h>

static float dot(const float *a, const float *b, int64_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y += a * x */
static void add_scaled(float *restrict y, float a, const float *restrict x, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] += a * x[i];
}

static void begin(const yki_low_rank_args *args)
{
    if (*args->warm && !args->always_draws)
        return;
    for (int64_t i = 0; i < args->at.rank * args->at.m; i++)
        args->at.q[i] = yki_low_rank_draw(*args->key, args->number, (uint64_t)i);
}

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

static void project(const yki_low_rank *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *row = x->matrix + i * x->m;
        if (x->error)
            add_scaled(row, 1, x->error + i * x->m, x->m);
        for (int64_t k = 0; k < x->rank; k++)
            x->p[k * x->n + i] = dot(row, x->q + k * x->m, x->m);
    }
}

static void project_back(const yki_low_rank *x)
{
    memset(x->q, 0, (size_t)(x->rank * x->m) * sizeof *x->q);
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled(x->q + k * x->m, x->p[k * x->n + i], x->matrix + i * x->m, x->m);
}

static void approximate(const yki_low_rank *x, float share)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *row = x->matrix + i * x->m, *error = x->error ? x->error + i * x->m : NULL;
        if (error)
            memcpy(error, row, (size_t)x->m * sizeof *row);
        memset(row, 0, (size_t)x->m * sizeof *row);
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled(row, x->p[k * x->n + i], x->q + k * x->m, x->m);
        if (error)
            add_scaled(error, -share, row, x->m);
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
        orthonormalise(x->p, x->n, x->rank, args->epsilon);
        break;
    case YKI_LOW_RANK_ORTHONORMALISE_Q:
        orthonormalise(x->q, x->m, x->rank, args->epsilon);
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
