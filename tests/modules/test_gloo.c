/* What the gloo backend does where a rank dies or is late in libgloo. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Called on rank 1 when its gloo connects with rank 0, or accepts rank 0's connection. */
static void (*before_connecting)(void);

static void at_connection(const void *caller)
{
    Dl_info from;
    if (before_connecting && dladdr(caller, &from) && strstr(from.dli_fname, "libgloo.so"))
        before_connecting();
}

__attribute__((visibility("default"))) int connect(int descriptor, __CONST_SOCKADDR_ARG address,
                                                   socklen_t length)
{
    at_connection(__builtin_return_address(0));
    return (int)syscall(SYS_connect, descriptor, address.__sockaddr__, length);
}

__attribute__((visibility("default"))) int accept(int descriptor, __SOCKADDR_ARG address,
                                                  socklen_t *length)
{
    at_connection(__builtin_return_address(0));
    return (int)syscall(SYS_accept4, descriptor, address.__sockaddr__, length, 0);
}

static void open_in_vain(int rank, double timeout_s, yk_status expected, const char *part)
{
    yk_group *group;
    double start = yk_test_now();
    yk_status status = yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                     o.backend = "gloo", o.timeout_s = timeout_s));
    leave_line(rank);
    assert_status(expected, status);
    assert_contains(yk_last_error(), part);
    assert_true(yk_test_now() - start < 30);
}

static void check_rank_1_is_named(void (*body)(int rank, int world),
                                  void (*meanwhile)(const pid_t *pids, int world))
{
    int statuses[2];
    require_module("libyoke-gloo.so");
    open_lines();
    yk_test_ranks_status(2, body, statuses, meanwhile);
    assert_int_equal(statuses[0], 0);
    assert_true(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void lose_rank_1(int rank, int world __attribute__((unused)))
{
    before_connecting = rank == 1 ? die : NULL;
    open_in_vain(rank, 60, YK_ERROR_PEER_FAILED, "rank 1");
}

YK_TEST(a_rank_that_is_killed_while_it_connects_is_named)
{
    check_rank_1_is_named(lose_rank_1, NULL);
}

static void stop(void)
{
    kill(getpid(), SIGSTOP);
}

static void wait_for_rank_1(int rank, int world __attribute__((unused)))
{
    before_connecting = rank == 1 ? stop : NULL;
    open_in_vain(rank, 2, YK_ERROR_TIMEOUT, "rank 1 did not take part");
}

static void end_rank_1(const pid_t *pids, int world __attribute__((unused)))
{
    await_text("line", 0);
    kill(pids[1], SIGKILL);
}

YK_TEST(a_rank_that_stops_while_it_connects_is_named)
{
    check_rank_1_is_named(wait_for_rank_1, end_rank_1);
}
