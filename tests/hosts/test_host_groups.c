/* Groups whose ranks misbehave, on two hosts with two ranks each. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "hosts.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- 5 and 6: mismatches --------------------------------------------------------------------- */

/* Rank 3 calls something else; all ranks see both sides, no data moves, the group still works. */
static void mismatch(int rank, yk_status (*right)(yk_group *, float *),
                     yk_status (*wrong)(yk_group *, float *), const char *one, const char *other)
{
    yk_group *group = join(30);
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_status(YK_ERROR_MISMATCH, (rank == 3 ? wrong : right)(group, data));
    assert_contains(yk_last_error(), one);
    assert_contains(yk_last_error(), other);
    for (int i = 0; i < 8; i++)
        assert_true(data[i] == (float)(i + 1));
    assert_ok(yk_all_reduce(group, data, 8, YK_F32, YK_REDUCE_SUM, NULL));
    assert_true(data[7] == 32);
    yk_group_destroy(group);
}

static yk_status sum_of_8(yk_group *group, float *data)
{
    return yk_all_reduce(group, data, 8, YK_F32, YK_REDUCE_SUM, NULL);
}

static yk_status sum_of_7(yk_group *group, float *data)
{
    return yk_all_reduce(group, data, 7, YK_F32, YK_REDUCE_SUM, NULL);
}

static yk_status largest_of_8(yk_group *group, float *data)
{
    return yk_all_reduce(group, data, 8, YK_F32, YK_REDUCE_MAX, NULL);
}

static yk_status broadcast_of_8(yk_group *group, float *data)
{
    return yk_broadcast(group, data, 8, YK_F32, 0, NULL);
}

YK_TEST_HOST_RANKS(promise_05_counts_that_differ_between_hosts, 2, 2)
{
    mismatch(rank, sum_of_8, sum_of_7, "float32 x 8", "float32 x 7");
}

YK_TEST_HOST_RANKS(promise_05_reductions_that_differ_between_hosts, 2, 2)
{
    mismatch(rank, sum_of_8, largest_of_8, "sum", "max");
}

YK_TEST_HOST_RANKS(promise_06_operations_that_differ_between_hosts, 2, 2)
{
    mismatch(rank, sum_of_8, broadcast_of_8, "all_reduce", "broadcast");
}

/* ---- 8: missing ranks ------------------------------------------------------------------------ */

YK_TEST_HOST_RANKS(promise_08_missing_ranks_of_other_hosts_are_listed, 2, 2)
{
    yk_group *group;
    if (rank >= 2)
        return;
    assert_status(
        YK_ERROR_TIMEOUT,
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 3)));
    assert_contains(yk_last_error(), "rank 2, 3 of 4 did not join within 3 s");
}

/* ---- 2: a rank that is stopped --------------------------------------------------------------- */

static void wait_for_stopped(int rank, int world)
{
    (void)world;
    yk_group *group = join(4);
    float data[4] = {0};
    assert_ok(yk_barrier(group));
    if (rank == 3)
        raise(SIGSTOP);
    assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, data, 4, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "all_reduce(float32 x 4, sum)");
    assert_contains(yk_last_error(), "rank 3");
    leave_line(rank);
    exit(3);
}

/* Once the others have given up, the stopped rank is ended. */
static void end_rank_3(void)
{
    await_texts("line", 3);
    pid_t pid = yk_test_find_process(2, "", "RANK=3");
    assert_true(pid > 0);
    kill(pid, SIGKILL);
    usleep(100000);
    kill(0, SIGCONT); /* nsenter stops with what it has started */
}

YK_TEST(promise_02_a_rank_that_is_stopped_on_another_host_is_named)
{
    int statuses[4];
    open_lines();
    yk_test_host_ranks(2, 2, wait_for_stopped, statuses, end_rank_3);
    for (int rank = 0; rank < 3; rank++)
        assert_true(WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 3);
}

/* Hosts with one rank each, which have to come to the end of their body. */
static void check_all_give_up(int hosts, void (*body)(int rank, int world), void (*meanwhile)(void))
{
    int statuses[3];
    assert_true(hosts <= 3);
    open_lines();
    yk_test_host_ranks(hosts, 1, body, statuses, meanwhile);
    for (int rank = 0; rank < hosts; rank++)
        assert_true(WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 3);
}

/* ---- a network that loses large packets ------------------------------------------------------ */

static void sum_until_lost(int rank, int world)
{
    (void)world;
    enum { COUNT = 100000 };
    float *data = calloc(COUNT, sizeof *data);
    assert_non_null(data);
    yk_group *group = join(6);
    yk_status status;
    leave_text("begun", rank, "yes");
    while ((status = yk_all_reduce(group, data, COUNT, YK_F32, YK_REDUCE_SUM, NULL)) == YK_OK)
        ;
    assert_int_equal(status, YK_ERROR_TIMEOUT);
    assert_contains(yk_last_error(), "timed out after 6 s: rank ");
    assert_contains(yk_last_error(), " waits, too (pid ");
    assert_contains(yk_last_error(), "the network between hosts n");
    assert_contains(yk_last_error(), " loses data, or the process is stopped");
    assert_null(strstr(yk_last_error(), "did not take part"));
    exit(3);
}

static void set_link(int host, const char *options)
{
    char output[256];
    if (yk_test_command(output, sizeof output, "%s ip link set eth0 %s", yk_test_on(host), options))
        fail_msg("%s", output);
}

/* As behind a switch that does not pass on what is longer: heartbeats are short. The first packets
 * must be as long as the network has them, or the kernel takes them for several. */
static void lose_large_packets(void)
{
    await_texts("begun", 3);
    for (int host = 1; host <= 3; host++)
        set_link(host, "gso_max_segs 1");
    set_link(2, "mtu 300");
}

YK_TEST(a_network_that_loses_large_packets_is_told_from_ranks_that_are_late)
{
    check_all_give_up(3, sum_until_lost, lose_large_packets);
}

/* ---- a network that is down ------------------------------------------------------------------ */

static void sum_until_cut(int rank, int world)
{
    (void)world;
    float data[8] = {0};
    yk_group *group = join(60);
    yk_status status;
    leave_text("begun", rank, "yes");
    while ((status = yk_all_reduce(group, data, 8, YK_F32, YK_REDUCE_SUM, NULL)) == YK_OK)
        usleep(10000);
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    assert_contains(yk_last_error(), rank == 0 ? "rank 1 on host n2" : "rank 0 on host n1");
    assert_contains(yk_last_error(), "its host or the network is down");
    exit(3);
}

static void cut_n2_off(void)
{
    await_texts("begun", 2);
    set_link(2, "down");
}

YK_TEST(ranks_that_are_cut_off_name_the_network_too)
{
    check_all_give_up(2, sum_until_cut, cut_n2_off);
}

/* ---- a slow network -------------------------------------------------------------------------- */

static void sum_too_slowly(int rank, int world)
{
    (void)world;
    enum { COUNT = 2000000 };
    float *data = calloc(COUNT, sizeof *data);
    assert_non_null(data);
    yk_group *group = join(4);
    leave_text("begun", rank, "yes");
    await_text("limited", 0);
    assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, data, COUNT, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), rank == 0 ? "the network between hosts n1 and n2 is too slow "
                                                 "for YOKE_TIMEOUT (this host has sent "
                                               : "the network between hosts n2 and n1 is too slow "
                                                 "for YOKE_TIMEOUT (this host has sent ");
    exit(3);
}

static void limit_rates(void)
{
    await_texts("begun", 2);
    yk_test_limit_rate(1, "5mbit");
    yk_test_limit_rate(2, "5mbit");
    leave_text("limited", 0, "yes");
}

YK_TEST(a_network_that_is_too_slow_is_told_from_one_that_loses_data)
{
    check_all_give_up(2, sum_too_slowly, limit_rates);
}

static void wait_for_unreachable(int rank, int world)
{
    (void)rank, (void)world;
    yk_group *group;
    await_text("parted", 0);
    assert_status(
        YK_ERROR_TIMEOUT,
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 5)));
    assert_contains(yk_last_error(), "creating the group: timed out after 5 s: rank ");
    assert_contains(yk_last_error(), " waits, too (pid ");
    exit(3);
}

/* What n2 sends to n3 does not arrive. */
static void part_n2_from_n3(void)
{
    char output[256];
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "%s ip neighbour replace %s lladdr 02:00:00:00:00:c8 dev eth0 "
                                     "nud permanent",
                                     yk_test_on(2), yk_test_address(3)),
                     0);
    leave_text("parted", 0, "yes");
}

YK_TEST(hosts_that_cannot_reach_each_other_are_told_from_ranks_that_are_late)
{
    check_all_give_up(3, wait_for_unreachable, part_n2_from_n3);
}

/* ---- many hosts ------------------------------------------------------------------------------ */

static void sum_ranks(int rank, int world)
{
    yk_group *group = join(60);
    int64_t sum = rank + 1;
    assert_ok(yk_all_reduce(group, &sum, 1, YK_I64, YK_REDUCE_SUM, NULL));
    assert_int_equal(sum, world * (world + 1) / 2);
    yk_group_destroy(group);
}

YK_TEST_HOST_RANKS(eight_ranks_on_four_hosts, 4, 2)
{
    sum_ranks(rank, world);
}

YK_TEST_HOST_RANKS(sixty_four_ranks_on_eight_hosts, 8, 8)
{
    sum_ranks(rank, world);
}

/* ---- what crosses the network ---------------------------------------------------------------- */

enum { SUM_BYTES = 16 << 20, SUMS = 4 };

static void sum_large_buffers(int rank, int world)
{
    (void)rank, (void)world;
    float *data = calloc(SUM_BYTES / sizeof(float), sizeof(float));
    assert_non_null(data);
    yk_group *group = join(60);
    for (int i = 0; i < SUMS; i++)
        assert_ok(
            yk_all_reduce(group, data, SUM_BYTES / sizeof(float), YK_F32, YK_REDUCE_SUM, NULL));
    yk_group_destroy(group);
    free(data);
}

/* Runs body as two ranks on each of two hosts, each of which then has sent so many bytes, by the
 * counters of its interface, and little more: they count headers and confirmations, too. */
static void check_sent(void (*body)(int rank, int world), uint64_t bytes)
{
    uint64_t before[3];
    yk_test_run_as_rank(body, 4);
    yk_test_hosts(2);
    for (int host = 1; host <= 2; host++)
        before[host] = yk_test_bytes_sent(host);
    yk_test_host_ranks(2, 2, body, NULL, NULL);
    for (int host = 1; host <= 2; host++)
        assert_in_range(yk_test_bytes_sent(host) - before[host], bytes, bytes / 10 * 11);
}

/* Each of H hosts sends 2 (H - 1) / H of a buffer; two ranks of a host send no more than one. */
YK_TEST(a_host_sends_no_more_of_a_sum_than_it_must)
{
    check_sent(sum_large_buffers, SUMS * (uint64_t)SUM_BYTES);
}

static void gather_large_buffers(int rank, int world)
{
    float *all = calloc((size_t)world * SUM_BYTES / sizeof(float), sizeof(float));
    assert_non_null(all);
    yk_group *group = join(60);
    for (int i = 0; i < SUMS; i++)
        assert_ok(yk_all_gather(group, all, all + (size_t)rank * SUM_BYTES / sizeof(float),
                                SUM_BYTES / sizeof(float), YK_F32, NULL));
    yk_group_destroy(group);
    free(all);
}

/* The data of its ranks, once to each other host. */
YK_TEST(a_host_sends_no_more_of_an_all_gather_than_it_must)
{
    check_sent(gather_large_buffers, 2 * SUMS * (uint64_t)SUM_BYTES);
}
