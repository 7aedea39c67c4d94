/*
 * The scale is an f32, as in torch.cuda.amp.GradScaler and its kernel amp_update_scale: it grows
 * after growth_interval good steps in a row, unless that would overflow, and backs off after each
 * skipped one. The inverse that gradients are multiplied by is made in f64 and rounded once.
 *
 * Invariant: the model's loss scale is ours; stage says what has been done since the last update.
 */
#include <yoke/scaler.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/trace.h"
#include "model/loss_scale.h"
#include "model/model_hooks.h"
#include "optim/chunks.h"
#include "optim/optimizer.h"
#include "optim/vectorised.h"

typedef enum stage { READY, UNSCALED, STEPPED } stage;

struct yk_grad_scaler {
    yki_reference reference;
    yk_model *model;
    yki_chunks chunks;
    bool enabled, found_inf;
    stage stage;
    float scale;
    double growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
};

/* ---- creation ------------------------------------------------------------------------------- */

static yk_status check_scaler_state(const yk_grad_scaler_state *s)
{
    if (!(s->scale > 0 && s->scale <= FLT_MAX && (float)s->scale > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: the scale must be above 0 and within the range of an f32, "
                         "not %g",
                         s->scale);
    if (!(s->growth_factor > 1 && isfinite(s->growth_factor)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: growth_factor must be above 1, not %g", s->growth_factor);
    if (!(s->backoff_factor > 0 && s->backoff_factor < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: backoff_factor must be above 0 and below 1, not %g",
                         s->backoff_factor);
    if (s->growth_interval < 1 || s->growth_tracker < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: growth_interval %lld after %lld good steps",
                         (long long)s->growth_interval, (long long)s->growth_tracker);
    return YK_OK;
}

static void adopt_state(yk_grad_scaler *scaler, const yk_grad_scaler_state *state)
{
    scaler->scale = (float)state->scale;
    scaler->growth_factor = state->growth_factor;
    scaler->backoff_factor = state->backoff_factor;
    scaler->growth_interval = state->growth_interval;
    scaler->growth_tracker = state->growth_tracker;
    yki_model_set_loss_scale(scaler->model, (double)scaler->scale);
}

static yk_status make_chunks(yki_chunks *chunks, const yk_model *model)
{
    size_t count = yk_model_parameter_count(model);
    yk_parameter_view *views = yki_calloc(count, sizeof *views);
    if (!views)
        return yki_error_memory(count * sizeof *views, "the grad scaler");
    for (size_t i = 0; i < count; i++)
        views[i] = yk_model_parameter(model, i);
    yk_status status = yki_chunks_create(chunks, views, count);
    if (status == YK_OK)
        yki_chunks_keep(chunks, yki_model_used(model));
    free(views);
    return status;
}

yk_status yk_grad_scaler_create(yk_grad_scaler **scaler, yk_model *model,
                                const yk_grad_scaler_options *options)
{
    YKI_NOT_NULL(scaler);
    *scaler = NULL;
    YKI_NOT_NULL(model);
    yk_grad_scaler_options o;
    YK_TRY(YKI_READ_OPTIONS(&o, options, yk_grad_scaler_options, YK_GRAD_SCALER_OPTIONS_INIT));
    yk_grad_scaler_state start = {.scale = o.init_scale,
                                  .growth_factor = o.growth_factor,
                                  .backoff_factor = o.backoff_factor,
                                  .growth_interval = o.growth_interval};
    YK_TRY(check_scaler_state(&start));
    yk_grad_scaler *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "the grad scaler");
    yki_reference_init(&made->reference);
    made->model = model;
    made->enabled = o.enabled;
    yk_status status = make_chunks(&made->chunks, model);
    if (status != YK_OK)
        goto discard;
    if (made->enabled) {
        status = yki_model_take_loss_scale(model);
        if (status != YK_OK)
            goto discard;
        adopt_state(made, &start);
    }
    yki_model_retain(model);
    *scaler = made;
    return YK_OK;
discard:
    yki_chunks_destroy(&made->chunks);
    free(made);
    return status;
}

void yki_grad_scaler_retain(yk_grad_scaler *scaler)
{
    yki_reference_retain(&scaler->reference);
}

void yk_grad_scaler_destroy(yk_grad_scaler *scaler)
{
    if (!scaler || !yki_reference_release(&scaler->reference))
        return;
    if (scaler->enabled)
        yki_model_release_loss_scale(scaler->model);
    yki_chunks_destroy(&scaler->chunks);
    yk_model_destroy(scaler->model);
    free(scaler);
}

/* ---- unscaling ------------------------------------------------------------------------------ */

/*
 * Multiplies and checks in one pass: the bits of an infinite or NaN number, without the sign, are
 * at least those of infinity when compared as integers. True when there is one.
 */
#define DEFINE_UNSCALE(name, real, bits, infinity)                                                 \
    YKI_VECTORISED static bool name(real *grad, int64_t count, real inverse)                       \
    {                                                                                              \
        bits largest = 0;                                                                          \
        _Pragma("omp simd reduction(max : largest)") for (int64_t i = 0; i < count; i++)           \
        {                                                                                          \
            bits magnitude;                                                                        \
            memcpy(&magnitude, &grad[i], sizeof magnitude);                                        \
            magnitude &= (bits)-1 >> 1;                                                            \
            largest = magnitude > largest ? magnitude : largest;                                   \
            grad[i] *= inverse;                                                                    \
        }                                                                                          \
        return largest >= (infinity);                                                              \
    }
DEFINE_UNSCALE(unscale_f32, float, uint32_t, 0x7f800000u)
DEFINE_UNSCALE(unscale_f64, double, uint64_t, 0x7ff0000000000000u)

static bool unscale_chunk(const yk_grad_scaler *scaler, const yki_chunk *chunk, double inverse)
{
    yk_tensor grad = yk_model_parameter(scaler->model, chunk->parameter).grad;
    if (grad.dtype == YK_F64)
        return unscale_f64((double *)grad.data + chunk->begin, chunk->count, inverse);
    return unscale_f32((float *)grad.data + chunk->begin, chunk->count, (float)inverse);
}

yk_status yk_grad_scaler_unscale(yk_grad_scaler *scaler)
{
    YKI_NOT_NULL(scaler);
    if (!scaler->enabled)
        return YK_OK;
    if (scaler->stage != READY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: gradients are unscaled already since the last update");
    double begin = yki_trace_begin();
    double inverse = 1 / (double)scaler->scale, found = 0;
#pragma omp parallel for schedule(static) reduction(max : found)
    for (size_t i = 0; i < scaler->chunks.count; i++)
        if (unscale_chunk(scaler, &scaler->chunks.of[i], inverse))
            found = 1;
    scaler->stage = UNSCALED;
    YK_TRY(yki_model_reduce_maximum(scaler->model, &found));
    scaler->found_inf = found != 0;
    YKI_TRACE_END(begin, YKI_NO_ARGS, "unscale gradients");
    return YK_OK;
}

/* ---- stepping and adapting ------------------------------------------------------------------ */

yk_status yk_grad_scaler_step(yk_grad_scaler *scaler, yk_optimizer *optimizer)
{
    YKI_NOT_NULL(scaler);
    YKI_NOT_NULL(optimizer);
    if (optimizer->model != scaler->model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: the optimizer is another model's");
    if (!scaler->enabled)
        return yk_optimizer_step(optimizer);
    if (scaler->stage == STEPPED)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: a second step since the last update");
    if (scaler->stage == READY)
        YK_TRY(yk_grad_scaler_unscale(scaler));
    scaler->stage = STEPPED;
    if (!scaler->found_inf)
        return yk_optimizer_step(optimizer);
    yk_model_zero_grad(scaler->model);
    return YK_OK;
}

yk_status yk_grad_scaler_update(yk_grad_scaler *scaler)
{
    YKI_NOT_NULL(scaler);
    if (!scaler->enabled)
        return YK_OK;
    if (scaler->stage == READY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: update without unscale or step before it");
    if (scaler->found_inf) {
        scaler->scale = (float)((double)scaler->scale * scaler->backoff_factor);
        scaler->growth_tracker = 0;
    } else if (++scaler->growth_tracker == scaler->growth_interval) {
        float grown = (float)((double)scaler->scale * scaler->growth_factor);
        if (isfinite(grown))
            scaler->scale = grown;
        scaler->growth_tracker = 0;
    }
    yki_model_set_loss_scale(scaler->model, (double)scaler->scale);
    scaler->stage = READY;
    return YK_OK;
}

/* ---- looking, saving, restoring ------------------------------------------------------------- */

double yk_grad_scaler_scale(const yk_grad_scaler *scaler)
{
    return scaler && scaler->enabled ? (double)scaler->scale : 1;
}

bool yk_grad_scaler_found_inf(const yk_grad_scaler *scaler)
{
    return scaler && scaler->found_inf;
}

yk_grad_scaler_state yk_grad_scaler_get_state(const yk_grad_scaler *scaler)
{
    if (!scaler || !scaler->enabled)
        return (yk_grad_scaler_state){0};
    return (yk_grad_scaler_state){.enabled = true,
                                  .scale = (double)scaler->scale,
                                  .growth_factor = scaler->growth_factor,
                                  .backoff_factor = scaler->backoff_factor,
                                  .growth_interval = scaler->growth_interval,
                                  .growth_tracker = scaler->growth_tracker};
}

yk_status yk_grad_scaler_set_state(yk_grad_scaler *scaler, const yk_grad_scaler_state *state)
{
    YKI_NOT_NULL(scaler);
    YKI_NOT_NULL(state);
    if (!scaler->enabled || !state->enabled)
        return YK_OK;
    YK_TRY(check_scaler_state(state));
    adopt_state(scaler, state);
    return YK_OK;
}
