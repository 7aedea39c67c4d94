/*
 * Learning-rate schedules, torch.optim.lr_scheduler's in closed form: a schedule is a plain value,
 * and the rate a pure function of it, of how far training is and of the rate that training started
 * with. So there is nothing to save but the schedule itself, and a resumed run needs no replay.
 */
#ifndef YOKE_SCHEDULE_H
#define YOKE_SCHEDULE_H

#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum yk_schedule_kind {
    YK_SCHEDULE_CONSTANT,  /* ConstantLR with factor 1 */
    YK_SCHEDULE_STEP,      /* StepLR: times gamma every step_size */
    YK_SCHEDULE_MULTISTEP, /* MultiStepLR: times gamma at each milestone */
    YK_SCHEDULE_COSINE,    /* CosineAnnealingLR: to eta_min over t_max (and up again behind it) */
    YK_SCHEDULE_ONE_CYCLE  /* OneCycleLR: up to max_lr and down to nearly nothing over total_steps;
                              momentum (Adam: beta1) goes the other way */
} yk_schedule_kind;

enum { YK_MAX_MILESTONES = 32 };

/* All counts are of t, which starts at 0: epochs or optimizer steps, as the caller likes. */
typedef struct yk_schedule {
    yk_schedule_kind kind;
    bool per_step; /* for the caller and for checkpoints: t counts steps, not epochs */

    /* Linear warm-up: LinearLR for t < warmup, the schedule proper from there on with t - warmup,
     * as SequentialLR has it. Not with one-cycle, which warms up by itself. */
    int64_t warmup;
    double warmup_factor; /* of the rate at t = 0; 0 means 1/3 */

    double gamma; /* 0 means 0.1 */
    int64_t step_size;
    int64_t milestones[YK_MAX_MILESTONES], milestone_count; /* in rising order */

    int64_t t_max;
    double eta_min;

    int64_t total_steps;
    double max_lr;                      /* of every group; 0: each group's own starting rate */
    double pct_start;                   /* the share of the rise; 0 means 0.3 */
    double div_factor;                  /* max_lr / first rate; 0 means 25 */
    double final_div_factor;            /* first rate / last rate; 0 means 1e4 */
    bool linear_anneal;                 /* straight lines instead of half cosines */
    bool three_phase;                   /* down to the first rate as fast as up, then the rest */
    bool fixed_momentum;                /* cycle_momentum=False */
    double base_momentum, max_momentum; /* 0 means 0.85 and 0.95 */
} yk_schedule;

/* YK_ERROR_INVALID_ARGUMENT, with what is wrong, for values that PyTorch refuses or that make no
 * sense. The functions below take schedules that have passed. */
yk_status yk_schedule_check(const yk_schedule *schedule);

/* The rate at t for a group that started with initial_lr. */
double yk_schedule_lr(const yk_schedule *schedule, int64_t t, double initial_lr);
/* One-cycle's momentum at t; false where momentum stays as it is. */
bool yk_schedule_momentum(const yk_schedule *schedule, int64_t t, double *momentum);

/*
 * Sets lr (and momentum) of every group for the step at t, from the rate that the group was given
 * last by yk_*_create or by a setter. Fails, changing nothing, where the momentum of an optimizer
 * that has none is to cycle.
 */
yk_status yk_schedule_apply(const yk_schedule *schedule, yk_optimizer *optimizer, int64_t t);

/* "constant", "step", "multistep", "cosine", "onecycle"; NULL past the last. */
const char *yk_schedule_name(yk_schedule_kind kind);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
