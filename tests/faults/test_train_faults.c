/* Rank processes of a real training are killed: who is left must say what happened, and go. */
#define _GNU_SOURCE
#include "../launcher/job.h"

#include <sys/resource.h>
#include <sys/stat.h>

static test_job job;

/* Kills rank 1 of a training of three with this signal. */
static void kill_rank_1(int number, const char *name)
{
    test_job_train(&job, "--nproc 3");
    pid_t victim = test_job_rank_pid(&job, 1);
    double start = yk_test_now();
    kill(victim, number);
    assert_job_ends(&job, 10, 128 + number);
    assert_true(yk_test_now() - start < 2);
    test_job_gone(&job, 2);
    char words[128];
    snprintf(words, sizeof words, "rank 1 is dead: pid %d killed by signal %d (%s)", (int)victim,
             number, name);
    assert_int_equal(count(job.output, words), 2); /* one line of each survivor */
    snprintf(words, sizeof words, "rank 1 (pid %d) killed by signal %d (%s)", (int)victim, number,
             name);
    assert_contains(job.output, words);
    for (int rank = 0; rank < 3; rank++) { /* each survivor has written its last collectives */
        snprintf(words, sizeof words, "%s/trained/flight-recorder-%d.json", yk_test_directory(),
                 rank);
        assert_int_equal(access(words, R_OK) == 0, rank != 1);
        assert_int_equal(count(job.output, words), rank == 1 ? 0 : 1);
    }
}

YK_TEST(promise_01_survivors_of_a_killed_rank_name_it)
{
    kill_rank_1(SIGKILL, "SIGKILL");
}

YK_TEST(promise_01_survivors_of_a_crashed_rank_name_it)
{
    kill_rank_1(SIGSEGV, "SIGSEGV");
}

YK_TEST(promise_03_a_training_ends_with_its_launcher)
{
    test_job_train(&job, "--nproc 2");
    kill(job.pid, SIGKILL);
    test_job_gone(&job, 2);
    test_job_wait(&job, 1);
}

YK_TEST(promise_04_loader_workers_die_with_the_job)
{
    test_job_train(&job, "--nproc 2 --workers 3");
    kill(test_job_rank_pid(&job, 0), SIGKILL);
    assert_job_ends(&job, 10, 128 + SIGKILL);
    test_job_gone(&job, 2);
}

YK_TEST(a_stop_without_its_checkpoint_is_unclean)
{
    struct stat model;
    char path[128];
    test_job_train(&job, "--nproc 2");
    snprintf(path, sizeof path, "%s/trained/model.pth", yk_test_directory());
    assert_int_equal(stat(path, &model), 0);
    struct rlimit limit = {(rlim_t)model.st_size / 2, (rlim_t)model.st_size / 2};
    pid_t saves = test_job_rank_pid(&job, 0);
    kill(saves, SIGSTOP); /* or a save could fail before the stop */
    assert_int_equal(prlimit(saves, RLIMIT_FSIZE, &limit, NULL), 0);
    kill(job.pid, SIGTERM);
    test_job_await(&job, "SIGTERM: stopping 2 ranks");
    kill(saves, SIGCONT);
    assert_job_ends(&job, 30, 121);
    assert_contains(job.output, "unclean stop: rank 0 (pid ");
    assert_contains(job.output, "File too large");
}

YK_TEST(promise_13_sigusr1_to_one_rank_stops_all_after_the_same_step)
{
    test_job_train(&job, "--nproc 2");
    kill(test_job_rank_pid(&job, 1), SIGUSR1);
    assert_int_not_equal(test_job_wait(&job, 30), -1);
    assert_contains(job.output, "Stopped after step ");
    test_job_gone(&job, 2);
}
