/*
 * The recipe of a training run: optimizer, learning-rate schedule, clipping, averaging, loss. Its
 * options, what is missing or contradicts, and the schedule that they describe.
 */
#ifndef YOKE_CLI_RECIPE_H
#define YOKE_CLI_RECIPE_H

#include <yoke/yoke.h>

#include "options.h"

/* Numbers that are negative have not been given by anybody. */
typedef enum cli_optimizer {
    CLI_OPTIMIZER_SGD,
    CLI_OPTIMIZER_ADAM,
    CLI_OPTIMIZER_ADAMW
} cli_optimizer;
typedef enum cli_lr_scale {
    CLI_LR_SCALE_NONE,
    CLI_LR_SCALE_LINEAR,
    CLI_LR_SCALE_SQRT
} cli_lr_scale;

typedef struct cli_recipe {
    const char *optimizer, *lr_scale, *schedule, *schedule_unit, *milestones;
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay;
    double clip_grad_norm, ema, label_smoothing;
    double gamma, eta_min, max_lr, pct_start, div_factor, final_div_factor, warmup_factor;
    int64_t step_size, warmup_epochs, warmup_steps;
    bool nesterov, no_decay_norms, no_cycle_momentum;
    /* Parsed from the texts by cli_recipe_complete. */
    cli_optimizer rule;
    cli_lr_scale scaling;
    yk_schedule_kind kind;
    bool per_step;
    struct {
        bool lr, momentum, dampening, beta1, beta2, eps, weight_decay, gamma, eta_min, max_lr;
        bool pct_start, div_factor, final_div_factor, warmup_factor, step_size, milestones;
        bool warmup_epochs, warmup_steps, schedule_unit;
    } given; /* on this command line */
} cli_recipe;

extern const cli_recipe cli_recipe_defaults;

/* The rows of these options, for the table of a command. */
#define CLI_RECIPE_OPTIONS(r)                                                                      \
    CLI_GROUP_KEPT("Optimizer"),                                                                   \
        CLI_CHOICE(0, "optimizer", "sgd|adam|adamw", "update rule [sgd]", &(r)->optimizer, NULL),  \
        CLI_REAL(0, "lr", "RATE", "learning rate [sgd 0.1, adam and adamw 0.001]", &(r)->lr,       \
                 &(r)->given.lr, 0, 1e6),                                                          \
        CLI_CHOICE(0, "lr-scale", "none|linear|sqrt",                                              \
                   "multiply --lr by the number of ranks or its square\nroot [none]",              \
                   &(r)->lr_scale, NULL),                                                          \
        CLI_REAL(0, "momentum", "M", "SGD momentum [0.9]", &(r)->momentum, &(r)->given.momentum,   \
                 0, 1),                                                                            \
        CLI_REAL(0, "dampening", "D", "dampening of SGD momentum [0]", &(r)->dampening,            \
                 &(r)->given.dampening, 0, 1),                                                     \
        CLI_SWITCH(0, "nesterov", "use Nesterov momentum (SGD)", &(r)->nesterov),                  \
        CLI_REAL(0, "beta1", "B", "Adam beta1 [0.9]", &(r)->beta1, &(r)->given.beta1, 0,           \
                 0.9999999),                                                                       \
        CLI_REAL(0, "beta2", "B", "Adam beta2 [0.999]", &(r)->beta2, &(r)->given.beta2, 0,         \
                 0.9999999),                                                                       \
        CLI_REAL(0, "eps", "E", "Adam epsilon [1e-8]", &(r)->eps, &(r)->given.eps, 0, 1),          \
        CLI_REAL(0, "weight-decay", "W", "weight decay [sgd 0.0005, adam 0, adamw 0.01]",          \
                 &(r)->weight_decay, &(r)->given.weight_decay, 0, 1e6),                            \
        CLI_SWITCH(0, "no-decay-norms", "do not apply weight decay to norms and biases",           \
                   &(r)->no_decay_norms),                                                          \
        CLI_REAL(0, "clip-grad-norm", "X", "clip gradients to a global norm of X; 0: off [0]",     \
                 &(r)->clip_grad_norm, NULL, 0, 1e12),                                             \
        CLI_REAL(0, "ema", "DECAY",                                                                \
                 "also keep, evaluate and save an exponential moving\naverage of the weights; 0: " \
                 "off [0]",                                                                        \
                 &(r)->ema, NULL, 0, 0.9999999),                                                   \
        CLI_REAL(0, "label-smoothing", "S", "label smoothing of the cross-entropy loss [0]",       \
                 &(r)->label_smoothing, NULL, 0, 1),                                               \
        CLI_GROUP_KEPT(                                                                            \
            "Learning-rate schedule (lengths in epochs, or in steps with --schedule-unit step)"),  \
        CLI_CHOICE(0, "schedule", "constant|step|multistep|cosine|onecycle",                       \
                   "schedule; cosine and onecycle end with the last\nepoch [constant]",            \
                   &(r)->schedule, NULL),                                                          \
        CLI_CHOICE(0, "schedule-unit", "epoch|step",                                               \
                   "how often the rate changes [epoch; onecycle: step]", &(r)->schedule_unit,      \
                   &(r)->given.schedule_unit),                                                     \
        CLI_INT(0, "step-size", "N", "step: interval between decays", &(r)->step_size,             \
                &(r)->given.step_size, 1, 1e12),                                                   \
        CLI_TEXT(0, "milestones", "N,N,...", "multistep: when to decay", &(r)->milestones,         \
                 &(r)->given.milestones),                                                          \
        CLI_REAL(0, "gamma", "G", "step and multistep: factor of each decay [0.1]", &(r)->gamma,   \
                 &(r)->given.gamma, 1e-12, 1e6),                                                   \
        CLI_REAL(0, "eta-min", "RATE", "cosine: final learning rate [0]", &(r)->eta_min,           \
                 &(r)->given.eta_min, 0, 1e6),                                                     \
        CLI_REAL(0, "max-lr", "RATE", "onecycle: peak learning rate [--lr]", &(r)->max_lr,         \
                 &(r)->given.max_lr, 1e-12, 1e6),                                                  \
        CLI_REAL(0, "pct-start", "FRACTION", "onecycle: fraction spent warming up [0.3]",          \
                 &(r)->pct_start, &(r)->given.pct_start, 1e-6, 0.999999),                          \
        CLI_REAL(0, "div-factor", "F", "onecycle: peak rate / first rate [25]", &(r)->div_factor,  \
                 &(r)->given.div_factor, 1e-6, 1e12),                                              \
        CLI_REAL(0, "final-div-factor", "F", "onecycle: first rate / last rate [1e4]",             \
                 &(r)->final_div_factor, &(r)->given.final_div_factor, 1e-6, 1e18),                \
        CLI_SWITCH(0, "no-cycle-momentum", "onecycle: do not vary momentum (adam: beta1)",         \
                   &(r)->no_cycle_momentum),                                                       \
        CLI_INT(0, "warmup-epochs", "N", "epochs of linear warm-up before the schedule [0]",       \
                &(r)->warmup_epochs, &(r)->given.warmup_epochs, 0, 1e6),                           \
        CLI_INT(0, "warmup-steps", "N", "warm-up in steps, with --schedule-unit step [0]",         \
                &(r)->warmup_steps, &(r)->given.warmup_steps, 0, 1e12),                            \
        CLI_REAL(0, "warmup-factor", "F", "initial fraction of the rate in warm-up [1/3]",         \
                 &(r)->warmup_factor, &(r)->given.warmup_factor, 1e-6, 1)

/* Sets the options that were not given to the defaults of the optimizer. */
void cli_recipe_complete(cli_recipe *recipe);
/* Whether it fits together, over so many epochs; else says, as a usage error of name, what not. */
bool cli_recipe_check(const char *name, const cli_recipe *recipe, int64_t epochs);
/* The schedule, for max_lr the peak of one-cycle (0: each group's own rate). */
yk_status cli_recipe_schedule(yk_schedule *schedule, const cli_recipe *recipe, double max_lr,
                              int64_t epochs, int64_t steps_per_epoch);
/* What the rate is multiplied by on so many ranks. */
double cli_recipe_lr_factor(const cli_recipe *recipe, int ranks);

#endif
