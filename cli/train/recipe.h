/*
 * The recipe of a training run: optimizer, learning-rate schedule, clipping, averaging, loss. Its
 * options, what is missing or contradicts, and the schedule that they describe.
 */
#ifndef YOKE_CLI_RECIPE_H
#define YOKE_CLI_RECIPE_H

#include <yoke/yoke.h>

#include "options.h"

/* Numbers that are negative have not been given by anybody. */
typedef struct cli_recipe {
    const char *optimizer, *lr_scale, *schedule, *schedule_unit, *milestones;
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay;
    double clip_grad_norm, ema, label_smoothing;
    double gamma, eta_min, max_lr, pct_start, div_factor, final_div_factor, warmup_factor;
    int64_t step_size, warmup_epochs, warmup_steps;
    bool nesterov, no_decay_norms, no_cycle_momentum;
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
        CLI_CHOICE(0, "optimizer", "sgd|adam|adamw", "[sgd]", &(r)->optimizer, NULL),              \
        CLI_REAL(0, "lr", "RATE", "learning rate [sgd 0.1, adam and adamw 0.001]", &(r)->lr,       \
                 &(r)->given.lr, 0, 1e6),                                                          \
        CLI_CHOICE(0, "lr-scale", "none|linear|sqrt",                                              \
                   "the rate times the number of ranks, or times its\nsquare root [none]",         \
                   &(r)->lr_scale, NULL),                                                          \
        CLI_REAL(0, "momentum", "M", "of sgd [0.9]", &(r)->momentum, &(r)->given.momentum, 0, 1),  \
        CLI_REAL(0, "dampening", "D", "of sgd's momentum [0]", &(r)->dampening,                    \
                 &(r)->given.dampening, 0, 1),                                                     \
        CLI_SWITCH(0, "nesterov", "Nesterov's form of sgd's momentum", &(r)->nesterov),            \
        CLI_REAL(0, "beta1", "B", "of adam and adamw [0.9]", &(r)->beta1, &(r)->given.beta1, 0,    \
                 0.9999999),                                                                       \
        CLI_REAL(0, "beta2", "B", "of adam and adamw [0.999]", &(r)->beta2, &(r)->given.beta2, 0,  \
                 0.9999999),                                                                       \
        CLI_REAL(0, "eps", "E", "of adam and adamw [1e-8]", &(r)->eps, &(r)->given.eps, 0, 1),     \
        CLI_REAL(0, "weight-decay", "W", "[sgd 0.0005, adam 0, adamw 0.01]", &(r)->weight_decay,   \
                 &(r)->given.weight_decay, 0, 1e6),                                                \
        CLI_SWITCH(0, "no-decay-norms",                                                            \
                   "no weight decay on norms and biases: a parameter\ngroup of their own",         \
                   &(r)->no_decay_norms),                                                          \
        CLI_REAL(0, "clip-grad-norm", "X",                                                         \
                 "scale gradients down to a global norm of X; 0: no [0]", &(r)->clip_grad_norm,    \
                 NULL, 0, 1e12),                                                                   \
        CLI_REAL(                                                                                  \
            0, "ema", "DECAY",                                                                     \
            "average the weights exponentially, evaluate and save\nthe average too; 0: no [0]",    \
            &(r)->ema, NULL, 0, 0.9999999),                                                        \
        CLI_REAL(0, "label-smoothing", "S", "of the cross-entropy loss [0]",                       \
                 &(r)->label_smoothing, NULL, 0, 1),                                               \
        CLI_GROUP_KEPT("Learning-rate schedule: lengths are epochs, or steps with --schedule-unit" \
                       " step"),                                                                   \
        CLI_CHOICE(0, "schedule", "constant|step|multistep|cosine|onecycle",                       \
                   "cosine and onecycle end with the last of --epochs\n[constant]",                \
                   &(r)->schedule, NULL),                                                          \
        CLI_CHOICE(0, "schedule-unit", "epoch|step",                                               \
                   "when the rate changes [epoch; onecycle: step]", &(r)->schedule_unit,           \
                   &(r)->given.schedule_unit),                                                     \
        CLI_INT(0, "step-size", "N", "of step: from one decay to the next", &(r)->step_size,       \
                &(r)->given.step_size, 1, 1e12),                                                   \
        CLI_TEXT(0, "milestones", "N,N,...", "of multistep: when to decay", &(r)->milestones,      \
                 &(r)->given.milestones),                                                          \
        CLI_REAL(0, "gamma", "G", "of step and multistep: a decay's factor [0.1]", &(r)->gamma,    \
                 &(r)->given.gamma, 1e-12, 1e6),                                                   \
        CLI_REAL(0, "eta-min", "RATE", "of cosine: where it ends [0]", &(r)->eta_min,              \
                 &(r)->given.eta_min, 0, 1e6),                                                     \
        CLI_REAL(0, "max-lr", "RATE", "of onecycle: its peak [--lr]", &(r)->max_lr,                \
                 &(r)->given.max_lr, 1e-12, 1e6),                                                  \
        CLI_REAL(0, "pct-start", "SHARE", "of onecycle: of its rise [0.3]", &(r)->pct_start,       \
                 &(r)->given.pct_start, 1e-6, 0.999999),                                           \
        CLI_REAL(0, "div-factor", "F", "of onecycle: peak / first rate [25]", &(r)->div_factor,    \
                 &(r)->given.div_factor, 1e-6, 1e12),                                              \
        CLI_REAL(0, "final-div-factor", "F", "of onecycle: first rate / last rate [1e4]",          \
                 &(r)->final_div_factor, &(r)->given.final_div_factor, 1e-6, 1e18),                \
        CLI_SWITCH(0, "no-cycle-momentum", "of onecycle: leave momentum (adam: beta1) as it is",   \
                   &(r)->no_cycle_momentum),                                                       \
        CLI_INT(0, "warmup-epochs", "N", "linear warm-up before the schedule [0]",                 \
                &(r)->warmup_epochs, &(r)->given.warmup_epochs, 0, 1e6),                           \
        CLI_INT(0, "warmup-steps", "N", "the same in steps, with --schedule-unit step [0]",        \
                &(r)->warmup_steps, &(r)->given.warmup_steps, 0, 1e12),                            \
        CLI_REAL(0, "warmup-factor", "F", "of the rate, where warm-up begins [1/3]",               \
                 &(r)->warmup_factor, &(r)->given.warmup_factor, 1e-6, 1)

/* What nobody has given, by the optimizer. */
void cli_recipe_complete(cli_recipe *recipe);
/* Whether it fits together, over so many epochs; else says, as a usage error of name, what not. */
bool cli_recipe_check(const char *name, const cli_recipe *recipe, int64_t epochs);
/* The schedule, for max_lr the peak of one-cycle (0: each group's own rate). */
yk_status cli_recipe_schedule(yk_schedule *schedule, const cli_recipe *recipe, double max_lr,
                              int64_t epochs, int64_t steps_per_epoch);
/* What the rate is multiplied by on so many ranks. */
double cli_recipe_lr_factor(const cli_recipe *recipe, int ranks);

#endif
