/*
 * Optimizers, torch.optim's arithmetic. A step reads the model's gradients, updates its parameters
 * and marks the gradients as spent: the next backward sets them anew. Parameters that the loss does
 * not depend on are left alone, as PyTorch leaves those without a gradient.
 */
#ifndef YOKE_OPTIM_H
#define YOKE_OPTIM_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_optimizer yk_optimizer;

/** Hyperparameters of torch.optim.SGD. */
typedef struct yk_sgd_options {
    size_t size;         /**< set by YK_SGD_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1e-3] */
    double momentum;     /**< at least 0; 0 keeps no momentum buffer [0] */
    double dampening;    /**< of the momentum [0] */
    double weight_decay; /**< at least 0 [0] */
    bool nesterov;       /**< requires a momentum above 0 and a dampening of 0 [false] */
} yk_sgd_options;

/** The defaults of yk_sgd_options: plain gradient descent with a learning rate of 1e-3. */
#define YK_SGD_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(yk_sgd_options), 1e-3, 0, 0, 0, false                                               \
    }

/** Hyperparameters of torch.optim.Adam and AdamW. */
typedef struct yk_adam_options {
    size_t size;         /**< set by YK_ADAM_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1e-3] */
    double beta1;        /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;        /**< decay of the squared gradient's mean, 0 <= beta2 < 1 [0.999] */
    double eps;          /**< added to the denominator, at least 0 [1e-8] */
    double weight_decay; /**< at least 0 [0] */
    bool decoupled;      /**< AdamW: decay the weights instead of adding to gradients [false] */
} yk_adam_options;

/** The defaults of yk_adam_options, which are those of torch.optim.Adam. */
#define YK_ADAM_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_adam_options), 1e-3, 0.9, 0.999, 1e-8, 0, false                                  \
    }

/* The optimizer keeps a pointer to the model: destroy it first. */
yk_status yk_sgd_create(yk_optimizer **optimizer, yk_model *model, const yk_sgd_options *options);
yk_status yk_adam_create(yk_optimizer **optimizer, yk_model *model, const yk_adam_options *options);
void yk_optimizer_destroy(yk_optimizer *optimizer);

yk_status yk_optimizer_step(yk_optimizer *optimizer);

/* The rate of the first group. Setting it sets every group's, and what schedules start from. */
double yk_optimizer_lr(const yk_optimizer *optimizer);
void yk_optimizer_set_lr(yk_optimizer *optimizer, double lr);
/* "sgd", "adam" or "adamw". */
const char *yk_optimizer_name(const yk_optimizer *optimizer);
/* Steps taken so far; set when a checkpoint is loaded. */
int64_t yk_optimizer_steps(const yk_optimizer *optimizer);
void yk_optimizer_set_steps(yk_optimizer *optimizer, int64_t steps);
/*
 * The state of one parameter as torch.optim names it ("momentum_buffer", "exp_avg",
 * "exp_avg_sq"): slot counts from 0; false when there is no such slot, and where another rank has
 * it (zero.h). The tensor is a live view.
 */
bool yk_optimizer_state(const yk_optimizer *optimizer, size_t parameter, size_t slot,
                        const char **name, yk_tensor *tensor);
/* Memory of the state that this rank keeps. */
size_t yk_optimizer_state_bytes(const yk_optimizer *optimizer);
/*
 * Hyperparameters of the first group: "lr" first, then torch.optim's names ("betas" is "beta1" and
 * "beta2"; "nesterov" is 0 or 1). The first is false past the last one. Setting one sets it in
 * every group, or in none: it refuses an unknown name and a value that creating the optimizer would
 * refuse.
 */
bool yk_optimizer_hyperparameter(const yk_optimizer *optimizer, size_t index, const char **name,
                                 double *value);
yk_status yk_optimizer_set_hyperparameter(yk_optimizer *optimizer, const char *name, double value);

/* ---- parameter groups: torch.optim's param_groups ----------------------------------------- */

/* Whether a group is to have this parameter; context is the caller's. */
typedef bool (*yk_parameter_filter)(const yk_parameter_view *parameter, const void *context);
/* Every parameter of at most one dimension: weights and biases of norms, and all other biases. */
bool yk_filter_norms_and_biases(const yk_parameter_view *parameter, const void *context);
/* By name: context is a shell pattern (fnmatch) such as "layer4.*" or "*.bias". */
bool yk_filter_name(const yk_parameter_view *parameter, const void *context);

/*
 * A new optimizer has one group, number 0, of all parameters. This moves those of group 0 that the
 * filter wants into a new group, which starts with group 0's hyperparameters; *group (may be NULL)
 * is its number, for yk_optimizer_set_group_hyperparameter. YK_ERROR_INVALID_ARGUMENT when the
 * filter wants none of them, or all.
 */
yk_status yk_optimizer_add_param_group(yk_optimizer *optimizer, yk_parameter_filter filter,
                                       const void *context, size_t *group);
size_t yk_optimizer_group_count(const yk_optimizer *optimizer);
/* The group that this parameter is in. */
size_t yk_optimizer_group_of(const yk_optimizer *optimizer, size_t parameter);
/* As yk_optimizer_hyperparameter and its setter, of one group. */
bool yk_optimizer_group_hyperparameter(const yk_optimizer *optimizer, size_t group, size_t index,
                                       const char **name, double *value);
yk_status yk_optimizer_set_group_hyperparameter(yk_optimizer *optimizer, size_t group,
                                                const char *name, double value);

/* ---- gradient clipping --------------------------------------------------------------------- */

/*
 * torch.nn.utils.clip_grad_norm_: *total_norm (may be NULL) is the 2-norm of all gradients taken as
 * one vector; where it exceeds max_norm they are all scaled by max_norm / (*total_norm + 1e-6).
 * Between backward and step; with loss scaling, on unscaled gradients. Under DDP every rank has the
 * same gradients and comes to the same bits: nothing is communicated. Not a number, when a gradient
 * is not: the gradients are then scaled by that, as PyTorch does.
 */
yk_status yk_clip_grad_norm(yk_optimizer *optimizer, double max_norm, double *total_norm);

/* ---- an average of the weights ------------------------------------------------------------- */

/*
 * The exponential moving average of a model's weights, torch.optim.swa_utils.AveragedModel's: the
 * first update copies them, each further one moves the average by 1 - decay towards them.
 */
typedef struct yk_ema yk_ema;

/** How weights are averaged. */
typedef struct yk_ema_options {
    size_t size;  /**< set by YK_EMA_OPTIONS_INIT */
    double decay; /**< weight of the old average, 0 <= decay < 1 [0.999] */
    bool
        use_buffers; /**< also average floating-point buffers such as running statistics, as
                          torchvision's training does; otherwise the model's own are used [false] */
} yk_ema_options;

/** The defaults of yk_ema_options. */
#define YK_EMA_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(yk_ema_options), 0.999, false                                                       \
    }

/*
 * Of the model that the optimizer is for. The optimizer keeps a pointer to it, so that checkpoints
 * hold the average beside the optimizer's state (under "model_ema", as torchvision's do): destroy
 * it first. Destroyed while swapped in, the average is what the model goes on with.
 */
yk_status yk_ema_create(yk_ema **ema, yk_optimizer *optimizer, const yk_ema_options *options);
void yk_ema_destroy(yk_ema *ema);
/* After a step. */
yk_status yk_ema_update(yk_ema *ema);
/* Exchanges the model's weights and their average: once to evaluate or save the average, once more
 * to go on. In between, updates, steps' results and checkpoints would be wrong and are refused. */
yk_status yk_ema_swap(yk_ema *ema);

double yk_ema_decay(const yk_ema *ema);
/* Updates so far (n_averaged); set when a checkpoint is loaded. */
int64_t yk_ema_updates(const yk_ema *ema);
void yk_ema_set_updates(yk_ema *ema, int64_t updates);
/* The average of a parameter or, behind the parameters, of a buffer: a live view, which for a
 * buffer that is not averaged is the model's own. */
yk_tensor yk_ema_value(const yk_ema *ema, size_t index);
/* The optimizer's, or NULL. */
yk_ema *yk_optimizer_ema(const yk_optimizer *optimizer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
