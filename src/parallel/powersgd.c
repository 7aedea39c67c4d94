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
 *
 * Where the ranks exchange the memory of a device in its streams, all of this is entered there and
 * becomes a part of backward's recording. What differs between steps is in the device's memory:
 * the key of random draws, whether a Q is from an earlier step, and whether a step is spoilt.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "device/block.h"
#include "device/device.h"
#include "parallel/ddp.h"

/* A gradient that is not compressed. */
typedef struct small_gradient {
    float *grad, *packed;
    size_t count;
} small_gradient;

/* A bucket. */
typedef struct factors {
    yki_low_rank *matrices;
    size_t matrix_count;
    small_gradient *small;
    size_t small_count;
    float *sent, *q; /* small ones, then every P; every Q. The ranks exchange them */
    size_t sent_elements, q_elements, elements;
    const uint64_t *key;
    double *bad;
    uint8_t *warm;  /* whether Q is from an earlier step */
    int64_t *count; /* of the steps in which it was compressed */
    /* In streams: */
    yki_staged_part sent_part, q_part;
    yki_sweep *pack, *unpack; /* of the small ones */
    yki_sweep *look;          /* for what is not finite in `sent` */
    yki_event *ready;
} factors;

/* What changes from step to step, where the device reads it. */
typedef struct step_values {
    uint64_t key[2]; /* of the draws of all buckets but the last, and of the last */
    double unscaled[YKI_SWEEP_COEFFICIENTS];
} step_values;

typedef struct powersgd {
    yk_ddp *ddp;
    yk_powersgd_options options;
    factors *of; /* by bucket */
    yki_low_rank *matrices;
    small_gradient *small;
    void *shared;  /* the memory of `sent` and of every Q, on the host */
    float *errors; /* of all buckets, one after the other */
    size_t error_elements, sent_elements, q_elements;
    char *notes; /* by bucket: bad, count, warm */
    size_t note_bytes;
    float *q;       /* in what is exchanged, ... */
    int64_t *count; /* ... and in notes */
    uint8_t *warm;
    int64_t iter;
    bool compresses; /* the running backward */
    float inverse_ranks;
    uint64_t key[2]; /* as in step_values */
    /* In streams; otherwise empty. Everything above is in the device's memory then. */
    yki_device *device;
    yki_staging exchanged; /* in place of shared */
    yki_block step;
    yki_stream *stream;
    yki_event *done;
} powersgd;

/* ---- what is done with a bucket -------------------------------------------------------------- */

static yk_status run(const powersgd *state, const factors *f, yki_low_rank_op op,
                     const yki_low_rank *at)
{
    yki_low_rank_args args = {.op = op,
                              .at = *at,
                              .matrices = f->matrices,
                              .matrix_count = f->matrix_count,
                              .epsilon = state->options.orthogonalization_epsilon,
                              .share = state->inverse_ranks,
                              .always_draws = !state->options.warm_start,
                              .number = (uint64_t)(f - state->of),
                              .key = f->key,
                              .warm = f->warm,
                              .bad = f->bad,
                              .count = f->count,
                              .stream = state->stream};
    if (state->device)
        return state->device->type->low_rank(state->device, &args);
    yki_low_rank_run(&args);
    return YK_OK;
}

/* Of what is done for the bucket. */
static const yki_low_rank no_matrix = {.matrix = NULL};

static yk_status run_each(const powersgd *state, const factors *f, yki_low_rank_op op)
{
    for (size_t i = 0; i < f->matrix_count; i++)
        YK_TRY(run(state, f, op, &f->matrices[i]));
    return YK_OK;
}

/* Q and P. */
static yk_status project(const powersgd *state, const factors *f)
{
    const yki_low_rank every_q = {.q = f->q, .m = (int64_t)f->q_elements, .rank = 1};
    if (f->matrix_count == 0)
        return YK_OK;
    YK_TRY(run(state, f, YKI_LOW_RANK_BEGIN, &every_q));
    YK_TRY(run(state, f, YKI_LOW_RANK_ORTHONORMALISE_Q, &no_matrix));
    return run_each(state, f, YKI_LOW_RANK_PROJECT);
}

/* Q again, from the sum of P. */
static yk_status project_back(const powersgd *state, const factors *f)
{
    if (f->matrix_count == 0)
        return YK_OK;
    YK_TRY(run(state, f, YKI_LOW_RANK_ORTHONORMALISE_P, &no_matrix));
    return run_each(state, f, YKI_LOW_RANK_PROJECT_BACK);
}

/*
 * The result, from the sum of Q. If the gradient of some rank is not finite, as happens
 * occasionally with mixed precision, all ranks see this in the sum of P. They make the result
 * non-finite too, so that the step is skipped, and reset the error feedback and the factors, which
 * would otherwise spoil all later steps.
 */
static yk_status approximate(const powersgd *state, const factors *f)
{
    YK_TRY(run_each(state, f, YKI_LOW_RANK_APPROXIMATE));
    return run(state, f, YKI_LOW_RANK_END, &no_matrix);
}

/* Before each backward that is exchanged. */
static yk_status begin_backward(void *context)
{
    powersgd *state = context;
    bool compressed = state->compresses;
    void *values;
    state->compresses = state->iter >= state->options.start_iter;
    for (int last = 0; last < 2; last++)
        state->key[last] = state->options.random_seed ^ (uint64_t)(state->iter + last) << 32;
    state->iter++;
    if (!state->device)
        return YK_OK;
    if (state->compresses != compressed)
        yki_model_hooks_changed(state->ddp->model);
    YK_TRY(yki_block_open(&state->step, &values));
    *(step_values *)values = (step_values){.key = {state->key[0], state->key[1]}, .unscaled = {1}};
    return yki_block_send(&state->step, yki_device_stream(state->device));
}

/* ---- on the host ----------------------------------------------------------------------------- */

/* Zero times a value is NaN, and so not zero, only for infinities and NaN. */
static bool all_finite(const float *values, size_t count)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += 0 * values[i];
    return sum == 0;
}

static yk_status compress(const powersgd *state, yk_group *group, const factors *f)
{
    YK_TRY(project(state, f));
    for (size_t i = 0; i < f->small_count; i++)
        memcpy(f->small[i].packed, f->small[i].grad, f->small[i].count * sizeof(float));
    YK_TRY(yk_all_reduce(group, f->sent, f->sent_elements, YK_F32, YK_REDUCE_SUM, NULL));
    for (size_t i = 0; i < f->small_count; i++)
        memcpy(f->small[i].grad, f->small[i].packed, f->small[i].count * sizeof(float));
    *f->bad = !all_finite(f->sent, f->sent_elements);
    if (*f->bad == 0) {
        YK_TRY(project_back(state, f));
        YK_TRY(yk_all_reduce(group, f->q, f->q_elements, YK_F32, YK_REDUCE_SUM, NULL));
    }
    return approximate(state, f);
}

static yk_status powersgd_hook(void *context, yk_group *group, const yk_grad_bucket *bucket)
{
    const powersgd *state = context;
    if (state->compresses)
        return compress(state, group, &state->of[bucket->index]);
    return yk_all_reduce(group, bucket->buffer, bucket->elements, bucket->dtype, YK_REDUCE_SUM,
                         NULL);
}

/* ---- in streams ------------------------------------------------------------------------------ */

/* Sums a part over the ranks, between what is in its stream and what is entered there next. */
static yk_status exchange(yki_staged_part *part, bool agreed, yk_work **work)
{
    if (!part->staging->plane || part->elements == 0)
        return YK_OK;
    YK_TRY(agreed ? yki_staged_all_reduce_agreed(part) : yki_staged_all_reduce(part, work));
    return yki_staged_part_land(part);
}

/* All of it is entered in a stream of the hook's own, so that backward continues meanwhile. */
static yk_status enter_compression(const powersgd *state, factors *f, bool agreed, yk_work **work)
{
    const step_values *values = state->step.memory;
    YK_TRY(yki_event_mark(state->device, f->ready, yki_device_stream(state->device)));
    YK_TRY(yki_event_follow(state->device, f->ready, state->stream));
    YK_TRY(project(state, f));
    if (f->small_count)
        YK_TRY(yki_sweep_run(f->pack, YKI_SWEEP_COPY, NULL, NULL, state->stream));
    YK_TRY(exchange(&f->sent_part, agreed, work));
    if (f->small_count)
        YK_TRY(yki_sweep_run(f->unpack, YKI_SWEEP_COPY, NULL, NULL, state->stream));
    YK_TRY(yki_sweep_run(f->look, YKI_SWEEP_UNSCALE, values->unscaled, f->bad, state->stream));
    YK_TRY(project_back(state, f));
    YK_TRY(exchange(&f->q_part, agreed, work));
    return approximate(state, f);
}

static yk_status enter_bucket(void *context, size_t bucket, bool agreed, yk_work **work)
{
    const powersgd *state = context;
    yki_staged_part *gradients = &state->ddp->buckets[bucket].part;
    *work = NULL;
    if (state->compresses)
        return enter_compression(state, &state->of[bucket], agreed, work);
    return agreed ? yki_staged_all_reduce_agreed(gradients)
                  : yki_staged_all_reduce(gradients, work);
}

static yk_status land_buckets(void *context)
{
    const powersgd *state = context;
    yki_reduced_bucket *last = &state->ddp->buckets[state->ddp->bucket_count - 1];
    if (!state->compresses)
        return state->exchanged.plane ? yki_staged_part_land(&last->part) : YK_OK;
    YK_TRY(yki_event_mark(state->device, state->done, state->stream));
    return yki_event_follow(state->device, state->done, yki_device_stream(state->device));
}

static size_t exchanged_elements(const void *context)
{
    const powersgd *state = context;
    size_t gradients = 0;
    for (size_t b = 0; b < state->ddp->bucket_count; b++)
        gradients += state->ddp->buckets[b].part.elements;
    return state->compresses ? state->sent_elements + state->q_elements : gradients;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void destroy_powersgd(void *context)
{
    powersgd *state = context;
    yki_device *device = state->device;
    size_t error_bytes = state->error_elements * sizeof *state->errors;
    if (device) {
        yki_stream_wait(device, yki_device_stream(device));
        yki_stream_destroy(device, state->stream);
        yki_event_destroy(device, state->done);
        for (size_t b = 0; state->of && b < state->ddp->bucket_count; b++) {
            factors *f = &state->of[b];
            yki_staged_part_destroy(&f->sent_part);
            yki_staged_part_destroy(&f->q_part);
            yki_sweep_destroy(f->pack);
            yki_sweep_destroy(f->unpack);
            yki_sweep_destroy(f->look);
            yki_event_destroy(device, f->ready);
        }
        yki_block_destroy(&state->step);
        yki_staging_destroy(&state->exchanged);
        yki_device_free(device, state->errors, error_bytes);
        yki_device_free(device, state->notes, state->note_bytes);
    } else {
        yk_group_free(state->ddp->group, state->shared);
        yki_unmap(state->errors, error_bytes);
        free(state->notes);
    }
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
        float *data = state->device ? grad.data : yki_staging_host(&ddp->gradients, grad.data);
        int64_t rank = smallest(n, m, state->options.matrix_approximation_rank);
        double factored = (double)((n + m) * rank) * state->options.min_compression_rate;
        f->elements += (size_t)count;
        if (factored >= (double)count) {
            f->small[f->small_count++] = (small_gradient){.grad = data, .count = (size_t)count};
            f->sent_elements += (size_t)count;
            continue;
        }
        f->matrices[f->matrix_count++] =
            (yki_low_rank){.matrix = data, .n = n, .m = m, .rank = rank};
        p_elements += (size_t)(rank * n);
        f->q_elements += (size_t)(rank * m);
        if (state->options.error_feedback)
            state->error_elements += (size_t)count;
    }
    f->sent_elements += p_elements;
    state->sent_elements += f->sent_elements;
    state->q_elements += f->q_elements;
}

static yk_status sort_buckets(powersgd *state, const yk_ddp *ddp)
{
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        const yki_bucket *plan = &ddp->buckets[b].plan;
        if (plan->dtype != YK_F32)
            return yki_error(YK_ERROR_UNSUPPORTED, "PowerSGD compresses float32 gradients, not %s",
                             yk_dtype_name(plan->dtype));
        state->of[b].matrices = state->matrices + plan->first;
        state->of[b].small = state->small + plan->first;
        sort_bucket(state, &state->of[b], ddp, plan);
    }
    return YK_OK;
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
        yki_low_rank *x = &f->matrices[i];
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

/* `exchanged` has room for what all buckets send and for every Q. */
static void place_buckets(powersgd *state, float *exchanged)
{
    size_t buckets = state->ddp->bucket_count;
    const step_values *values = state->step.memory;
    const uint64_t *key = state->device ? values->key : state->key;
    float *sent = exchanged, *q = sent + state->sent_elements, *errors = state->errors;
    double *bad = (double *)(void *)state->notes;
    int64_t *count = (int64_t *)(void *)(bad + buckets);
    state->q = q;
    state->count = count;
    state->warm = (uint8_t *)(count + buckets);
    for (size_t b = 0; b < buckets; b++) {
        factors *f = &state->of[b];
        f->sent = sent;
        f->q = q;
        f->key = &key[b + 1 == buckets];
        f->bad = &bad[b];
        f->count = &count[b];
        f->warm = &state->warm[b];
        sent += f->sent_elements;
        q += f->q_elements;
        errors = place_bucket(state, f, errors);
    }
}

static yk_status allocate_on_host(powersgd *state, size_t exchanged_bytes, size_t error_bytes)
{
    yk_ddp *ddp = state->ddp;
    YK_TRY(yki_staging_open_host(&ddp->gradients));
    if (error_bytes && !(state->errors = yki_map(error_bytes)))
        return yki_error_memory(error_bytes, "PowerSGD's error feedback");
    if (!(state->notes = yki_calloc(1, state->note_bytes)))
        return yki_error_memory(state->note_bytes, "PowerSGD");
    /* Never 0 bytes, since every gradient is sent in one of the two forms. */
    return yk_group_alloc(ddp->group, exchanged_bytes, &state->shared);
}

static yk_status allocate_on_device(powersgd *state, size_t exchanged_bytes, size_t error_bytes)
{
    yki_device *device = state->device;
    void *errors, *notes;
    YK_TRY(yki_device_alloc(device, error_bytes, &errors));
    state->errors = errors;
    YK_TRY(yki_device_alloc(device, state->note_bytes, &notes));
    state->notes = notes;
    YK_TRY(yki_block_create(&state->step, device, sizeof(step_values)));
    YK_TRY(yki_stream_create(device, &state->stream));
    YK_TRY(yki_event_create(device, &state->done));
    return yki_staging_create(&state->exchanged, state->ddp->group, device, exchanged_bytes);
}

/* Copies of the small gradients, to where they are exchanged or back. */
static yk_status create_copies(const powersgd *state, const factors *f, bool back,
                               yki_sweep **sweep)
{
    yki_span *spans = yki_calloc(f->small_count, sizeof *spans);
    if (!spans)
        return yki_error_memory(f->small_count * sizeof *spans, "PowerSGD");
    for (size_t i = 0; i < f->small_count; i++) {
        const small_gradient *s = &f->small[i];
        spans[i] = (yki_span){.at = {back ? s->grad : s->packed, back ? s->packed : s->grad},
                              .count = (int64_t)s->count,
                              .dtype = YK_F32};
    }
    yk_status status = yki_sweep_create(sweep, state->device, spans, f->small_count);
    free(spans);
    return status;
}

static yk_status create_part(powersgd *state, yki_staged_part *part, const float *at,
                             size_t elements)
{
    YK_TRY(yki_staged_part_create(part, &state->exchanged, at, elements, YK_F32));
    part->stream = state->stream;
    return YK_OK;
}

static yk_status prepare_streams(powersgd *state, factors *f)
{
    const yki_span sent = {.at = {f->sent}, .count = (int64_t)f->sent_elements, .dtype = YK_F32};
    YK_TRY(create_part(state, &f->sent_part, f->sent, f->sent_elements));
    YK_TRY(create_part(state, &f->q_part, f->q, f->q_elements));
    if (f->small_count) {
        YK_TRY(create_copies(state, f, false, &f->pack));
        YK_TRY(create_copies(state, f, true, &f->unpack));
    }
    YK_TRY(yki_sweep_create(&f->look, state->device, &sent, 1));
    return yki_event_create(state->device, &f->ready);
}

static yk_status build_powersgd(powersgd *state)
{
    yk_ddp *ddp = state->ddp;
    size_t buckets = ddp->bucket_count;
    state->of = yki_calloc(buckets, sizeof *state->of);
    state->matrices = yki_calloc(ddp->used, sizeof *state->matrices);
    state->small = yki_calloc(ddp->used, sizeof *state->small);
    if (!state->of || !state->matrices || !state->small)
        return yki_error_memory(ddp->used * sizeof *state->matrices, "PowerSGD");
    state->note_bytes = buckets * (sizeof(double) + sizeof(int64_t) + sizeof(uint8_t));
    YK_TRY(sort_buckets(state, ddp));
    size_t exchanged_bytes = (state->sent_elements + state->q_elements) * sizeof(float);
    size_t error_bytes = state->error_elements * sizeof *state->errors;
    YK_TRY((state->device ? allocate_on_device : allocate_on_host)(state, exchanged_bytes,
                                                                   error_bytes));
    place_buckets(state, state->device ? state->exchanged.memory : state->shared);
    for (size_t b = 0; state->device && b < buckets; b++)
        YK_TRY(prepare_streams(state, &state->of[b]));
    return yk_broadcast(ddp->group, &state->options.random_seed, 1, YK_I64, 0, NULL);
}

/* The state that later steps need. */
static yki_hook_memory memory_of(const powersgd *state)
{
    return (yki_hook_memory){.name = "powersgd",
                             .device = state->device,
                             .errors = state->errors,
                             .error_elements = state->error_elements,
                             .factors = state->q,
                             .factor_elements = state->q_elements,
                             .warm = state->warm,
                             .buckets = state->ddp->bucket_count};
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

/* Without random_seed, of which rank 0's is used. */
static yk_status compare_options(const yk_ddp *ddp, const yk_powersgd_options *o)
{
    char text[384];
    snprintf(text, sizeof text,
             "powersgd\nmatrix_approximation_rank %lld\nstart_iter %lld\n"
             "min_compression_rate %.17g\nerror_feedback %d\nwarm_start %d\n"
             "orthogonalization_epsilon %.17g\niter %lld\n",
             (long long)o->matrix_approximation_rank, (long long)o->start_iter,
             o->min_compression_rate, o->error_feedback, o->warm_start,
             o->orthogonalization_epsilon, (long long)o->iter);
    return yki_hook_compare(ddp, text);
}

static yk_status register_powersgd(yk_ddp *ddp, const yk_powersgd_options *given)
{
    yk_powersgd_options options;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_powersgd_options, YK_POWERSGD_OPTIONS_INIT));
    YK_TRY(check_powersgd(&options));
    YK_TRY(compare_options(ddp, &options));
    powersgd *state = yki_calloc(1, sizeof *state);
    if (!state)
        return yki_error_memory(sizeof *state, "PowerSGD");
    state->options = options;
    state->ddp = ddp;
    state->iter = options.iter;
    state->inverse_ranks = 1.0F / (float)yk_group_size(ddp->group);
    if (ddp->bucket_count && yki_staging_is_in_streams(&ddp->gradients))
        state->device = yki_model_device(ddp->model);
    yk_status status = build_powersgd(state);
    if (status != YK_OK) {
        destroy_powersgd(state);
        return status;
    }
    yki_hook hook = {.run = powersgd_hook,
                     .begin = begin_backward,
                     .state = state,
                     .destroy = destroy_powersgd,
                     .memory = memory_of(state)};
    if (state->device) {
        hook.enter = enter_bucket;
        hook.land = land_buckets;
        hook.elements = exchanged_elements;
        hook.dtype = YK_F32;
    }
    return yki_hook_register(ddp, &hook);
}

yk_status yk_ddp_register_powersgd_hook(yk_ddp *ddp, const yk_powersgd_options *options)
{
    YKI_NOT_NULL(ddp);
    yki_joint joint = yki_joint_begin(ddp->group);
    return yki_hook_end(&joint, ddp, register_powersgd(ddp, options));
}

/* How often each bucket has been compressed, where that is counted. */
static yk_status add_up_stats(const powersgd *state, yk_powersgd_stats *stats)
{
    yki_host_view view;
    const yk_tensor counts = {.data = state->count,
                              .dtype = YK_I64,
                              .ndim = 1,
                              .dims = {(int64_t)state->ddp->bucket_count},
                              .device = state->device};
    YK_TRY(yki_host_view_open(&view, &counts, YKI_READ));
    for (size_t b = 0; b < state->ddp->bucket_count; b++) {
        const factors *f = &state->of[b];
        int64_t count = ((const int64_t *)view.data)[b];
        stats->elements_before += count * (int64_t)f->elements;
        stats->elements_after += count * (int64_t)(f->sent_elements + f->q_elements);
    }
    return yki_host_view_close(&view);
}

yk_powersgd_stats yk_ddp_powersgd_stats(const yk_ddp *ddp)
{
    yk_powersgd_stats stats = {0};
    if (ddp && ddp->hook.run == powersgd_hook)
        (void)add_up_stats(ddp->hook.state, &stats);
    return stats;
}
