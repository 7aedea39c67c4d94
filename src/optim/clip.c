/*
 * Clipping by the norm of all gradients together, after Pascanu, Mikolov and Bengio, "On the
 * difficulty of training recurrent neural networks" (2013): one pass that reads them, and one that
 * scales them where that is needed.
 *
 * The sum does not depend on threads or on the width of vectors: every chunk has LANES sums of its
 * own in double, in which squares of f32 are exact, and all are added up in order. So ranks with
 * the same gradients scale them by the same bits.
 */
#include "base/trace.h"
#include "optim/optimizer.h"
#include "optim/vectorised.h"

#include <math.h>

enum { LANES = 16 };

#define DEFINE_LOOPS(real)                                                                         \
    YKI_VECTORISED static double squares_##real(const real *grad, int64_t count)                   \
    {                                                                                              \
        double lanes[LANES] = {0}, sum = 0;                                                        \
        int64_t whole = count - count % LANES;                                                     \
        for (int64_t i = 0; i < whole; i += LANES)                                                 \
            for (int j = 0; j < LANES; j++)                                                        \
                lanes[j] += (double)grad[i + j] * (double)grad[i + j];                             \
        for (int64_t i = whole; i < count; i++)                                                    \
            lanes[i - whole] += (double)grad[i] * (double)grad[i];                                 \
        for (int j = 0; j < LANES; j++)                                                            \
            sum += lanes[j];                                                                       \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    YKI_VECTORISED static void scale_##real(real *grad, int64_t count, real factor)                \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            grad[i] *= factor;                                                                     \
    }

DEFINE_LOOPS(float)
DEFINE_LOOPS(double)

static double chunk_squares(const yk_optimizer *optimizer, const yki_chunk *part)
{
    const yk_tensor *grad = &optimizer->views[part->parameter].grad;
    if (grad->dtype == YK_F64)
        return squares_double((const double *)grad->data + part->begin, part->count);
    return squares_float((const float *)grad->data + part->begin, part->count);
}

static void scale_chunk(const yk_optimizer *optimizer, const yki_chunk *part, double factor)
{
    const yk_tensor *grad = &optimizer->views[part->parameter].grad;
    if (grad->dtype == YK_F64)
        scale_double((double *)grad->data + part->begin, part->count, factor);
    else
        scale_float((float *)grad->data + part->begin, part->count, (float)factor);
}

static double grad_norm(yk_optimizer *optimizer)
{
    const yki_chunks *chunks = &optimizer->chunks;
    double sum = 0;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < chunks->count; i++)
        optimizer->squares[i] = chunk_squares(optimizer, &chunks->of[i]);
    for (size_t i = 0; i < chunks->count; i++)
        sum += optimizer->squares[i];
    return sqrt(sum);
}

yk_status yk_clip_grad_norm(yk_optimizer *optimizer, double max_norm, double *total_norm)
{
    YKI_NOT_NULL(optimizer);
    const yki_chunks *chunks = &optimizer->chunks;
    if (!(max_norm > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "clip_grad_norm: max_norm must be above 0, not %g", max_norm);
    double begin = yki_trace_begin();
    yki_optimizer_refresh(optimizer);
    double norm = grad_norm(optimizer), factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1)) {
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < chunks->count; i++)
            scale_chunk(optimizer, &chunks->of[i], factor);
    }
    if (total_norm)
        *total_norm = norm;
    YKI_TRACE_END(begin, YKI_NO_ARGS, "clip gradients");
    return YK_OK;
}
