/* Describing a learning-rate schedule in words. */
#include <stdarg.h>
#include <stdio.h>

#include <yoke/schedule.h>

#include "base/text.h"

/* Where the text goes: what does not fit is cut off. */
typedef struct writer {
    char *text;
    size_t size, used;
} writer;

__attribute__((format(printf, 2, 3))) static void add(writer *w, const char *format, ...)
{
    va_list arguments;
    if (w->used >= w->size)
        return;
    va_start(arguments, format);
    int length = vsnprintf(w->text + w->used, w->size - w->used, format, arguments);
    va_end(arguments);
    w->used += length > 0 ? (size_t)length : 0;
}

static void add_length(writer *w, const yk_schedule *s, const char *before, int64_t length)
{
    add(w, "%s%lld %s", before, (long long)length,
        s->per_step ? yki_plural(length, "step", "steps") : yki_plural(length, "epoch", "epochs"));
}

static void add_cycles(writer *w, const yk_schedule *s, double initial_lr)
{
    const char *mode = yk_cycle_mode_name(s->cycle_mode);
    add(w, ", %s", mode ? mode : "unknown");
    if (s->cycle_mode == YK_CYCLE_EXP_RANGE)
        add(w, " %g", s->gamma);
    add(w, ", from %g to %g", s->base_lr, s->max_lr == YK_LR_INITIAL ? initial_lr : s->max_lr);
    add_length(w, s, " over ", s->step_size_up);
    add_length(w, s, " and back over ", s->step_size_down ? s->step_size_down : s->step_size_up);
    if (s->cycle_momentum)
        add(w, ", momentum %g to %g", s->max_momentum, s->base_momentum);
}

static void add_decay(writer *w, const yk_schedule *s, double initial_lr)
{
    switch (s->kind) {
    case YK_SCHEDULE_CONSTANT:
        break;
    case YK_SCHEDULE_STEP:
        add_length(w, s, ", every ", s->step_size);
        add(w, " x %g", s->gamma);
        break;
    case YK_SCHEDULE_MULTISTEP:
        for (int64_t i = 0; i < s->milestone_count && i < YK_MAX_MILESTONES; i++)
            add_length(w, s, i ? ", " : " after ", s->milestones[i]);
        add(w, " x %g", s->gamma);
        break;
    case YK_SCHEDULE_COSINE:
        add_length(w, s, " over ", s->t_max);
        add(w, " to %g", s->eta_min);
        break;
    case YK_SCHEDULE_ONE_CYCLE:
        add_length(w, s, " over ", s->total_steps);
        add(w, " with its peak at %g", s->max_lr == YK_LR_INITIAL ? initial_lr : s->max_lr);
        if (s->cycle_momentum)
            add(w, ", momentum %g to %g", s->max_momentum, s->base_momentum);
        break;
    case YK_SCHEDULE_TRIANGLE:
        add_length(w, s, " over ", s->total_steps);
        add(w, ", from %g to 1 at %g of them, then to %g", s->start_factor, s->pct_start,
            s->end_factor);
        break;
    case YK_SCHEDULE_WARM_RESTARTS:
        add_length(w, s, s->t_mult > 1 ? " after " : " every ", s->t_0);
        if (s->t_mult > 1)
            add(w, ", then each time after %lld times as many", (long long)s->t_mult);
        add(w, ", falling to %g", s->eta_min);
        break;
    case YK_SCHEDULE_POLYNOMIAL:
        add_length(w, s, " over ", s->total_steps);
        add(w, " to 0, power %g", s->power);
        break;
    case YK_SCHEDULE_EXPONENTIAL:
        add(w, ", every %s x %g", s->per_step ? "step" : "epoch", s->gamma);
        break;
    case YK_SCHEDULE_CYCLIC:
        add_cycles(w, s, initial_lr);
        break;
    }
}

const char *yk_schedule_describe(const yk_schedule *s, double initial_lr, char *text, size_t size)
{
    writer w = {.size = text ? size : 0};
    w.text = text;
    const char *name = s ? yk_schedule_name(s->kind) : NULL;
    add(&w, "%s", name ? name : "unknown");
    if (!name)
        return text;
    add_decay(&w, s, initial_lr);
    if (s->warmup) {
        add_length(&w, s, ", after a warm-up of ", s->warmup);
        add(&w, s->warmup_constant ? " at %.3g" : " from %.3g", s->warmup_factor * initial_lr);
    }
    return text;
}
