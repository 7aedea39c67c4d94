/*
 * Lookahead: Zhang, Lucas, Hinton, Ba, "Lookahead Optimizer: k steps forward, 1 step back" (2019),
 * with a decay that may grow during training, as in Jordan's airbench (2024). It averages buffers
 * such as running statistics, too.
 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "optim/average.h"
#include "optim/optimizer.h"

struct yk_lookahead {
    yki_reference reference;
    yk_optimizer *optimizer; /* kept alive by slow */
    yk_lookahead_options options;
    yk_ema *slow;
    int64_t last; /* the optimizer's steps at the last update or, after that, as they were set */
};

static yk_status check_lookahead(const yk_lookahead_options *o)
{
    YK_TRY(yki_check_option("lookahead", "decay", o->decay, 0, 1));
    YK_TRY(yki_check_option("lookahead", "power", o->power, 0, 0));
    if (o->interval < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "lookahead: interval must be at least 1, not %lld",
                         (long long)o->interval);
    if (o->total_steps < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "lookahead: total_steps must be at least 1, not %lld",
                         (long long)o->total_steps);
    return YK_OK;
}

yk_status yk_lookahead_create(yk_lookahead **lookahead, yk_optimizer *optimizer,
                              const yk_lookahead_options *options)
{
    YKI_NOT_NULL(lookahead);
    *lookahead = NULL;
    YKI_NOT_NULL(optimizer);
    yk_lookahead_options chosen;
    yk_ema_options average = YK_EMA_OPTIONS_INIT;
    YK_TRY(YKI_READ_OPTIONS(&chosen, options, yk_lookahead_options, YK_LOOKAHEAD_OPTIONS_INIT));
    YK_TRY(check_lookahead(&chosen));
    if (optimizer->lookahead)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the optimizer already has a Lookahead");
    yk_lookahead *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "Lookahead");
    yki_reference_init(&made->reference);
    made->optimizer = optimizer;
    made->options = chosen;
    made->last = yk_optimizer_steps(optimizer);
    average.use_buffers = true;
    yk_status status = yki_average_create(&made->slow, optimizer, &average);
    if (status == YK_OK)
        status = yki_average_copy(made->slow);
    if (status != YK_OK) {
        yk_lookahead_destroy(made);
        return status;
    }
    *lookahead = optimizer->lookahead = made;
    return YK_OK;
}

void yki_lookahead_retain(yk_lookahead *lookahead)
{
    yki_reference_retain(&lookahead->reference);
}

void yk_lookahead_destroy(yk_lookahead *lookahead)
{
    if (!lookahead || !yki_reference_release(&lookahead->reference))
        return;
    if (lookahead->slow && lookahead->optimizer->lookahead == lookahead)
        lookahead->optimizer->lookahead = NULL;
    yk_ema_destroy(lookahead->slow);
    free(lookahead);
}

static yk_status check_not_averaged(const yk_lookahead *lookahead)
{
    if (!lookahead->optimizer->averaged)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "cannot look ahead on averaged weights: call yk_ema_swap first");
}

yk_status yk_lookahead_update(yk_lookahead *lookahead)
{
    YKI_NOT_NULL(lookahead);
    int64_t step = yk_optimizer_steps(lookahead->optimizer);
    YK_TRY(check_not_averaged(lookahead));
    if (step == lookahead->last)
        return YK_OK; /* a grad scaler has skipped the step since then */
    lookahead->last = step;
    return yki_lookahead_update_at(lookahead, step, NULL);
}

yk_status yki_lookahead_update_at(yk_lookahead *lookahead, int64_t step, const double *skip)
{
    const yk_lookahead_options *o = &lookahead->options;
    bool due = step % o->interval == 0, over = step == o->total_steps;
    YK_TRY(check_not_averaged(lookahead));
    if (due) {
        double share = fmin(1, (double)step / (double)o->total_steps);
        double decay = o->power > 0 ? o->decay * pow(share, o->power) : o->decay;
        YK_TRY(yki_average_approach(lookahead->slow, 1 - decay, skip));
    }
    return due || over ? yki_average_restore(lookahead->slow, skip) : YK_OK;
}

yk_status yki_lookahead_end_update(yk_lookahead *lookahead, bool taken)
{
    return yki_average_end(lookahead->slow, taken);
}

void yki_lookahead_restart(yk_lookahead *lookahead, int64_t steps)
{
    lookahead->last = steps;
}

yk_ema *yki_optimizer_slow_weights(const yk_optimizer *optimizer)
{
    return optimizer->lookahead ? optimizer->lookahead->slow : NULL;
}
