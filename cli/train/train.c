/* `yoke train`: translates its options into a trainer (build.c), runs it, and says how it ended. */
#define _GNU_SOURCE
#include "train/train.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "common/plural.h"

static void say_goodbye(const cli_training *t)
{
    const yk_training_state *state = yk_trainer_state(t->trainer);
    long long step = state->step;
    if (yk_trainer_stopped(t->trainer))
        printf("Stopped after step %lld, %s; continue with --resume auto --output %s\n", step,
               yk_trainer_out_of_time(t->trainer) ? "before Slurm ends the job" : "as asked",
               t->output);
    else if (state->val_accuracy >= 0)
        printf("Done after step %lld: validation accuracy %.2f %%, checkpoints in %s\n", step,
               100 * state->val_accuracy, t->output);
    else
        printf("Nothing to do: %s has %lld %s and %lld %s already\n", t->output,
               (long long)state->epoch, cli_plural(state->epoch, "epoch", "epochs"), step,
               cli_plural(step, "step", "steps"));
}

/* Whether a step of this run was to be in the timeline, which may end behind any step: its end is
 * not computed, as 64 bits may not hold it. */
static bool has_traced(const cli_training *t)
{
    const yk_trace_options *window = &t->options.trace_window;
    return window->first_step == YK_TRACE_NEXT_STEP ||
           (window->first_step <= yk_trainer_state(t->trainer)->step &&
            window->steps > t->saved.step + 1 - window->first_step);
}

/* A timeline that could not be written is an error line, but no failure of the training. */
static void close_timeline(cli_training *t)
{
    bool asked_for = t->trace != NULL, written = cli_ok(yk_trace_close(t->trace));
    t->trace = NULL;
    if (!asked_for || !written || !t->talks)
        return;
    if (!has_traced(t))
        printf("Timeline in %s: empty, as this run had none of the steps %s\n", t->options.trace,
               t->options.trace_steps);
    else
        printf("Timeline in %s: open it in https://ui.perfetto.dev\n", t->options.trace);
}

/*
 * Puts a Slurm job that was stopped back into the queue. Not for ^C; nor where the next run would
 * not find this one's folder, or would be as short as this one, which has not trained a step.
 */
static bool requeue(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    bool requeued, wanted = o->requeue && yk_trainer_stop_signal(t->trainer) != SIGINT;
    bool trained = yk_trainer_state(t->trainer)->step > t->saved.step || !o->restarted;
    if (!wanted || !o->output || !trained)
        return false;
    if (!cli_ok(yk_job_requeue(&requeued, t->world)) || !requeued)
        return false;
    if (t->talks)
        printf("The Slurm job is back in the queue and will resume by itself\n");
    return true;
}

static int run(cli_training *t)
{
    if (!cli_ok(yk_barrier(t->world))) /* readers of the introduction may signal any rank */
        return CLI_EXIT_FAILED;
    if (t->talks)
        cli_training_introduce(t);
    bool fine = cli_ok(yk_trainer_fit(t->trainer));
    cli_reports_end(t, fine);
    if (!fine)
        return CLI_EXIT_FAILED;
    if (t->talks)
        say_goodbye(t);
    close_timeline(t);
    if (!yk_trainer_stopped(t->trainer))
        return CLI_EXIT_OK;
    if (requeue(t))
        return CLI_EXIT_REQUEUED;
    int number = yk_trainer_stop_signal(t->trainer);
    return 128 + (number ? number : SIGTERM);
}

/*
 * A resumed run has as many ranks as it had, unless --nproc or a launcher has set their number.
 * What is wrong with a checkpoint is said later, when the run is built.
 */
static void adopt_ranks(cli_train_options *o)
{
    yk_training_state saved;
    if (!o->resume || o->given.nproc || cli_is_rank())
        return;
    bool newest = strcmp(o->resume, "auto") == 0;
    yk_status status = newest ? yk_checkpoint_dir_read_state(o->output, &saved)
                              : yk_checkpoint_read_state(o->resume, &saved);
    if (status == YK_OK && saved.world_size >= 1 && saved.world_size <= CLI_MAX_RANKS &&
        o->parallel != CLI_PARALLEL_DP)
        o->nproc.count = saved.world_size;
}

int cli_cmd_train(const char *name, int argc, char **argv)
{
    cli_train_options options;
    int code = cli_train_options_parse(&options, name, argc, argv);
    if (code == CLI_EXIT_OK && !cli_output_is_whole(name)) /* of a page of help, or recipes */
        return CLI_EXIT_FAILED;
    if (code >= 0)
        return code;
    adopt_ranks(&options);
    code = cli_launch_self(name, options.nproc, options.grace_s, false, argc, argv);
    if (code >= 0)
        return code;
    if (!cli_ok(yk_stop_prepare()))
        return CLI_EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN); /* a reader of the output may leave: the run is in its files */
    cli_training_print_patiently();
    cli_training training;
    if (cli_training_create(&training, &options))
        code = run(&training);
    else if (training.stop_signal)
        code = 128 + training.stop_signal;
    else
        code = training.output_is_taken ? CLI_EXIT_USAGE : CLI_EXIT_FAILED;
    cli_training_destroy(&training);
    return code;
}
