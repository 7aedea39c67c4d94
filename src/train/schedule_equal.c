/* Whether two learning-rate schedules are the same. */
#include <string.h>

#include "train/trainer.h"

static bool same_one_cycle(const yk_schedule *a, const yk_schedule *b)
{
    return a->total_steps == b->total_steps && a->max_lr == b->max_lr &&
           a->pct_start == b->pct_start && a->div_factor == b->div_factor &&
           a->final_div_factor == b->final_div_factor && a->linear_anneal == b->linear_anneal &&
           a->three_phase == b->three_phase && a->cycle_momentum == b->cycle_momentum &&
           a->base_momentum == b->base_momentum && a->max_momentum == b->max_momentum;
}

static bool same_triangle(const yk_schedule *a, const yk_schedule *b)
{
    return a->total_steps == b->total_steps && a->pct_start == b->pct_start &&
           a->start_factor == b->start_factor && a->end_factor == b->end_factor;
}

static bool same_cycles(const yk_schedule *a, const yk_schedule *b)
{
    return a->cycle_mode == b->cycle_mode && a->base_lr == b->base_lr && a->max_lr == b->max_lr &&
           a->step_size_up == b->step_size_up && a->step_size_down == b->step_size_down &&
           (a->cycle_mode != YK_CYCLE_EXP_RANGE || a->gamma == b->gamma) &&
           a->cycle_momentum == b->cycle_momentum && a->base_momentum == b->base_momentum &&
           a->max_momentum == b->max_momentum;
}

static bool same_decay(const yk_schedule *a, const yk_schedule *b)
{
    switch (a->kind) {
    case YK_SCHEDULE_CONSTANT:
        return true;
    case YK_SCHEDULE_STEP:
        return a->gamma == b->gamma && a->step_size == b->step_size;
    case YK_SCHEDULE_MULTISTEP:
        return a->gamma == b->gamma && a->milestone_count == b->milestone_count &&
               memcmp(a->milestones, b->milestones,
                      (size_t)a->milestone_count * sizeof *a->milestones) == 0;
    case YK_SCHEDULE_COSINE:
        return a->t_max == b->t_max && a->eta_min == b->eta_min;
    case YK_SCHEDULE_ONE_CYCLE:
        return same_one_cycle(a, b);
    case YK_SCHEDULE_TRIANGLE:
        return same_triangle(a, b);
    case YK_SCHEDULE_WARM_RESTARTS:
        return a->t_0 == b->t_0 && a->t_mult == b->t_mult && a->eta_min == b->eta_min;
    case YK_SCHEDULE_POLYNOMIAL:
        return a->total_steps == b->total_steps && a->power == b->power;
    case YK_SCHEDULE_EXPONENTIAL:
        return a->gamma == b->gamma;
    case YK_SCHEDULE_CYCLIC:
        return same_cycles(a, b);
    }
    return false;
}

bool yki_schedule_equal(const yk_schedule *a, const yk_schedule *b)
{
    bool constant = a->kind == YK_SCHEDULE_CONSTANT && a->warmup == 0;
    return a->kind == b->kind && a->warmup == b->warmup &&
           (constant || a->per_step == b->per_step) &&
           (a->warmup == 0 ||
            (a->warmup_factor == b->warmup_factor && a->warmup_constant == b->warmup_constant)) &&
           same_decay(a, b);
}
