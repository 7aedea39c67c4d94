/* What the options of `yoke train` say about learning rates, their schedule and weight decay. */
#include <math.h>
#include <stdlib.h>

#include "train/train.h"

double cli_train_lr_factor(const cli_train_options *o, int64_t ranks)
{
    return o->lr_scale == CLI_LR_SCALE_LINEAR ? (double)ranks
           : o->lr_scale == CLI_LR_SCALE_SQRT ? sqrt((double)ranks)
                                              : 1;
}

static yk_status parse_milestones(yk_schedule *schedule, const char *text)
{
    for (const char *at = text ? text : ""; *at;) {
        char *end;
        long long milestone = strtoll(at, &end, 10);
        if (end == at || (*end && (*end != ',' || !end[1])) ||
            schedule->milestone_count == YK_MAX_MILESTONES)
            return YK_ERROR_INVALID_ARGUMENT;
        schedule->milestones[schedule->milestone_count++] = milestone;
        at = end + (*end == ',');
    }
    return YK_OK;
}

int64_t cli_train_units(double epochs, int64_t per_epoch)
{
    const double rounding = 1e-9; /* 1.1 x 10 is a little more than 11 */
    return (int64_t)ceil(epochs * (double)per_epoch - rounding);
}

int64_t cli_train_steps(const cli_train_options *o, int64_t steps_per_epoch)
{
    return cli_train_units(o->epochs, steps_per_epoch);
}

bool cli_train_falls_to_the_end(const cli_train_options *o)
{
    return o->schedule.kind == YK_SCHEDULE_COSINE || o->schedule.kind == YK_SCHEDULE_POLYNOMIAL;
}

yk_status cli_train_schedule(yk_schedule *s, const cli_train_options *o, int64_t steps_per_epoch)
{
    int64_t unit = o->schedule.per_step ? steps_per_epoch : 1;
    *s = o->schedule;
    s->warmup = o->warmup_steps ? o->warmup_steps : o->warmup_epochs * unit;
    int64_t whole = cli_train_units(o->epochs, unit);
    s->t_max = whole - s->warmup;
    s->total_steps = cli_train_falls_to_the_end(o) ? s->t_max : whole;
    s->max_lr = YK_LR_INITIAL; /* each group's own: see cli_train_first_lr */
    if (cli_train_falls_to_the_end(o) && s->t_max < 1)
        return yk_set_error(YK_ERROR_INVALID_ARGUMENT,
                            "--warmup-steps %lld: training takes %lld steps, and --schedule %s "
                            "needs some after the warm-up",
                            (long long)s->warmup, (long long)whole, yk_schedule_name(s->kind));
    if (parse_milestones(s, o->milestones) != YK_OK)
        return YK_ERROR_INVALID_ARGUMENT;
    return yk_schedule_check(s);
}

bool cli_train_cycles(const cli_train_options *o)
{
    return o->schedule.kind == YK_SCHEDULE_ONE_CYCLE || o->schedule.kind == YK_SCHEDULE_CYCLIC;
}

bool cli_train_cycles_momentum(const cli_train_options *o)
{
    return cli_train_cycles(o) && o->schedule.cycle_momentum;
}

bool cli_train_needs_gamma(const cli_train_options *o)
{
    return o->schedule.kind == YK_SCHEDULE_EXPONENTIAL ||
           (o->schedule.kind == YK_SCHEDULE_CYCLIC && o->schedule.cycle_mode == YK_CYCLE_EXP_RANGE);
}

bool cli_train_has_peak(const cli_train_options *o)
{
    return cli_train_cycles(o) && o->schedule.max_lr != YK_LR_INITIAL;
}

double cli_train_first_lr(const cli_train_options *o)
{
    return cli_train_has_peak(o) ? o->schedule.max_lr : o->lr;
}

double cli_train_decay(const cli_train_options *o, double rate)
{
    if (!o->independent_decay)
        return o->weight_decay;
    return rate > 0 ? o->weight_decay / rate : 0; /* without a rate, nothing decays */
}
