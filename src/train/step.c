/*
 * One step: forward and backward of this rank's batches, and the update of the weights. What its
 * losses are used for is in record.c.
 */
#include <math.h>

#include "base/clock.h"
#include "comm/group_internal.h"
#include "data/loader.h"
#include "model/loss_scale.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "parallel/bucket_updates.h"
#include "parallel/zero_times.h"
#include "train/sums.h"
#include "train/trainer.h"

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

/* The step or epoch, whichever the schedule counts. */
static int64_t rate_time(const yk_trainer *t)
{
    return t->schedule.per_step ? t->state.step : t->state.epoch;
}

/* Whether the sum of all ranks' losses is finite as far as this rank can tell: its own losses are,
 * including that of the last forward, which had so many samples. */
static bool losses_are_finite(const yk_trainer *t, int64_t samples)
{
    double sum = yk_model_loss(t->model) * (double)samples;
    for (int64_t i = 0; i < t->losses.added_count; i++)
        sum += t->losses.added[i].loss * t->losses.added[i].samples;
    return !t->options.check_loss || isfinite(sum * yki_ranks_of(t->options.group));
}

/* The last backward of a step updates the weights, bucket by bucket, at the rate of the step. */
static yk_status backward_with_updates(yk_trainer *t, int64_t samples)
{
    YK_TRY(yk_schedule_apply(&t->schedule, t->optimizer, rate_time(t)));
    yki_ddp_update_in_backward(t->options.ddp, t->optimizer, losses_are_finite(t, samples));
    yk_status status = yk_model_backward(t->model);
    yki_ddp_update_in_backward(t->options.ddp, NULL, false);
    return status;
}

/*
 * Forward and backward of each batch of the step: of every virtual rank, and of the micro-batches
 * that its part is cut into; the last step of an epoch may have fewer. Gradients are exchanged with
 * the last one; those of a step that has failed are forgotten, as is where it has left the loader.
 * Lists the losses, and fills the seconds of the record.
 */
static yk_status run_batches(yk_trainer *t, yk_step_record *record)
{
    const yk_batch *batch;
    int64_t before = t->state.epoch_batch * t->batches_per_step;
    bool last = false;
    YK_TRY(yki_loader_go_to(t->loader, t->state.epoch, before));
    yki_losses_begin(&t->losses);
    yk_model_zero_grad(t->model);
    for (int64_t done = 1; !last; done++) {
        YK_TRY(next_batch(t, &batch));
        last = done == t->batches_per_step || before + done == t->batches_per_epoch;
        if (t->options.ddp && t->virtual_ranks == 1)
            yk_ddp_set_no_sync(t->options.ddp, !last);
        YK_TRY(yk_model_forward(t->model, batch));
        YK_TRY(last && t->updates_early ? backward_with_updates(t, batch->size)
                                        : yk_model_backward(t->model));
        YK_TRY(yki_losses_add(&t->losses, batch->size));
        record->data_s += yk_loader_wait_s(t->loader);
        record->exposed_comm_s += transfer_s(t);
    }
    return YK_OK;
}

/* With the step's weight of the loss; the model's own stays what it was. */
static yk_status compute_gradients(yk_trainer *t, yk_step_record *record)
{
    double own = yki_model_loss_weight(t->model);
    weigh_loss(t);
    yk_status status = run_batches(t, record);
    yk_model_set_loss_weight(t->model, own);
    return status;
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

/* The optimizer's step, which is left out if a loss, or with a grad scaler a gradient, is not
 * finite on any rank. */
static yk_status step_optimizer(yk_trainer *t, const double *skip)
{
    yk_grad_scaler *scaler = t->options.scaler;
    if (scaler) {
        YK_TRY(yk_grad_scaler_step(scaler, t->optimizer));
        return yk_grad_scaler_update(scaler);
    }
    if (!skip)
        return yk_optimizer_step(t->optimizer);
    t->undecided = true;
    return yki_optimizer_step_unless(t->optimizer, skip, yki_trainer_settle, t);
}

/* With local SGD: at the end of an epoch, and of the run, ranks average in any case. */
static yk_status complete_round(yk_trainer *t, yk_step_record *record)
{
    bool ends =
        t->state.epoch_batch + 1 == t->steps_per_epoch || t->state.step + 1 >= t->options.max_steps;
    if (!t->options.local_sgd)
        return YK_OK;
    if (ends)
        YK_TRY(yk_local_sgd_sync(t->options.local_sgd));
    if (!yki_ranks_are_equal(t))
        return YK_OK;
    yk_local_sgd_stats stats = yk_local_sgd_last_stats(t->options.local_sgd);
    record->exposed_comm_s += stats.exposed_s;
    record->waiting_s += stats.waiting_s;
    return YK_OK;
}

/* ZeRO's ranks send each other what they have updated. */
static void count_exchange(const yk_trainer *t, yk_step_record *record)
{
    double waited_s, exchange_s = yki_zero_take_exchange(t->options.zero, &waited_s);
    record->waiting_s += waited_s;
    record->exposed_comm_s += exchange_s - waited_s;
}

/* skip: NULL, or where the device knows that a loss is not finite. */
static yk_status update_weights(yk_trainer *t, yk_step_record *record, const double *skip)
{
    if (t->options.scaler)
        record->scale = yk_grad_scaler_scale(t->options.scaler); /* before the step adapts it */
    YK_TRY(clip_gradients(t, record));
    t->lr_before = t->state.lr;
    YK_TRY(yki_trainer_set_rate(t, rate_time(t)));
    YK_TRY(step_optimizer(t, skip));
    if (t->options.zero)
        count_exchange(t, record);
    YK_TRY(complete_round(t, record));
    if (t->options.lookahead) /* steps that a grad scaler has skipped count too */
        YK_TRY(yki_lookahead_update_at(t->options.lookahead, t->state.step + 1, skip));
    return t->options.ema && yki_ranks_are_equal(t) ? yki_ema_update_unless(t->options.ema, skip)
                                                    : YK_OK;
}

/* ---- the step -------------------------------------------------------------------------------- */

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

/* What follows the update: callbacks are called, and background saves end. */
static yk_status follow_update(yk_trainer *t, double begin_s, yk_step_record *record, bool late)
{
    bool saved = t->totals->saved > 0;
    YK_TRY(yki_trainer_record_step(t, begin_s, record, late));
    YK_TRY(check_divergence(t));
    return saved ? yki_trainer_saved(t) : YK_OK;
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
    const double *skip;
    bool late;
    YK_TRY(yki_trainer_share_losses(t, begin_s, &record, &skip, &late));
    YK_TRY(update_weights(t, &record, skip));
    t->state.step++;
    yk_group_note_step(t->options.group, t->state.step);
    t->state.epoch_batch++;
    t->state.val_accuracy = -1;
    t->owes_save = t->owes_save || t->state.step % t->options.save_every == 0;
    yki_set_stopped(t, t->totals->stopping > 0 && yki_ranks_are_equal(t));
    yk_status status = follow_update(t, begin_s, &record, late);
    if (t->state.epoch_batch == t->steps_per_epoch) /* also if a callback has failed */
        end_epoch(t);
    return status;
}
