/* Stopping before the first step and before Slurm ends the job; asking Slurm to run it again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_scontrol.h"
#include "parts.h"

/* ---- before the first step ------------------------------------------------------------------- */

static yk_trainer_options options_with_signals(void)
{
    yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.output = output_folder();
    options.stop_on_signals = true;
    return options;
}

YK_TEST(promise_13_a_signal_before_the_first_step_leaves_a_checkpoint)
{
    assert_ok(yk_stop_prepare());
    yk_trainer_options options = options_with_signals();
    parts p = create_parts(&options, 200);
    kill(getpid(), SIGUSR2);
    while (!yk_stop_signal())
        usleep(1000);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_stop_signal(p.trainer), SIGUSR2);
    assert_int_equal(yk_trainer_state(p.trainer)->step, 0);
    destroy_parts(p);

    options.stop_on_signals = false;
    parts resumed = create_parts(&options, 200);
    bool found;
    assert_ok(yk_trainer_resume_latest(resumed.trainer, &found));
    assert_true(found);
    assert_ok(yk_trainer_fit(resumed.trainer));
    options.output = NULL;
    parts whole = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(whole.trainer));
    assert_same_weights(&whole, &resumed);
    destroy_parts(whole);
    destroy_parts(resumed);
}

/* As from a launcher that forwards one while the ranks still start. */
YK_TEST(sigusr1_before_there_is_a_handler_is_taken_later)
{
    assert_ok(yk_stop_prepare());
    kill(getpid(), SIGUSR1);
    usleep(1000); /* a signal that ends the process does so meanwhile, mostly */
    assert_int_equal(yk_stop_signal(), 0);
    assert_ok(yk_stop_on_signals());
    while (!yk_stop_signal())
        usleep(1000);
    assert_int_equal(yk_stop_signal(), SIGUSR1);
}

YK_TEST(output_that_nobody_reads_is_given_up_after_a_signal)
{
    static const char page[4096];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(yk_stop_may_write(ends[1]));
    assert_true(yk_stop_may_write(-1)); /* the write tells of it */
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], page, sizeof page) > 0)
        continue;
    assert_ok(yk_stop_prepare());
    assert_ok(yk_stop_on_signals());
    kill(getpid(), SIGUSR2);
    assert_false(yk_stop_may_write(ends[1]));
    assert_false(yk_stop_may_write(ends[1]));
    char read_page[sizeof page];
    assert_int_equal(read(ends[0], read_page, sizeof read_page), sizeof read_page);
    assert_true(yk_stop_may_write(ends[1]));
    close(ends[0]);
    assert_true(yk_stop_may_write(ends[1])); /* and the write fails */
    close(ends[1]);
}

YK_TEST(signals_are_taken_that_the_parent_has_blocked)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    assert_ok(yk_stop_prepare());
    assert_ok(yk_stop_on_signals());
    kill(getpid(), SIGUSR2);
    for (int i = 0; i < 5000 && !yk_stop_signal(); i++)
        usleep(1000);
    assert_int_equal(yk_stop_signal(), SIGUSR2);
}

YK_TEST(a_resumed_run_that_is_stopped_at_once_keeps_its_checkpoint)
{
    char before[512], after[512];
    assert_ok(yk_stop_prepare());
    yk_trainer_options options = options_with_signals();
    options.max_steps = 3;
    parts first = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(first.trainer));
    destroy_parts(first);
    assert_ok(yk_checkpoint_dir_latest(options.output, before, sizeof before));
    options.max_steps = YK_NEVER;
    parts second = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(second.trainer, NULL));
    kill(getpid(), SIGTERM);
    while (!yk_stop_signal())
        usleep(1000);
    assert_ok(yk_trainer_fit(second.trainer));
    assert_true(yk_trainer_stopped(second.trainer));
    assert_int_equal(yk_trainer_state(second.trainer)->step, 3);
    assert_ok(yk_checkpoint_dir_latest(options.output, after, sizeof after));
    assert_string_equal(before, after);
    destroy_parts(second);
}

/* A terminal that is closed: the shell sends SIGHUP, and so does the kernel. */
YK_TEST(a_closed_terminal_stops_a_run_in_order)
{
    signal(SIGHUP, SIG_DFL); /* the tests themselves may run under nohup */
    assert_ok(yk_stop_prepare());
    yk_trainer_options options = options_with_signals();
    parts p = create_parts(&options, 200);
    for (int i = 0; i < 2; i++) {
        kill(getpid(), SIGHUP);
        while (!yk_stop_signal())
            usleep(1000);
    }
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_stop_signal(p.trainer), SIGHUP);
    destroy_parts(p);
}

/* Two of timeout(1), or one of a scheduler and one of the launcher. */
YK_TEST(signals_that_come_together_are_one_request)
{
    assert_ok(yk_stop_prepare());
    assert_ok(yk_stop_on_signals());
    for (int i = 0; i < 2; i++) {
        kill(getpid(), SIGTERM);
        while (!yk_stop_signal())
            usleep(1000);
    }
    usleep(100000);
    assert_int_equal(yk_stop_signal(), SIGTERM);
}

YK_TEST(a_later_signal_ends_the_process)
{
    int status;
    pid_t child = yk_test_fork();
    if (child == 0) {
        yk_stop_prepare();
        yk_stop_on_signals();
        kill(getpid(), SIGTERM);
        usleep(600000);
        kill(getpid(), SIGTERM);
        sleep(20);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

YK_TEST(under_nohup_a_run_outlives_its_terminal)
{
    signal(SIGHUP, SIG_IGN);
    assert_ok(yk_stop_prepare());
    yk_trainer_options options = options_with_signals();
    parts p = create_parts(&options, 200);
    kill(getpid(), SIGHUP);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_false(yk_trainer_stopped(p.trainer));
    assert_int_equal(yk_trainer_state(p.trainer)->epoch, 2);
    destroy_parts(p);
}

/* ---- the end of the job's time --------------------------------------------------------------- */

static void set_end_in(double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)(time(NULL) + (time_t)seconds));
    setenv("SLURM_JOB_END_TIME", text, 1);
}

YK_TEST(a_run_stops_before_slurm_ends_the_job)
{
    assert_ok(yk_stop_prepare());
    set_end_in(3600);
    yk_trainer_options options = options_with_signals();
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer)); /* there is time enough */
    assert_false(yk_trainer_stopped(p.trainer));
    assert_false(yk_trainer_out_of_time(p.trainer));
    destroy_parts(p);
    options.stop_margin_s = 3600;
    options.epochs = 4;
    p = create_parts(&options, 200);
    assert_ok(yk_trainer_resume_latest(p.trainer, NULL));
    assert_ok(yk_trainer_fit(p.trainer));
    assert_true(yk_trainer_stopped(p.trainer));
    assert_true(yk_trainer_out_of_time(p.trainer));
    assert_int_equal(yk_trainer_stop_signal(p.trainer), 0);
    assert_int_equal(yk_trainer_state(p.trainer)->step, 20);
    destroy_parts(p);
}

YK_TEST(the_end_of_another_job_is_none)
{
    assert_ok(yk_stop_prepare());
    set_end_in(-5);
    yk_trainer_options options = options_with_signals();
    parts p = create_parts(&options, 200);
    assert_ok(yk_trainer_fit(p.trainer));
    assert_false(yk_trainer_stopped(p.trainer));
    assert_false(yk_trainer_out_of_time(NULL));
    yk_trainer *none;
    setenv("SLURM_JOB_END_TIME", "tomorrow", 1);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_trainer_create(&none, p.model, p.optimizer, p.loader, &options));
    assert_contains(yk_last_error(), "SLURM_JOB_END_TIME=tomorrow");
    options.stop_margin_s = -1;
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_trainer_create(&none, p.model, p.optimizer, p.loader, &options));
    assert_contains(yk_last_error(), "stop_margin_s is -1");
    destroy_parts(p);
}

/* ---- running the job again ------------------------------------------------------------------- */

static void assert_requeued(bool expected, const char *log)
{
    bool requeued = !expected;
    assert_ok(yk_job_requeue(&requeued, NULL));
    assert_int_equal(requeued, expected);
    assert_string_equal(fake_scontrol_log(), log);
    unlink(fake_scontrol_file("log"));
}

#define SHOW    "show job --oneliner 77\n"
#define REQUEUE "requeue 77\n"

YK_TEST(a_batch_job_is_requeued)
{
    fake_scontrol_start(FAKE_JOB);
    assert_requeued(true, SHOW REQUEUE);
    fake_scontrol_says("JobState=COMPLETING Reason=TimeLimit Requeue=1 BatchFlag=1\n");
    assert_requeued(true, SHOW REQUEUE);
    setenv("SLURM_ARRAY_JOB_ID", "70", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    fake_scontrol_says(FAKE_JOB);
    assert_requeued(true, "show job --oneliner 70_3\nrequeue 70_3\n");
}

YK_TEST(other_jobs_are_not_requeued)
{
    fake_scontrol_start("JobState=RUNNING Reason=None Requeue=1 BatchFlag=0");
    assert_requeued(false, SHOW);
    fake_scontrol_says("JobState=RUNNING Reason=None Requeue=0 BatchFlag=1");
    assert_requeued(false, SHOW);
    fake_scontrol_says("JobState=COMPLETING Reason=None Requeue=1 BatchFlag=1"); /* cancelled */
    assert_requeued(false, SHOW);
    unsetenv("SLURM_JOB_ID");
    assert_requeued(false, "");
}

YK_TEST(what_scontrol_says_is_the_error)
{
    bool requeued = true;
    fake_scontrol_start(FAKE_JOB);
    fake_scontrol_write("refusal", "Requested operation is presently disabled for job 77\nmore\n");
    assert_status(YK_ERROR_IO, yk_job_requeue(&requeued, NULL));
    assert_contains(yk_last_error(),
                    "scontrol requeue 77: Requested operation is presently disabled for job 77");
    assert_null(strstr(yk_last_error(), "more"));
    assert_false(requeued);
    setenv("PATH", yk_test_directory(), 1);
    unlink(fake_scontrol_file("scontrol"));
    assert_status(YK_ERROR_NOT_FOUND, yk_job_requeue(&requeued, NULL));
    assert_contains(yk_last_error(), "cannot run scontrol: No such file");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_job_requeue(NULL, NULL));
}

YK_TEST_RANKS(all_ranks_learn_whether_the_job_is_requeued, 2)
{
    yk_group *group;
    bool requeued = false;
    assert_ok(yk_group_init(&group, NULL));
    fake_scontrol_start(FAKE_JOB);
    assert_ok(yk_job_requeue(&requeued, group));
    assert_true(requeued);
    assert_string_equal(fake_scontrol_log(), rank ? "" : SHOW REQUEUE);
    fake_scontrol_write("refusal", "no\n");
    assert_status(YK_ERROR_IO, yk_job_requeue(&requeued, group));
    assert_contains(yk_last_error(), rank ? "rank 0 could not requeue the job" : "requeue 77: no");
    assert_false(requeued);
    yk_group_destroy(group);
}
