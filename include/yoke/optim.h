/*
 * Optimizers, torch.optim's arithmetic. A step reads the model's gradients, updates its parameters
 * and marks the gradients as spent: the next backward sets them anew.
 */
#ifndef YOKE_OPTIM_H
#define YOKE_OPTIM_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_optimizer yk_optimizer;

typedef struct yk_sgd_options {
    double lr; /* must be > 0 */
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov;
} yk_sgd_options;

typedef struct yk_adam_options {
    double lr;    /* 0 means 1e-3 */
    double beta1; /* 0 means 0.9 */
    double beta2; /* 0 means 0.999 */
    double eps;   /* 0 means 1e-8 */
    double weight_decay;
    bool decoupled; /* AdamW: the decay is applied to the weights, not added to the gradient */
} yk_adam_options;

/* The optimizer keeps a pointer to the model: destroy it first. */
yk_status yk_sgd_create(yk_optimizer **optimizer, yk_model *model, const yk_sgd_options *options);
yk_status yk_adam_create(yk_optimizer **optimizer, yk_model *model, const yk_adam_options *options);
void yk_optimizer_destroy(yk_optimizer *optimizer);

yk_status yk_optimizer_step(yk_optimizer *optimizer);

double yk_optimizer_lr(const yk_optimizer *optimizer);
void yk_optimizer_set_lr(yk_optimizer *optimizer, double lr);
/* "sgd", "adam" or "adamw". */
const char *yk_optimizer_name(const yk_optimizer *optimizer);
/* Steps taken so far; set when a checkpoint is loaded. */
int64_t yk_optimizer_steps(const yk_optimizer *optimizer);
void yk_optimizer_set_steps(yk_optimizer *optimizer, int64_t steps);
/*
 * The state of one parameter as torch.optim names it ("momentum_buffer", "exp_avg",
 * "exp_avg_sq"): slot counts from 0; false when there is no such slot. The tensor is a live view.
 */
bool yk_optimizer_state(const yk_optimizer *optimizer, size_t parameter, size_t slot,
                        const char **name, yk_tensor *tensor);
/*
 * Hyperparameters, for checkpoints: "lr" first, then torch.optim's names ("betas" is "beta1" and
 * "beta2"; "nesterov" is 0 or 1). The first is false past the last one; setting refuses an unknown
 * name and a value that creating the optimizer would refuse.
 */
bool yk_optimizer_hyperparameter(const yk_optimizer *optimizer, size_t index, const char **name,
                                 double *value);
yk_status yk_optimizer_set_hyperparameter(yk_optimizer *optimizer, const char *name, double value);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
