/*
 * torch.optim.lr_scheduler.ReduceLROnPlateau, step by step in the same order: the value is compared
 * with the best one, a cooldown hides bad values, and more bad ones than the patience reduce the
 * rate of each group.
 */
#include <yoke/schedule.h>

#include <math.h>

#include "base/error.h"

static yk_status check(const yk_plateau *p)
{
    if (!(p->factor >= 0 && p->factor < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "plateau: factor must be from 0 to below 1, not %g", p->factor);
    if (p->patience < 0 || p->cooldown < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "plateau: patience %lld, cooldown %lld: expected 0 or more",
                         (long long)p->patience, (long long)p->cooldown);
    if (!(p->threshold >= 0) || !(p->min_lr >= 0) || !(p->eps >= 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "plateau: threshold %g, min_lr %g, eps %g: expected 0 or more",
                         p->threshold, p->min_lr, p->eps);
    return YK_OK;
}

static bool is_better(const yk_plateau *p, double value)
{
    double sign = p->maximize ? 1 : -1;
    double best = isnan(p->best) ? -sign * INFINITY : p->best;
    double bound = p->absolute ? best + sign * p->threshold : best * (1 + sign * p->threshold);
    return p->maximize ? value > bound : value < bound;
}

static yk_status reduce(const yk_plateau *p, yk_optimizer *optimizer, bool *reduced)
{
    for (size_t group = 0; group < yk_optimizer_group_count(optimizer); group++) {
        const char *name;
        double rate;
        yk_optimizer_group_hyperparameter(optimizer, group, 0, &name, &rate); /* "lr" comes first */
        double next = fmax(rate * p->factor, p->min_lr);
        if (rate - next <= p->eps)
            continue;
        YK_TRY(yk_optimizer_set_group_hyperparameter(optimizer, group, name, next));
        *reduced = true;
    }
    return YK_OK;
}

yk_status yk_plateau_step(yk_plateau *plateau, yk_optimizer *optimizer, double value, bool *reduced)
{
    bool changed = false;
    YKI_NOT_NULL(plateau);
    YKI_NOT_NULL(optimizer);
    YK_TRY(check(plateau));
    if (is_better(plateau, value)) {
        plateau->best = value;
        plateau->bad = 0;
    } else {
        plateau->bad++;
    }
    if (plateau->cooldown_left > 0) {
        plateau->cooldown_left--;
        plateau->bad = 0;
    }
    if (plateau->bad > plateau->patience) {
        YK_TRY(reduce(plateau, optimizer, &changed));
        plateau->cooldown_left = plateau->cooldown;
        plateau->bad = 0;
    }
    if (reduced)
        *reduced = changed;
    return YK_OK;
}
