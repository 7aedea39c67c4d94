/* The grace period of a job that is being stopped. */
#define _GNU_SOURCE
#include "job.h"

#include <sys/ioctl.h>
#include <sys/stat.h>

#include "comm/group_internal.h"

static test_job job;
static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

/* A rank that takes longer to stop than it has, and says first whether it saves meanwhile. */
static void be_rank(bool saves)
{
    yk_group *group;
    signal(SIGTERM, stop);
    assert_ok(yk_group_init(&group, NULL));
    if (yk_group_rank(group) == 0)
        puts("ready");
    fflush(stdout);
    while (!stopped)
        usleep(1000);
    if (saves && yk_group_rank(group) == 0)
        yki_group_announce_save(group);
    if (saves)
        usleep(1400000);
    else
        sleep(60); /* until it is killed */
    yk_group_destroy(group);
    _exit(128 + SIGTERM);
}

/* Runs this case again as two ranks that have a second to stop; returns the job's exit code. */
static int stop_ranks(const char *name)
{
    char self[512] = "", command[1024];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "run -n 2 --grace 1 -- %s %s", self, name);
    setenv("YK_TEST_IS_RANK", "1", 1);
    test_job_start(&job, command);
    test_job_await(&job, "ready");
    kill(job.pid, SIGTERM);
    int code = test_job_wait(&job, 20);
    test_job_gone(&job, 5);
    return code;
}

YK_TEST(a_checkpoint_gets_a_grace_period_of_its_own)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(true);
    assert_int_equal(stop_ranks("a_checkpoint_gets_a_grace_period_of_its_own"), 128 + SIGTERM);
}

YK_TEST(anything_else_does_not)
{
    if (getenv("YK_TEST_IS_RANK"))
        be_rank(false);
    assert_int_equal(stop_ranks("anything_else_does_not"), 122); /* docs/launcher.md: killed */
}

/* The output of a job that is stopped waits for its reader no longer than the ranks may take. */
YK_TEST(a_reader_that_pauses_does_not_keep_a_stopped_job)
{
    char arguments[512];
    const char *path = yk_test_path("output");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDWR | O_CLOEXEC), waiting = 0;
    assert_true(reader >= 0);
    snprintf(arguments, sizeof arguments, "run -n 1 --grace 1 yes >%s", path);
    test_job_start(&job, arguments);
    for (double deadline = test_now() + 20; waiting < 60000 && test_now() < deadline; usleep(2000))
        assert_int_equal(ioctl(reader, FIONREAD, &waiting), 0);
    kill(job.pid, SIGTERM);
    assert_job_ends(&job, 20, 128 + SIGTERM);
    test_job_gone(&job, 2);
    close(reader);
}
