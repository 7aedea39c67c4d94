/* Ranks and launchers are killed; with --max-restarts the job still ends as if nothing happened. */
#define _GNU_SOURCE
#include "../cli/going_on.h"

#define OPTIONS                                                                                    \
    "--data synthetic --arch mlp --threads 1 --batch-size 120 --lr 0.02 --epochs 2 --save-every "  \
    "7 "

enum { KILLS = 3 };
static test_job other; /* the second launcher, if there are two */

/* A rank of this attempt, on any of the launchers; 0 when the job ended before there was one. */
static pid_t await_rank(int attempt)
{
    char variable[64];
    snprintf(variable, sizeof variable, "TORCHELASTIC_RESTART_COUNT=%d", attempt);
    for (double deadline = yk_test_now() + 30; yk_test_now() < deadline; usleep(2000)) {
        test_job *owner = attempt % 2 && other.pid ? &other : &job;
        pid_t pid = test_job_find_rank(owner, attempt % 2 && !other.pid);
        char text[16];
        snprintf(text, sizeof text, "%d", (int)pid);
        if (pid && yk_test_environment_has(text, variable))
            return pid;
        siginfo_t ended = {.si_pid = 0};
        if (waitid(P_PID, (id_t)job.pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid)
            return 0;
    }
    return 0;
}

/* Kills a rank of each attempt but the last, at a random moment; returns how many. */
static int kill_ranks(void)
{
    int killed = 0;
    for (int attempt = 0; attempt < KILLS; attempt++) {
        pid_t pid = await_rank(attempt);
        usleep((unsigned)random_between(50, 400) * 1000);
        killed += pid && kill(pid, SIGKILL) == 0;
    }
    return killed;
}

YK_TEST(promise_15_restarted_ranks_go_on_to_the_bit)
{
    char command[1024];
    assert_int_equal(train("whole", OPTIONS "--nproc 2"), 0);
    snprintf(command, sizeof command,
             "run -n 2 --max-restarts %d -- %s train --output %s/parts " OPTIONS, KILLS,
             test_program(), yk_test_directory());
    test_job_start(&job, command);
    assert_true(kill_ranks() > 0);
    if (test_job_wait(&job, 100) != 0)
        fail_msg("%s", job.output);
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
}

YK_TEST(promise_15_restarted_launchers_go_on_to_the_bit)
{
    char command[1024];
    assert_int_equal(train("whole", OPTIONS "--nproc 2"), 0);
    snprintf(command, sizeof command,
             "run --nnodes 2 --rdzv-endpoint localhost:%d --max-restarts %d -- %s train --output "
             "%s/parts " OPTIONS,
             yk_test_free_port(), KILLS, test_program(), yk_test_directory());
    test_job_start(&job, command);
    test_job_start(&other, command);
    assert_true(kill_ranks() > 0);
    if (test_job_wait(&job, 100) != 0 || test_job_wait(&other, 100) != 0)
        fail_msg("%s\n%s", job.output, test_job_output(&other));
    assert_same_file("whole", "parts", "model.pth");
    assert_same_metrics("whole", "parts");
}
