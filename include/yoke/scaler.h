/*
 * Gradient scaling for fp16, torch.cuda.amp.GradScaler's: the loss is multiplied by a scale, so
 * that small gradients do not vanish below 2^-24; before the step they are divided by it again, and
 * a step whose gradients are not all finite is skipped and lowers the scale. In the loop:
 *
 *     yk_model_forward; yk_model_backward;     (the scale is in the gradient of the loss)
 *     yk_grad_scaler_unscale(scaler);          (only for who looks at gradients, e.g. to clip them)
 *     yk_grad_scaler_step(scaler, optimizer);  (instead of yk_optimizer_step)
 *     yk_grad_scaler_update(scaler);
 *
 * Gradients of several backwards add up under one scale, which moves in update alone. On a model
 * with yk_ddp, an infinite or NaN gradient on any rank makes all of them skip.
 */
#ifndef YOKE_SCALER_H
#define YOKE_SCALER_H

#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_grad_scaler yk_grad_scaler;

/** How the scale starts and adapts; the defaults are those of torch.cuda.amp.GradScaler. */
typedef struct yk_grad_scaler_options {
    size_t size;             /**< set by YK_GRAD_SCALER_OPTIONS_INIT */
    double init_scale;       /**< above 0 [65536] */
    double growth_factor;    /**< factor of a growing scale, above 1 [2] */
    double backoff_factor;   /**< factor after a skipped step, above 0 and below 1 [0.5] */
    int64_t growth_interval; /**< steps in a row without a skip before the scale grows [2000] */
    bool enabled;            /**< false: the scale is 1 and a step is yk_optimizer_step [true] */
} yk_grad_scaler_options;

/** The defaults of yk_grad_scaler_options. */
#define YK_GRAD_SCALER_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(yk_grad_scaler_options), 65536, 2, 0.5, 2000, true                                  \
    }

/* From here on the model's gradients are scaled. At most one a model; destroy it before the model.
 */
yk_status yk_grad_scaler_create(yk_grad_scaler **scaler, yk_model *model,
                                const yk_grad_scaler_options *options);
/* The model's next gradients are unscaled again. */
void yk_grad_scaler_destroy(yk_grad_scaler *scaler);

/*
 * Divides the gradients by the scale and looks for one that is not finite, in one pass; over all
 * ranks with yk_ddp: then it is collective. YK_ERROR_INVALID_ARGUMENT when that is done already
 * since the last update.
 */
yk_status yk_grad_scaler_unscale(yk_grad_scaler *scaler);
/*
 * Unscales, unless that is done, and steps; or, where a gradient was not finite, skips the step:
 * parameters and optimizer stay as they are and the gradients are spent.
 */
yk_status yk_grad_scaler_step(yk_grad_scaler *scaler, yk_optimizer *optimizer);
/* Adapts the scale to what was found since the last update; once a step, after it. */
yk_status yk_grad_scaler_update(yk_grad_scaler *scaler);

/* The scale of the next backward. */
double yk_grad_scaler_scale(const yk_grad_scaler *scaler);
/* Whether the last unscale found a gradient that was not finite, on any rank. */
bool yk_grad_scaler_found_inf(const yk_grad_scaler *scaler);

/* What GradScaler.state_dict() holds, for checkpoints. scale 0: none, as of a disabled one. */
typedef struct yk_grad_scaler_state {
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval;
    int64_t growth_tracker; /* steps since the scale last moved */
} yk_grad_scaler_state;

yk_grad_scaler_state yk_grad_scaler_get_state(const yk_grad_scaler *scaler);
/* Refuses what creating it would refuse. A disabled scaler, and a state with scale 0, change
 * nothing. */
yk_status yk_grad_scaler_set_state(yk_grad_scaler *scaler, const yk_grad_scaler_state *state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
