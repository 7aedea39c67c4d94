/*
 * The scale is an f32, as in torch.cuda.amp.GradScaler and its kernel amp_update_scale: it grows
 * after growth_interval good steps in a row, unless that would overflow, and backs off after each
 * skipped one. The inverse that gradients are multiplied by is made in f64 and rounded once.
 *
 * Whether a gradient is not finite is known at once where the device is the host's or the ranks
 * have to agree on it through the host. Otherwise it is undecided: the device itself leaves the
 * step out, and the host asks when it has to know, at the latest when the next backward needs the
 * scale. By then the next forward has been entered, so the device is never without work.
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
#include "optim/gradients.h"
#include "optim/optimizer.h"

typedef enum stage { READY, UNSCALED, STEPPED } stage;

struct yk_grad_scaler {
    yki_reference reference;
    yk_model *model;
    yki_sweep *gradients;
    yki_block unscaling;
    yki_late found; /* what the device has found */
    bool enabled, found_inf;
    bool undecided;          /* found has not been read */
    bool adapts;             /* the scale is to be adapted once it is */
    yk_optimizer *optimizer; /* whose step depends on it, or NULL */
    stage stage;
    float scale;
    double growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
};

/* What YKI_SWEEP_UNSCALE reads and, in a place that it does not read, writes. */
enum { INVERSE, FOUND };

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
                         "grad scaler: growth_interval is %lld and growth_tracker %lld, expected 1 "
                         "or more and 0 or more",
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

/* ---- what the device has found -------------------------------------------------------------- */

static void adapt_scale(yk_grad_scaler *scaler)
{
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
}

/* Waits for what was found, and does what depends on it. */
static yk_status settle(void *context)
{
    yk_grad_scaler *scaler = context;
    const void *found;
    if (!scaler->undecided)
        return YK_OK;
    scaler->undecided = false;
    yk_status status = yki_late_read(&scaler->found, &found);
    scaler->found_inf = status == YK_OK && *(const double *)found != 0;
    if (scaler->optimizer)
        yki_optimizer_end_step(scaler->optimizer, !scaler->found_inf);
    scaler->optimizer = NULL;
    if (scaler->adapts)
        adapt_scale(scaler);
    scaler->adapts = false;
    return status;
}

static void settle_const(const yk_grad_scaler *scaler)
{
    if (scaler)
        settle((void *)(uintptr_t)scaler);
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
    yk_status status = yki_gradients_create(&made->gradients, model);
    if (status != YK_OK)
        goto discard;
    status = yki_block_create(&made->unscaling, yki_model_device(model),
                              YKI_SWEEP_COEFFICIENTS * sizeof(double));
    if (status != YK_OK)
        goto discard;
    status = yki_late_create(&made->found, yki_model_device(model), sizeof(double));
    if (status != YK_OK)
        goto discard;
    if (made->enabled) {
        status = yki_model_take_loss_scale(model, settle, made);
        if (status != YK_OK)
            goto discard;
        adopt_state(made, &start);
    }
    yki_model_retain(model);
    *scaler = made;
    return YK_OK;
discard:
    yki_sweep_destroy(made->gradients);
    yki_block_destroy(&made->unscaling);
    yki_late_destroy(&made->found);
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
    yki_device *device = scaler->unscaling.device;
    settle(scaler);
    if (scaler->enabled)
        yki_model_release_loss_scale(scaler->model);
    yki_stream_wait(device, yki_device_stream(device));
    yki_sweep_destroy(scaler->gradients);
    yki_block_destroy(&scaler->unscaling);
    yki_late_destroy(&scaler->found);
    yk_model_destroy(scaler->model);
    free(scaler);
}

/* ---- unscaling ------------------------------------------------------------------------------ */

/* *agreed: the ranks have, in the device's stream. */
static yk_status unscale(yk_grad_scaler *scaler, bool *agreed)
{
    yki_stream *stream = yki_device_stream(scaler->unscaling.device);
    double *coefficients = scaler->unscaling.memory;
    void *room;
    YK_TRY(yki_block_open(&scaler->unscaling, &room));
    memset(room, 0, scaler->unscaling.bytes);
    ((double *)room)[INVERSE] = 1 / (double)scaler->scale;
    YK_TRY(yki_block_send(&scaler->unscaling, stream));
    yki_gradients_place(scaler->gradients, scaler->model);
    YK_TRY(yki_sweep_run(scaler->gradients, YKI_SWEEP_UNSCALE, coefficients, &coefficients[FOUND],
                         stream));
    YK_TRY(yki_model_reduce_maximum_in_stream(scaler->model, &coefficients[FOUND], agreed));
    return yki_late_take(&scaler->found, &coefficients[FOUND], stream);
}

/* Whether any rank has found a gradient that is not finite. */
static yk_status decide(yk_grad_scaler *scaler)
{
    YK_TRY(settle(scaler));
    double found = scaler->found_inf;
    YK_TRY(yki_model_reduce_maximum(scaler->model, &found));
    scaler->found_inf = found != 0;
    return YK_OK;
}

yk_status yk_grad_scaler_unscale(yk_grad_scaler *scaler)
{
    YKI_NOT_NULL(scaler);
    if (!scaler->enabled)
        return YK_OK;
    if (scaler->stage != READY)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: gradients are unscaled already since the last update");
    YK_TRY(yki_model_check_shared_step(scaler->model, "grad scaler"));
    double begin = yki_trace_begin();
    bool agreed;
    YK_TRY(settle(scaler));
    YK_TRY(unscale(scaler, &agreed));
    yki_model_note_unscaled(scaler->model);
    scaler->stage = UNSCALED;
    scaler->undecided = true;
    if (yki_device_is_host(scaler->unscaling.device) ||
        (yki_model_reduces_maximum(scaler->model) && !agreed))
        YK_TRY(decide(scaler));
    YKI_TRACE_END(begin, YKI_NO_ARGS, "unscale gradients");
    return YK_OK;
}

/* Leaves the step out if it is known to be bad, or lets the device do so where it is not. */
static yk_status step_unless_found(yk_grad_scaler *scaler, yk_optimizer *optimizer)
{
    const double *coefficients = scaler->unscaling.memory;
    if (scaler->undecided) {
        YK_TRY(yki_optimizer_step_unless(optimizer, &coefficients[FOUND], settle, scaler));
        scaler->optimizer = optimizer;
        return YK_OK;
    }
    if (!scaler->found_inf)
        return yk_optimizer_step(optimizer);
    YK_TRY(yki_optimizer_check_step(optimizer));
    yk_model_zero_grad(scaler->model);
    return YK_OK;
}

/* ---- stepping and adapting ------------------------------------------------------------------ */

yk_status yk_grad_scaler_step(yk_grad_scaler *scaler, yk_optimizer *optimizer)
{
    YKI_NOT_NULL(scaler);
    YKI_NOT_NULL(optimizer);
    if (optimizer->model != scaler->model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: the optimizer belongs to another model");
    if (!scaler->enabled)
        return yk_optimizer_step(optimizer);
    if (scaler->stage == STEPPED)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: a second step since the last update");
    if (scaler->stage == READY)
        YK_TRY(yk_grad_scaler_unscale(scaler));
    else if (yki_model_is_scaled(scaler->model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "grad scaler: a backward since the gradients were unscaled: call "
                         "yk_grad_scaler_unscale after the last backward of a step");
    YK_TRY(step_unless_found(scaler, optimizer));
    scaler->stage = STEPPED;
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
    scaler->stage = READY;
    if (scaler->undecided)
        scaler->adapts = true;
    else
        adapt_scale(scaler);
    return YK_OK;
}

/* ---- looking, saving, restoring ------------------------------------------------------------- */

double yk_grad_scaler_scale(const yk_grad_scaler *scaler)
{
    settle_const(scaler);
    return scaler && scaler->enabled ? (double)scaler->scale : 1;
}

bool yk_grad_scaler_found_inf(const yk_grad_scaler *scaler)
{
    settle_const(scaler);
    return scaler && scaler->found_inf;
}

yk_grad_scaler_state yk_grad_scaler_get_state(const yk_grad_scaler *scaler)
{
    if (!scaler || !scaler->enabled)
        return (yk_grad_scaler_state){0};
    settle_const(scaler);
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
    YK_TRY(settle(scaler));
    adopt_state(scaler, state);
    return YK_OK;
}
