/*
 * What rank 0 reports of a run: metrics.jsonl, from which the other tools read; the progress on the
 * terminal; TensorBoard's event file (board.c); the file for Prometheus; and the progress that
 * Kubeflow shows.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "common/errors.h"
#include "common/files.h"
#include "train/train.h"

/* Steps of the whole training. */
static int64_t all_steps(const cli_training *t)
{
    int64_t most = t->options.trainer.max_steps, steps;
    bool many = __builtin_mul_overflow(t->options.trainer.epochs, t->steps_per_epoch, &steps);
    return many || most < steps ? most : steps;
}

/* Epochs that the run will begin. */
static int64_t epochs_begun(const cli_training *t)
{
    int64_t steps = t->options.trainer.max_steps, epochs = steps / t->steps_per_epoch;
    epochs += steps % t->steps_per_epoch > 0;
    return epochs < t->options.trainer.epochs ? epochs : t->options.trainer.epochs;
}

static bool open_progress(cli_training *t)
{
    if (t->options.quiet || t->options.json)
        return true;
    t->progress =
        cli_progress_create(epochs_begun(t), t->steps_per_epoch, t->options.trainer.max_steps);
    return t->progress || cli_complain("out of memory");
}

static bool open_prometheus(cli_training *t, const yk_header_record *header)
{
    char file[PATH_MAX];
    return cli_follow_links(file, t->options.metrics_file) &&
           cli_ok(yk_prometheus_open(&t->prometheus, file, t->output, header));
}

static bool open_files(cli_training *t, const yk_header_record *header)
{
    const yk_training_state *state = yk_trainer_state(t->trainer);
    if (t->options.json)
        yk_metrics_echo(t->metrics, STDOUT_FILENO);
    return cli_ok(yk_metrics_rewind(t->metrics, state->step, state->val_accuracy >= 0)) &&
           cli_ok(yk_metrics_header(t->metrics, header)) &&
           (!t->options.metrics_file || open_prometheus(t, header)) &&
           cli_ok(yk_kubeflow_open(&t->kubeflow, all_steps(t))) &&
           (!t->options.tensorboard || cli_board_open(t));
}

bool cli_reports_open(cli_training *t)
{
    const cli_train_options *o = &t->options;
    if (o->trace && !cli_ok(yk_trace_open(&t->trace, o->trace, t->world, &o->trace_window)))
        return false;
    if (!t->leads)
        return true;
    const yk_header_record header = {.arch = o->arch,
                                     .data = o->data,
                                     .options = o->kept,
                                     .ranks = yk_group_size(t->world),
                                     .threads = t->threads,
                                     .batch_size = o->batch_size,
                                     .seed = o->model.seed,
                                     .step = yk_trainer_state(t->trainer)->step};
    return open_progress(t) && open_files(t, &header);
}

/* Records the steps that have not been recorded, if there are any. */
static yk_status record_steps(cli_training *t)
{
    yk_step_record record;
    if (!cli_step_log_take(&t->step_log, &record))
        return YK_OK;
    yk_status status = yk_metrics_step(t->metrics, &record);
    if (t->board && status == YK_OK)
        status = yk_tensorboard_step(t->board, &record);
    return status;
}

/* A run that resumes from a checkpoint drops later records: none may reach across one. */
static bool ends_record(const cli_training *t, int64_t step)
{
    return step % t->options.log_every == 0 || step % t->options.trainer.save_every == 0;
}

yk_status cli_reports_step(cli_training *t, const yk_step_record *record, int64_t step_in_epoch)
{
    cli_step_log_add(&t->step_log, record);
    yk_status status = ends_record(t, record->step) ? record_steps(t) : YK_OK;
    if (record->step == t->saved.step + 1)
        cli_keep_device(t);
    cli_progress_step(t->progress, record, step_in_epoch);
    yk_kubeflow_step(t->kubeflow, record);
    if (t->prometheus && status == YK_OK)
        status = yk_prometheus_step(t->prometheus, record);
    return status;
}

yk_status cli_reports_epoch(cli_training *t, const yk_epoch_record *record)
{
    yk_status status = record_steps(t);
    if (status == YK_OK)
        status = yk_metrics_epoch(t->metrics, record);
    cli_progress_epoch(t->progress, record);
    yk_kubeflow_epoch(t->kubeflow, record);
    if (t->board && status == YK_OK)
        status = cli_board_epoch(t, record);
    if (t->prometheus && status == YK_OK)
        status = yk_prometheus_epoch(t->prometheus, record);
    return status;
}

void cli_reports_end(cli_training *t, bool succeeded)
{
    cli_progress_destroy(t->progress);
    t->progress = NULL;
    cli_ok(record_steps(t));
    if (succeeded && !yk_trainer_stopped(t->trainer))
        yk_kubeflow_finish(t->kubeflow);
    if (t->board)
        cli_ok(yk_tensorboard_finish(t->board, succeeded));
}

void cli_reports_close(cli_training *t)
{
    cli_ok(yk_trace_close(t->trace));
    cli_progress_destroy(t->progress);
    yk_tensorboard_close(t->board);
    yk_prometheus_close(t->prometheus);
    yk_kubeflow_close(t->kubeflow);
    yk_metrics_close(t->metrics);
}
