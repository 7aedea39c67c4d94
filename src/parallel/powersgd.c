/*
 * PowerSGD (Vogels, Karimireddy, Jaggi, 2019): one step of power iteration per backward finds a
 * low-rank approximation of each gradient matrix, summed over the ranks without forming the sum:
 *
 *     M += error                             this rank's gradient, n x m
 *     Q = orthonormal(Q)                     of the last step, m x r
 *     P = M Q, summed over the ranks         n x r
 *     P = orthonormal(P)
 *     Q = M^T P, summed over the ranks
 *     result = P Q^T,  error = M - result / ranks
 *
 * The algorithm is that of PyTorch's powerSGD_hook, except that gradients are weighted beforehand,
 * so that sums replace its means. Gradients too small to compress are sent as they are, together
 * with P. Factors are stored transposed, so that each column is contiguous. P and Q are bitwise
 * equal on all ranks, and every rank computes the same from them, so the results are bitwise equal
 * too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "parallel/ddp.h"

/* A compressed gradient, and its factors within those of the bucket. */
typedef struct matrix {
    float *grad;  /* (n, m) */
    float *error; /* (n, m), or NULL */
    int64_t n, m, rank;
    float *p; /* (rank, n) */
    float *q; /* (rank, m) */
} matrix;

/* A gradient that is not compressed. */
typedef struct small_gradient {
    float *grad, *packed;
    size_t count;
} small_gradient;

typedef struct factors {
    matrix *matrices;
    size_t matrix_count;
    small_gradient *small;
    size_t small_count;
    float *sent, *q; /* small ones, then every P; every Q. Shared with the peers */
    size_t sent_elements, q_elements, elements;
    uint8_t *warm; /* whether Q is from an earlier step */
} factors;

typedef struct powersgd {
    yk_group *group;
    void *shared; /* the memory of `sent` and of every Q */
    yk_powersgd_options options;
    factors *of; /* by bucket */
    matrix *matrices;
    small_gradient *small;
    float *errors, *q; /* of all buckets, one after the other */
    size_t error_elements, q_elements;
    uint8_t *warm; /* by bucket */
    int64_t iter;
    float inverse_ranks;
    yk_powersgd_stats stats;
} powersgd;

/* ---- small linear algebra -------------------------------------------------------------------- */

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

/* Modified Gram-Schmidt: normalises each column and subtracts it from those after it. */
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

/* M += error, P = M Q: in one pass over M. */
static void project(const matrix *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *row = x->grad + i * x->m;
        if (x->error)
            add_scaled(row, 1, x->error + i * x->m, x->m);
        for (int64_t k = 0; k < x->rank; k++)
            x->p[k * x->n + i] = dot(row, x->q + k * x->m, x->m);
    }
}

/* Q = M^T P. */
static void project_back(const matrix *x)
{
    memset(x->q, 0, (size_t)(x->rank * x->m) * sizeof *x->q);
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled(x->q + k * x->m, x->p[k * x->n + i], x->grad + i * x->m, x->m);
}

/* M = P Q^T; error = the difference between that and this rank's M. */
static void decompress(const matrix *x, float inverse_ranks)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *row = x->grad + i * x->m, *error = x->error ? x->error + i * x->m : NULL;
        if (error)
            memcpy(error, row, (size_t)x->m * sizeof *row);
        memset(row, 0, (size_t)x->m * sizeof *row);
        for (int64_t k = 0; k < x->rank; k++)
            add_scaled(row, x->p[k * x->n + i], x->q + k * x->m, x->m);
        if (error)
            add_scaled(error, -inverse_ranks, row, x->m);
    }
}

/* Approximately normal and the same on every machine: the sum of four uniform numbers. */
static void randomise(const powersgd *state, size_t bucket, factors *f)
{
    for (size_t i = 0; i < f->q_elements; i++) {
        uint64_t bits = yki_hash3(state->options.random_seed ^ (uint64_t)state->iter << 32,
                                  (uint64_t)bucket, (uint64_t)i);
        int sum = 0;
        for (int part = 0; part < 4; part++)
            sum += (int)(bits >> 16 * part & 0xffff) - 0x8000;
        f->q[i] = (float)sum / 0x8000;
    }
}

/* Zero times a value is NaN, and so not zero, only for infinities and NaN. */
static bool all_finite(const float *values, size_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += 0 * values[i];
    return sum == 0;
}

/*
 * The gradient of some rank is not finite, as happens occasionally with mixed precision. All ranks
 * see this in P. They make the result non-finite too, so that the step is skipped, and reset the
 * error feedback and the factors, which would otherwise spoil all later steps.
 */
static void give_up_step(factors *f)
{
    for (size_t i = 0; i < f->matrix_count; i++) {
        const matrix *x = &f->matrices[i];
        for (int64_t e = 0; e < x->n * x->m; e++)
            x->grad[e] = NAN;
        if (x->error)
            memset(x->error, 0, (size_t)(x->n * x->m) * sizeof *x->error);
    }
    *f->warm = false;
}

/* ---- the hook -------------------------------------------------------------------------------- */

static yk_status compress(powersgd *state, yk_group *group, size_t bucket)
{
    factors *f = &state->of[bucket];
    if (!*f->warm || !state->options.warm_start)
        randomise(state, bucket, f);
    *f->warm = true;
    for (size_t i = 0; i < f->matrix_count; i++) {
        const matrix *x = &f->matrices[i];
        orthonormalise(x->q, x->m, x->rank, state->options.orthogonalization_epsilon);
        project(x);
    }
    for (size_t i = 0; i < f->small_count; i++)
        memcpy(f->small[i].packed, f->small[i].grad, f->small[i].count * sizeof(float));
    YK_TRY(yk_all_reduce(group, f->sent, f->sent_elements, YK_F32, YK_REDUCE_SUM, NULL));

    for (size_t i = 0; i < f->small_count; i++)
        memcpy(f->small[i].grad, f->small[i].packed, f->small[i].count * sizeof(float));
    if (!all_finite(f->sent, f->sent_elements)) {
        give_up_step(f);
        return YK_OK;
    }
    for (size_t i = 0; i < f->matrix_count; i++) {
        const matrix *x = &f->matrices[i];
        orthonormalise(x->p, x->n, x->rank, state->options.orthogonalization_epsilon);
        project_back(x);
    }
    YK_TRY(yk_all_reduce(group, f->q, f->q_elements, YK_F32, YK_REDUCE_SUM, NULL));

    for (size_t i = 0; i < f->matrix_count; i++)
        decompress(&f->matrices[i], state->inverse_ranks);
    state->stats.elements_before += (int64_t)f->elements;
    state->stats.elements_after += (int64_t)(f->sent_elements + f->q_elements);
    return YK_OK;
}

static yk_status powersgd_hook(void *context, yk_group *group, const yk_grad_bucket *bucket)
{
    powersgd *state = context;
    bool begun = state->iter >= state->options.start_iter;
    state->iter += bucket->is_last;
    if (begun)
        return compress(state, group, bucket->index);
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void destroy_powersgd(void *context)
{
    powersgd *state = context;
    yk_group_free(state->group, state->shared);
    yki_unmap(state->errors, state->error_elements * sizeof *state->errors);
    free(state->warm);
    free(state->matrices);
    free(state->small);
    free(state->of);
    free(state);
}

static int64_t smallest(int64_t a, int64_t b, int64_t c)
{
    return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

/* Decides which of a bucket's gradients are compressed. */
static void sort_bucket(powersgd *state, factors *f, const yk_ddp *ddp, const yki_bucket *plan)
{
    size_t p_elements = 0;
    for (size_t i = 0; i < plan->count; i++) {
        yk_tensor grad = yk_model_parameter(ddp->model, ddp->order[plan->first + i]).grad;
        int64_t count = yk_tensor_count(&grad), n = grad.ndim ? grad.dims[0] : 1, m = count / n;
        float *data = yki_staging_host(&ddp->gradients, grad.data);
        int64_t rank = smallest(n, m, state->options.matrix_approximation_rank);
        double factored = (double)((n + m) * rank) * state->options.min_compression_rate;
        f->elements += (size_t)count;
        if (factored >= (double)count) {
            f->small[f->small_count++] = (small_gradient){.grad = data, .count = (size_t)count};
            f->sent_elements += (size_t)count;
            continue;
        }
        f->matrices[f->matrix_count++] = (matrix){.grad = data, .n = n, .m = m, .rank = rank};
        p_elements += (size_t)(rank * n);
        f->q_elements += (size_t)(rank * m);
        if (state->options.error_feedback)
            state->error_elements += (size_t)count;
    }
    f->sent_elements += p_elements;
}

/* Assigns the bucket's memory; returns where the errors of the next bucket begin. */
static float *place_bucket(const powersgd *state, factors *f, float *errors)
{
    float *sent = f->sent, *q = f->q;
    for (size_t i = 0; i < f->small_count; i++) {
        f->small[i].packed = sent;
        sent += f->small[i].count;
    }
    for (size_t i = 0; i < f->matrix_count; i++) {
        matrix *x = &f->matrices[i];
        x->p = sent;
        x->q = q;
        sent += x->rank * x->n;
        q += x->rank * x->m;
        if (state->options.error_feedback) {
            x->error = errors;
            errors += x->n * x->m;
        }
    }
    return errors;
}

static yk_status allocate_powersgd(powersgd *state, const yk_ddp *ddp)
{
    size_t sent_elements = 0, error_bytes = state->error_elements * sizeof *state->errors;
    if (error_bytes) {
        state->errors = yki_map(error_bytes);
        if (!state->errors)
            return yki_error_memory(error_bytes, "PowerSGD's error feedback");
    }
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        sent_elements += state->of[b].sent_elements;
        state->q_elements += state->of[b].q_elements;
    }
    /* Never 0 bytes, since every gradient is sent in one of the two forms. */
    YK_TRY(yk_group_alloc(ddp->group, (sent_elements + state->q_elements) * sizeof(float),
                          &state->shared));
    float *sent = state->shared, *errors = state->errors, *q = state->q = sent + sent_elements;
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        factors *f = &state->of[b];
        f->sent = sent;
        f->q = q;
        f->warm = &state->warm[b];
        sent += f->sent_elements;
        q += f->q_elements;
        errors = place_bucket(state, f, errors);
    }
    return YK_OK;
}

static yk_status build_powersgd(powersgd *state, yk_ddp *ddp)
{
    state->of = yki_calloc(ddp->bucket_count, sizeof *state->of);
    state->warm = yki_calloc(ddp->bucket_count, sizeof *state->warm);
    state->matrices = yki_calloc(ddp->used, sizeof *state->matrices);
    state->small = yki_calloc(ddp->used, sizeof *state->small);
    if (!state->of || !state->warm || !state->matrices || !state->small)
        return yki_error_memory(ddp->used * sizeof *state->matrices, "PowerSGD");
    YK_TRY(yki_staging_open_host(&ddp->gradients));
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        const yki_bucket *plan = &ddp->buckets[b].plan;
        if (plan->dtype != YK_F32)
            return yki_error(YK_ERROR_UNSUPPORTED, "PowerSGD compresses float32 gradients, not %s",
                             yk_dtype_name(plan->dtype));
        state->of[b].matrices = state->matrices + plan->first;
        state->of[b].small = state->small + plan->first;
        sort_bucket(state, &state->of[b], ddp, plan);
    }
    YK_TRY(allocate_powersgd(state, ddp));
    return yk_broadcast(ddp->group, &state->options.random_seed, 1, YK_I64, 0, NULL);
}

/* The state that later steps need. */
static yki_hook_memory memory_of(const powersgd *state, const yk_ddp *ddp)
{
    return (yki_hook_memory){.name = "powersgd",
                             .errors = state->errors,
                             .error_elements = state->error_elements,
                             .factors = state->q,
                             .factor_elements = state->q_elements,
                             .warm = state->warm,
                             .buckets = ddp->bucket_count};
}

static yk_status check_powersgd(const yk_powersgd_options *o)
{
    if (o->matrix_approximation_rank < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "PowerSGD: matrix_approximation_rank is %lld, expected 1 or more",
                         (long long)o->matrix_approximation_rank);
    if (o->start_iter < 0 || o->iter < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "PowerSGD: start_iter is %lld and iter is %lld, expected 0 or more",
                         (long long)o->start_iter, (long long)o->iter);
    if (!(o->min_compression_rate >= 0) || !(o->orthogonalization_epsilon >= 0))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "PowerSGD: min_compression_rate is %g and orthogonalization_epsilon is %g, "
            "expected 0 or more",
            o->min_compression_rate, o->orthogonalization_epsilon);
    return YK_OK;
}

yk_status yk_ddp_register_powersgd_hook(yk_ddp *ddp, const yk_powersgd_options *given)
{
    yk_powersgd_options options;
    YKI_NOT_NULL(ddp);
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT));
    YK_TRY(check_powersgd(&options));
    powersgd *state = yki_calloc(1, sizeof *state);
    if (!state)
        return yki_error_memory(sizeof *state, "PowerSGD");
    state->options = options;
    state->group = ddp->group;
    state->iter = options.iter;
    state->inverse_ranks = 1.0F / (float)yk_group_size(ddp->group);
    yk_status status = build_powersgd(state, ddp);
    if (status != YK_OK) {
        destroy_powersgd(state);
        return status;
    }
    return yki_hook_register(ddp, &(yki_hook){.run = powersgd_hook,
                                              .state = state,
                                              .destroy = destroy_powersgd,
                                              .memory = memory_of(state, ddp)});
}

yk_powersgd_stats yk_ddp_powersgd_stats(const yk_ddp *ddp)
{
    if (!ddp || ddp->hook.run != powersgd_hook)
        return (yk_powersgd_stats){0};
    return ((const powersgd *)ddp->hook.state)->stats;
}
