/*
 * One step: forward and backward of this rank's batches, the exchange of totals between ranks, the
 * update of the weights, and the record of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/trace.h"
#include "comm/group_internal.h"
#include "data/loader.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "train/sums.h"
#include "train/trainer.h"

enum { TOTALS = sizeof(yki_step_totals) / sizeof(double) };

/* ---- gradients ------------------------------------------------------------------------------- */

/* What the last forward and backward spent on moving data between devices. */
static double transfer_s(const yk_trainer *t)
{
    if (!t->options.parallel)
        return 0;
    yk_data_parallel_stats stats = yk_data_parallel_last_stats(t->options.parallel);
    return stats.scatter_s + stats.replicate_s + stats.gather_s + stats.reduce_s;
}

static yk_status next_batch(yk_trainer *t, const yk_batch **batch)
{
    *batch = yk_loader_next(t->loader);
    if (*batch)
        return YK_OK;
    YK_TRY(yk_loader_status(t->loader));
    return yki_error(YK_ERROR_INTERNAL, "step %lld: the loader ended early",
                     (long long)t->state.step + 1);
}

/* Backward starts from the mean over the samples of all ranks; times their number it is the sum. */
static void weigh_loss(const yk_trainer *t)
{
    int64_t batches = t->options.accumulate, first = t->state.epoch_batch * batches;
    if (t->options.loss_reduction == YK_LOSS_SUM)
        yk_model_set_loss_weight(t->model,
                                 (double)yki_loader_samples(t->loader, first, first + batches));
}

/*
 * Forward and backward of each batch of the step: of every virtual rank, and of the micro-batches
 * that its part is cut into; the last step of an epoch may have fewer. Gradients are exchanged with
 * the last one. Fills t->totals and the seconds of the record.
 */
static yk_status compute_gradients(yk_trainer *t, yk_step_record *record)
{
    const yk_batch *batch;
    int64_t before = t->state.epoch_batch * t->batches_per_step;
    memset(t->totals, 0, (size_t)t->virtual_ranks * sizeof *t->totals);
    bool last = false;
    weigh_loss(t);
    for (int64_t done = 1; !last; done++) {
        YK_TRY(next_batch(t, &batch));
        last = done == t->batches_per_step || before + done == t->batches_per_epoch;
        if (t->options.ddp && t->virtual_ranks == 1)
            yk_ddp_set_no_sync(t->options.ddp, !last);
        YK_TRY(yk_model_forward(t->model, batch));
        YK_TRY(yk_model_backward(t->model));
        yki_step_totals *totals = &t->totals[(done - 1) % t->virtual_ranks];
        totals->loss += yk_model_loss(t->model) * (double)batch->size;
        totals->samples += (double)batch->size;
        record->data_s += yk_loader_wait_s(t->loader);
        record->exposed_comm_s += transfer_s(t);
    }
    return YK_OK;
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* The mean over the samples of this rank alone. */
static double own_loss(const yk_trainer *t)
{
    double loss = 0, samples = 0;
    for (int i = 0; i < t->virtual_ranks; i++) {
        loss += t->totals[i].loss;
        samples += t->totals[i].samples;
    }
    return samples > 0 ? loss / samples : 0;
}

static yk_status loss_error(const yk_trainer *t, double loss)
{
    char advice[600] = "and restart";
    if (t->saved_step >= 0 && t->output)
        snprintf(advice, sizeof advice, "and resume from the newest checkpoint in %s", t->output);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "step %lld: the loss is %s; stopped before the weights were updated. Try a "
                     "learning rate below %g, gradient clipping or a warm-up, %s",
                     (long long)t->state.step + 1,
                     isnan(loss) ? "nan"
                     : loss > 0  ? "inf"
                                 : "-inf",
                     t->state.lr, advice);
}

/*
 * An error when the sum of all ranks' losses is not finite. All ranks have the same sum, so they
 * come here together; the line is that of the first rank whose own loss is not finite.
 */
static yk_status check_loss(const yk_trainer *t, double sum, double own)
{
    int ranks = yki_ranks_of(t->options.group), first = 0;
    if (!t->options.check_loss || t->options.scaler || isfinite(sum))
        return YK_OK;
    double *losses = yki_calloc((size_t)ranks, sizeof *losses);
    if (!losses || !t->options.group) {
        free(losses);
        return loss_error(t, own);
    }
    yk_status status = yk_all_gather(t->options.group, losses, &own, 1, YK_F64, NULL);
    while (first < ranks - 1 && isfinite(losses[first]))
        first++;
    free(losses);
    if (status != YK_OK)
        return status;
    loss_error(t, own);
    if (first == t->rank) {
        yki_group_report_cause(t->options.group, YK_ERROR_INVALID_ARGUMENT);
        return YK_ERROR_INVALID_ARGUMENT;
    }
    return yki_error(YK_ERROR_PEER_FAILED,
                     "stopped since the loss of rank %d is not finite (step %lld)", first,
                     (long long)t->state.step + 1);
}

/* ---- the update ------------------------------------------------------------------------------ */

yk_status yki_trainer_set_rate(yk_trainer *t, int64_t at)
{
    YK_TRY(yk_schedule_apply(&t->schedule, t->optimizer, at));
    t->state.lr = yk_optimizer_lr(t->optimizer);
    return YK_OK;
}

/* Gradients must be unscaled before their norm means anything. */
static yk_status clip_gradients(yk_trainer *t, yk_step_record *record)
{
    record->has_grad_norm = isfinite(t->options.clip_grad_norm);
    if (!record->has_grad_norm)
        return YK_OK;
    if (t->options.scaler)
        YK_TRY(yk_grad_scaler_unscale(t->options.scaler));
    return yk_clip_grad_norm(t->optimizer, t->options.clip_grad_norm, NULL);
}

/* The optimizer's step; with a grad scaler, unless a gradient on any rank is not finite. */
static yk_status step_optimizer(const yk_trainer *t)
{
    yk_grad_scaler *scaler = t->options.scaler;
    if (!scaler)
        return yk_optimizer_step(t->optimizer);
    YK_TRY(yk_grad_scaler_step(scaler, t->optimizer));
    return yk_grad_scaler_update(scaler);
}

static yk_status update_weights(yk_trainer *t, yk_step_record *record)
{
    if (t->options.scaler)
        record->scale = yk_grad_scaler_scale(t->options.scaler); /* before the step adapts it */
    YK_TRY(clip_gradients(t, record));
    YK_TRY(yki_trainer_set_rate(t, t->schedule.per_step ? t->state.step : t->state.epoch));
    YK_TRY(step_optimizer(t));
    if (t->options.lookahead) /* steps that a grad scaler has skipped count too */
        YK_TRY(yki_lookahead_update_at(t->options.lookahead, t->state.step + 1));
    return t->options.ema ? yk_ema_update(t->options.ema) : YK_OK;
}

/* ---- the step -------------------------------------------------------------------------------- */

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

/* Adds up all ranks' totals, into the first. The step began at begin_s; *waited_s is how long this
 * rank has waited for others now. */
static yk_status sum_totals(yk_trainer *t, double begin_s, double *waited_s)
{
    yki_trace_args args = YKI_NO_ARGS;
    double begin = yki_trace_begin(), exchange_s = yki_now();
    t->totals->tracing = begin > 0;
    t->totals->stopping = yki_wants_to_stop(t);
    YK_TRY(yki_trainer_check_saved(t, &t->totals->saved));
    YK_TRY(yki_sum_over_ranks(t->options.group, &t->totals->loss, t->virtual_ranks, TOTALS,
                              &t->totals[t->virtual_ranks].loss));
    *waited_s = t->options.group ? yki_group_waited(t->options.group, exchange_s) : 0;
    if (t->totals->tracing > 0) /* on any rank: all of them take part */
        YK_TRY(name_slow_rank(t, &args, begin_s, *waited_s));
    YKI_TRACE_END(begin, args, "share the loss");
    return YK_OK;
}

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
    bool saves = (o->output && step % o->save_every == 0) || t->totals->saved > 0;
    bool compares = o->ddp && step % o->check_divergence == 0;
    bool ends = t->state.epoch_batch == t->steps_per_epoch || t->stopped || yki_steps_are_over(t);
    return t->lags && !saves && !compares && !ends;
}

static yk_status record_step(yk_trainer *t, double begin_s, yk_step_record *record)
{
    const yki_step_totals *totals = t->totals;
    double step_s = yki_now() - begin_s;
    record->epoch = t->state.epoch + 1;
    record->step = t->state.step;
    record->loss = totals->loss / totals->samples;
    record->lr = t->state.lr;
    record->images_per_s = totals->samples / step_s;
    record->compute_s = step_s - record->data_s - record->waiting_s - record->exposed_comm_s;
    t->state.epoch_loss += totals->loss;
    t->state.epoch_samples += totals->samples;
    t->times.data_s += record->data_s;
    t->times.compute_s += record->compute_s;
    t->times.waiting_s += record->waiting_s;
    t->times.exposed_comm_s += record->exposed_comm_s;
    t->record = *record;
    t->has_record = true;
    return can_lag(t) ? YK_OK : yki_trainer_tell_step(t);
}

static yk_status check_divergence(const yk_trainer *t)
{
    if (!t->options.ddp || t->state.step % t->options.check_divergence != 0)
        return YK_OK;
    yk_status status = yk_ddp_check_divergence(t->options.ddp);
    return status == YK_OK ? YK_OK
                           : yki_error_context(status, "after step %lld", (long long)t->state.step);
}

/* The loader's NULL is taken here, so that it starts the next epoch. */
static void end_epoch(yk_trainer *t)
{
    t->state.epoch++;
    t->state.epoch_batch = 0;
    yk_loader_next(t->loader);
}

yk_status yki_trainer_step(yk_trainer *t)
{
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    yk_step_record record = {.epoch = 0};
    double begin_s = yki_now();
    if (callbacks->on_step_begin)
        YK_TRY(callbacks->on_step_begin(callbacks->context, t));
    if (t->state.epoch_batch == 0)
        t->state.epoch_loss = t->state.epoch_samples = 0;
    YK_TRY(compute_gradients(t, &record));
    YK_TRY(yki_trainer_tell_step(t)); /* of the step before */
    double exchange_s = yki_now(), waited_s, loss = own_loss(t);
    YK_TRY(sum_totals(t, begin_s, &waited_s));
    exchange_s = yki_now() - exchange_s;
    YK_TRY(check_loss(t, t->totals->loss, loss));
    YK_TRY(update_weights(t, &record));
    t->state.step++;
    yk_group_note_step(t->options.group, t->state.step);
    t->state.epoch_batch++;
    t->state.val_accuracy = -1;
    t->stopped = t->totals->stopping > 0;
    if (t->options.ddp) {
        yk_ddp_stats stats = yk_ddp_last_stats(t->options.ddp);
        record.waiting_s = stats.waiting_s + waited_s;
        record.exposed_comm_s = stats.exposed_s + exchange_s - waited_s;
    }
    YK_TRY(record_step(t, begin_s, &record));
    YK_TRY(check_divergence(t));
    if (t->totals->saved > 0)
        YK_TRY(yki_trainer_saved(t));
    if (t->state.epoch_batch == t->steps_per_epoch)
        end_epoch(t);
    return YK_OK;
}
