/*
 * What becomes of a step's losses: ranks add them up, training stops if they are not finite, and
 * the record of the step tells of them. Where losses are late (losses.h), all of this is done when
 * the next step's passes have been entered, or at the end of the step if no other step follows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/trace.h"
#include "comm/group_internal.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "train/sums.h"
#include "train/trainer.h"

enum { TOTALS = sizeof(yki_step_totals) / sizeof(double) };
/* A grad scaler skips steps whose loss is not finite. After so many in a row it is no longer the
 * data: the weights themselves are at fault, and nothing changes them any more. */
enum { BAD_LOSSES = 100 };

/* ---- losses that are not finite -------------------------------------------------------------- */

static yk_status loss_error(const yk_trainer *t, int64_t step, double loss)
{
    char advice[600] = "and restart";
    if (t->bad_losses > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "step %lld: the loss has not been finite in %lld steps in a row, which "
                         "were all skipped. Try a learning rate below %g, gradient clipping or a "
                         "warm-up, and restart, or resume from a checkpoint before step %lld",
                         (long long)step, (long long)t->bad_losses, t->state.lr,
                         (long long)(step - t->bad_losses + 1));
    if (t->saved_step >= 0 && t->options.output)
        snprintf(advice, sizeof advice, "and resume from the newest checkpoint in %s",
                 t->options.output);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "step %lld: the loss is %s; stopped before the weights were updated. Try a "
                     "learning rate below %g, gradient clipping or a warm-up, %s",
                     (long long)step,
                     isnan(loss) ? "nan"
                     : loss > 0  ? "inf"
                                 : "-inf",
                     t->state.lr, advice);
}

/*
 * An error when the sum of all ranks' losses is not finite. All ranks have the same sum, so they
 * come here together; the line is that of the first rank whose own loss is not finite.
 */
static yk_status check_loss(yk_trainer *t, int64_t step, double sum, double own)
{
    int ranks = yki_ranks_of(t->options.group), first = 0;
    t->bad_losses = t->options.scaler && !isfinite(sum) ? t->bad_losses + 1 : 0;
    if (!t->options.check_loss || isfinite(sum) ||
        (t->options.scaler && t->bad_losses < BAD_LOSSES))
        return YK_OK;
    double *losses = yki_calloc((size_t)ranks, sizeof *losses);
    if (!losses || !t->options.group) {
        free(losses);
        return loss_error(t, step, own);
    }
    yk_status status = yk_all_gather(t->options.group, losses, &own, 1, YK_F64, NULL);
    while (first < ranks - 1 && isfinite(losses[first]))
        first++;
    free(losses);
    if (status != YK_OK)
        return status;
    loss_error(t, step, own);
    if (first == t->rank) {
        yki_group_report_cause(t->options.group, YK_ERROR_INVALID_ARGUMENT);
        return YK_ERROR_INVALID_ARGUMENT;
    }
    return yki_error(YK_ERROR_PEER_FAILED,
                     "stopped because the loss of rank %d is not finite (step %lld)",
                     yki_group_job_rank(t->options.group, first), (long long)step);
}

/* All ranks know it: rank 0 tells of it. */
static yk_status fail_together(const yk_trainer *t, yk_status status)
{
    if (t->rank > 0)
        return yki_error(YK_ERROR_PEER_FAILED, "stopped because rank 0 did, after step %lld",
                         (long long)t->state.step);
    if (t->options.group)
        yki_group_report_cause(t->options.group, status);
    return status;
}

/*
 * Every step was skipped. As long as the losses are finite and gradients are still scaled up, this
 * is how a run begins whose first scale is too large: it has only been too short.
 */
static yk_status judge_skipped_run(const yk_trainer *t)
{
    long long steps = (long long)t->state.step;
    double scale = yk_grad_scaler_scale(t->options.scaler);
    if (t->bad_losses > 0 || scale < 1)
        return fail_together(
            t, yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "none of the %lld steps was taken: in each of them the loss or a gradient "
                         "was not finite, and the weights are those of the start. Look for such "
                         "values in the data, or start with a scale below the last one, %g",
                         steps, scale));
    if (t->rank == 0)
        YKI_WARN(
            "all %lld %s skipped, and the weights are those of the start: gradients "
            "times the loss scale were not finite. Each skipped step has lowered the scale, now "
            "to %g; train for more steps, or start with that scale",
            steps, yki_plural(steps, "step was", "steps were"), scale);
    return YK_OK;
}

yk_status yki_trainer_check_end(const yk_trainer *t, double loss)
{
    if (!t->options.scaler || !t->options.check_loss || t->state.step == 0)
        return YK_OK;
    if (yk_optimizer_steps(t->optimizer) == 0)
        return judge_skipped_run(t);
    return t->bad_losses > 0 && !isfinite(loss)
               ? fail_together(t, loss_error(t, t->state.step, loss))
               : YK_OK;
}

yk_status yki_trainer_settle(void *context)
{
    yk_trainer *t = context;
    if (!t->undecided)
        return YK_OK;
    t->undecided = false;
    yk_status status = yki_losses_read(&t->losses);
    bool taken = status != YK_OK || !yki_losses_are_bad(&t->losses);
    yki_optimizer_end_step(t->optimizer, taken);
    if (status == YK_OK && t->options.lookahead)
        status = yki_lookahead_end_update(t->options.lookahead, taken);
    if (status == YK_OK && t->options.ema)
        status = yki_ema_end_update(t->options.ema, taken);
    return status;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Names the rank that the others have waited for in this step, for the timeline. */
static yk_status name_slow_rank(const yk_trainer *t, yki_trace_args *args, double begin_s,
                                double waited_s)
{
    yk_slow_rank slow;
    waited_s += yk_ddp_last_stats(t->options.ddp).waiting_s;
    YK_TRY(yk_find_slow_rank(&slow, t->options.group, waited_s, yki_now() - begin_s));
    if (slow.rank >= 0)
        *args = (yki_trace_args){.key = {"slowest_rank", "waited_us"},
                                 .value = {slow.rank, (int64_t)(1e6 * slow.waited_s)}};
    return YK_OK;
}

/* Waits for the losses that were taken last, if they are late, and for what depends on them. */
static yk_status read_taken(yk_trainer *t)
{
    YK_TRY(yki_losses_read(&t->losses));
    return yki_trainer_settle(t);
}

/* Sets t->totals to this rank's losses that were taken last, or to zeros. Returns their mean, over
 * the samples of this rank alone. */
static double fill_totals(yk_trainer *t, bool with_losses)
{
    const yki_losses *losses = &t->losses;
    double loss = 0, samples = 0;
    memset(t->totals, 0, (size_t)t->virtual_ranks * sizeof *t->totals);
    for (int64_t i = 0; with_losses && i < losses->taken_count; i++) {
        yki_step_totals *totals = &t->totals[i % t->virtual_ranks];
        totals->loss += losses->taken[i].loss * losses->taken[i].samples;
        totals->samples += losses->taken[i].samples;
    }
    for (int i = 0; i < t->virtual_ranks; i++) {
        loss += t->totals[i].loss;
        samples += t->totals[i].samples;
    }
    return samples > 0 ? loss / samples : 0;
}

/* Adds up all ranks' totals, into the first. The running step began at begin_s. */
static yk_status sum_totals(yk_trainer *t, double begin_s, yk_step_record *record)
{
    yki_trace_args args = YKI_NO_ARGS;
    double begin = yki_trace_begin(), exchange_s = yki_now();
    t->totals->tracing = begin > 0;
    t->totals->looking = yki_trainer_looks_for_slow_rank(t);
    YK_TRY(yki_sum_over_ranks(t->options.group, &t->totals->loss, t->virtual_ranks, TOTALS,
                              &t->totals[t->virtual_ranks].loss));
    double waited_s = t->options.group ? yki_group_waited(t->options.group, exchange_s) : 0;
    /* All ranks take part in what any of them asks for. */
    if (t->totals->tracing > 0)
        YK_TRY(name_slow_rank(t, &args, begin_s, waited_s));
    if (t->totals->looking > 0)
        YK_TRY(yki_trainer_name_slow_rank(t));
    if (t->options.ddp || t->options.local_sgd) {
        record->waiting_s += waited_s;
        record->exposed_comm_s += yki_now() - exchange_s - waited_s;
    }
    YKI_TRACE_END(begin, args, "share the loss");
    return YK_OK;
}

/* What ranks agree on once in each step. */
static yk_status fill_wishes(yk_trainer *t)
{
    t->totals->stopping = yki_wants_to_stop(t);
    return yki_trainer_check_saved(t, &t->totals->saved);
}

/* ---- the record ------------------------------------------------------------------------------ */

yk_status yki_trainer_tell_step(yk_trainer *t)
{
    yk_step_record *record = &t->record;
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    if (!t->has_record)
        return YK_OK;
    t->has_record = false;
    if (record->has_grad_norm)
        YK_TRY(yki_clip_norm(t->optimizer, &record->grad_norm));
    record->skipped = yk_grad_scaler_found_inf(t->options.scaler);
    return callbacks->on_step ? callbacks->on_step(callbacks->context, t, record) : YK_OK;
}

/* Whether on_step may wait for the next step: nothing that must follow it happens before. */
static bool can_lag(const yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    int64_t step = t->state.step;
    bool saves = (o->output && t->owes_save && yki_ranks_are_equal(t)) || t->totals->saved > 0;
    bool compares = o->ddp && step % o->check_divergence == 0;
    bool ends = t->state.epoch_batch == t->steps_per_epoch || t->stopped || yki_steps_are_over(t);
    return t->lags && !saves && !compares && !ends;
}

/* All but the loss. */
static void fill_record(yk_trainer *t, double begin_s, yk_step_record *record)
{
    double step_s = yki_now() - begin_s;
    if (t->options.ddp) {
        yk_ddp_stats stats = yk_ddp_last_stats(t->options.ddp);
        record->waiting_s += stats.waiting_s;
        /* A device tells of an earlier step, which may have taken longer than this one. */
        double left = step_s - record->data_s - record->waiting_s - record->exposed_comm_s;
        record->exposed_comm_s += fmin(stats.exposed_s, fmax(left, 0));
    }
    record->epoch = t->state.epoch + 1;
    record->step = t->state.step;
    record->steps = 1;
    record->lr = t->state.lr;
    record->compute_s = step_s - record->data_s - record->waiting_s - record->exposed_comm_s;
    t->slow.steps++;
    t->slow.waiting_s += record->waiting_s;
    t->slow.all_s += step_s;
    t->times.data_s += record->data_s;
    t->times.compute_s += record->compute_s;
    t->times.waiting_s += record->waiting_s;
    t->times.exposed_comm_s += record->exposed_comm_s;
    t->record = *record;
    t->record_s = step_s;
}

/* Completes the record with the totals of all ranks. */
static void add_loss(yk_trainer *t)
{
    const yki_step_totals *totals = t->totals;
    t->record.loss = totals->loss / totals->samples;
    t->record.images_per_s = totals->samples / t->record_s;
    t->state.epoch_loss += totals->loss;
    t->state.epoch_samples += totals->samples;
    t->has_record = true;
}

/* A step that the device has left out has not been made. */
static void undo_step(yk_trainer *t)
{
    t->state.step--;
    t->state.epoch_batch--;
}

/* As add_loss, for losses that were late. */
static yk_status accept_losses(yk_trainer *t, double own)
{
    double lr = t->state.lr;
    t->state.lr = t->lr_before;
    yk_status status = check_loss(t, t->record.step, t->totals->loss, own);
    if (status == YK_OK) {
        t->state.lr = lr;
        add_loss(t);
        return YK_OK;
    }
    undo_step(t);
    return status;
}

yk_status yki_trainer_record_step(yk_trainer *t, double begin_s, yk_step_record *record, bool late)
{
    bool lags = can_lag(t);
    double own = 0;
    if (late && !lags) {
        YK_TRY(read_taken(t));
        own = fill_totals(t, true);
        YK_TRY(sum_totals(t, begin_s, record));
    }
    fill_record(t, begin_s, record);
    t->awaits_loss = late && lags;
    if (t->awaits_loss)
        return YK_OK;
    if (late)
        YK_TRY(accept_losses(t, own));
    else
        add_loss(t);
    return lags ? YK_OK : yki_trainer_tell_step(t);
}

yk_status yki_trainer_tell_last_step(yk_trainer *t)
{
    bool awaited = t->awaits_loss, guarded = t->undecided;
    t->awaits_loss = false;
    if (awaited && yki_ranks_of(t->options.group) == 1) {
        yk_step_record unused = {.epoch = 0};
        YK_TRY(read_taken(t));
        double own = fill_totals(t, true);
        YK_TRY(sum_totals(t, yki_now(), &unused));
        YK_TRY(accept_losses(t, own));
    } else if (awaited && guarded) {
        YK_TRY(read_taken(t));
        if (yki_losses_are_bad(&t->losses))
            undo_step(t);
    }
    return yki_trainer_tell_step(t);
}

/* ---- in a step ------------------------------------------------------------------------------- */

/* Whether the running step's losses may be late: nothing depends on them, or the device itself
 * leaves out an update that does. */
static yk_status take_losses(yk_trainer *t, const double **skip, bool *late)
{
    *skip = NULL;
    *late = t->losses.late;
    if (!*late || !t->options.check_loss || t->options.scaler)
        return yki_losses_take(&t->losses);
    YK_TRY(yki_losses_take_guarded(&t->losses, yki_ranks_of(t->options.group), skip));
    *late = *skip != NULL;
    t->losses.late = *late; /* of the next steps: what ranks cannot agree on now, they never can */
    return YK_OK;
}

/* The losses of the running step, before the weights are updated. */
static yk_status share_now(yk_trainer *t, double begin_s, yk_step_record *record)
{
    YK_TRY(read_taken(t));
    double own = fill_totals(t, true);
    YK_TRY(fill_wishes(t));
    YK_TRY(sum_totals(t, begin_s, record));
    return check_loss(t, t->state.step + 1, t->totals->loss, own);
}

yk_status yki_trainer_share_losses(yk_trainer *t, double begin_s, yk_step_record *record,
                                   const double **skip, bool *late)
{
    bool awaited = t->awaits_loss;
    t->awaits_loss = false;
    YK_TRY(yki_trainer_tell_step(t)); /* of the step before, unless its losses are awaited */
    YK_TRY(read_taken(t));
    double own = fill_totals(t, awaited);
    YK_TRY(take_losses(t, skip, late));
    if (*late)
        YK_TRY(fill_wishes(t));
    if (*late || awaited)
        YK_TRY(sum_totals(t, begin_s, record));
    if (awaited) {
        YK_TRY(accept_losses(t, own));
        YK_TRY(yki_trainer_tell_step(t));
    }
    return *late ? YK_OK : share_now(t, begin_s, record);
}
