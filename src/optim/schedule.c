/*
 * The closed forms of torch.optim.lr_scheduler. PyTorch steps cosine, polynomial, exponential and
 * warm-up by recurrence, which rounds a little differently: the two agree to about 1e-14 of the
 * starting rate.
 *
 * Sources: Loshchilov and Hutter, "SGDR" (2017), for cosine and its restarts; Smith and Topin,
 * "Super-Convergence" (2017), for one-cycle, in PyTorch's two-phase form; Smith, "Cyclical Learning
 * Rates for Training Neural Networks" (2017), for cyclic; Page, "How to Train Your ResNet" (2018),
 * for the triangle.
 */
#include <yoke/schedule.h>

#include <math.h>
#include <string.h>

#include "optim/optimizer.h"

static const double pi = 3.14159265358979323846;

static const char *const names[] = {"constant",    "step",     "multistep",    "cosine",
                                    "onecycle",    "triangle", "warmrestarts", "polynomial",
                                    "exponential", "cyclic"};
static const char *const mode_names[] = {"triangular", "triangular2", "exp_range"};

const char *yk_schedule_name(yk_schedule_kind kind)
{
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *yk_cycle_mode_name(yk_cycle_mode mode)
{
    return (size_t)mode < sizeof mode_names / sizeof *mode_names ? mode_names[mode] : NULL;
}

/* ---- checking -------------------------------------------------------------------------------- */

static yk_status check_count(const yk_schedule *s, const char *name, int64_t count)
{
    if (count > 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "schedule %s: %s must be at least 1, not %lld",
                     yk_schedule_name(s->kind), name, (long long)count);
}

static yk_status check_milestones(const yk_schedule *s)
{
    if (s->milestone_count < 1 || s->milestone_count > YK_MAX_MILESTONES)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "schedule multistep: expected 1 to %d milestones, not %lld",
                         YK_MAX_MILESTONES, (long long)s->milestone_count);
    for (int64_t i = 0; i < s->milestone_count; i++)
        if (s->milestones[i] < 1 || (i && s->milestones[i] < s->milestones[i - 1]))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "schedule multistep: milestones must be 1 or more and in increasing "
                             "order, not %lld",
                             (long long)s->milestones[i]);
    return YK_OK;
}

static yk_status check_divisor(const char *name, double value)
{
    if (value > 0 && isfinite(value))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "schedule onecycle: %s must be above 0, not %g",
                     name, value);
}

static yk_status check_no_warmup(const yk_schedule *s)
{
    if (!s->warmup)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "schedule %s has a warmup of its own; warmup must be 0, not %lld",
                     yk_schedule_name(s->kind), (long long)s->warmup);
}

static yk_status check_factor(const yk_schedule *s, const char *name, double factor)
{
    if (factor >= 0 && factor <= 1)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "schedule %s: %s must be at least 0 and at most 1, not %g",
                     yk_schedule_name(s->kind), name, factor);
}

static yk_status check_triangle(const yk_schedule *s)
{
    YK_TRY(check_count(s, "total_steps", s->total_steps));
    YK_TRY(yki_check_option("schedule triangle", "pct_start", s->pct_start, 0, 1));
    YK_TRY(check_factor(s, "start_factor", s->start_factor));
    YK_TRY(check_factor(s, "end_factor", s->end_factor));
    return check_no_warmup(s);
}

static yk_status check_warm_restarts(const yk_schedule *s)
{
    YK_TRY(check_count(s, "t_0", s->t_0));
    YK_TRY(check_count(s, "t_mult", s->t_mult));
    return yki_check_option("schedule warmrestarts", "eta_min", s->eta_min, 0, 0);
}

static yk_status check_cycle(const yk_schedule *s, const char *who)
{
    if (s->max_lr != YK_LR_INITIAL)
        YK_TRY(yki_check_option(who, "max_lr", s->max_lr, 0, 0));
    YK_TRY(yki_check_option(who, "base_momentum", s->base_momentum, 0, 1));
    YK_TRY(yki_check_option(who, "max_momentum", s->max_momentum, 0, 1));
    return check_no_warmup(s);
}

static yk_status check_one_cycle(const yk_schedule *s)
{
    YK_TRY(check_count(s, "total_steps", s->total_steps));
    YK_TRY(yki_check_option("schedule onecycle", "pct_start", s->pct_start, 0, 1));
    YK_TRY(check_divisor("div_factor", s->div_factor));
    YK_TRY(check_divisor("final_div_factor", s->final_div_factor));
    return check_cycle(s, "schedule onecycle");
}

static yk_status check_cyclic(const yk_schedule *s)
{
    YK_TRY(yki_check_option("schedule cyclic", "base_lr", s->base_lr, 0, 0));
    YK_TRY(check_count(s, "step_size_up", s->step_size_up));
    if (s->step_size_down != 0)
        YK_TRY(check_count(s, "step_size_down", s->step_size_down));
    if (!yk_cycle_mode_name(s->cycle_mode))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "schedule cyclic: there is no cycle_mode %d",
                         (int)s->cycle_mode);
    if (s->cycle_mode == YK_CYCLE_EXP_RANGE) /* growing cycles would leave any range of momenta */
        YK_TRY(check_factor(s, "gamma", s->gamma));
    return check_cycle(s, "schedule cyclic");
}

yk_status yk_schedule_check(const yk_schedule *s)
{
    YKI_NOT_NULL(s);
    if (!yk_schedule_name(s->kind))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no schedule of kind %d",
                         (int)s->kind);
    if (s->warmup < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "schedule %s: warmup must be at least 0, not %lld",
                         yk_schedule_name(s->kind), (long long)s->warmup);
    YK_TRY(check_factor(s, "warmup_factor", s->warmup_factor));
    YK_TRY(yki_check_option("schedule", "gamma", s->gamma, 0, 0));
    switch (s->kind) {
    case YK_SCHEDULE_STEP:
        return check_count(s, "step_size", s->step_size);
    case YK_SCHEDULE_MULTISTEP:
        return check_milestones(s);
    case YK_SCHEDULE_COSINE:
        YK_TRY(yki_check_option("schedule cosine", "eta_min", s->eta_min, 0, 0));
        return check_count(s, "t_max", s->t_max);
    case YK_SCHEDULE_ONE_CYCLE:
        return check_one_cycle(s);
    case YK_SCHEDULE_TRIANGLE:
        return check_triangle(s);
    case YK_SCHEDULE_WARM_RESTARTS:
        return check_warm_restarts(s);
    case YK_SCHEDULE_POLYNOMIAL:
        YK_TRY(yki_check_option("schedule polynomial", "power", s->power, 0, 0));
        return check_count(s, "total_steps", s->total_steps);
    case YK_SCHEDULE_CYCLIC:
        return check_cyclic(s);
    case YK_SCHEDULE_EXPONENTIAL:
    case YK_SCHEDULE_CONSTANT:
        break;
    }
    return YK_OK;
}

static yk_status check_at(const yk_schedule *s, int64_t t)
{
    YK_TRY(yk_schedule_check(s));
    if (t >= 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "schedule %s: t must be at least 0, not %lld",
                     yk_schedule_name(s->kind), (long long)t);
}

/* ---- one-cycle ------------------------------------------------------------------------------- */

/* What a phase goes between; it ends at step `end`. */
typedef enum level { FIRST, PEAK, LAST } level;

typedef struct phase {
    double end;
    level from, to;
} phase;

/* Where in which phase t lies: 0 at its begin, 1 at its end. */
static double find_phase(const yk_schedule *s, int64_t t, phase *found)
{
    double rise = s->pct_start * (double)s->total_steps;
    double last = (double)s->total_steps - 1;
    const phase two[] = {{rise - 1, FIRST, PEAK}, {last, PEAK, LAST}};
    const phase three[] = {
        {rise - 1, FIRST, PEAK}, {2 * rise - 2, PEAK, FIRST}, {last, FIRST, LAST}};
    const phase *phases = s->three_phase ? three : two;
    int count = s->three_phase ? 3 : 2, i = 0;
    double at = fmin((double)t, last), begin = 0;
    while (i + 1 < count && at > phases[i].end)
        begin = phases[i++].end;
    *found = phases[i];
    return found->end > begin ? (at - begin) / (found->end - begin) : 1;
}

static double anneal(const yk_schedule *s, double from, double to, double share)
{
    if (s->linear_anneal)
        return (to - from) * share + from;
    return to + (from - to) / 2 * (cos(pi * share) + 1);
}

static double one_cycle_lr(const yk_schedule *s, int64_t t, double initial_lr)
{
    double peak = s->max_lr == YK_LR_INITIAL ? initial_lr : s->max_lr, first = peak / s->div_factor;
    double rates[] = {[FIRST] = first, [PEAK] = peak, [LAST] = first / s->final_div_factor};
    phase now;
    double share = find_phase(s, t, &now);
    return anneal(s, rates[now.from], rates[now.to], share);
}

/* ---- cyclic ---------------------------------------------------------------------------------- */

/* How far the rate at t is from base_lr, as a share of the distance to max_lr. */
static double cyclic_share(const yk_schedule *s, int64_t t)
{
    int64_t up = s->step_size_up, down = s->step_size_down ? s->step_size_down : up, length;
    if (__builtin_add_overflow(up, down, &length))
        length = INT64_MAX;
    int64_t cycle = t / length, at = t % length;
    double scale = 1;
    if (s->cycle_mode == YK_CYCLE_TRIANGULAR2)
        scale = exp2(-(double)cycle);
    else if (s->cycle_mode == YK_CYCLE_EXP_RANGE)
        scale = pow(s->gamma, (double)t);
    return scale * (at <= up ? (double)at / (double)up : (double)(length - at) / (double)down);
}

static double cyclic_lr(const yk_schedule *s, int64_t t, double initial_lr)
{
    double peak = s->max_lr == YK_LR_INITIAL ? initial_lr : s->max_lr;
    return s->base_lr + (peak - s->base_lr) * cyclic_share(s, t);
}

/* ---- momentum -------------------------------------------------------------------------------- */

static bool momentum_at(const yk_schedule *s, int64_t t, double *momentum)
{
    bool one_cycle = s->kind == YK_SCHEDULE_ONE_CYCLE, cyclic = s->kind == YK_SCHEDULE_CYCLIC;
    if (!(one_cycle || cyclic) || !s->cycle_momentum)
        return false;
    if (cyclic) {
        *momentum = s->max_momentum - (s->max_momentum - s->base_momentum) * cyclic_share(s, t);
        return true;
    }
    double high = s->max_momentum, low = s->base_momentum;
    double momenta[] = {[FIRST] = high, [PEAK] = low, [LAST] = high};
    phase now;
    double share = find_phase(s, t, &now);
    *momentum = anneal(s, momenta[now.from], momenta[now.to], share);
    return true;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* gamma each step_size or at each milestone up to t, multiplied one after the other as PyTorch
 * does, so that the result is PyTorch's to the bit, or until that changes nothing: 0, or gamma 1.
 */
static double decay(const yk_schedule *s, int64_t t, double lr)
{
    double gamma = s->gamma;
    int64_t times = 0;
    if (s->kind == YK_SCHEDULE_STEP)
        times = t / s->step_size;
    else
        while (times < s->milestone_count && s->milestones[times] <= t)
            times++;
    for (; times > 0 && lr > 0 && lr * gamma != lr; times--)
        lr *= gamma;
    return lr;
}

/* From the whole rate at t = 0 to eta_min at t = length. */
static double half_cosine(const yk_schedule *s, int64_t t, int64_t length, double initial_lr)
{
    return s->eta_min + (initial_lr - s->eta_min) * (1 + cos(pi * (double)t / (double)length)) / 2;
}

static double warm_restarts_lr(const yk_schedule *s, int64_t t, double initial_lr)
{
    int64_t length = s->t_0;
    if (s->t_mult == 1)
        return half_cosine(s, t % length, length, initial_lr);
    while (t >= length) {
        t -= length;
        if (__builtin_mul_overflow(length, s->t_mult, &length))
            length = INT64_MAX;
    }
    return half_cosine(s, t, length, initial_lr);
}

static double polynomial_factor(const yk_schedule *s, int64_t t)
{
    double last = (double)s->total_steps;
    return pow(1 - fmin((double)t, last) / last, s->power);
}

/* Up from start_factor to 1 over the first pct_start of the steps, then down to end_factor. */
static double triangle_factor(const yk_schedule *s, int64_t t)
{
    double last = (double)s->total_steps, at = fmin((double)t, last);
    double peak = floor(s->pct_start * last);
    if (at < peak)
        return s->start_factor + (1 - s->start_factor) * at / peak;
    return 1 - (1 - s->end_factor) * (at - peak) / (last - peak);
}

static double lr_at(const yk_schedule *s, int64_t t, double initial_lr)
{
    if (t < s->warmup) {
        double factor = s->warmup_factor;
        double at = s->warmup_constant ? 0 : (double)t / (double)s->warmup;
        return initial_lr * (factor + (1 - factor) * at);
    }
    t -= s->warmup;
    switch (s->kind) {
    case YK_SCHEDULE_STEP:
    case YK_SCHEDULE_MULTISTEP:
        return decay(s, t, initial_lr);
    case YK_SCHEDULE_COSINE:
        return half_cosine(s, t, s->t_max, initial_lr);
    case YK_SCHEDULE_ONE_CYCLE:
        return one_cycle_lr(s, t, initial_lr);
    case YK_SCHEDULE_TRIANGLE:
        return initial_lr * triangle_factor(s, t);
    case YK_SCHEDULE_WARM_RESTARTS:
        return warm_restarts_lr(s, t, initial_lr);
    case YK_SCHEDULE_POLYNOMIAL:
        return initial_lr * polynomial_factor(s, t);
    case YK_SCHEDULE_EXPONENTIAL:
        return initial_lr * pow(s->gamma, (double)t);
    case YK_SCHEDULE_CYCLIC:
        return cyclic_lr(s, t, initial_lr);
    case YK_SCHEDULE_CONSTANT:
        break;
    }
    return initial_lr;
}

double yk_schedule_lr(const yk_schedule *schedule, int64_t t, double initial_lr)
{
    return check_at(schedule, t) == YK_OK ? lr_at(schedule, t, initial_lr) : (double)NAN;
}

bool yk_schedule_momentum(const yk_schedule *schedule, int64_t t, double *momentum)
{
    return momentum && check_at(schedule, t) == YK_OK && momentum_at(schedule, t, momentum);
}

/* ---- the optimizer's groups ------------------------------------------------------------------ */

/* The hyperparameter that cycles: momentum, or Adam's beta1. */
static int momentum_index(const yki_optimizer_rule *rule)
{
    int i = 0;
    while (i < rule->hyperparameters && strcmp(rule->hyperparameter_names[i], "momentum") != 0 &&
           strcmp(rule->hyperparameter_names[i], "beta1") != 0)
        i++;
    return i;
}

static bool has_momentum(const yk_optimizer *optimizer, int index)
{
    double some[YKI_MAX_HYPERPARAMETERS];
    if (index == optimizer->rule->hyperparameters)
        return false;
    memcpy(some, optimizer->groups[0].hyperparameters, sizeof some);
    some[index] = 0.5;
    return yki_optimizer_lacking(optimizer, some) == 0;
}

yk_status yk_schedule_apply(const yk_schedule *schedule, yk_optimizer *optimizer, int64_t t)
{
    YK_TRY(check_at(schedule, t));
    YKI_NOT_NULL(optimizer);
    double momentum;
    bool cycles = momentum_at(schedule, t, &momentum);
    int index = momentum_index(optimizer->rule);
    if (cycles && !has_momentum(optimizer, index))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "schedule %s cycles the momentum, and this %s has none; without "
                         "cycle_momentum it needs none",
                         yk_schedule_name(schedule->kind), optimizer->rule->name);
    for (size_t g = 0; g < optimizer->group_count; g++) {
        yki_param_group *group = &optimizer->groups[g];
        group->hyperparameters[YKI_LR] = t < group->end ? lr_at(schedule, t, group->initial_lr) : 0;
        if (cycles)
            group->hyperparameters[index] = momentum;
    }
    return YK_OK;
}
