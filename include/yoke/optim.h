/**
 * @file
 * Optimizers with the arithmetic of torch.optim. A step reads the model's gradients, updates its
 * parameters and marks the gradients as spent, so that the next backward overwrites them.
 * Parameters that the loss does not depend on are left alone, as PyTorch leaves those without a
 * gradient.
 *
 * One thread at a time uses an optimizer and its model. Functions that return a yk_status refuse
 * NULL with YK_ERROR_INVALID_ARGUMENT.
 */
#ifndef YOKE_OPTIM_H
#define YOKE_OPTIM_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** An optimizer: the parameters of a model, their state and the rule that updates them. */
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

/** Hyperparameters of torch.optim.Adam (Kingma, Ba 2014) and AdamW (Loshchilov, Hutter 2017), both
 * also as AMSGrad (Reddi, Kale, Kumar 2018). */
typedef struct yk_adam_options {
    size_t size;         /**< set by YK_ADAM_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1e-3] */
    double beta1;        /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;        /**< decay of the squared gradient's mean, 0 <= beta2 < 1 [0.999] */
    double eps;          /**< added to the denominator, at least 0 [1e-8] */
    double weight_decay; /**< at least 0 [0] */
    bool decoupled;      /**< AdamW: decay the weights instead of adding to gradients [false] */
    bool amsgrad;        /**< divide by the largest mean of squares so far, which is kept, too
                              [false] */
} yk_adam_options;

/** The defaults of yk_adam_options, which are those of torch.optim.Adam. */
#define YK_ADAM_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_adam_options), 1e-3, 0.9, 0.999, 1e-8, 0, false, false                           \
    }

/** Hyperparameters of torch.optim.NAdam (Dozat 2016): Adam with Nesterov momentum. */
typedef struct yk_nadam_options {
    size_t size;           /**< set by YK_NADAM_OPTIONS_INIT */
    double lr;             /**< learning rate, at least 0 [2e-3] */
    double beta1;          /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;          /**< decay of the squared gradient's mean, 0 <= beta2 < 1 [0.999] */
    double eps;            /**< added to the denominator, at least 0 [1e-8] */
    double weight_decay;   /**< at least 0 [0] */
    double momentum_decay; /**< how fast the momentum grows from half of beta1 to beta1, at least 0
                                [4e-3] */
    bool decoupled_weight_decay; /**< decay the weights, as AdamW does, instead of adding to
                                      gradients [false] */
} yk_nadam_options;

/** The defaults of yk_nadam_options, which are those of torch.optim.NAdam. */
#define YK_NADAM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_nadam_options), 2e-3, 0.9, 0.999, 1e-8, 0, 4e-3, false                           \
    }

/** Hyperparameters of torch.optim.RAdam (Liu et al. 2020): Adam whose first steps have a rate that
 * does not adapt, until the mean of squares is known well enough. */
typedef struct yk_radam_options {
    size_t size;         /**< set by YK_RADAM_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1e-3] */
    double beta1;        /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;        /**< decay of the squared gradient's mean, 0 <= beta2 < 1 [0.999] */
    double eps;          /**< added to the denominator, at least 0 [1e-8] */
    double weight_decay; /**< at least 0 [0] */
    bool decoupled_weight_decay; /**< decay the weights, as AdamW does, instead of adding to
                                      gradients [false] */
} yk_radam_options;

/** The defaults of yk_radam_options, which are those of torch.optim.RAdam. */
#define YK_RADAM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_radam_options), 1e-3, 0.9, 0.999, 1e-8, 0, false                                 \
    }

/** Hyperparameters of torch.optim.Adamax (Kingma, Ba 2014): Adam that divides by the largest
 * gradient so far, which fades, instead of the root of the mean of squares. */
typedef struct yk_adamax_options {
    size_t size;         /**< set by YK_ADAMAX_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [2e-3] */
    double beta1;        /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;        /**< decay of the largest gradient, 0 <= beta2 < 1 [0.999] */
    double eps;          /**< added to the size of each gradient, at least 0 [1e-8] */
    double weight_decay; /**< at least 0 [0] */
} yk_adamax_options;

/** The defaults of yk_adamax_options, which are those of torch.optim.Adamax. */
#define YK_ADAMAX_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_adamax_options), 2e-3, 0.9, 0.999, 1e-8, 0                                       \
    }

/** Hyperparameters of torch.optim.Adagrad (Duchi, Hazan, Singer 2011). */
typedef struct yk_adagrad_options {
    size_t size;         /**< set by YK_ADAGRAD_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [0.01] */
    double lr_decay;     /**< the rate of step t, from 1, is lr / (1 + (t - 1) lr_decay); at least 0
                              [0] */
    double weight_decay; /**< at least 0 [0] */
    double initial_accumulator_value; /**< what the sums of squares start from, at least 0 [0] */
    double eps;                       /**< added to the denominator, at least 0 [1e-10] */
} yk_adagrad_options;

/** The defaults of yk_adagrad_options, which are those of torch.optim.Adagrad. */
#define YK_ADAGRAD_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_adagrad_options), 1e-2, 0, 0, 0, 1e-10                                           \
    }

/** Hyperparameters of torch.optim.Adadelta (Zeiler 2012): gradients are divided by the root of
 * their mean square, and multiplied by that of earlier updates. */
typedef struct yk_adadelta_options {
    size_t size;         /**< set by YK_ADADELTA_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1] */
    double rho;          /**< decay of both means of squares, 0 <= rho < 1 [0.9] */
    double eps;          /**< added to the means before their roots, at least 0 [1e-6] */
    double weight_decay; /**< at least 0 [0] */
} yk_adadelta_options;

/** The defaults of yk_adadelta_options, which are those of torch.optim.Adadelta. */
#define YK_ADADELTA_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_adadelta_options), 1, 0.9, 1e-6, 0                                               \
    }

/** Hyperparameters of torch.optim.RMSprop (Hinton 2012). */
typedef struct yk_rmsprop_options {
    size_t size;         /**< set by YK_RMSPROP_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [0.01] */
    double alpha;        /**< decay of the squared gradient's mean, 0 <= alpha < 1 [0.99] */
    double eps;          /**< added to the denominator, at least 0 [1e-8] */
    double weight_decay; /**< at least 0 [0] */
    double momentum;     /**< at least 0; 0 keeps no momentum buffer [0] */
    bool centered;       /**< divide by the gradient's deviation from its running mean, which is
                              kept, too [false] */
} yk_rmsprop_options;

/** The defaults of yk_rmsprop_options, which are those of torch.optim.RMSprop. */
#define YK_RMSPROP_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_rmsprop_options), 1e-2, 0.99, 1e-8, 0, 0, false                                  \
    }

/**
 * Hyperparameters of LARS (You, Gitman, Ginsburg 2017): SGD for large batches. The gradient of each
 * tensor, with its weight decay, is scaled to trust_coefficient times the norm of its values. As in
 * timm, parameters without weight decay are updated by SGD alone: put norms and biases into a group
 * without.
 */
typedef struct yk_lars_options {
    size_t size;              /**< set by YK_LARS_OPTIONS_INIT */
    double lr;                /**< learning rate, at least 0 [1] */
    double momentum;          /**< at least 0; 0 keeps no momentum buffer [0.9] */
    double weight_decay;      /**< at least 0 [1e-4] */
    bool nesterov;            /**< requires a momentum above 0 [false] */
    double trust_coefficient; /**< at least 0 [0.001] */
} yk_lars_options;

/** The defaults of yk_lars_options. */
#define YK_LARS_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_lars_options), 1, 0.9, 1e-4, false, 0.001                                        \
    }

/**
 * Hyperparameters of LAMB (You et al. 2019): AdamW for large batches. The update of each tensor,
 * with its weight decay, is scaled to lr times the norm of its values. As in timm and apex,
 * parameters without weight decay are updated by Adam alone.
 */
typedef struct yk_lamb_options {
    size_t size;         /**< set by YK_LAMB_OPTIONS_INIT */
    double lr;           /**< learning rate, at least 0 [1e-3] */
    double beta1;        /**< decay of the gradient's running mean, 0 <= beta1 < 1 [0.9] */
    double beta2;        /**< decay of the squared gradient's mean, 0 <= beta2 < 1 [0.999] */
    double eps;          /**< added to the denominator, at least 0 [1e-6] */
    double weight_decay; /**< at least 0 [0.01] */
} yk_lamb_options;

/** The defaults of yk_lamb_options. */
#define YK_LAMB_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_lamb_options), 1e-3, 0.9, 0.999, 1e-6, 0.01                                      \
    }

/** Hyperparameters of Muon (Jordan et al. 2024) for convolutions' filters, of SGD for the rest. */
typedef struct yk_muon_options {
    size_t size;         /**< set by YK_MUON_OPTIONS_INIT */
    double lr;           /**< learning rate of the filters, at least 0 [0.02] */
    double momentum;     /**< of the filters, above 0 [0.95] */
    double weight_decay; /**< of the filters: a step shrinks them by lr times it; at least 0 [0] */
    bool nesterov;       /**< of the filters [true] */
    int ns_steps;        /**< Newton-Schulz steps towards an orthogonal update, 1 to 99 [5] */
    bool normalize;      /**< give the filters of a convolution, unless they are all 0, the joint
                              norm sqrt(their number) before each step, in place of weight decay
                              [false] */
    yk_sgd_options sgd;  /**< of all other parameters; with a momentum above 0, without dampening
                              [lr 1e-3, momentum 0.9, nesterov] */
} yk_muon_options;

/** The defaults of yk_muon_options. */
#define YK_MUON_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_muon_options), 0.02, 0.95, 0, true, 5, false,                                    \
        {                                                                                          \
            sizeof(yk_sgd_options), 1e-3, 0.9, 0, 0, true                                          \
        }                                                                                          \
    }

/**
 * Creates an optimizer for all parameters of the model, which it keeps alive: the two can be
 * destroyed in any order. On failure *optimizer is NULL: YK_ERROR_INVALID_ARGUMENT for a
 * hyperparameter out of its range and for a model without a trained parameter that its loss depends
 * on, YK_ERROR_UNSUPPORTED for parameters other than float32 and float64, YK_ERROR_OUT_OF_MEMORY.
 */
yk_status yk_sgd_create(yk_optimizer **optimizer, yk_model *model, const yk_sgd_options *options);
/** Likewise, for Adam and AdamW. */
yk_status yk_adam_create(yk_optimizer **optimizer, yk_model *model, const yk_adam_options *options);
/** Likewise, for NAdam. */
yk_status yk_nadam_create(yk_optimizer **optimizer, yk_model *model,
                          const yk_nadam_options *options);
/** Likewise, for RAdam. */
yk_status yk_radam_create(yk_optimizer **optimizer, yk_model *model,
                          const yk_radam_options *options);
/** Likewise, for Adamax. */
yk_status yk_adamax_create(yk_optimizer **optimizer, yk_model *model,
                           const yk_adamax_options *options);
/** Likewise, for Adagrad. */
yk_status yk_adagrad_create(yk_optimizer **optimizer, yk_model *model,
                            const yk_adagrad_options *options);
/** Likewise, for Adadelta. */
yk_status yk_adadelta_create(yk_optimizer **optimizer, yk_model *model,
                             const yk_adadelta_options *options);
/** Likewise, for RMSprop. */
yk_status yk_rmsprop_create(yk_optimizer **optimizer, yk_model *model,
                            const yk_rmsprop_options *options);
/** Likewise, for LARS. */
yk_status yk_lars_create(yk_optimizer **optimizer, yk_model *model, const yk_lars_options *options);
/** Likewise, for LAMB. */
yk_status yk_lamb_create(yk_optimizer **optimizer, yk_model *model, const yk_lamb_options *options);
/**
 * Likewise, for Muon. Parameter group 1 holds the filters, which are tensors of 4 dimensions, and
 * group 0 the rest. The hyperparameters are those of SGD except dampening, "ns_steps" (0 in groups
 * of SGD, and in every group that has other parameters than filters) and "normalize".
 * YK_ERROR_INVALID_ARGUMENT also for a model that has only filters or none, YK_ERROR_UNSUPPORTED
 * for filters other than float32 and on devices without Muon.
 */
yk_status yk_muon_create(yk_optimizer **optimizer, yk_model *model, const yk_muon_options *options);
/** Gives the optimizer up; accepts NULL. */
void yk_optimizer_destroy(yk_optimizer *optimizer);

/**
 * Updates the parameters from the gradients of the last backward. Blocks until done. With ZeRO
 * (zero.h) it is collective. YK_ERROR_INVALID_ARGUMENT while averaged weights are swapped in, and
 * for gradients that a grad scaler has scaled: yk_grad_scaler_step is their step. Before the first
 * backward gradients are zeros. A step then still decays weights and is counted, where PyTorch's
 * does nothing.
 */
yk_status yk_optimizer_step(yk_optimizer *optimizer);

/** The learning rate of the first parameter group; NaN for NULL. (The functions below answer NULL
 *  with NULL, 0 or false, or do nothing.) */
double yk_optimizer_lr(const yk_optimizer *optimizer);
/** Sets the rate of every group, and the rate that schedules start from; a negative one, or one
 * that is not finite, is refused as on creation. */
yk_status yk_optimizer_set_lr(yk_optimizer *optimizer, double lr);
/** "sgd", "adam", "adamw", "nadam", "radam", "adamax", "adagrad", "adadelta", "rmsprop", "lars",
 * "lamb" or "muon". */
const char *yk_optimizer_name(const yk_optimizer *optimizer);
/** Steps taken so far, including those before a checkpoint that was loaded. */
int64_t yk_optimizer_steps(const yk_optimizer *optimizer);
/** Sets that number, for the state of every parameter that is trained, too. NAdam's product of
 * momenta becomes that of so many steps with the present hyperparameters. */
void yk_optimizer_set_steps(yk_optimizer *optimizer, int64_t steps);
/**
 * One state tensor of a parameter, under its name in torch.optim ("momentum_buffer", "exp_avg",
 * "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "sum", "square_avg", "grad_avg", "acc_delta"); slot
 * counts from 0.
 * The tensor is a view of the live memory, as in yk_parameter_view. False without such a slot, when
 * another rank keeps it (zero.h), and for NULL.
 */
bool yk_optimizer_state(const yk_optimizer *optimizer, size_t parameter, size_t slot,
                        const char **name, yk_tensor *tensor);
/** Bytes of state that this rank keeps. */
size_t yk_optimizer_state_bytes(const yk_optimizer *optimizer);
/**
 * The index-th hyperparameter of the first group: "lr", then the names of torch.optim ("betas" are
 * "beta1" and "beta2"; "nesterov", "centered", "amsgrad" and "decoupled_weight_decay" are 0 or 1).
 * False past the last one, and for NULL.
 */
bool yk_optimizer_hyperparameter(const yk_optimizer *optimizer, size_t index, const char **name,
                                 double *value);
/**
 * Sets a hyperparameter in every group. Changes nothing and fails with YK_ERROR_INVALID_ARGUMENT
 * for an unknown name, a value with which the optimizer could not have been created, or a momentum,
 * centered or amsgrad where it was created without. initial_accumulator_value has been used then.
 */
yk_status yk_optimizer_set_hyperparameter(yk_optimizer *optimizer, const char *name, double value);

/** An epoch or step that never comes: no end, no limit, no check. */
#define YK_NEVER INT64_MAX

/* ---- parameter groups: torch.optim's param_groups ----------------------------------------- */

/** Decides whether a parameter joins a group; context is the caller's. */
typedef bool (*yk_parameter_filter)(const yk_parameter_view *parameter, const void *context);
/** Selects parameters of at most one dimension: weights and biases of norms, and other biases. Like
 *  yk_filter_name it selects nothing if the parameter is NULL. */
bool yk_filter_norms_and_biases(const yk_parameter_view *parameter, const void *context);
/** Selects by name: context is a shell pattern (fnmatch) such as "layer4.*" or "*.bias". A
 *  NULL pattern selects nothing. */
bool yk_filter_name(const yk_parameter_view *parameter, const void *context);

/**
 * Makes a parameter group. A new optimizer has one group, number 0, of all parameters; this moves
 * those of group 0 that the filter selects into a new group, which starts with the hyperparameters
 * of group 0. *group (may be NULL) is its number. YK_ERROR_INVALID_ARGUMENT when the filter selects
 * none of them, or all.
 */
yk_status yk_optimizer_add_param_group(yk_optimizer *optimizer, yk_parameter_filter filter,
                                       const void *context, size_t *group);
/**
 * Ends the training of a group: yk_schedule_apply sets its rate to 0 from t on (YK_NEVER: it trains
 * to the end). t counts epochs or steps, as the schedule does. Checkpoints do not store it: set it
 * again after loading one. YK_ERROR_INVALID_ARGUMENT when there is no such group.
 */
yk_status yk_optimizer_set_group_end(yk_optimizer *optimizer, size_t group, int64_t t);
/** Parameter groups, at least 1. */
size_t yk_optimizer_group_count(const yk_optimizer *optimizer);
/** The group of a parameter; SIZE_MAX if there is no such parameter, and for NULL. */
size_t yk_optimizer_group_of(const yk_optimizer *optimizer, size_t parameter);
/** Like yk_optimizer_hyperparameter, for one group. */
bool yk_optimizer_group_hyperparameter(const yk_optimizer *optimizer, size_t group, size_t index,
                                       const char **name, double *value);
/** Like yk_optimizer_set_hyperparameter, for one group. */
yk_status yk_optimizer_set_group_hyperparameter(yk_optimizer *optimizer, size_t group,
                                                const char *name, double value);

/* ---- gradient clipping --------------------------------------------------------------------- */

/**
 * Clips gradients as torch.nn.utils.clip_grad_norm_ does: *total_norm (may be NULL) becomes the
 * 2-norm of all gradients taken as one vector, and if it exceeds max_norm, all gradients are
 * multiplied by max_norm / (*total_norm + 1e-6). Call it between backward and step, with a grad
 * scaler after yk_grad_scaler_unscale: scaled gradients are YK_ERROR_INVALID_ARGUMENT. If a
 * gradient is NaN, so is the norm, and the gradients are multiplied by it, as in PyTorch. Under DDP
 * all ranks have the same gradients and get the same bits, so nothing is communicated.
 */
yk_status yk_clip_grad_norm(yk_optimizer *optimizer, double max_norm, double *total_norm);
/**
 * Clips gradients as torch.nn.utils.clip_grad_value_ does: every element is brought into the range
 * from -max_value to max_value, which is at least 0; NaN stays NaN. Otherwise as yk_clip_grad_norm.
 */
yk_status yk_clip_grad_value(yk_optimizer *optimizer, double max_value);

/* ---- an average of the weights ------------------------------------------------------------- */

/**
 * An average of a model's weights over the steps of training, as
 * torch.optim.swa_utils.AveragedModel computes it: the first update copies the weights, and each
 * further one moves the average towards them by 1 - decay of the distance (an exponential moving
 * average) or, with yk_ema_options.equal, update n by 1 / n of it (their mean).
 */
typedef struct yk_ema yk_ema;

/** How weights are averaged. */
typedef struct yk_ema_options {
    size_t size;      /**< set by YK_EMA_OPTIONS_INIT */
    double decay;     /**< weight of the old average, 0 <= decay < 1 [0.999] */
    bool use_buffers; /**< also average floating-point buffers such as running statistics, as
                           torchvision's training does, but not constants (yk_register_buffer());
                           otherwise the model's own are used [false] */
    bool equal;       /**< every update weighs the same, as in stochastic weight averaging (Izmailov
                           et al. 2018; the default of AveragedModel); decay is not used then
                           [false] */
} yk_ema_options;

/** The defaults of yk_ema_options. */
#define YK_EMA_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(yk_ema_options), 0.999, false, false                                                \
    }

/**
 * Averages the weights of the optimizer's model. Keeps the optimizer alive, so they can be
 * destroyed in any order. Checkpoints hold the average beside the optimizer's state (under
 * "model_ema", as torchvision's do); before the first update these are the weights. On failure *ema
 * is NULL; YK_ERROR_INVALID_ARGUMENT also where the optimizer has averaged weights already.
 */
yk_status yk_ema_create(yk_ema **ema, yk_optimizer *optimizer, const yk_ema_options *options);
/** Gives the average up; accepts NULL. A model that has it swapped in keeps it. */
void yk_ema_destroy(yk_ema *ema);
/** Takes the weights into the average. Call it after each optimizer step; with equal, where weights
 * are to be sampled, such as after each of the last epochs. */
yk_status yk_ema_update(yk_ema *ema);
/**
 * Exchanges the model's weights and their average: once to evaluate or save the average, and once
 * more to continue training. In between, steps, updates, and saving and loading of checkpoints are
 * refused with YK_ERROR_INVALID_ARGUMENT.
 */
yk_status yk_ema_swap(yk_ema *ema);

/** yk_ema_options.decay; NaN for NULL. */
double yk_ema_decay(const yk_ema *ema);
/** Updates so far (n_averaged in PyTorch), including those before a loaded checkpoint. */
int64_t yk_ema_updates(const yk_ema *ema);
/** Sets that number, as loading a checkpoint does. */
void yk_ema_set_updates(yk_ema *ema, int64_t updates);
/**
 * The average of a parameter; indices from yk_model_parameter_count on are the buffers. A view of
 * the live memory, which for a buffer that is not averaged is the model's own. All zeros past the
 * last buffer, and for NULL.
 */
yk_tensor yk_ema_value(const yk_ema *ema, size_t index);
/** The average of the optimizer's model, or NULL. */
yk_ema *yk_optimizer_ema(const yk_optimizer *optimizer);

/* ---- Lookahead ------------------------------------------------------------------------------ */

/**
 * Lookahead (Zhang et al. 2019): slow weights that follow the model's. Every interval steps they
 * move towards the model's weights by 1 - decay of the distance, and the model continues from them.
 * Floating-point buffers, such as running statistics, take part.
 */
typedef struct yk_lookahead yk_lookahead;

/** How the slow weights follow the model's. */
typedef struct yk_lookahead_options {
    size_t size;         /**< set by YK_LOOKAHEAD_OPTIONS_INIT */
    double decay;        /**< weight of the old slow weights, 0 <= decay < 1 [0.5] */
    int64_t interval;    /**< steps from one exchange to the next, at least 1 [5] */
    double power;        /**< if above 0, the decay of step t is
                              decay * min(1, t / total_steps)^power; otherwise it is constant [0] */
    int64_t total_steps; /**< steps after which the model gets the slow weights for good, or
                              YK_NEVER [YK_NEVER] */
} yk_lookahead_options;

/** The defaults of yk_lookahead_options. */
#define YK_LOOKAHEAD_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(yk_lookahead_options), 0.5, 5, 0, YK_NEVER                                          \
    }

/**
 * Makes slow weights that start as the weights of the optimizer's model. Keeps the optimizer alive,
 * so they can be destroyed in any order. Checkpoints hold the slow weights (under "lookahead"). On
 * failure *lookahead is NULL; YK_ERROR_INVALID_ARGUMENT also where the optimizer has a Lookahead.
 */
yk_status yk_lookahead_create(yk_lookahead **lookahead, yk_optimizer *optimizer,
                              const yk_lookahead_options *options);
/** Gives it up; accepts NULL. */
void yk_lookahead_destroy(yk_lookahead *lookahead);
/** Updates the slow weights and copies them to the model, if the interval is over. Call it after
 * each optimizer step, before yk_ema_update. Steps are those that the optimizer has counted: after
 * one that a grad scaler has skipped, nothing is done. */
yk_status yk_lookahead_update(yk_lookahead *lookahead);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
