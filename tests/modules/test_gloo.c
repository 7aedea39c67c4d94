/* What the gloo backend does with large buffers, and where a rank dies or is late in libgloo. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static yk_group *open_gloo(void)
{
    yk_group *group;
    require_module("libyoke-gloo.so");
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.backend = "gloo", o.timeout_s = 60)));
    assert_string_equal(yk_group_backend(group), "gloo");
    return group;
}

/* ---- large buffers --------------------------------------------------------------------------- */

/* Counts around those from which two, three and five ranks use gloo's collectives, and odd ones. */
static const size_t counts[] = {65536, 65537, 131072, 131073, 262144, 262145, 1000003};
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 1000003 };

static float value(int rank, int round, size_t i)
{
    return (float)(rank * rank + round + (int)(i % 1009));
}

static float sum_of(int world, int round, size_t i)
{
    float sum = 0;
    for (int r = 0; r < world; r++)
        sum += value(r, round, i);
    return sum;
}

/* One rank is late in turn. In every third round only one rank gets the sum. */
static void reduce_large_buffers(int rank, int world)
{
    yk_group *group = open_gloo();
    static float data[MOST];
    for (int round = 0; round < 3 * COUNTS; round++) {
        size_t count = counts[round / 3];
        int root = round % 3 == 2 ? round % world : -1;
        for (size_t i = 0; i < count; i++)
            data[i] = value(rank, round, i);
        if (round % (world + 1) == rank)
            usleep(3000);
        if (root < 0)
            assert_ok(yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, NULL));
        else
            assert_ok(yk_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, root, NULL));
        for (size_t i = 0; i < count && (root < 0 || root == rank); i++)
            assert_true(data[i] == sum_of(world, round, i));
    }
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_reduce_large_buffers, 2)
{
    reduce_large_buffers(rank, world);
}

YK_TEST_RANKS(three_ranks_reduce_large_buffers, 3)
{
    reduce_large_buffers(rank, world);
}

YK_TEST_RANKS(five_ranks_reduce_large_buffers, 5)
{
    reduce_large_buffers(rank, world);
}

static void reduce_elements_of_all_sizes(int rank, int world)
{
    enum { COUNT = 600011 };
    static int64_t wide[COUNT];
    static uint16_t half[COUNT];
    yk_group *group = open_gloo();
    for (int i = 0; i < COUNT; i++) {
        wide[i] = ((int64_t)1 << 40) * rank + i;
        half[i] = (uint16_t)(rank < 2 ? 0x3f80 : 0x4000); /* 1, 1 and 2 in bf16 */
    }
    assert_ok(yk_all_reduce(group, wide, COUNT, YK_I64, YK_REDUCE_MAX, NULL));
    assert_ok(yk_all_reduce(group, half, COUNT, YK_BF16, YK_REDUCE_SUM, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(wide[i], ((int64_t)1 << 40) * (world - 1) + i);
        assert_int_equal(half[i], world == 2 ? 0x4000 : 0x4080); /* 2, or 4 */
    }
    assert_ok(yk_reduce(group, half, COUNT, YK_BF16, YK_REDUCE_MIN, 1, NULL));
    assert_int_equal(half[COUNT - 1], world == 2 ? 0x4000 : 0x4080);
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_reduce_elements_of_all_sizes, 2)
{
    reduce_elements_of_all_sizes(rank, world);
}

YK_TEST_RANKS(three_ranks_reduce_elements_of_all_sizes, 3)
{
    reduce_elements_of_all_sizes(rank, world);
}

YK_TEST_RANKS(four_ranks_gather_large_buffers, 4)
{
    yk_group *group = open_gloo();
    static float all[4 * MOST], mine[MOST];
    for (int round = 0; round < COUNTS; round++) {
        size_t count = counts[round];
        for (size_t i = 0; i < count; i++)
            mine[i] = value(rank, round, i);
        assert_ok(yk_all_gather(group, all, mine, count, YK_F32, NULL));
        for (int r = 0; r < world; r++)
            for (size_t i = 0; i < count; i++)
                assert_true(all[(size_t)r * count + i] == value(r, round, i));
    }
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_reduce_over_ipv6, 2)
{
    if (access("/proc/net/if_inet6", R_OK))
        skip_because("this machine has no IPv6");
    setenv("YOKE_LOCAL_ADDR", "::1", 1);
    reduce_large_buffers(rank, world);
}

/* A handler without SA_RESTART interrupts whatever waits. */
static void handle(int signal __attribute__((unused)))
{
}

YK_TEST_RANKS(signals_interrupt_nothing, 2)
{
    const struct itimerval often = {{.tv_usec = 1000}, {.tv_usec = 1000}}, never = {{0}, {0}};
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    reduce_large_buffers(rank, world);
    setitimer(ITIMER_REAL, &never, NULL);
}

/* ---- deaths and delays ----------------------------------------------------------------------- */

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

/* Rank 1 dies while its part is on its way. */
static void die_in_a_large_sum(int rank)
{
    yk_group *group = open_gloo();
    size_t count = (size_t)64 << 20;
    float *data = calloc(count, sizeof *data);
    assert_non_null(data);
    assert_ok(yk_all_reduce(group, data, 1 << 20, YK_F32, YK_REDUCE_SUM, NULL));
    if (rank == 1) {
        yk_work *work;
        assert_ok(yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, &work));
        usleep(20000);
        _exit(0);
    }
    assert_status(YK_ERROR_PEER_FAILED,
                  yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "rank 1");
    free(data);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_rank_that_dies_in_a_large_sum_is_named, 2)
{
    (void)world;
    die_in_a_large_sum(rank);
}

YK_TEST_RANKS(one_of_four_ranks_that_dies_in_a_large_sum_is_named, 4)
{
    (void)world;
    die_in_a_large_sum(rank);
}
