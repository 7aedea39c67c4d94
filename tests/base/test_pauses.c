/* The clock of the tests (harness/clock.h): what it counts, and what it leaves out. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "clock.h"
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

YK_TEST(time_that_passes_counts)
{
    double counted = yk_test_now(), passed = yki_now();
    usleep(300000);
    counted = yk_test_now() - counted;
    passed = yki_now() - passed;
    assert_true(counted >= 0.25 && counted <= passed + 0.01);
}

/* A process that is stopped sees what all processes of a paused machine see. */
static void wait_for_pause(int ready, int go_on)
{
    char byte = 0;
    double counted = yk_test_now(), passed = yki_now();
    assert_int_equal(write(ready, &byte, 1), 1);
    assert_int_equal(read(go_on, &byte, 1), 1);
    counted = yk_test_now() - counted;
    passed = yki_now() - passed;
    _exit(passed >= 3 && counted <= passed - 2.5 ? 0 : 1);
}

YK_TEST(a_pause_does_not_count)
{
    int ready[2], go_on[2], status;
    char byte = 0;
    yk_test_now(); /* the child does not inherit this process's thread */
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go_on), 0);
    pid_t child = yk_test_fork();
    if (child == 0)
        wait_for_pause(ready[1], go_on[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGSTOP);
    sleep(3);
    assert_int_equal(write(go_on[1], &byte, 1), 1);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
