/* Large buffers over the engine of YOKE_BACKEND, or tcp, between processes of this machine. */
#define _GNU_SOURCE
#include "engine.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

/* Counts around those from which two to five ranks no longer reduce by a single exchange, at which
 * their parts are whole numbers of pieces, and odd ones. */
static const size_t counts[] = {43690,  43691,  65536,  65537,  131072, 131073,  131074,
                                174080, 196607, 262144, 262145, 917504, 1000003, 1048576};
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 1048576 };

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
    yk_group *group = open_network(60);
    float *data = calloc(MOST, sizeof *data);
    assert_non_null(data);
    for (int round = 0; round < 3 * COUNTS; round++) {
        size_t count = counts[round % COUNTS];
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
    free(data);
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

/* Elements of other sizes, of which a part may end within a piece. */
YK_TEST_RANKS(three_ranks_reduce_elements_of_all_sizes, 3)
{
    enum { COUNT = 500009 };
    static int64_t wide[COUNT];
    static uint16_t half[COUNT];
    yk_group *group = open_network(60);
    for (int i = 0; i < COUNT; i++) {
        wide[i] = ((int64_t)1 << 40) * rank + i;
        half[i] = (uint16_t)(0x3f80 + 0x80 * (rank == 2)); /* 1, 1 and 2 in bf16 */
    }
    assert_ok(yk_all_reduce(group, wide, COUNT, YK_I64, YK_REDUCE_MAX, NULL));
    assert_ok(yk_all_reduce(group, half, COUNT, YK_BF16, YK_REDUCE_SUM, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(wide[i], ((int64_t)1 << 41) + i);
        assert_int_equal(half[i], 0x4080); /* 4 */
    }
    yk_group_destroy(group);
}

static void gather_large_buffers(int rank, int world)
{
    yk_group *group = open_network(60);
    float *all = malloc((size_t)world * MOST * sizeof *all), *mine = malloc(MOST * sizeof *mine);
    assert_non_null(all);
    assert_non_null(mine);
    for (int round = 0; round < 2 * COUNTS; round++) {
        size_t count = counts[round % COUNTS];
        for (size_t i = 0; i < count; i++)
            mine[i] = value(rank, round, i);
        if (round % (world + 1) == rank)
            usleep(3000);
        assert_ok(yk_all_gather(group, all, mine, count, YK_F32, NULL));
        for (int r = 0; r < world; r++)
            for (size_t i = 0; i < count; i++)
                assert_true(all[(size_t)r * count + i] == value(r, round, i));
    }
    free(all);
    free(mine);
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_gather_large_buffers, 2)
{
    gather_large_buffers(rank, world);
}

YK_TEST_RANKS(four_ranks_gather_large_buffers, 4)
{
    gather_large_buffers(rank, world);
}

/* What each rank has for all others, and gets from them. One rank is late in turn. */
static void scatter_large_buffers(int rank, int world)
{
    yk_group *group = open_network(60);
    float *in = malloc((size_t)world * MOST * sizeof *in), *out = malloc(MOST * sizeof *out);
    assert_non_null(in);
    assert_non_null(out);
    for (int round = 0; round < 2 * COUNTS; round++) {
        size_t count = counts[round % COUNTS];
        for (size_t i = 0; i < (size_t)world * count; i++)
            in[i] = value(rank, round, i);
        if (round % (world + 1) == rank)
            usleep(3000);
        assert_ok(yk_reduce_scatter(group, out, in, count, YK_F32, YK_REDUCE_SUM, NULL));
        for (size_t i = 0; i < count; i++)
            assert_true(out[i] == sum_of(world, round, (size_t)rank * count + i));
        for (size_t i = 0; i < (size_t)world * count; i++) /* it was only read */
            assert_true(in[i] == value(rank, round, i));
    }
    free(in);
    free(out);
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_scatter_sums_of_large_buffers, 2)
{
    scatter_large_buffers(rank, world);
}

YK_TEST_RANKS(four_ranks_scatter_sums_of_large_buffers, 4)
{
    scatter_large_buffers(rank, world);
}

/* From each rank in turn, to ranks of which one is late, in bytes that are no whole elements. */
static void broadcast_large_buffers(int rank, int world)
{
    yk_group *group = open_network(60);
    uint8_t *data = malloc(MOST + 1);
    assert_non_null(data);
    for (int round = 0; round < 2 * COUNTS; round++) {
        size_t count = counts[round % COUNTS] + (size_t)(round % 2);
        int root = round % world;
        memset(data, 0, MOST + 1);
        for (size_t i = 0; i < count && rank == root; i++)
            data[i] = (uint8_t)(i * 7 + (size_t)round);
        if (round % (world + 1) == rank)
            usleep(3000);
        assert_ok(yk_broadcast(group, data, count, YK_U8, root, NULL));
        for (size_t i = 0; i < count; i++)
            assert_true(data[i] == (uint8_t)(i * 7 + (size_t)round));
    }
    free(data);
    yk_group_destroy(group);
}

YK_TEST_RANKS(two_ranks_broadcast_large_buffers, 2)
{
    broadcast_large_buffers(rank, world);
}

YK_TEST_RANKS(five_ranks_broadcast_large_buffers, 5)
{
    broadcast_large_buffers(rank, world);
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

/* Rank 1 dies while its part is on its way. */
static void die_in_a_large_sum(int rank)
{
    yk_group *group = open_network(60);
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
