/*
 * What sweeps do with one chunk, as loops of YKI_SWEEP_REAL; included once for each type, with
 * sweep_rules.h's macros and YKI_LOOP for how each loop is compiled.
 */
#include "device/sweep_rules.h"

YKI_LOOP static void YKI_SWEEP_NAME(loop_sgd_plain)(YKI_SWEEP_REAL *restrict value,
                                                    const YKI_SWEEP_REAL *restrict grad,
                                                    int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(sgd) k = YKI_SWEEP_NAME(read_sgd)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(sgd_plain)(&k, value[i], grad[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_sgd_momentum)(YKI_SWEEP_REAL *restrict value,
                                                       const YKI_SWEEP_REAL *restrict grad,
                                                       YKI_SWEEP_REAL *restrict buffer,
                                                       int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(sgd) k = YKI_SWEEP_NAME(read_sgd)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(sgd_momentum)(&k, value[i], grad[i], &buffer[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_adam)(YKI_SWEEP_REAL *restrict value,
                                               const YKI_SWEEP_REAL *restrict grad,
                                               YKI_SWEEP_REAL *restrict mean,
                                               YKI_SWEEP_REAL *restrict square, int64_t count,
                                               const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(adam_step)(&k, value[i], grad[i], &mean[i], &square[i]);
}

YKI_LOOP static void
YKI_SWEEP_NAME(loop_amsgrad)(YKI_SWEEP_REAL *restrict value, const YKI_SWEEP_REAL *restrict grad,
                             YKI_SWEEP_REAL *restrict mean, YKI_SWEEP_REAL *restrict square,
                             YKI_SWEEP_REAL *restrict largest, int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] =
            YKI_SWEEP_NAME(amsgrad_step)(&k, value[i], grad[i], &mean[i], &square[i], &largest[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_nadam)(YKI_SWEEP_REAL *restrict value,
                                                const YKI_SWEEP_REAL *restrict grad,
                                                YKI_SWEEP_REAL *restrict mean,
                                                YKI_SWEEP_REAL *restrict square, int64_t count,
                                                const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
    const YKI_SWEEP_REAL ahead = (YKI_SWEEP_REAL)c[YKI_NADAM_AHEAD];
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(nadam_step)(&k, ahead, value[i], grad[i], &mean[i], &square[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_adamax)(YKI_SWEEP_REAL *restrict value,
                                                 const YKI_SWEEP_REAL *restrict grad,
                                                 YKI_SWEEP_REAL *restrict mean,
                                                 YKI_SWEEP_REAL *restrict largest, int64_t count,
                                                 const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(adamax_step)(&k, value[i], grad[i], &mean[i], &largest[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_rmsprop)(YKI_SWEEP_REAL *restrict value,
                                                  const YKI_SWEEP_REAL *restrict grad,
                                                  YKI_SWEEP_REAL *restrict square, int64_t count,
                                                  const double *c)
{
    const YKI_SWEEP_NAME(rmsprop) k = YKI_SWEEP_NAME(read_rmsprop)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] -= k.lr * YKI_SWEEP_NAME(rmsprop_scaled)(&k, value[i], grad[i], &square[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_rmsprop_momentum)(YKI_SWEEP_REAL *restrict value,
                                                           const YKI_SWEEP_REAL *restrict grad,
                                                           YKI_SWEEP_REAL *restrict square,
                                                           YKI_SWEEP_REAL *restrict buffer,
                                                           int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(rmsprop) k = YKI_SWEEP_NAME(read_rmsprop)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_REAL g = YKI_SWEEP_NAME(rmsprop_scaled)(&k, value[i], grad[i], &square[i]);
        value[i] -= k.lr * YKI_SWEEP_NAME(rmsprop_momentum)(&k, g, &buffer[i]);
    }
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_rmsprop_centered)(YKI_SWEEP_REAL *restrict value,
                                                           const YKI_SWEEP_REAL *restrict grad,
                                                           YKI_SWEEP_REAL *restrict square,
                                                           YKI_SWEEP_REAL *restrict mean,
                                                           int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(rmsprop) k = YKI_SWEEP_NAME(read_rmsprop)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] -=
            k.lr * YKI_SWEEP_NAME(rmsprop_centered)(&k, value[i], grad[i], &square[i], &mean[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_rmsprop_both)(YKI_SWEEP_REAL *restrict value,
                                                       const YKI_SWEEP_REAL *restrict grad,
                                                       YKI_SWEEP_REAL *restrict square,
                                                       YKI_SWEEP_REAL *restrict buffer,
                                                       YKI_SWEEP_REAL *restrict mean, int64_t count,
                                                       const double *c)
{
    const YKI_SWEEP_NAME(rmsprop) k = YKI_SWEEP_NAME(read_rmsprop)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_REAL g =
            YKI_SWEEP_NAME(rmsprop_centered)(&k, value[i], grad[i], &square[i], &mean[i]);
        value[i] -= k.lr * YKI_SWEEP_NAME(rmsprop_momentum)(&k, g, &buffer[i]);
    }
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_adadelta)(YKI_SWEEP_REAL *restrict value,
                                                   const YKI_SWEEP_REAL *restrict grad,
                                                   YKI_SWEEP_REAL *restrict square,
                                                   YKI_SWEEP_REAL *restrict updates, int64_t count,
                                                   const double *c)
{
    const YKI_SWEEP_NAME(rmsprop) k = YKI_SWEEP_NAME(read_rmsprop)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] = YKI_SWEEP_NAME(adadelta_step)(&k, value[i], grad[i], &square[i], &updates[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_lars_plain)(YKI_SWEEP_REAL *restrict value,
                                                     const YKI_SWEEP_REAL *restrict grad,
                                                     int64_t count, const double *c, double ratio)
{
    YKI_SWEEP_NAME(sgd) k = YKI_SWEEP_NAME(read_sgd)(c);
    const YKI_SWEEP_REAL trust = (YKI_SWEEP_REAL)ratio, decay = k.decay;
    k.decay = 0;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_REAL g = YKI_SWEEP_NAME(lars_gradient)(trust, decay, value[i], grad[i]);
        value[i] = YKI_SWEEP_NAME(sgd_plain)(&k, value[i], g);
    }
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_lars_momentum)(YKI_SWEEP_REAL *restrict value,
                                                        const YKI_SWEEP_REAL *restrict grad,
                                                        YKI_SWEEP_REAL *restrict buffer,
                                                        int64_t count, const double *c,
                                                        double ratio)
{
    YKI_SWEEP_NAME(sgd) k = YKI_SWEEP_NAME(read_sgd)(c);
    const YKI_SWEEP_REAL trust = (YKI_SWEEP_REAL)ratio, decay = k.decay;
    k.decay = 0;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_REAL g = YKI_SWEEP_NAME(lars_gradient)(trust, decay, value[i], grad[i]);
        value[i] = YKI_SWEEP_NAME(sgd_momentum)(&k, value[i], g, &buffer[i]);
    }
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_moments)(const YKI_SWEEP_REAL *restrict grad,
                                                  YKI_SWEEP_REAL *restrict mean,
                                                  YKI_SWEEP_REAL *restrict square, int64_t count,
                                                  const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        YKI_SWEEP_NAME(adam_moments)(&k, grad[i], &mean[i], &square[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_lamb)(YKI_SWEEP_REAL *restrict value,
                                               const YKI_SWEEP_REAL *restrict mean,
                                               const YKI_SWEEP_REAL *restrict square, int64_t count,
                                               const double *c, double ratio)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
    const YKI_SWEEP_REAL rate = (YKI_SWEEP_REAL)(c[YKI_LAMB_LR] * ratio);
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        value[i] -= rate * YKI_SWEEP_NAME(lamb_update)(&k, value[i], mean[i], square[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_approach)(YKI_SWEEP_REAL *restrict average,
                                                   const YKI_SWEEP_REAL *restrict value,
                                                   int64_t count, YKI_SWEEP_REAL share)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        average[i] = YKI_SWEEP_NAME(approach)(average[i], share, value[i]);
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_add)(YKI_SWEEP_REAL *restrict sum,
                                              const YKI_SWEEP_REAL *restrict more, int64_t count,
                                              YKI_SWEEP_REAL scale)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        sum[i] = scale * sum[i] + more[i];
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_scale)(YKI_SWEEP_REAL *values, int64_t count,
                                                YKI_SWEEP_REAL factor)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* Scales, and returns whether a value was not finite: without the sign, the bits of such a number
 * are at least those of infinity when compared as integers. */
YKI_LOOP static bool YKI_SWEEP_NAME(loop_unscale)(YKI_SWEEP_REAL *values, int64_t count,
                                                  YKI_SWEEP_REAL factor)
{
    const YKI_SWEEP_BITS sign = (YKI_SWEEP_BITS)1 << (8 * sizeof(YKI_SWEEP_REAL) - 1);
    const YKI_SWEEP_REAL infinity = INFINITY;
    YKI_SWEEP_BITS largest = 0, infinite;
    memcpy(&infinite, &infinity, sizeof infinite);
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_BITS magnitude;
        memcpy(&magnitude, &values[i], sizeof magnitude);
        magnitude &= ~sign;
        largest = magnitude > largest ? magnitude : largest;
        values[i] *= factor;
    }
    return largest >= infinite;
}

/* In SWEEP_LANES sums of double, in which squares of f32 are exact, added up in order: the bits
 * do not depend on the width of vectors. */
YKI_LOOP static double YKI_SWEEP_NAME(loop_squares)(const YKI_SWEEP_REAL *values, int64_t count)
{
    double lanes[SWEEP_LANES] = {0}, sum = 0;
    int64_t whole = count - count % SWEEP_LANES;
    for (int64_t i = 0; i < whole; i += SWEEP_LANES)
        for (int j = 0; j < SWEEP_LANES; j++)
            lanes[j] += (double)values[i + j] * (double)values[i + j];
    for (int64_t i = whole; i < count; i++)
        lanes[i - whole] += (double)values[i] * (double)values[i];
    for (int j = 0; j < SWEEP_LANES; j++)
        sum += lanes[j];
    return sum;
}

/* Of LAMB's updates, in the same order. */
YKI_LOOP static double YKI_SWEEP_NAME(loop_lamb_squares)(const YKI_SWEEP_REAL *value,
                                                         const YKI_SWEEP_REAL *mean,
                                                         const YKI_SWEEP_REAL *square,
                                                         int64_t count, const double *c)
{
    const YKI_SWEEP_NAME(adam) k = YKI_SWEEP_NAME(read_adam)(c);
    double lanes[SWEEP_LANES] = {0}, sum = 0;
    int64_t whole = count - count % SWEEP_LANES;
    for (int64_t i = 0; i < whole; i += SWEEP_LANES)
        for (int j = 0; j < SWEEP_LANES; j++) {
            double u = YKI_SWEEP_NAME(lamb_update)(&k, value[i + j], mean[i + j], square[i + j]);
            lanes[j] += u * u;
        }
    for (int64_t i = whole; i < count; i++) {
        double u = YKI_SWEEP_NAME(lamb_update)(&k, value[i], mean[i], square[i]);
        lanes[i - whole] += u * u;
    }
    for (int j = 0; j < SWEEP_LANES; j++)
        sum += lanes[j];
    return sum;
}

YKI_LOOP static void YKI_SWEEP_NAME(loop_limit)(YKI_SWEEP_REAL *values, int64_t count,
                                                YKI_SWEEP_REAL limit)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        YKI_SWEEP_REAL value = values[i] > limit ? limit : values[i];
        values[i] = value < -limit ? -limit : value;
    }
}

/* ---- one chunk ------------------------------------------------------------------------------- */

static void YKI_SWEEP_NAME(sweep_rmsprop)(YKI_SWEEP_REAL *const *at, int64_t count, const double *c)
{
    if (at[3] && at[4])
        YKI_SWEEP_NAME(loop_rmsprop_both)(at[0], at[1], at[2], at[3], at[4], count, c);
    else if (at[3])
        YKI_SWEEP_NAME(loop_rmsprop_momentum)(at[0], at[1], at[2], at[3], count, c);
    else if (at[4])
        YKI_SWEEP_NAME(loop_rmsprop_centered)(at[0], at[1], at[2], at[4], count, c);
    else
        YKI_SWEEP_NAME(loop_rmsprop)(at[0], at[1], at[2], count, c);
}

/* Updates of optimizers. norms: what was found of the span; partial: what this chunk finds. */
static void YKI_SWEEP_NAME(sweep_update)(yki_sweep_op op, YKI_SWEEP_REAL *const *at, int64_t count,
                                         const double *c, const double *norms, double *partial)
{
    if (op == YKI_SWEEP_SGD && at[2]) {
        YKI_SWEEP_NAME(loop_sgd_momentum)(at[0], at[1], at[2], count, c);
    } else if (op == YKI_SWEEP_SGD) {
        YKI_SWEEP_NAME(loop_sgd_plain)(at[0], at[1], count, c);
    } else if (op == YKI_SWEEP_ADAM && at[4]) {
        YKI_SWEEP_NAME(loop_amsgrad)(at[0], at[1], at[2], at[3], at[4], count, c);
    } else if (op == YKI_SWEEP_ADAM) {
        YKI_SWEEP_NAME(loop_adam)(at[0], at[1], at[2], at[3], count, c);
    } else if (op == YKI_SWEEP_NADAM) {
        YKI_SWEEP_NAME(loop_nadam)(at[0], at[1], at[2], at[3], count, c);
    } else if (op == YKI_SWEEP_ADAMAX) {
        YKI_SWEEP_NAME(loop_adamax)(at[0], at[1], at[2], at[3], count, c);
    } else if (op == YKI_SWEEP_RMSPROP) {
        YKI_SWEEP_NAME(sweep_rmsprop)(at, count, c);
    } else if (op == YKI_SWEEP_ADADELTA) {
        YKI_SWEEP_NAME(loop_adadelta)(at[0], at[1], at[2], at[3], count, c);
    } else if (op == YKI_SWEEP_LARS && at[2]) {
        double ratio = yki_lars_ratio(c, norms);
        YKI_SWEEP_NAME(loop_lars_momentum)(at[0], at[1], at[2], count, c, ratio);
    } else if (op == YKI_SWEEP_LARS) {
        YKI_SWEEP_NAME(loop_lars_plain)(at[0], at[1], count, c, yki_lars_ratio(c, norms));
    } else if (op == YKI_SWEEP_MOMENTS) {
        YKI_SWEEP_NAME(loop_moments)(at[1], at[2], at[3], count, c);
        partial[0] = YKI_SWEEP_NAME(loop_squares)(at[0], count);
        partial[1] = YKI_SWEEP_NAME(loop_lamb_squares)(at[0], at[2], at[3], count, c);
    } else if (op == YKI_SWEEP_LAMB) {
        YKI_SWEEP_NAME(loop_lamb)(at[0], at[2], at[3], count, c, yki_lamb_ratio(c, norms));
    } else {
        YKI_SWEEP_NAME(loop_approach)(at[0], at[1], count, (YKI_SWEEP_REAL)c[0]);
    }
}

/* Does an operation of arithmetic on one chunk; what it finds goes to partial. */
static void YKI_SWEEP_NAME(sweep_numbers)(const yki_sweep_args *args, size_t chunk)
{
    const yki_sweep_chunk *part = &args->chunks[chunk];
    const yki_span *span = &args->spans[part->span];
    const double *c = args->coefficients;
    const double *norms = args->result ? (const double *)args->result + 2 * part->span : NULL;
    double *partial = (double *)args->partial;
    int64_t count = part->count;
    YKI_SWEEP_REAL *at[YKI_SWEEP_TENSORS];
    if (c)
        c += span->group * YKI_SWEEP_COEFFICIENTS;
    for (int i = 0; i < YKI_SWEEP_TENSORS; i++)
        at[i] = span->at[i] ? (YKI_SWEEP_REAL *)span->at[i] + part->begin : NULL;
    switch (args->op) {
    case YKI_SWEEP_ADD:
        YKI_SWEEP_NAME(loop_add)(at[0], at[1], count, (YKI_SWEEP_REAL)c[0]);
        break;
    case YKI_SWEEP_SCALE:
        YKI_SWEEP_NAME(loop_scale)(at[0], count, (YKI_SWEEP_REAL)c[0]);
        break;
    case YKI_SWEEP_SQUARES:
        partial[chunk] = YKI_SWEEP_NAME(loop_squares)(at[0], count);
        break;
    case YKI_SWEEP_NORMS:
        partial[2 * chunk] = YKI_SWEEP_NAME(loop_squares)(at[0], count);
        partial[2 * chunk + 1] = YKI_SWEEP_NAME(loop_squares)(at[1], count);
        break;
    case YKI_SWEEP_CLIP:
        YKI_SWEEP_NAME(loop_scale)
        (at[0], count, (YKI_SWEEP_REAL)yki_clip_factor(args->coefficients));
        break;
    case YKI_SWEEP_LIMIT:
        YKI_SWEEP_NAME(loop_limit)(at[0], count, (YKI_SWEEP_REAL)c[0]);
        break;
    case YKI_SWEEP_UNSCALE:
        partial[chunk] = YKI_SWEEP_NAME(loop_unscale)(at[0], count, (YKI_SWEEP_REAL)c[0]) ? 1 : 0;
        break;
    case YKI_SWEEP_APPROACH:
    case YKI_SWEEP_SGD:
    case YKI_SWEEP_ADAM:
    case YKI_SWEEP_NADAM:
    case YKI_SWEEP_ADAMAX:
    case YKI_SWEEP_RMSPROP:
    case YKI_SWEEP_ADADELTA:
    case YKI_SWEEP_LARS:
    case YKI_SWEEP_MOMENTS:
    case YKI_SWEEP_LAMB:
        if (c[YKI_SWEEP_SKIP] == 0)
            YKI_SWEEP_NAME(sweep_update)(args->op, at, count, c, norms, &partial[2 * chunk]);
        break;
    case YKI_SWEEP_COPY:
    case YKI_SWEEP_SWAP:
    case YKI_SWEEP_HASH:
        break; /* of bytes: sweep_chunk.h */
    }
}
