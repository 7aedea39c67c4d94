/* Killed without a warning, between saves or within one: what goes on is the run that never was. */
#define _GNU_SOURCE
#include "../cli/going_on.h"

#define OPTIONS                                                                                    \
    "--data synthetic --arch mlp --threads 1 --batch-size 120 --lr 0.02 --epochs 2 --save-every "  \
    "7 "

enum { KILLS = 5 };

/* SIGKILL for the launcher and the ranks in turn, at random moments; then on to the end. */
static void kill_and_go_on(const char *ranks, int count)
{
    char command[512];
    snprintf(command, sizeof command, OPTIONS "%s", ranks);
    assert_int_equal(train("whole", command), 0);
    int killed = 0;
    for (int i = 0; i < KILLS; i++) {
        int to = count == 1 ? LAUNCHER : i % (count + 1) - 1;
        int code = train_and_signal("parts", command, SIGKILL, to, random_between(30, 300));
        if (code != 0 && code != 128 + SIGKILL)
            fail_msg("exit code %d: \"%s\"", code, job.output);
        killed += code != 0;
    }
    assert_true(killed > 0);
    assert_int_equal(go_on("parts", command), 0);
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(promise_15_a_killed_process_goes_on_to_the_bit)
{
    kill_and_go_on("", 1);
}

YK_TEST(promise_15_killed_ranks_go_on_to_the_bit)
{
    kill_and_go_on("--nproc 2", 2);
}

YK_TEST(promise_15_killed_virtual_ranks_go_on_to_the_bit)
{
    kill_and_go_on("--nproc 2 --virtual-ranks 4", 2);
}

/* Nothing of a later step may be in a file that was written while training went on. */
YK_TEST(promise_14_ranks_killed_while_they_save_in_the_background_go_on_to_the_bit)
{
    kill_and_go_on("--nproc 2 --save-async --save-every 4", 2);
}

/* ---- promise 13 ------------------------------------------------------------------------------ */

static int step_of(const char *words)
{
    const char *at = strstr(job.output, words);
    assert_non_null(at);
    return atoi(at + strlen(words));
}

/* Whoever gets the signal: one line, one code, one checkpoint of one step. */
YK_TEST(promise_13_a_signal_to_anyone_stops_all_with_a_checkpoint)
{
    static const int signals[] = {SIGTERM, SIGUSR1};
    for (int i = 0; i < 6; i++) {
        int number = signals[i % 2], to = i / 2 - 1; /* the launcher, rank 0, rank 1 */
        int code = train_and_signal("a", OPTIONS "--nproc 2 --epochs 100000", number, to,
                                    random_between(50, 200));
        assert_int_equal(code, 128 + number);
        assert_null(strstr(job.output, "first to fail"));
        int step = step_of("Stopped after step ");
        char words[64];
        snprintf(words, sizeof words, "after step %d\n", step);
        char file[64];
        snprintf(file, sizeof file, "checkpoint-%s%d.pth", step % 42 ? "step-" : "",
                 step % 42 ? step : step / 42);
        assert_int_equal(access(path_of("a", file), R_OK), 0);
    }
}

enum { KILLED_WHILE_STOPPING = 122 }; /* docs/launcher.md: the exit code of such a job */

/* A job that does not stop within its grace period is killed, which must not look like a stop. */
YK_TEST(promise_13_the_grace_is_settable)
{
    char command[512];
    snprintf(command, sizeof command, "train --output %s/a " OPTIONS "--nproc 2 --grace 0.2",
             yk_test_directory());
    test_job_start(&job, command);
    test_job_await(&job, "  output ");
    kill(test_job_rank_pid(&job, 1), SIGSTOP); /* and so cannot reach the end of a step */
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 5, KILLED_WHILE_STOPPING);
    test_job_gone(&job, 2);
}
