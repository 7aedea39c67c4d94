/*
 * What groups promise when ranks misbehave: real processes that are killed, that leave, or that
 * call different things.
 */
#define _GNU_SOURCE
#include "rank_lines.h"

#include <yoke/store.h>

#include <signal.h>
#include <sys/wait.h>

/* ---- 1: SIGKILL in the middle of an all-reduce ----------------------------------------------- */

enum { BIG = 4 << 20 };

static pid_t victim_pid;
static double killed_at;

static void reduce_until_failure(yk_group *group, int rank)
{
    void *data;
    assert_ok(yk_group_alloc(group, BIG * sizeof(float), &data));
    yk_status status;
    leave_text("running", rank, "yes");
    while ((status = yk_all_reduce(group, data, BIG, YK_F32, YK_REDUCE_AVG, NULL)) == YK_OK)
        ;
    leave_line(rank);
    /* Whatever comes next fails with the same cause, at once and on every thread. */
    double start = yk_test_now();
    yk_work *work;
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_ok(yk_all_reduce(group, data, BIG, YK_F32, YK_REDUCE_SUM, &work));
    assert_status(YK_ERROR_PEER_FAILED, yk_work_wait(work));
    assert_contains(yk_last_error(), "rank 1 ");
    assert_contains(yk_last_error(), "is dead");
    assert_true(yk_test_now() - start < 1);
    yk_group_destroy(group);
    exit(status == YK_ERROR_PEER_FAILED ? 3 : 4);
}

static void killed_body(int rank, int world)
{
    (void)world;
    reduce_until_failure(join(60), rank);
}

static void kill_rank_1(const pid_t *pids, int world)
{
    await_texts("running", world);
    usleep(50000);
    victim_pid = pids[1];
    killed_at = yk_test_now();
    kill(pids[1], SIGKILL);
}

static void check_survivors(int world, const int *statuses, const char *how)
{
    char expected[128];
    assert_true(yk_test_now() - killed_at < (getenv("YOKE_BACKEND") ? 5 : 2));
    assert_true(WIFSIGNALED(statuses[1]));
    for (int r = 0; r < world; r++) {
        if (r == 1)
            continue;
        assert_true(WIFEXITED(statuses[r]));
        assert_int_equal(WEXITSTATUS(statuses[r]), 3);
        snprintf(expected, sizeof expected, "is dead: pid %d %s", victim_pid, how);
        assert_contains(line_of(r), "rank 1 ");
        assert_contains(line_of(r), expected);
        assert_contains(line_of(r), "all_reduce(float32 x 4194304, avg)");
        assert_null(strchr(line_of(r), '\n'));
    }
}

/* Without a launcher the pid is certain; the signal only where the kernel tells it. */
YK_TEST(promise_01_sigkill_in_all_reduce)
{
    int statuses[3];
    open_lines();
    yk_test_ranks_status(3, killed_body, statuses, kill_rank_1);
    check_survivors(3, statuses, "");
}

static yk_store_server *launcher_store;

static void launched_body(int rank, int world)
{
    (void)world;
    yk_group *group = NULL;
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.init_method = getenv("YK_TEST_STORE"))));
    reduce_until_failure(group, rank);
}

/* The test is the launcher: it writes how rank 1 ended, as include/yoke/store.h asks. */
static void kill_and_note(const pid_t *pids, int world)
{
    char text[64];
    yk_store *store;
    int port = atoi(strrchr(getenv("YK_TEST_STORE"), ':') + 1);
    kill_rank_1(pids, world);
    usleep(100000);
    int size = snprintf(text, sizeof text, "pid %d killed by signal 9 (SIGKILL)", pids[1]);
    assert_ok(yk_store_connect(&store, "127.0.0.1", port, "the secret", 5));
    assert_ok(yk_store_set(store, "dead/1", text, (size_t)size));
    yk_store_destroy(store);
}

YK_TEST(promise_01_signal_named_with_a_launcher)
{
    int statuses[3], port = 0;
    char method[64];
    open_lines();
    setenv("YOKE_SECRET", "the secret", 1);
    setenv("YOKE_USE_LAUNCHER_STORE", "1", 1);
    if (!getenv("YK_TEST_RANK")) {
        assert_ok(yk_store_serve(&launcher_store, "127.0.0.1", &port, "the secret"));
        snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
        setenv("YK_TEST_STORE", method, 1);
    }
    yk_test_ranks_status(3, launched_body, statuses, kill_and_note);
    yk_store_server_destroy(launcher_store);
    unsetenv("YOKE_USE_LAUNCHER_STORE");
    unsetenv("YOKE_SECRET");
    check_survivors(3, statuses, "killed by signal 9 (SIGKILL)");
}

/* ---- a death among sums with something around them ------------------------------------------- */

typedef struct around {
    float data[64];
    bool before, after;
} around;

static void fill(void *context)
{
    around *a = context;
    for (int k = 0; k < 64; k++)
        a->data[k] = 1;
    a->before = true;
}

static void negate(void *context)
{
    around *a = context;
    for (int k = 0; k < 64; k++)
        a->data[k] *= -1;
    a->after = true;
}

/* Nothing is done after those that the death of rank 1 ends. */
YK_TEST_RANKS(nothing_is_done_after_a_sum_that_a_death_ends, 3)
{
    enum { SUMS = 9, LAST = 4 };
    yk_group *group = join(60);
    yk_work *works[SUMS];
    around sums[SUMS] = {0};
    for (int i = 0; i < SUMS && (rank != 1 || i < LAST); i++)
        assert_ok(yki_group_sum_between(group, sums[i].data, 64, YK_F32, fill, negate, &sums[i],
                                        &works[i]));
    for (int i = 0; i < LAST && rank == 1; i++)
        assert_ok(yk_work_wait(works[i]));
    if (rank == 1)
        _exit(0);
    for (int i = 0; i < SUMS; i++) {
        yk_status status = yk_work_wait(works[i]);
        assert_int_equal(status, sums[i].after ? YK_OK : YK_ERROR_PEER_FAILED);
        assert_true(sums[i].after ? i < LAST && sums[i].data[0] == -world : sums[i].data[0] >= 0);
    }
    assert_contains(yk_last_error(), "rank 1");
    yk_group_destroy(group);
}

/* A rank that leaves in order, or just returns from main, is no mystery either. */
static void leaving_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    if (rank == 1)
        yk_group_destroy(group);
    if (rank == 1)
        return;
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_contains(yk_last_error(), "rank 1");
    assert_contains(yk_last_error(), "has left the group");
    yk_group_destroy(group);
}

static void stay_body(int rank, int world)
{
    leaving_body(rank, world);
    if (rank == 1)
        sleep(1); /* alive, so that only the departure can be seen */
}

YK_TEST(departure_is_named)
{
    yk_test_ranks(3, stay_body);
}

/* ---- 5 and 6: mismatches --------------------------------------------------------------------- */

/* As with YOKE_BACKEND on one host alone. */
static void other_backend_body(int rank, int world)
{
    yk_group *group;
    assert_int_equal(world, 3);
    assert_status(YK_ERROR_MISMATCH,
                  yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                                o.backend = rank == 1 ? "shm" : NULL)));
    assert_contains(yk_last_error(), "creating the group: ranks disagree in the backend: rank ");
    assert_contains(yk_last_error(), "rank 1 has shm");
    assert_contains(yk_last_error(), getenv("YOKE_BACKEND"));
}

YK_TEST(promise_06_ranks_with_different_backends_do_not_wait_for_each_other)
{
    const char *backend = getenv("YOKE_BACKEND");
    if (!backend || strchr(backend, '+'))
        skip(); /* all have shm, or not all may have it */
    yk_test_ranks(3, other_backend_body);
}

static yk_status call_barrier(yk_group *group, void *data)
{
    (void)data;
    return yk_barrier(group);
}

static yk_status call_i32(yk_group *group, void *data)
{
    return yk_all_reduce(group, data, 4, YK_I32, YK_REDUCE_SUM, NULL);
}

static yk_status call_count(yk_group *group, void *data)
{
    return yk_all_reduce(group, data, 100000, YK_F32, YK_REDUCE_SUM, NULL);
}

static yk_status call_max(yk_group *group, void *data)
{
    return yk_all_reduce(group, data, 4, YK_F32, YK_REDUCE_MAX, NULL);
}

static yk_status call_root_0(yk_group *group, void *data)
{
    return yk_broadcast(group, data, 4, YK_F32, 0, NULL);
}

static yk_status call_root_1(yk_group *group, void *data)
{
    return yk_broadcast(group, data, 4, YK_F32, 1, NULL);
}

static yk_status call_to_0(yk_group *group, void *data)
{
    return yk_reduce(group, data, 4, YK_F32, YK_REDUCE_SUM, 0, NULL);
}

static yk_status call_to_1(yk_group *group, void *data)
{
    return yk_reduce(group, data, 4, YK_F32, YK_REDUCE_SUM, 1, NULL);
}

static yk_status call_max_to_1(yk_group *group, void *data)
{
    return yk_reduce(group, data, 4, YK_F32, YK_REDUCE_MAX, 1, NULL);
}

static yk_status call_work(yk_group *group, void *data)
{
    yk_work *work;
    yk_status status = yk_all_reduce(group, data, 5, YK_F32, YK_REDUCE_SUM, &work);
    return status == YK_OK ? yk_work_wait(work) : status;
}

static const struct {
    call_fn a, b;
    const char *difference, *words_a, *words_b;
} mismatches[] = {
    {call_reduce, call_barrier, "operation", "all_reduce(float32 x 4, sum)", "barrier()"},
    {call_reduce, call_i32, "dtype", "all_reduce(float32 x 4, sum)", "all_reduce(int32 x 4, sum)"},
    {call_reduce, call_count, "count", "float32 x 4, sum", "float32 x 100000, sum"},
    {call_reduce, call_max, "reduction", "float32 x 4, sum", "float32 x 4, max"},
    {call_root_0, call_root_1, "root", "x 4, root 0", "x 4, root 1"},
    {call_to_0, call_to_1, "root", "reduce(float32 x 4, sum, root 0)", "x 4, sum, root 1)"},
    {call_max_to_1, call_to_1, "reduction", "reduce(float32 x 4, max, root 1)", "x 4, sum, root 1"},
    {call_reduce, call_to_0, "operation", "all_reduce(float32 x 4, sum)", " reduce(float32 x 4"},
    {call_reduce, call_work, "count", "float32 x 4, sum", "float32 x 5, sum"},
};

/* The last rank differs. Every rank gets both sides, its data untouched, and the group goes on. */
static void mismatch_body(int rank, int world)
{
    static float data[100000];
    yk_group *group = join(60);
    double start = yk_test_now();
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        char side[96];
        for (int k = 0; k < 100000; k++)
            data[k] = (float)(rank + k);
        assert_status(YK_ERROR_MISMATCH,
                      (rank == world - 1 ? mismatches[i].b : mismatches[i].a)(group, data));
        assert_contains(yk_last_error(), "ranks disagree in ");
        assert_contains(yk_last_error(), mismatches[i].difference);
        snprintf(side, sizeof side, "rank 0 called ");
        assert_contains(yk_last_error(), side);
        snprintf(side, sizeof side, "rank %d called ", world - 1);
        assert_contains(yk_last_error(), side);
        assert_contains(yk_last_error(), mismatches[i].words_a);
        assert_contains(yk_last_error(), mismatches[i].words_b);
        for (int k = 0; k < 100000; k++)
            assert_true(data[k] == (float)(rank + k));
        float x = 1;
        assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
        assert_true(x == (float)world);
    }
    assert_true(yk_test_now() - start < 20); /* far from the timeout */
    yk_group_destroy(group);
}

YK_TEST(promise_05_mismatches_are_detected)
{
    yk_test_ranks(2, mismatch_body);
}

YK_TEST(promise_06_mismatches_of_one_of_three)
{
    yk_test_ranks(3, mismatch_body);
}

/* Arguments refused on one rank are a mismatch for the others, not a hang. */
static void refused_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x = 1;
    double start = yk_test_now();
    if (rank == 0) {
        assert_status(YK_ERROR_INVALID_ARGUMENT, yk_broadcast(group, &x, 1, YK_F32, 7, NULL));
        assert_contains(yk_last_error(), "root is 7");
    } else {
        assert_status(YK_ERROR_MISMATCH, yk_broadcast(group, &x, 1, YK_F32, 0, NULL));
        assert_contains(yk_last_error(), "rank 0 cannot take part: broadcast: root is 7");
    }
    assert_true(yk_test_now() - start < 20);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST(promise_06_refused_arguments_of_one_rank)
{
    yk_test_ranks(3, refused_body);
}

/* The rank that serves the store ends right after its error, as programs do. */
static void refused_and_gone_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x = 1;
    yk_status status = yk_broadcast(group, &x, 1, YK_F32, rank == 0 ? 7 : 0, NULL);
    if (rank == 0)
        _exit(status == YK_ERROR_INVALID_ARGUMENT ? 0 : 1);
    assert_int_equal(status, YK_ERROR_MISMATCH);
    assert_contains(yk_last_error(), "rank 0 cannot take part: broadcast: root is 7");
    yk_group_destroy(group);
}

YK_TEST(promise_06_a_reason_outlives_its_rank)
{
    yk_test_ranks(3, refused_and_gone_body);
}

static void transfer_mismatch_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x[8] = {0};
    for (int i = 0; i < 3; i++) {
        assert_status(YK_ERROR_MISMATCH, rank == 0 ? yk_send(group, x, 4, YK_F32, 1)
                                                   : yk_recv(group, x, 8, YK_F32, 0));
        assert_contains(yk_last_error(), "ranks disagree in count: ");
        assert_contains(yk_last_error(), "rank 0 called send(float32 x 4, to rank 1)");
        assert_contains(yk_last_error(), "rank 1 called recv(float32 x 8, from rank 0)");
    }
    assert_ok(rank == 0 ? yk_send(group, x, 4, YK_F32, 1) : yk_recv(group, x, 4, YK_F32, 0));
    yk_group_destroy(group);
}

/* Two ranks that wait for each other read what to do. */
static void both_send_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x[4] = {0};
    assert_status(YK_ERROR_MISMATCH, yk_send(group, x, 4, YK_F32, 1 - rank));
    assert_contains(yk_last_error(), ": one of the two must receive first");
    yk_group_destroy(group);
}

static void both_receive_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x[4] = {0};
    assert_status(YK_ERROR_MISMATCH, yk_recv(group, x, 4, YK_F32, 1 - rank));
    assert_contains(yk_last_error(), ": one of the two must send first");
    yk_group_destroy(group);
}

YK_TEST(promise_05_both_ranks_send)
{
    yk_test_ranks(2, both_send_body);
}

YK_TEST(promise_05_both_ranks_receive)
{
    yk_test_ranks(2, both_receive_body);
}

YK_TEST(promise_05_send_against_recv)
{
    yk_test_ranks(2, transfer_mismatch_body);
}

/* A send against a collective can never end: all ranks are told, and the group has failed. */
static void crossed_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x[8] = {0};
    double start = yk_test_now();
    for (int i = 0; i < 2; i++) { /* the second time it is known */
        yk_status status = rank == 1 ? yk_send(group, x, 4, YK_F32, 0)
                                     : yk_all_reduce(group, x, 8, YK_F32, YK_REDUCE_SUM, NULL);
        assert_status(YK_ERROR_MISMATCH, status);
        assert_contains(yk_last_error(), "send(float32 x 4, to rank 0)");
        assert_contains(yk_last_error(), "all_reduce(float32 x 8, sum)");
    }
    assert_true(yk_test_now() - start < 20);
    yk_group_destroy(group);
}

YK_TEST(promise_06_send_against_collective)
{
    yk_test_ranks(3, crossed_body);
}
