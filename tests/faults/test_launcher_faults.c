/*
 * Nothing outlives the launcher: every process of a job is killed in turn, or the launcher is told
 * to go, and what the ranks have started, in sessions of their own and forked twice, must go too.
 */
#define _GNU_SOURCE
#include "../launcher/job.h"

static test_job job;

/*
 * Each rank has a child, a grandchild that left its session, and one that forked twice, so that its
 * parent is gone and it looks like a daemon. Signals that can be ignored are ignored.
 */
static const char *const family =
    "run -n 2 --grace 0.5 sh -c 'trap \"\" TERM INT HUP; sleep 301 & setsid sleep 302 & "
    "(setsid sh -c \"sleep 303 & exec sleep 304\" &) ; sleep 0.2; "
    "echo ready $PPID.; while :; do sleep 1; done'";
enum { FAMILY_LEAST = 2 + 2 * 5 }; /* guard, launcher, and of each rank: itself and four */

/* Starts it and waits until all of it runs; returns the launcher's pid (job.pid is the guard's). */
static pid_t start_family(void)
{
    test_job_start(&job, family);
    test_job_await(&job, "[rank 0] ready ");
    test_job_await(&job, "[rank 1] ready ");
    int launcher = test_job_number(&job, "ready ");
    for (double deadline = yk_test_now() + 10; test_job_processes(&job) < FAMILY_LEAST;)
        if (yk_test_now() > deadline)
            fail_msg("the family has only %d members", test_job_processes(&job));
    return launcher;
}

YK_TEST(promise_03_kill_9_of_what_the_user_started)
{
    start_family();
    kill(job.pid, SIGKILL);
    test_job_gone(&job, 2);
    assert_job_ends(&job, 1, 128 + SIGKILL);
}

YK_TEST(promise_03_kill_9_of_the_process_behind_it)
{
    pid_t launcher = start_family();
    assert_int_not_equal(launcher, job.pid);
    kill(launcher, SIGKILL);
    test_job_gone(&job, 2);
    assert_job_ends(&job, 1, 128 + SIGKILL);
    assert_contains(job.output, "killed by signal 9 (SIGKILL); its job was stopped");
}

YK_TEST(promise_03_kill_9_of_a_stopped_launchers_guard)
{
    pid_t launcher = start_family();
    kill(launcher, SIGSTOP);
    kill(job.pid, SIGKILL);
    test_job_gone(&job, 2);
    assert_job_ends(&job, 1, 128 + SIGKILL);
}

YK_TEST(promise_03_kill_9_of_the_users_process_group)
{
    start_family();
    kill(-job.pid, SIGKILL);
    test_job_gone(&job, 2);
    assert_job_ends(&job, 1, 128 + SIGKILL);
}

YK_TEST(promise_04_grandchildren_die_when_a_rank_is_killed)
{
    test_job_start(&job, "run -n 2 sh -c 'setsid sleep 301 & (setsid sleep 302 &); echo pid=$$.; "
                         "sleep 300'");
    test_job_await(&job, "[rank 0] pid=");
    test_job_await(&job, "[rank 1] pid=");
    kill(test_job_number(&job, "[rank 1] pid="), SIGKILL);
    assert_job_ends(&job, 3, 128 + SIGKILL);
    test_job_gone(&job, 2);
    assert_contains(job.output, "rank 1 (pid ");
    assert_contains(job.output, "killed by signal 9 (SIGKILL)");
}

YK_TEST(promise_04_grandchildren_die_when_the_job_ends_well)
{
    test_job_start(&job, "run -n 2 sh -c 'setsid sleep 301 & (setsid sleep 302 &); sleep 0.1'");
    assert_job_ends(&job, 10, 0);
    test_job_gone(&job, 0.5);
}

YK_TEST(promise_04_a_tree_that_keeps_forking_dies_too)
{
    test_job_start(&job, "run -n 1 sh -c 'f() { (sleep 0.01; f) & }; f; f; f; echo ready; "
                         "sleep 300'");
    test_job_await(&job, "ready");
    kill(job.pid, SIGKILL);
    test_job_wait(&job, 1);
    test_job_gone(&job, 2);
}

YK_TEST(everything_goes_after_a_termination_that_is_ignored)
{
    start_family();
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 5, 122); /* killed after the grace period */
    test_job_gone(&job, 2);
}

YK_TEST(everything_goes_when_the_terminal_hangs_up)
{
    start_family();
    kill(job.pid, SIGHUP);
    assert_job_ends(&job, 5, 122);
    test_job_gone(&job, 2);
}
