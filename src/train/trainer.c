/*
 * The trainer: its life, and the whole run epoch by epoch. It is the same on one rank and on many:
 * yk_model_backward averages the gradients, and after it one small all-reduce adds up the loss and
 * lets all ranks agree to stop after the same step.
 */
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "base/trace.h"
#include "base/utf8.h"
#include "comm/flight_recorder.h"
#include "comm/group_internal.h"
#include "data/loader.h"
#include "model/model_hooks.h"
#include "optim/optimizer.h"
#include "optim/references.h"
#include "optim/step.h"
#include "parallel/bucket_updates.h"
#include "parallel/references.h"
#include "train/slurm.h"
#include "train/sums.h"
#include "train/tta.h"

/* ---- life ------------------------------------------------------------------------------------ */

static yk_status check_values(const yk_trainer_options *o)
{
    const struct {
        const char *name;
        int64_t value, least;
    } counts[] = {{"epochs", o->epochs, 0},         {"max_steps", o->max_steps, 0},
                  {"accumulate", o->accumulate, 1}, {"check_divergence", o->check_divergence, 1},
                  {"save_every", o->save_every, 1}, {"keep", o->keep, 1}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < counts[i].least)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "trainer: %s is %lld, expected %lld or more", counts[i].name,
                             (long long)counts[i].value, (long long)counts[i].least);
    if (o->accumulate > INT32_MAX) /* samples of a step are counted in 64 bits */
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: accumulate is %lld, expected at most %d",
                         (long long)o->accumulate, INT32_MAX);
    if (!(o->stop_margin_s >= 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: stop_margin_s is %g, expected 0 or more", o->stop_margin_s);
    if (!(o->clip_grad_norm > 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: clip_grad_norm is %g, expected more "
                         "than 0; HUGE_VAL leaves gradients as they are",
                         o->clip_grad_norm);
    if (o->local_sgd && (o->scaler || o->lookahead))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "trainer: local_sgd cannot be combined with %s",
                         o->scaler ? "a grad scaler, which skips steps of single ranks: use bf16"
                                   : "lookahead: use an outer_lr below 1");
    if (o->loss_reduction != YK_LOSS_MEAN && o->loss_reduction != YK_LOSS_SUM)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: loss_reduction is %d, expected a constant of yk_loss_reduction",
                         (int)o->loss_reduction);
    return yki_tta_check("trainer", o->tta, o->tta_confidence);
}

static yk_status check_texts(const yk_trainer_options *o)
{
    const yk_training_state *state = NULL;
    if (!o->arch || strlen(o->arch) >= sizeof state->arch)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "trainer: arch must be shorter than %zu bytes",
                         sizeof state->arch);
    if (!o->program || strlen(o->program) >= sizeof state->program)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: program must be shorter than %zu bytes", sizeof state->program);
    return YK_OK;
}

static yk_status check_loader(const yk_trainer_options *o, const yk_loader *loader)
{
    int ranks = yki_ranks_of(o->group), world = yki_loader_world_size(loader);
    if (world != ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: the loader is for %d %s, the trainer's group has %d", world,
                         yki_plural(world, "rank", "ranks"), ranks);
    if (yk_loader_batches(loader) < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: the loader has no batches: the %lld samples of %s do not fill "
                         "one of %lld on each rank",
                         (long long)yk_dataset_size(yki_loader_dataset(loader)),
                         yk_dataset_name(yki_loader_dataset(loader)),
                         (long long)yki_loader_options(loader)->batch_size);
    return YK_OK;
}

/* The data set's name, or for one that does not fit its end and a hash of all of it. */
static void describe_dataset(yk_training_state *state, const char *name)
{
    enum { END = sizeof state->dataset - sizeof "... #12345678" };
    size_t length = strlen(name);
    if (length < sizeof state->dataset) {
        memcpy(state->dataset, name, length + 1);
        return;
    }
    uint32_t hash = 2166136261u; /* FNV-1a, the same in every run */
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    const char *end = name + length - END;
    while (!yki_utf8_is_valid(end, strlen(end))) /* as within a character */
        end++;
    snprintf(state->dataset, sizeof state->dataset, "...%s #%08x", end, hash);
}

void yki_trainer_describe(yk_trainer *t)
{
    const yk_loader_options *loading = yki_loader_options(t->loader);
    const yk_dataset *dataset = yki_loader_dataset(t->loader);
    yk_training_state *state = &t->state;
    state->world_size = yki_ranks_of(t->options.group);
    state->batch_size = loading->batch_size * t->batches_per_step * state->world_size;
    state->threads = yk_model_threads(t->model);
    state->virtual_ranks = loading->virtual_ranks;
    state->seed = loading->seed;
    state->dataset_size = yk_dataset_size(dataset);
    describe_dataset(state, yk_dataset_name(dataset));
    snprintf(state->arch, sizeof state->arch, "%s", t->options.arch);
    snprintf(state->program, sizeof state->program, "%s", t->options.program);
    state->has_schedule = true;
    state->schedule = t->schedule;
}

/* With copies of what the options point to, except the parts. */
static yk_status take_options(yk_trainer *t, const yk_trainer_options *given)
{
    yk_trainer_options *own = &t->options;
    *own = *given;
    own->arch = yki_strdup(given->arch);
    own->program = yki_strdup(given->program);
    own->output = given->output ? yki_strdup(given->output) : NULL;
    t->schedule = given->schedule ? *given->schedule : (yk_schedule)YK_SCHEDULE_INIT;
    own->schedule = given->schedule ? &t->schedule : NULL;
    if (!own->arch || !own->program || (given->output && !own->output))
        return yki_error_memory(strlen(given->program), "a trainer's options");
    return yk_schedule_check(&t->schedule);
}

/* Before anything is trained: whether there is room for a file's name after the folder's. */
static yk_status check_output(const char *folder)
{
    return strlen(folder) + 1 + NAME_MAX < PATH_MAX ? YK_OK : yki_path_too_long(folder);
}

/* Everything that may fail, into a trainer that has its options. */
static yk_status init_trainer(yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    t->rank = o->group ? yk_group_rank(o->group) : 0;
    t->virtual_ranks = yk_loader_virtual_ranks(t->loader);
    t->batches_per_step = o->accumulate * t->virtual_ranks;
    t->batches_per_epoch = yk_loader_batches(t->loader);
    t->steps_per_epoch = (t->batches_per_epoch + t->batches_per_step - 1) / t->batches_per_step;
    t->saved_step = -1;
    t->state.val_accuracy = -1;
    t->state.lr = yk_optimizer_lr(t->optimizer);
    size_t rows = (size_t)t->virtual_ranks * ((size_t)yki_ranks_of(o->group) + 1);
    t->totals = yki_calloc(rows, sizeof *t->totals);
    if (!t->totals)
        return yki_error_memory(rows * sizeof *t->totals, "a trainer");
    t->end_s = HUGE_VAL;
    if (o->output)
        YK_TRY(check_output(o->output));
    if (o->stop_on_signals) {
        YK_TRY(yk_stop_on_signals());
        YK_TRY(yki_slurm_end_time(&t->end_s));
    }
    if (o->output && o->group)
        yki_flight_set_folder(o->output);
    if (o->save_async && o->output && t->rank == 0)
        YK_TRY(yk_checkpoint_saver_create(&t->saver, o->output, o->keep));
    int64_t most =
        t->batches_per_step < t->batches_per_epoch ? t->batches_per_step : t->batches_per_epoch;
    YK_TRY(yki_losses_create(&t->losses, t->model, most));
    yki_trainer_describe(t);
    return YK_OK;
}

static void retain_parts(const yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    yki_model_retain(t->model);
    yki_optimizer_retain(t->optimizer);
    yki_loader_retain(t->loader);
    if (o->validation)
        yki_loader_retain(o->validation);
    if (o->group)
        yki_group_retain(o->group);
    if (o->ddp)
        yki_ddp_retain(o->ddp);
    if (o->zero)
        yki_zero_retain(o->zero);
    if (o->local_sgd)
        yki_local_sgd_retain(o->local_sgd);
    if (o->parallel)
        yki_data_parallel_retain(o->parallel);
    if (o->ema)
        yki_ema_retain(o->ema);
    if (o->lookahead)
        yki_lookahead_retain(o->lookahead);
    if (o->scaler)
        yki_grad_scaler_retain(o->scaler);
}

/* Those that are not there are NULL. */
static void release_parts(const yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    yk_loader_destroy(o->validation);
    yk_loader_destroy(t->loader);
    yk_ema_destroy(o->ema);
    yk_lookahead_destroy(o->lookahead);
    yk_zero_destroy(o->zero);
    yk_local_sgd_destroy(o->local_sgd);
    yk_grad_scaler_destroy(o->scaler);
    yk_optimizer_destroy(t->optimizer);
    yk_ddp_destroy(o->ddp);
    yk_data_parallel_destroy(o->parallel);
    yk_model_destroy(t->model);
    yk_group_destroy(o->group);
}

/* On failure *trainer may be there, to be destroyed. */
static yk_status make_trainer(yk_trainer **trainer, yk_model *model, yk_optimizer *optimizer,
                              yk_loader *loader, const yk_trainer_options *options)
{
    if (yki_optimizer_model(optimizer) != model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "trainer: the optimizer belongs to another model");
    YK_TRY(check_values(options));
    YK_TRY(check_texts(options));
    YK_TRY(check_loader(options, loader));
    yk_trainer *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a trainer");
    *trainer = made;
    made->model = model;
    made->optimizer = optimizer;
    made->loader = loader;
    made->slow = (yki_slow_watch){.last = -1, .named = -1};
    yk_status status = take_options(made, options);
    retain_parts(made);
    return status == YK_OK ? init_trainer(made) : status;
}

yk_status yk_trainer_create(yk_trainer **trainer, yk_model *model, yk_optimizer *optimizer,
                            yk_loader *loader, const yk_trainer_options *options)
{
    yk_trainer_options read;
    yk_trainer *made = NULL;
    if (trainer)
        *trainer = NULL;
    YK_TRY(YKI_READ_OPTIONS(&read, options, yk_trainer_options, YK_TRAINER_OPTIONS_INIT));
    yki_joint joint = yki_joint_begin(read.group);
    yk_status status = YKI_CHECK_NOT_NULL(trainer);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(model);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(optimizer);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(loader);
    if (status == YK_OK)
        status = make_trainer(&made, model, optimizer, loader, &read);
    status = yki_joint_end(&joint, status);
    if (status != YK_OK) {
        yk_trainer_destroy(made);
        return status;
    }
    yk_model_set_accumulation(model, YK_ACCUMULATION_MEAN);
    made->times.start_s = yki_now();
    *trainer = made;
    return YK_OK;
}

void yk_trainer_destroy(yk_trainer *t)
{
    if (!t)
        return;
    yk_checkpoint_saver_destroy(t->saver);
    yki_losses_destroy(&t->losses);
    release_parts(t);
    yki_free_const(t->options.arch);
    yki_free_const(t->options.program);
    yki_free_const(t->options.output);
    free(t->totals);
    free(t);
}

static bool is_finished(const yk_trainer *t)
{
    return t->stopped || t->state.epoch >= t->options.epochs || yki_steps_are_over(t);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static bool asked_to_stop(void *context)
{
    const yk_trainer *t = context;
    return yki_wants_to_stop(t);
}

static void tell_evaluation(void *context, int64_t done, int64_t batches)
{
    yk_trainer *t = context;
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    if (callbacks->on_evaluation)
        callbacks->on_evaluation(callbacks->context, t, done, batches);
}

/* A resumed run whose average is new may owe an evaluation before its first step. */
static bool has_average(const yk_trainer *t)
{
    return t->options.ema && yk_ema_updates(t->options.ema) > 0;
}

/* With the averaged weights in place of the model's, and without test-time augmentation, whose
 * accuracy a record has of the model's own weights only. */
static yk_status evaluate_average(yk_trainer *t, yk_evaluation *result,
                                  const yk_evaluate_options *like)
{
    yk_evaluate_options options = *like;
    options.tta = YK_TTA_NONE;
    YK_TRY(yk_ema_swap(t->options.ema));
    yk_status status = yk_evaluate(result, t->model, t->options.validation, &options);
    yk_status back = yk_ema_swap(t->options.ema);
    return status != YK_OK ? status : back;
}

yk_status yk_trainer_evaluate(yk_trainer *trainer, yk_evaluation *result, yk_evaluation *average)
{
    YKI_NOT_NULL(trainer);
    YKI_NOT_NULL(result);
    yk_trainer *t = trainer;
    yk_evaluation unused;
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = t->options.group;
    options.should_stop = t->stopped ? NULL : asked_to_stop;
    options.on_batch = tell_evaluation;
    options.context = t;
    if (is_finished(t)) {
        options.tta = t->options.tta;
        options.tta_confidence = t->options.tta_confidence;
    }
    average = average ? average : &unused;
    *average = (yk_evaluation){.count = 0};
    if (!t->options.validation)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "yk_trainer_evaluate: the trainer has no validation loader");
    YK_TRY(yk_evaluate(result, t->model, t->options.validation, &options));
    if (has_average(t) && !result->stopped)
        YK_TRY(evaluate_average(t, average, &options));
    bool complete = !result->stopped && !average->stopped;
    if (!complete)
        yki_set_stopped(t, true);
    t->state.val_accuracy = complete ? result->accuracy : -1;
    return YK_OK;
}

static yk_status report_epoch(yk_trainer *t, const yk_evaluation *result,
                              const yk_evaluation *average)
{
    const yk_training_state *state = &t->state;
    const yk_trainer_callbacks *callbacks = &t->options.callbacks;
    yk_slow_rank slow;
    yk_epoch_record record = {
        .epoch = state->epoch + (state->epoch_batch > 0),
        .step = state->step,
        .is_partial = state->epoch_batch > 0,
        .train_loss = state->epoch_samples > 0 ? state->epoch_loss / state->epoch_samples : 0,
        .val_loss = result->loss,
        .val_accuracy = result->accuracy,
        .has_tta = t->options.tta != YK_TTA_NONE && is_finished(t),
        .tta_val_accuracy = result->tta_accuracy,
        .has_ema = has_average(t),
        .ema_val_loss = average->loss,
        .ema_val_accuracy = average->accuracy,
        .epoch_s = yki_now() - t->times.start_s,
        .data_s = t->times.data_s,
        .compute_s = t->times.compute_s,
        .waiting_s = t->times.waiting_s,
        .exposed_comm_s = t->times.exposed_comm_s};
    YK_TRY(yk_find_slow_rank(&slow, t->options.group, record.waiting_s, record.epoch_s));
    record.slowest_rank = slow.rank;
    record.waited_s = slow.waited_s;
    return callbacks->on_epoch ? callbacks->on_epoch(callbacks->context, t, &record) : YK_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

bool yk_trainer_owes_evaluation(const yk_trainer *t)
{
    if (!t)
        return false;
    bool epoch_is_over = t->state.epoch > 0 && t->state.epoch_batch == 0;
    return t->options.validation && (epoch_is_over || yki_steps_are_over(t)) &&
           t->state.val_accuracy < 0;
}

static yk_status evaluate_and_report(yk_trainer *t, double *loss)
{
    yk_evaluation result, average;
    double begin = yki_trace_begin();
    YK_TRY(yk_trainer_evaluate(t, &result, &average));
    if (!t->stopped)
        YK_TRY(report_epoch(t, &result, &average));
    *loss = result.loss;
    YKI_TRACE_END(begin, YKI_NO_ARGS, "evaluation");
    return YK_OK;
}

/* Between steps. */
static yk_status agree_to_stop(yk_trainer *t)
{
    int32_t stopping = yki_wants_to_stop(t);
    YK_TRY(yki_max_over_ranks_i32(t->options.group, &stopping));
    yki_set_stopped(t, stopping != 0);
    return YK_OK;
}

static yk_status evaluate_and_save(yk_trainer *t)
{
    double loss = 0;
    if (!t->stopped && t->options.validation)
        YK_TRY(evaluate_and_report(t, &loss));
    if (!is_finished(t))
        YK_TRY(agree_to_stop(t));
    else if (!t->stopped)
        YK_TRY(yki_trainer_check_end(t, loss));
    if (!t->options.output)
        return YK_OK;
    double begin = yki_trace_begin();
    YK_TRY(yki_trainer_save(t, is_finished(t)));
    YKI_TRACE_END(begin, YKI_NO_ARGS, "checkpoint");
    return YK_OK;
}

/* Whether save_every steps have passed, and the epoch's own or a last checkpoint is not next. */
static bool save_is_due(const yk_trainer *t)
{
    return t->options.output && t->owes_save && yki_ranks_are_equal(t) &&
           t->state.epoch_batch > 0 && !is_finished(t);
}

/* Reports the step before the failed one too, if its loss can be known without the other ranks, and
 * keeps the failure as the last error. */
static yk_status end_failed(yk_trainer *t, yk_status status)
{
    char line[YKI_ERROR_LINE];
    yki_error_copy(line, sizeof line);
    yki_optimizer_break_step(t->optimizer); /* if backward has begun it */
    yki_trainer_tell_last_step(t);
    yki_trainer_settle(t);
    return yki_error_set_line(status, line);
}

/* Trains until the epoch, the steps asked for or the run's time is over. */
static yk_status train_epoch(yk_trainer *t)
{
    int64_t epoch = t->state.epoch;
    t->times = (yki_epoch_times){.start_s = yki_now()};
    while (!is_finished(t) && t->state.epoch == epoch) {
        yk_status status = yki_trainer_step(t);
        if (status != YK_OK)
            return end_failed(t, status);
        if (save_is_due(t))
            YK_TRY(yk_trainer_save(t));
    }
    return YK_OK;
}

yk_status yk_trainer_step(yk_trainer *trainer, bool *finished)
{
    YKI_NOT_NULL(trainer);
    yk_trainer *t = trainer;
    yki_trainer_warn(t);
    yk_status status = is_finished(t) ? YK_OK : yki_trainer_step(t);
    if (finished)
        *finished = status != YK_OK || is_finished(t);
    return status;
}

/* All ranks' exit codes agree on the reason, whichever of them has it. A signal goes first. */
static yk_status agree_on_reason(yk_trainer *t)
{
    bool listens = t->options.stop_on_signals;
    int32_t reasons[2] = {listens ? yk_stop_signal() : 0, listens && yki_is_out_of_time(t)};
    for (int i = 0; i < 2; i++)
        YK_TRY(yki_max_over_ranks_i32(t->options.group, &reasons[i]));
    t->stop_signal = reasons[0];
    t->out_of_time = reasons[1] && !reasons[0];
    return YK_OK;
}

/* Whether this rank can tell of a step late. */
static bool may_lag(const yk_trainer *t)
{
    return !yki_device_is_host(yki_model_device(t->model)) && !t->options.callbacks.on_step_begin;
}

/* Whether this rank has to know the losses of a step before it updates the weights. */
static bool needs_losses_first(const yk_trainer *t)
{
    return !t->losses.device || yki_model_is_replicated(t->model);
}

/* Whether backward can update the weights from the gradients as they have been reduced: no clipping
 * or scaler needs all of them first. */
static bool may_update_early(const yk_trainer *t)
{
    const yk_trainer_options *o = &t->options;
    return o->ddp && !o->scaler && !isfinite(o->clip_grad_norm) &&
           yki_ddp_can_update(o->ddp, t->optimizer);
}

static yk_status agree_on_updates(yk_trainer *t)
{
    int32_t apart = !may_update_early(t);
    YK_TRY(yki_max_over_ranks_i32(t->options.group, &apart));
    t->updates_early = !apart;
    return apart ? YK_OK : yki_ddp_partition_step(t->options.ddp, t->optimizer);
}

/* Before the first step, ranks agree on whether they tell of steps late, and to stop: a run that is
 * to stop already only leaves its checkpoint. */
static yk_status agree_at_start(yk_trainer *t)
{
    YK_TRY(agree_on_updates(t));
    int32_t prompt = !may_lag(t), first = needs_losses_first(t);
    YK_TRY(yki_max_over_ranks_i32(t->options.group, &prompt));
    YK_TRY(yki_max_over_ranks_i32(t->options.group, &first));
    YK_TRY(agree_to_stop(t));
    t->lags = !prompt;
    t->losses.late = t->lags && !first;
    if (t->losses.late)
        YK_TRY(yki_losses_clear(&t->losses));
    return t->stopped && t->options.output && t->saved_step != t->state.step
               ? yki_trainer_save(t, true)
               : YK_OK;
}

static yk_status fit(yk_trainer *t)
{
    t->times = (yki_epoch_times){.start_s = yki_now()};
    yk_group_note_step(t->options.group, t->state.step);
    yki_trainer_warn(t);
    YK_TRY(yki_trainer_look(t));
    YK_TRY(agree_at_start(t));
    if (!t->stopped && yk_trainer_owes_evaluation(t))
        YK_TRY(evaluate_and_save(t));
    while (!is_finished(t)) {
        YK_TRY(train_epoch(t));
        YK_TRY(evaluate_and_save(t));
    }
    if (!t->stopped && t->options.output && t->state.step > 0 && t->saved_step != t->state.step)
        YK_TRY(yki_trainer_save(t, true)); /* of a run that had nothing to do, in a new folder */
    YK_TRY(yk_trainer_wait(t));
    return t->stopped ? agree_on_reason(t) : YK_OK;
}

yk_status yk_trainer_fit(yk_trainer *trainer)
{
    YKI_NOT_NULL(trainer);
    yk_status status = fit(trainer);
    trainer->lags = trainer->losses.late = trainer->updates_early = false;
    return status;
}

/* ---- questions ------------------------------------------------------------------------------- */

const yk_training_state *yk_trainer_state(const yk_trainer *t)
{
    return t ? &t->state : NULL;
}

int64_t yk_trainer_steps_per_epoch(const yk_trainer *t)
{
    return t ? t->steps_per_epoch : 0;
}

void yk_trainer_stop(yk_trainer *t)
{
    if (t)
        t->stop_asked = true;
}

bool yk_trainer_stopped(const yk_trainer *t)
{
    return t && t->stopped;
}

int yk_trainer_stop_signal(const yk_trainer *t)
{
    return t ? t->stop_signal : 0;
}

bool yk_trainer_out_of_time(const yk_trainer *t)
{
    return t && t->out_of_time;
}
