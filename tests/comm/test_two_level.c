/* The backend of several hosts with several ranks. Hosts are pretended: YOKE_TEST_HOST. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static const size_t counts[] = {0, 1, 5, 4096, 4097, 30011, 300007};

/* The ranks are divided among hosts of these names. */
static yk_group *join_on(const char *hosts, double timeout_s)
{
    char modules[4096];
    yk_group *group = NULL;
    snprintf(modules, sizeof modules, "%s/tests/modules", getenv("YOKE_BUILD"));
    setenv("YOKE_TEST_HOST", hosts, 1);
    setenv("YOKE_MODULES", modules, 1);
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.timeout_s = timeout_s, o.backend = "shm+fake")));
    assert_string_equal(yk_group_backend(group), "shm+fake");
    return group;
}

static float value(int rank, size_t i)
{
    return (float)((i * 3 + (size_t)rank * 5) % 16);
}

static float sum_of(int world, size_t i)
{
    float sum = 0;
    for (int r = 0; r < world; r++)
        sum += value(r, i);
    return sum;
}

static void check_sums(yk_group *group, int rank, int world, void *memory)
{
    float *data = memory;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t i = 0; i < counts[c]; i++)
            data[i] = value(rank, i);
        yk_reduce_op op = c % 2 ? YK_REDUCE_AVG : YK_REDUCE_SUM;
        assert_ok(yk_all_reduce(group, data, counts[c], YK_F32, op, NULL));
        for (size_t i = 0; i < counts[c]; i++) {
            float expected = sum_of(world, i);
            assert_float_equal(data[i], op == YK_REDUCE_AVG ? expected / (float)world : expected,
                               1e-5);
        }
    }
}

static void check_reduces(yk_group *group, int rank, int world, void *memory)
{
    float *data = memory;
    for (int root = 0; root < world; root++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            bool average = ((int)c + root) % 2;
            yk_reduce_op op = average ? YK_REDUCE_AVG : YK_REDUCE_SUM;
            for (size_t i = 0; i < counts[c]; i++)
                data[i] = value(rank, i);
            assert_ok(yk_reduce(group, data, counts[c], YK_F32, op, root, NULL));
            for (size_t i = 0; i < counts[c] && rank == root; i++)
                assert_float_equal(data[i], sum_of(world, i) / (float)(average ? world : 1), 1e-5);
        }
}

static void check_broadcasts(yk_group *group, int rank, int world, void *memory)
{
    int32_t *data = memory;
    for (int root = 0; root < world; root++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t i = 0; i < counts[c]; i++)
                data[i] = rank == root ? (int32_t)i + root : -1;
            assert_ok(yk_broadcast(group, data, counts[c], YK_I32, root, NULL));
            for (size_t i = 0; i < counts[c]; i++)
                assert_int_equal(data[i], (int32_t)i + root);
        }
}

/* Each rank contributes numbers of its own, in place or from another buffer. */
static void check_all_gathers(yk_group *group, int rank, int world)
{
    size_t most = counts[sizeof counts / sizeof *counts - 1];
    int32_t *all = malloc((size_t)world * most * sizeof *all), *mine = malloc(most * sizeof *mine);
    assert_non_null(all);
    assert_non_null(mine);
    for (size_t c = 0; c < 2 * sizeof counts / sizeof *counts; c++) {
        size_t count = counts[c / 2];
        int32_t *in = c % 2 ? mine : all + (size_t)rank * count;
        memset(all, -1, (size_t)world * count * sizeof *all);
        for (size_t i = 0; i < count; i++)
            in[i] = (int32_t)i * 8 + rank;
        assert_ok(yk_all_gather(group, all, in, count, YK_I32, NULL));
        for (int r = 0; r < world; r++)
            for (size_t i = 0; i < count; i++)
                assert_int_equal(all[(size_t)r * count + i], (int32_t)i * 8 + r);
    }
    free(all);
    free(mine);
}

static void check_integers(yk_group *group, int rank, int world)
{
    int64_t data[5000];
    for (int i = 0; i < 5000; i++)
        data[i] = i * (rank + 1);
    assert_ok(yk_all_reduce(group, data, 5000, YK_I64, YK_REDUCE_AVG, NULL));
    for (int i = 0; i < 5000; i++)
        assert_int_equal(data[i], (int64_t)i * world * (world + 1) / 2 / world);
    for (int i = 0; i < 5000; i++)
        data[i] = i * (rank + 1);
    assert_ok(yk_reduce(group, data, 5000, YK_I64, YK_REDUCE_AVG, world - 1, NULL));
    for (int i = 0; i < 5000 && rank == world - 1; i++)
        assert_int_equal(data[i], (int64_t)i * world * (world + 1) / 2 / world);
    int32_t mine = rank, all[8];
    assert_ok(yk_all_gather(group, all, &mine, 1, YK_I32, NULL));
    for (int r = 0; r < world; r++)
        assert_int_equal(all[r], r);
    assert_ok(yk_barrier(group));
    if (rank == 0)
        assert_ok(yk_send(group, &mine, 1, YK_I32, world - 1));
    if (rank == world - 1)
        assert_ok(yk_recv(group, &mine, 1, YK_I32, 0));
    assert_int_equal(mine, rank == world - 1 ? 0 : rank);
}

static void check_all(yk_group *group, int rank, int world)
{
    void *shared, *own = malloc(300007 * sizeof(float));
    assert_non_null(own);
    assert_ok(yk_group_alloc(group, 300007 * sizeof(float), &shared));
    check_sums(group, rank, world, own);
    check_sums(group, rank, world, shared);
    check_reduces(group, rank, world, own);
    check_reduces(group, rank, world, shared);
    check_broadcasts(group, rank, world, shared);
    check_broadcasts(group, rank, world, own);
    check_all_gathers(group, rank, world);
    check_integers(group, rank, world);
    assert_ok(yk_group_free(group, shared));
    yk_group_destroy(group);
    free(own);
}

YK_TEST_RANKS(two_hosts_with_two_ranks_each, 4)
{
    check_all(join_on("a|b", 60), rank, world);
}

/* On one host the first slice belongs to the lower rank, the second to the higher one. */
YK_TEST_RANKS(hosts_whose_ranks_are_interleaved, 4)
{
    check_all(join_on("a|b|b|a", 60), rank, world);
}

/* Large buffers pass in pieces: here three, of which the last is larger by one element. */
static void check_pieces(yk_group *group, int rank, int world)
{
    enum { COUNT = 3 * 2000000 + 1 };
    void *memory;
    assert_ok(yk_group_alloc(group, COUNT * sizeof(float), &memory));
    float *data = memory;
    for (size_t i = 0; i < COUNT; i++)
        data[i] = value(rank, i);
    assert_ok(yk_all_reduce(group, data, COUNT, YK_F32, YK_REDUCE_AVG, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        float expected = 0;
        for (int r = 0; r < world; r++)
            expected += value(r, i) / (float)world;
        if (fabsf(data[i] - expected) > 1e-4F)
            fail_msg("element %zu is %g, not %g", i, (double)data[i], (double)expected);
    }
    for (size_t i = 0; i < COUNT; i++)
        data[i] = value(rank, i);
    assert_ok(yk_reduce(group, data, COUNT, YK_F32, YK_REDUCE_SUM, 1, NULL));
    for (size_t i = 0; i < COUNT && rank == 1; i++)
        if (data[i] != sum_of(world, i))
            fail_msg("element %zu is %g, not %g", i, (double)data[i], (double)sum_of(world, i));
    size_t count = rank == world - 1 ? COUNT / 2 : COUNT;
    assert_status(YK_ERROR_MISMATCH,
                  yk_all_reduce(group, data, count, YK_F32, YK_REDUCE_SUM, NULL));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(large_buffers_between_even_hosts, 4)
{
    check_pieces(join_on("a|b", 60), rank, world);
}

YK_TEST_RANKS(large_buffers_between_uneven_hosts, 5)
{
    check_pieces(join_on("a|b", 60), rank, world);
}

/* An all-gather that passes in three pieces, of which the last is larger. Where the last rank
 * brings so little that it would be gathered in another way, nothing moves. */
static void check_gathered_pieces(yk_group *group, int rank, int world)
{
    enum { COUNT = 1300003 };
    float *all = malloc((size_t)world * COUNT * sizeof *all), *mine = malloc(COUNT * sizeof *mine);
    yk_work *work;
    assert_non_null(all);
    assert_non_null(mine);
    for (size_t i = 0; i < COUNT; i++)
        mine[i] = value(rank, i);
    for (int round = 0; round < 2; round++) {
        all[0] = -1;
        size_t count = rank == world - 1 ? 1 : COUNT;
        assert_status(YK_ERROR_MISMATCH, yk_all_gather(group, all, mine, count, YK_F32, NULL));
        assert_true(all[0] == -1);
        assert_ok(yk_all_gather(group, all, mine, COUNT, YK_F32, round ? &work : NULL));
        if (round)
            assert_ok(yk_work_wait(work));
        for (int r = 0; r < world; r++)
            for (size_t i = 0; i < COUNT; i++)
                if (all[(size_t)r * COUNT + i] != value(r, i))
                    fail_msg("element %zu of rank %d is %g", i, r,
                             (double)all[(size_t)r * COUNT + i]);
    }
    yk_group_destroy(group);
    free(all);
    free(mine);
}

YK_TEST_RANKS(large_all_gathers_between_even_hosts, 4)
{
    check_gathered_pieces(join_on("a|b", 60), rank, world);
}

YK_TEST_RANKS(large_all_gathers_between_hosts_whose_ranks_are_interleaved, 4)
{
    check_gathered_pieces(join_on("a|b|b|a", 60), rank, world);
}

YK_TEST_RANKS(large_all_gathers_between_uneven_hosts, 5)
{
    check_gathered_pieces(join_on("a|b", 60), rank, world);
}

YK_TEST_RANKS(hosts_with_three_ranks_and_two, 5)
{
    check_all(join_on("a|b", 60), rank, world);
}

YK_TEST_RANKS(hosts_with_two_ranks_and_one, 3)
{
    check_all(join_on("a|b", 60), rank, world);
}

YK_TEST_RANKS(three_hosts_with_one_rank_each, 3)
{
    check_all(join_on("a|b|c", 60), rank, world);
}

YK_TEST_RANKS(one_host, 3)
{
    check_all(join_on("a", 60), rank, world);
}

YK_TEST_RANKS(many_works_in_flight, 4)
{
    enum { WORKS = 20, COUNT = 20000 };
    yk_group *group = join_on("a|b", 60);
    yk_work *work[WORKS];
    void *memory;
    assert_ok(yk_group_alloc(group, WORKS * COUNT * sizeof(float), &memory));
    float *data = memory;
    for (int round = 0; round < 3; round++) {
        for (int w = 0; w < WORKS; w++) {
            size_t count = w % 4 == 3 ? 7 : COUNT;
            for (size_t i = 0; i < count; i++)
                data[w * COUNT + (int)i] = (float)(rank + w);
            assert_ok(
                yk_all_reduce(group, data + w * COUNT, count, YK_F32, YK_REDUCE_SUM, &work[w]));
        }
        for (int w = 0; w < WORKS; w++) {
            assert_ok(yk_work_wait(work[w]));
            assert_true(data[w * COUNT] == (float)(6 + world * w));
            assert_true(data[w * COUNT + 6] == (float)(6 + world * w));
        }
    }
    yk_group_destroy(group);
}

/* The last rank differs: all ranks learn of it before any data has moved. */
YK_TEST_RANKS(promise_05_mismatch_between_hosts, 4)
{
    yk_group *group = join_on("a|b", 60);
    static float x[100000];
    for (int i = 0; i < 100000; i++)
        x[i] = (float)rank;
    for (int round = 0; round < 3; round++) {
        size_t count = rank == world - 1 ? 99999 : 100000;
        assert_status(YK_ERROR_MISMATCH,
                      yk_all_reduce(group, x, count, YK_F32, YK_REDUCE_SUM, NULL));
        assert_contains(yk_last_error(), "rank 0 called all_reduce(float32 x 100000, sum)");
        assert_contains(yk_last_error(), "rank 3 called all_reduce(float32 x 99999, sum)");
        for (int i = 0; i < 100000; i++)
            assert_true(x[i] == (float)rank);
        float one = 1;
        assert_ok(yk_all_reduce(group, &one, 1, YK_F32, YK_REDUCE_SUM, NULL));
        assert_true(one == 4);
    }
    yk_group_destroy(group);
}

/* The victim is killed, and the other three end with 3. */
static void expect_one_dead(void (*body)(int rank, int world), int victim)
{
    int statuses[4];
    yk_test_ranks_status(4, body, statuses, NULL);
    for (int r = 0; r < 4; r++)
        assert_int_equal(r == victim ? WTERMSIG(statuses[r]) : WEXITSTATUS(statuses[r]),
                         r == victim ? SIGKILL : 3);
}

/* Rank 3, on the other host, is killed while works are in flight. */
static void death_body(int rank, int world)
{
    (void)world;
    static float x[4][50000];
    yk_group *group = join_on("a|b", 60);
    yk_work *work[4];
    yk_status status = YK_OK;
    for (int round = 0; status == YK_OK; round++) {
        if (rank == 3 && round == 10)
            raise(SIGKILL);
        for (int i = 0; i < 4; i++)
            assert_ok(yk_all_reduce(group, x[i], 50000, YK_F32, YK_REDUCE_AVG, &work[i]));
        for (int i = 0; i < 4; i++) {
            yk_status one = yk_work_wait(work[i]);
            status = one == YK_OK ? status : one;
        }
    }
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    assert_contains(yk_last_error(), "rank 3 on host b is dead");
    assert_contains(yk_last_error(), "all_reduce(float32 x 50000, avg)");
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    yk_group_destroy(group);
    exit(3);
}

YK_TEST(promise_01_death_on_another_host)
{
    expect_one_dead(death_body, 3);
}

/*
 * A rank of the other host is killed when it brings the second of three pieces to the network: the
 * others have summed the first one, and wait for each other in all stages.
 */
static void die_between_pieces(int victim)
{
    enum { COUNT = 3 * 2000000 };
    char fault[32], dead[64];
    snprintf(fault, sizeof fault, "kill:%d:2", victim);
    snprintf(dead, sizeof dead, "rank %d on host b is dead", victim);
    setenv("YOKE_FAKE_FAULT", fault, 1);
    float *data = calloc(COUNT, sizeof *data);
    assert_non_null(data);
    yk_group *group = join_on("a|b", 60);
    assert_status(YK_ERROR_PEER_FAILED,
                  yk_all_reduce(group, data, COUNT, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), dead);
    assert_contains(yk_last_error(), "all_reduce(float32 x 6000000, sum)");
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    yk_group_destroy(group);
    free(data);
    exit(3);
}

static void owner_dies(int rank, int world)
{
    (void)rank, (void)world;
    die_between_pieces(3);
}

static void first_rank_of_host_dies(int rank, int world)
{
    (void)rank, (void)world;
    die_between_pieces(2);
}

YK_TEST(promise_01_death_between_two_pieces_of_a_large_sum)
{
    expect_one_dead(owner_dies, 3);
}

YK_TEST(promise_01_death_of_a_hosts_first_rank_between_two_pieces)
{
    expect_one_dead(first_rank_of_host_dies, 2);
}

/*
 * A rank is killed when it brings the second of two large sums to the network. The other owner of
 * its slice fails there, and has nothing to bring of the small sum behind it: it must not take that
 * one to its host's ranks, which are still waiting for the large one.
 */
static void die_before_a_small_sum(int rank, int world)
{
    enum { LARGE = 800000, SMALL = 256, WORKS = 3 };
    static float data[2 * LARGE + SMALL];
    float *at[WORKS] = {data, data + LARGE, data + 2 * LARGE};
    yk_work *works[WORKS];
    (void)rank, (void)world;
    setenv("YOKE_FAKE_FAULT", "kill:3:2", 1);
    yk_group *group = join_on("a|b", 60);
    for (int i = 0; i < WORKS; i++)
        assert_ok(
            yk_all_reduce(group, at[i], i < 2 ? LARGE : SMALL, YK_F32, YK_REDUCE_SUM, &works[i]));
    for (int i = 0; i < WORKS; i++)
        if (yk_work_wait(works[i]) != YK_OK)
            assert_contains(yk_last_error(), "rank 3 on host b is dead");
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    yk_group_destroy(group);
    exit(3);
}

YK_TEST(promise_11_a_death_before_a_small_sum_is_no_mismatch)
{
    for (int i = 0; i < 3; i++)
        expect_one_dead(die_before_a_small_sum, 3);
}

/* Of calls that a rank does not come to; it also bounds how long ranks take to meet, on a busy
 * machine too. */
static const double patience_s = 3;

/* A rank that comes late waits until all others have given up. */
static void await_others(int rank, int world)
{
    for (int r = 0; r < world; r++)
        if (r != rank)
            await_text("line", r);
}

/* Rank 3 does not take part. */
static void be_late_on_another_host(int rank, int world)
{
    yk_group *group = join_on("a|b", patience_s);
    float x[3] = {0};
    assert_ok(yk_barrier(group));
    if (rank == 3) {
        await_others(rank, world);
    } else {
        assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, x, 3, YK_F32, YK_REDUCE_SUM, NULL));
        assert_contains(yk_last_error(), "rank 3 did not take part");
        leave_line(rank);
    }
    yk_group_destroy(group);
}

YK_TEST(promise_02_a_late_rank_on_another_host)
{
    open_lines();
    yk_test_ranks(4, be_late_on_another_host);
}

/* ---- calls of a single piece, whose caller runs all stages itself --------------------------- */

/*
 * The victim is killed before it calls. The others wait in different stages and groups: its host's
 * ranks for the victim itself, the other host's for ranks that are alive.
 */
static void die_before_a_call(int rank, int victim, size_t count)
{
    static float x[50000];
    char dead[64];
    yk_group *group = join_on("a|b", 60);
    yk_status status = YK_OK;
    for (int round = 0; status == YK_OK; round++) {
        if (rank == victim && round == 10)
            raise(SIGKILL);
        status = yk_all_reduce(group, x, count, YK_F32, YK_REDUCE_AVG, NULL);
    }
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    snprintf(dead, sizeof dead, "rank %d ", victim);
    assert_contains(yk_last_error(), dead);
    assert_contains(yk_last_error(), "is dead");
    assert_contains(yk_last_error(), "avg), operation 11: ");
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    yk_group_destroy(group);
    exit(3);
}

static void owner_dies_before_a_small_call(int rank, int world)
{
    (void)world;
    die_before_a_call(rank, 3, 1);
}

static void first_rank_dies_before_a_small_call(int rank, int world)
{
    (void)world;
    die_before_a_call(rank, 2, 1);
}

static void neighbour_dies_before_a_sliced_call(int rank, int world)
{
    (void)world;
    die_before_a_call(rank, 1, 50000);
}

YK_TEST(promise_01_death_while_callers_wait_for_a_small_call)
{
    expect_one_dead(owner_dies_before_a_small_call, 3);
}

YK_TEST(promise_01_death_of_a_hosts_first_rank_while_callers_wait)
{
    expect_one_dead(first_rank_dies_before_a_small_call, 2);
}

YK_TEST(promise_01_death_while_callers_wait_for_a_call_in_slices)
{
    expect_one_dead(neighbour_dies_before_a_sliced_call, 1);
}

/*
 * The first rank of the other host is killed in the middle of a small call, when it brings the
 * descriptors (of operation 7) or the data (of one after that) to the network.
 */
static void die_on_the_network(int rank, int world)
{
    (void)rank, (void)world;
    float x = 1;
    yk_status status = YK_OK;
    setenv("YOKE_FAKE_FAULT", "kill:2:7", 1);
    yk_group *group = join_on("a|b", 60);
    for (int i = 0; i < 20 && status == YK_OK; i++)
        status = yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL);
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    assert_contains(yk_last_error(), "rank 2 on host b is dead");
    assert_contains(yk_last_error(), "all_reduce(float32 x 1, sum), operation 7: ");
    yk_group_destroy(group);
    exit(3);
}

YK_TEST(promise_01_death_on_the_network_while_callers_wait)
{
    expect_one_dead(die_on_the_network, 2);
}

/* A rank is late in a call in slices: nobody takes the ranks that wait for it for the late one. */
static void be_late_in_slices(int rank, int world)
{
    static float x[50000];
    yk_group *group = join_on("a|b", patience_s);
    assert_ok(yk_all_reduce(group, x, 50000, YK_F32, YK_REDUCE_SUM, NULL));
    if (rank == 1) {
        await_others(rank, world);
    } else {
        assert_status(YK_ERROR_TIMEOUT,
                      yk_all_reduce(group, x, 50000, YK_F32, YK_REDUCE_SUM, NULL));
        assert_contains(yk_last_error(), "rank 1 did not take part");
        leave_line(rank);
    }
    yk_group_destroy(group);
}

YK_TEST(promise_02_a_late_rank_in_a_call_in_slices)
{
    open_lines();
    yk_test_ranks(4, be_late_in_slices);
}
