/*
 * The contract between optimizer.c, which owns memory and bookkeeping, step.c, which makes steps,
 * and the rules (sgd.c, adam.c, nadam.c, radam.c, adamax.c, adagrad.c, adadelta.c, rmsprop.c,
 * layerwise.c, muon.c), which turn hyperparameters into the coefficients of a sweep
 * (device/sweep.h); and the optimizer's inside, which these files share with param_groups.c,
 * shards.c, clip.c and ema.c.
 */
#ifndef YKI_OPTIMIZER_H
#define YKI_OPTIMIZER_H

#include <yoke/optim.h>

#include "base/error.h"
#include "base/reference.h"
#include "device/block.h"
#include "device/late.h"
#include "device/sweep.h"
#include "device/tape.h"
#include "optim/references.h"
#include "optim/shards.h"
#include "optim/step_hooks.h"

enum { YKI_MAX_SLOTS = 3, YKI_MAX_HYPERPARAMETERS = 7, YKI_LR = 0 };

/* How many steps a parameter's state has been through, and the product of their factors. */
typedef struct yki_state_age {
    int64_t steps; /* as PyTorch counts them; fewer than the optimizer's where training has begun
                      with the parameter frozen */
    float product; /* of the factors of these steps; 1 of a rule without */
} yki_state_age;

typedef struct yki_optimizer_rule {
    yki_sweep_op update;
    /* Of rules with trust ratios: the sweep before it, which finds the norms of each tensor. */
    bool has_trust_ratios;
    yki_sweep_op find_norms;
    const char *name;
    int hyperparameters; /* names and values; YKI_LR is the first */
    const char *hyperparameter_names[YKI_MAX_HYPERPARAMETERS];
    const char *slot_names[YKI_MAX_SLOTS];
    /* The switch that a slot is there for, or NULL: it is there always, or for a momentum. */
    const char *slot_switches[YKI_MAX_SLOTS];
    /* The hyperparameter whose value a slot starts from; 0: it starts from zeros. */
    int slot_starts[YKI_MAX_SLOTS];
    /* Which of them this setting needs, as a set: slot s if bit s is set. */
    unsigned (*slots)(const double *hyperparameters);
    /* torch.optim has the step in the state of each parameter. */
    bool saves_step;
    /* What each step, from 1, multiplies the product in the state of each parameter with, and that
     * product's name in torch.optim; both NULL without one. */
    const char *product_name;
    double (*factor)(const double *hyperparameters, int64_t step);
    yk_status (*check)(const double *hyperparameters);
    /* Writes the coefficients of a step. age: with that step, which counts from 1; 0: there is no
     * state. */
    void (*prepare)(double *coefficients, const double *hyperparameters, const yki_state_age *age);
    /* Called once before the first sweep of a step, and after a sweep for each of its parameters.
     * Both work in the stream, and may be NULL. */
    yk_status (*begin)(yk_optimizer *optimizer, yki_stream *stream);
    yk_status (*finish)(yk_optimizer *optimizer, size_t parameter, yki_stream *stream);
} yki_optimizer_rule;

/* Parameters that are updated together. */
typedef struct yki_update_part {
    size_t *parameters; /* (count) */
    size_t count;
    yki_sweep *update; /* over value, gradient and state of each of them */
    double *norms;     /* (count, 2) in the device's memory; NULL without trust ratios */
    bool done;         /* in the running step */
} yki_update_part;

/* The state of a step in parts (step.h): BEGUN after its first part, BROKEN if the others cannot
 * follow. */
typedef enum yki_step_stage { YKI_STEP_NONE, YKI_STEP_BEGUN, YKI_STEP_BROKEN } yki_step_stage;

/* torch.optim's param_group. */
typedef struct yki_param_group {
    double hyperparameters[YKI_MAX_HYPERPARAMETERS];
    double initial_lr; /* what schedules start from */
    int64_t end;       /* of its training, in what schedules count, or YK_NEVER */
} yki_param_group;

struct yk_optimizer {
    yki_reference reference;
    const yki_optimizer_rule *rule;
    yk_model *model;
    yki_device *device; /* the model's */
    int64_t steps;
    int slots;                       /* that there is memory for; a group may need fewer */
    int slot_of_rule[YKI_MAX_SLOTS]; /* (slots) which of the rule's each of them is */
    size_t parameters;
    yk_parameter_view *views; /* (parameters), refreshed at each step */
    yki_param_group *groups;
    size_t group_count;
    size_t *group_of;            /* (parameters) */
    char **state[YKI_MAX_SLOTS]; /* (parameters), into memory */
    char *memory;                /* the device's */
    size_t memory_bytes;
    yki_state_age *ages;    /* (parameters) of all ranks' parameters */
    yki_state_age *earlier; /* (parameters) before the last step */
    size_t *set_of;         /* (parameters) which set of coefficients each of them takes ... */
    size_t *sets;           /* ... in the running step: (set_count) the first that takes it */
    size_t set_count;       /* at most as many as parameters */
    size_t *part_of;        /* (parameters) the part in which each of them is updated */
    yki_update_part *parts; /* (part_count) */
    size_t part_count;
    yki_step_stage stage;
    yki_tape update_tape;
    bool *own;              /* (parameters) whether this rank updates it, if it is used */
    bool *updated;          /* (parameters) whether it belongs to a part */
    struct yki_muon *muon;  /* of Muon; NULL for other rules */
    yki_block coefficients; /* (sets, YKI_SWEEP_COEFFICIENTS) */
    bool left_skip;         /* the last step has copied its skip among them */
    yki_sweep *gradients;   /* over all gradients, for clipping */
    yki_tape clip_tape;
    yki_block clipping; /* what YKI_SWEEP_CLIP and YKI_SWEEP_LIMIT read */
    yki_late squares;   /* of the gradients that were clipped last */
    /* If set, the device decides whether the last step is taken, and the host does not know yet:
     * settle tells yki_optimizer_end_step. */
    yk_status (*settle)(void *context);
    void *settle_context;
    yki_step_hooks hooks; /* zeros: there are none */
    /* It updates this rank's parameters, and its hooks bring the others. State pointers are NULL
     * for parameters of other ranks. */
    bool sharded;
    yk_lookahead *lookahead; /* or NULL */
    yk_ema *ema;             /* or NULL */
    yk_ema *outer_momentum;  /* of local SGD, or NULL */
    bool averaged;           /* the model holds ema's average, and ema the weights */
};

yk_status yki_optimizer_create(yk_optimizer **optimizer, yk_model *model,
                               const yki_optimizer_rule *rule, const double *hyperparameters);

/* What files need to know beside the public functions. */
const yk_model *yki_optimizer_model(const yk_optimizer *optimizer);
size_t yki_optimizer_parameter_count(const yk_optimizer *optimizer);
const char *yki_optimizer_parameter_name(const yk_optimizer *optimizer, size_t parameter);
/* The rate that the schedules of a group start from. */
double yki_optimizer_initial_lr(const yk_optimizer *optimizer, size_t group);
/* State tensors that each parameter has memory for, and their names in torch.optim. */
int yki_optimizer_slot_count(const yk_optimizer *optimizer);
const char *yki_optimizer_slot_name(const yk_optimizer *optimizer, int slot);
/* Whether the step of a parameter's state is saved with it, and under which name its product, or
 * NULL. */
bool yki_optimizer_saves_step(const yk_optimizer *optimizer);
const char *yki_optimizer_product_name(const yk_optimizer *optimizer);
/* Whether torch.optim's optimizer of this name ever keeps something of that name. */
bool yki_optimizer_keeps(const yk_optimizer *optimizer, const char *name, size_t length);
/* Whether the group of the parameter needs the slot. */
bool yki_optimizer_uses_slot(const yk_optimizer *optimizer, size_t parameter, int slot);
/* Which of the rule's slots these hyperparameters need and there is no memory for, as a set. */
unsigned yki_optimizer_lacking(const yk_optimizer *optimizer, const double *hyperparameters);

/*
 * A step that the device leaves out if *skip, in its memory, is not 0 by then. settle(context) is
 * called before the number of steps is read; it finds out and calls yki_optimizer_end_step.
 */
yk_status yki_optimizer_step_unless(yk_optimizer *optimizer, const double *skip,
                                    yk_status (*settle)(void *context), void *context);
void yki_optimizer_end_step(yk_optimizer *optimizer, bool taken);
/* Whether a step may be taken now; one that is left out for its gradients is refused likewise. */
yk_status yki_optimizer_check_step(const yk_optimizer *optimizer);

/* The joint norm of the gradients at the last yk_clip_grad_norm, for which it waits. */
yk_status yki_clip_norm(yk_optimizer *optimizer, double *norm);

/* Where the sweep writes the update of a parameter instead of to its value, or NULL (muon.c). */
void *yki_muon_update(const yk_optimizer *optimizer, size_t parameter);
/* Frees what belongs to Muon; does nothing for other rules. */
void yki_muon_destroy(yk_optimizer *optimizer);
/* Only filters can have orthogonal updates: fails if these hyperparameters ask for them in a group
 * with other trained parameters. */
yk_status yki_muon_check_group(const yk_optimizer *optimizer, const size_t *group_of, size_t group,
                               const double *hyperparameters);

/* Reads the places of values and gradients, which distributed training may have moved. */
void yki_optimizer_refresh_views(yk_optimizer *optimizer);
/* Finds out whether the last step was taken. What fails here is reported by the next call that
 * waits for the device, too. */
yk_status yki_optimizer_settle(const yk_optimizer *optimizer);
/* Prepares the updates of the rank's own parameters that the loss of any rank depends on. */
yk_status yki_optimizer_choose(yk_optimizer *optimizer, const bool *own);
void yki_optimizer_destroy_parts(yk_optimizer *optimizer);
/* Makes room for so many sets of coefficients. */
yk_status yki_optimizer_fit_coefficients(yk_optimizer *optimizer, size_t count);

/* Whether the model holds the average, and the average the weights. */
bool yki_ema_is_swapped(const yk_ema *ema);
/* The number of updates as a tensor, which checkpoints write from where it is. */
yk_tensor yki_ema_n_averaged(yk_ema *ema);

/* Of a parameter's state; 0 steps: there is none yet. */
yki_state_age yki_optimizer_age(const yk_optimizer *optimizer, size_t parameter);
/* Continues with the state of a file: sets the number of steps, and the age of each parameter. */
void yki_optimizer_restart(yk_optimizer *optimizer, int64_t steps, const yki_state_age *ages);
/* The memory of a state tensor, also where the parameter's group has no need of it; its data is
 * NULL where it is another rank's. */
yk_tensor yki_optimizer_slot(const yk_optimizer *optimizer, size_t parameter, int slot);
/* Writes there what it is before the first step. */
yk_status yki_optimizer_start_slot(const yk_optimizer *optimizer, size_t parameter, int slot);
/* Of all state tensors that this rank keeps, in memory that is all zeros. */
yk_status yki_optimizer_start_state(const yk_optimizer *optimizer);

/*
 * All groups at once, for a checkpoint: count of them with their hyperparameters and initial_lr,
 * and each parameter's group. Refused, and nothing changed, when the rule refuses one.
 */
yk_status yki_optimizer_set_groups(yk_optimizer *optimizer, const yki_param_group *groups,
                                   size_t count, const size_t *group_of);

/* YK_OK if minimum <= value (< below, where below > 0); the error names rule, option and value. */
yk_status yki_check_option(const char *rule, const char *option, double value, double minimum,
                           double below);
/* Likewise, if value is 0 or 1. */
yk_status yki_check_switch(const char *rule, const char *option, double value);

#endif
