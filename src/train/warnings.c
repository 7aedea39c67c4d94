/* Warnings at the start of a run about settings that are allowed, but are probably mistakes. */
#include "base/log.h"
#include "model/model_hooks.h"
#include "train/sums.h"
#include "train/trainer.h"

/* Whether each of several ranks would train weights of its own. */
static bool trains_apart(const yk_trainer *t)
{
    return yki_ranks_of(t->options.group) > 1 && !t->options.local_sgd &&
           !yki_model_is_distributed(t->model);
}

/* Whether the schedule counts epochs, but is as long as the run has steps. */
static bool mistakes_steps_for_epochs(const yk_trainer *t)
{
    const yk_schedule *s = &t->schedule;
    int64_t most = s->total_steps > s->t_max ? s->total_steps : s->t_max;
    return !s->per_step && t->steps_per_epoch > 1 && most % t->steps_per_epoch == 0 &&
           most / t->steps_per_epoch == t->options.epochs && t->options.epochs > 0;
}

void yki_trainer_warn(yk_trainer *t)
{
    if (t->rank != 0 || t->warned)
        return;
    t->warned = true;
    if (trains_apart(t))
        YKI_WARN("the trainer has %d ranks, but its model has no yk_ddp and there is no "
                 "local_sgd: each rank trains its own weights",
                 yki_ranks_of(t->options.group));
    if (mistakes_steps_for_epochs(t))
        YKI_WARN("the learning-rate schedule counts epochs, but is as long as this run has "
                 "steps; set per_step to count steps");
}
