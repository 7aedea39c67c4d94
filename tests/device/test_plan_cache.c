/* The lock of the folder where choices are kept; see tests/cuda/test_cuda_plans.c for the rest. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/plan_cache.h"
#include "harness.h"

/* What another process says that waits for the lock of the folder. */
static void wait_in_a_process(const char *folder, double seconds, bool expected)
{
    int status;
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        setenv("YOKE_LOG", "info", 1);
        int said = open(yk_test_path("said"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(said, STDERR_FILENO);
        _exit((yki_plan_cache_lock(folder, seconds) >= 0) == expected ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect_said(const char *text)
{
    char said[2048];
    assert_int_equal(yk_test_command(said, sizeof said, "cat %s", yk_test_path("said")), 0);
    assert_contains(said, text);
}

/* Its holder may be stopped. */
YK_TEST(a_lock_that_is_never_given_back_is_given_up)
{
    int lock = yki_plan_cache_lock(yk_test_directory(), 1);
    assert_true(lock >= 0);
    double begin = yki_now();
    wait_in_a_process(yk_test_directory(), 2.2, false);
    assert_true(yki_now() - begin >= 2.2);
    expect_said("waiting for another process, which chooses kernels and has locked ");
    expect_said(
        "/.lock has been locked by another process for 2 s: this process chooses for itself");
    yki_plan_cache_unlock(lock);
    wait_in_a_process(yk_test_directory(), 0, true);
}
