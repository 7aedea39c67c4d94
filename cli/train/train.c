/*
 * `yoke train`: the training loop, epoch by epoch; a step is step.c's. It is the same on one rank
 * and on many: yk_model_backward averages the gradients over the ranks, and after it one small
 * all-reduce adds up the loss and lets all ranks agree to stop after the same step.
 *
 * Invariant: between steps trainer->state says exactly where training stands, so that a checkpoint
 * written then can be gone on from.
 */
#define _GNU_SOURCE
#include "train/train.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "clock.h"
#include "setup.h"

/* ---- one epoch ------------------------------------------------------------------------------ */

static bool steps_are_over(const cli_trainer *t)
{
    return t->options.max_steps > 0 && t->state.step >= t->options.max_steps;
}

/* Written by rank 0; the others wait, so that none leaves before it is safe. */
static bool save(cli_trainer *t)
{
    t->state.scaler = t->scaler ? yk_grad_scaler_get_state(t->scaler) : (yk_grad_scaler_state){0};
    if (t->zero && !cli_ok(yk_zero_consolidate(t->zero)))
        return false;
    if (t->ddp && !cli_ok(yk_ddp_consolidate_comm_hook(t->ddp, &t->state.comm_hook)))
        return false;
    if (t->leads && !cli_ok(yk_checkpoint_dir_save(t->output, t->model, t->optimizer, &t->state,
                                                   (int)t->options.keep)))
        return false;
    return cli_ok(yk_barrier(t->world));
}

/* After the steps asked for; not where the epoch's own checkpoint, or a last one, comes next. */
static bool save_is_due(const cli_trainer *t, bool stopping)
{
    int64_t every = t->options.save_every;
    return every > 0 && t->state.step % every == 0 && t->state.epoch_batch < t->steps_per_epoch &&
           !stopping && !steps_are_over(t);
}

static void begin_epoch(cli_trainer *t, cli_epoch_times *times)
{
    *times = (cli_epoch_times){.start_s = cli_clock_s()};
    if (t->state.epoch_batch == 0)
        t->state.epoch_loss = t->state.epoch_samples = 0;
}

/* A loop that has not waited for the loader's NULL leaves that to this. */
static void end_epoch(cli_trainer *t, bool loader_knows)
{
    t->state.epoch++;
    t->state.epoch_batch = 0;
    if (!loader_knows)
        yk_loader_next(t->train);
}

/* Trains until the epoch, the steps asked for or the run's time is over. */
static bool train_epoch(cli_trainer *t, cli_epoch_times *times, bool *stopping)
{
    const yk_batch *batch = NULL;
    begin_epoch(t, times);
    for (double begin_s = cli_clock_s(); !*stopping && !steps_are_over(t);
         begin_s = cli_clock_s()) {
        yk_trace_step_begin(t->trace, t->state.step + 1);
        batch = yk_loader_next(t->train);
        if (!batch)
            break;
        if (!cli_trainer_step(t, batch, times, begin_s, stopping))
            return false;
        yk_trace_step_end(t->trace);
        if (save_is_due(t, *stopping) && !save(t))
            return false;
    }
    if (!batch && !cli_ok(yk_loader_status(t->train)))
        return false;
    if (t->state.epoch_batch == t->steps_per_epoch)
        end_epoch(t, batch == NULL);
    t->state.val_accuracy = -1;
    return true;
}

/* What is shown of an evaluation: its progress after each batch. */
typedef struct evaluation_progress {
    cli_progress *progress; /* NULL on ranks that print nothing */
    int64_t done, all;
} evaluation_progress;

static bool between_batches(void *context)
{
    evaluation_progress *shown = context;
    if (shown->progress && shown->done < shown->all)
        cli_progress_evaluation(shown->progress, ++shown->done, shown->all);
    return yk_stop_signal() != 0;
}

bool cli_trainer_evaluate(cli_trainer *t, yk_evaluation *result)
{
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    options.group = t->world;
    evaluation_progress shown = {.progress = t->progress, .all = yk_loader_batches(t->test)};
    options.should_stop = between_batches;
    options.context = &shown;
    return cli_ok(yk_evaluate(result, t->model, t->test, &options));
}

static bool evaluate(cli_trainer *t, const cli_epoch_times *times, bool *stopping)
{
    yk_evaluation result, average = {.stopped = false};
    const yk_training_state *state = &t->state;
    if (!cli_trainer_evaluate(t, &result) ||
        (t->ema && !result.stopped && !cli_trainer_evaluate_ema(t, &average)))
        return false;
    *stopping = result.stopped || average.stopped;
    t->state.val_accuracy = *stopping ? -1 : result.accuracy;
    if (*stopping || !t->leads)
        return true;
    yk_epoch_record record = {
        .epoch = state->epoch + (state->epoch_batch > 0),
        .step = state->step,
        .train_loss = state->epoch_samples > 0 ? state->epoch_loss / state->epoch_samples : 0,
        .val_loss = result.loss,
        .val_accuracy = result.accuracy,
        .has_ema = t->ema != NULL,
        .ema_val_loss = average.loss,
        .ema_val_accuracy = average.accuracy,
        .epoch_s = cli_clock_s() - times->start_s,
        .data_s = times->data_s,
        .compute_s = times->compute_s,
        .exposed_comm_s = times->exposed_comm_s};
    cli_progress_epoch(t->progress, &record);
    return cli_ok(yk_metrics_epoch(t->metrics, &record));
}

/* ---- the run -------------------------------------------------------------------------------- */

bool cli_trainer_owes_evaluation(const cli_trainer *t)
{
    bool epoch_is_over = t->state.epoch > 0 && t->state.epoch_batch == 0;
    return (epoch_is_over || steps_are_over(t)) && t->state.val_accuracy < 0;
}

static bool evaluate_and_save(cli_trainer *t, const cli_epoch_times *times, bool *stopping)
{
    yk_trace_begin("evaluation");
    if (!*stopping && !evaluate(t, times, stopping))
        return false;
    yk_trace_end();
    yk_trace_begin("checkpoint");
    if (!save(t))
        return false;
    yk_trace_end();
    return true;
}

/* Returns false when it failed; *stopping when it was asked to stop before its end. */
static bool train(cli_trainer *t, bool *stopping)
{
    cli_epoch_times times = {.start_s = cli_clock_s()};
    if (cli_trainer_owes_evaluation(t) && !evaluate_and_save(t, &times, stopping))
        return false;
    while (t->state.epoch < t->options.epochs && !steps_are_over(t) && !*stopping)
        if (!train_epoch(t, &times, stopping) || !evaluate_and_save(t, &times, stopping))
            return false;
    return true;
}

/* The ranks' exit codes agree on the signal, whichever of them it came to. */
static int agree_on_signal(const cli_trainer *t)
{
    int32_t number = yk_stop_signal();
    bool fine = cli_ok(yk_all_reduce(t->world, &number, 1, YK_I32, YK_REDUCE_MAX, NULL));
    return fine && number ? number : SIGTERM;
}

static void say_goodbye(const cli_trainer *t, bool stopped)
{
    const yk_training_state *state = &t->state;
    if (stopped)
        printf("Stopped after step %lld, as asked; go on with --resume auto --output %s\n",
               (long long)state->step, t->output);
    else if (state->val_accuracy >= 0)
        printf("Done after step %lld: validation accuracy %.2f %%, checkpoints in %s\n",
               (long long)state->step, 100 * state->val_accuracy, t->output);
    else
        printf("Nothing to do: %s has %lld epochs and %lld steps behind it\n", t->output,
               (long long)state->epoch, (long long)state->step);
}

/* A timeline that could not be written is said, but a training does not fail of it. */
static void close_timeline(cli_trainer *t)
{
    bool asked_for = t->trace != NULL, written = cli_ok(yk_trace_close(t->trace));
    t->trace = NULL;
    if (asked_for && written && t->leads)
        printf("Timeline in %s: open it in https://ui.perfetto.dev\n", t->options.trace);
}

static int run(cli_trainer *t)
{
    if (!cli_ok(yk_stop_on_signals()))
        return CLI_EXIT_FAILED;
    if (!cli_ok(yk_barrier(t->world))) /* who reads the introduction may signal any rank */
        return CLI_EXIT_FAILED;
    if (t->leads)
        cli_trainer_introduce(t);
    bool stopping = false;
    bool fine = train(t, &stopping);
    cli_progress_destroy(t->progress);
    t->progress = NULL;
    if (!fine)
        return CLI_EXIT_FAILED;
    if (t->leads)
        say_goodbye(t, stopping);
    close_timeline(t);
    return stopping ? 128 + agree_on_signal(t) : CLI_EXIT_OK;
}

int cli_cmd_train(int argc, char **argv)
{
    cli_train_options options;
    int code = cli_train_options_parse(&options, argc, argv);
    if (code < 0)
        code = cli_launch_self(argv[0], options.nproc, options.grace_s, argc, argv);
    if (code >= 0)
        return code;
    if (!cli_ok(yk_stop_prepare()))
        return CLI_EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN); /* who reads along may leave: the run is in its files */
    cli_trainer trainer;
    code = cli_trainer_create(&trainer, &options) ? run(&trainer) : CLI_EXIT_FAILED;
    cli_trainer_destroy(&trainer);
    return code;
}
