/* Comparing learning-rate schedules, and saying what they are. */
#include <stdio.h>
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
    }
    return false;
}

bool yki_schedule_equal(const yk_schedule *a, const yk_schedule *b)
{
    bool constant = a->kind == YK_SCHEDULE_CONSTANT && a->warmup == 0;
    return a->kind == b->kind && a->warmup == b->warmup &&
           (constant || a->per_step == b->per_step) &&
           (a->warmup == 0 || a->warmup_factor == b->warmup_factor) && same_decay(a, b);
}

const char *yki_schedule_text(const yk_schedule *s, char *text, size_t size)
{
    const char *unit = s->per_step ? "steps" : "epochs";
    char length[64] = "", warmup[64] = "";
    if (s->kind == YK_SCHEDULE_STEP)
        snprintf(length, sizeof length, " every %lld %s", (long long)s->step_size, unit);
    else if (s->kind == YK_SCHEDULE_COSINE)
        snprintf(length, sizeof length, " over %lld %s", (long long)s->t_max, unit);
    else if (s->kind == YK_SCHEDULE_ONE_CYCLE)
        snprintf(length, sizeof length, " over %lld %s", (long long)s->total_steps, unit);
    if (s->warmup)
        snprintf(warmup, sizeof warmup, " after a warm-up of %lld %s", (long long)s->warmup, unit);
    snprintf(text, size, "%s%s%s", yk_schedule_name(s->kind), length, warmup);
    return text;
}
