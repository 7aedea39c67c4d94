/**
 * @file
 * Gradient scaling for fp16 (Micikevicius et al., "Mixed Precision Training", 2017), as
 * torch.cuda.amp.GradScaler does it. The gradient of the loss is multiplied by a scale, so that
 * small gradients do not vanish below 2^-24. Before the step the gradients are divided by it again;
 * a step whose gradients are not all finite is skipped and lowers the scale. In the training loop:
 *
 *     yk_model_forward; yk_model_backward;     (the scale is in the gradients)
 *     yk_grad_scaler_unscale(scaler);          (only needed to look at gradients, e.g. to clip)
 *     yk_grad_scaler_step(scaler, optimizer);  (instead of yk_optimizer_step)
 *     yk_grad_scaler_update(scaler);
 *
 * Gradients of several backwards accumulate under one scale, which only update changes. On a model
 * with yk_ddp, an infinite or NaN gradient on any rank makes all ranks skip the step.
 */
#ifndef YOKE_SCALER_H
#define YOKE_SCALER_H

#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A grad scaler. */
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

/**
 * Scales the model's gradients from the next backward on. Keeps the model alive; the two can be
 * destroyed in any order. On failure *scaler is NULL: YK_ERROR_INVALID_ARGUMENT for options out of
 * range, for a second scaler of one model, and for a model of which nothing is trained.
 */
yk_status yk_grad_scaler_create(yk_grad_scaler **scaler, yk_model *model,
                                const yk_grad_scaler_options *options);
/** Gives the scaler up; the model's next gradients are not scaled. Accepts NULL. */
void yk_grad_scaler_destroy(yk_grad_scaler *scaler);

/**
 * Divides the gradients by the scale and looks for values that are not finite, in one pass. With
 * yk_ddp it is collective and looks at all ranks. YK_ERROR_INVALID_ARGUMENT when it has been called
 * already since the last update.
 */
yk_status yk_grad_scaler_unscale(yk_grad_scaler *scaler);
/**
 * Unscales the gradients, unless that has been done, and calls yk_optimizer_step. If a gradient is
 * not finite it skips the step: parameters and optimizer stay as they are, and the gradients are
 * spent. A step that the optimizer refuses can be taken later. YK_ERROR_INVALID_ARGUMENT for a
 * second step since the last update, and after a backward that has followed
 * yk_grad_scaler_unscale: then zero the gradients and update, and run the step again.
 */
yk_status yk_grad_scaler_step(yk_grad_scaler *scaler, yk_optimizer *optimizer);
/** Adapts the scale to what unscaling has found. Call it once after each step. */
yk_status yk_grad_scaler_update(yk_grad_scaler *scaler);

/** The scale of the next backward; 1 when the scaler is not enabled, and for NULL. */
double yk_grad_scaler_scale(const yk_grad_scaler *scaler);
/** Whether the last unscaling found a gradient that is not finite, on any rank. */
bool yk_grad_scaler_found_inf(const yk_grad_scaler *scaler);

/** What GradScaler.state_dict() holds. */
typedef struct yk_grad_scaler_state {
    bool enabled;            /**< false: there is no state, as PyTorch's is empty for a scaler that
                                  is not enabled; the other members are 0 */
    double scale;            /**< of the next backward */
    double growth_factor;    /**< see yk_grad_scaler_options */
    double backoff_factor;   /**< see yk_grad_scaler_options */
    int64_t growth_interval; /**< see yk_grad_scaler_options */
    int64_t growth_tracker;  /**< steps since the scale last changed */
} yk_grad_scaler_state;

/** The state, for a checkpoint; not enabled for NULL. */
yk_grad_scaler_state yk_grad_scaler_get_state(const yk_grad_scaler *scaler);
/**
 * Restores a state. YK_ERROR_INVALID_ARGUMENT for values that creating a scaler would refuse. Does
 * nothing if the scaler or the state is not enabled.
 */
yk_status yk_grad_scaler_set_state(yk_grad_scaler *scaler, const yk_grad_scaler_state *state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
