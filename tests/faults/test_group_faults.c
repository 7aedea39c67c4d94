/*
 * What groups promise when ranks misbehave: real processes that are killed, stopped, or that call
 * different things.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "comm/group_internal.h"
#include "comm/group_state.h"
#include "rank_lines.h"

#include <yoke/store.h>

#include <math.h>
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

/* ---- 2: SIGSTOP, and the timeout ------------------------------------------------------------- */

/* Of a broadcast, and of joining, for which a busy machine may need more than a second. */
static const double patience_s = 3;

/* How long the store may take to answer, before a rank reports a failure alone: see watch.c. */
static const double answer_s = 2.5;

/* What a rank got. The clock is the same for all ranks. */
typedef struct outcome {
    int status;
    double start, end;
} outcome;

static void stopped_body(int rank, int world)
{
    (void)world;
    char result[128];
    yk_group *group = join(patience_s);
    float x = 1;
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    leave_text("running", rank, "yes");
    if (rank == 1)
        raise(SIGSTOP);
    double start = yki_now();
    yk_status status = yk_broadcast(group, &x, 1, YK_F32, 0, NULL);
    snprintf(result, sizeof result, "%d %.3f %.3f", (int)status, start, yki_now());
    leave_text("result", rank, result);
    leave_line(rank);
    if (rank == 0) /* the store, from which rank 1 learns the reason */
        await_text("line", 1);
    exit(3);
}

static void continue_later(const pid_t *pids, int world)
{
    (void)world;
    await_text("line", 0); /* it has given up */
    usleep(100000);
    kill(pids[1], SIGCONT);
}

static outcome outcome_of(int rank)
{
    outcome got = {.status = YK_OK};
    assert_int_equal(
        sscanf(text_of("result", rank), "%d %lf %lf", &got.status, &got.start, &got.end), 3);
    print_message("rank %d: %s from %.3f to %.3f s: %s\n", rank,
                  yk_status_string((yk_status)got.status), got.start, got.end, line_of(rank));
    return got;
}

/* The first that has waited for the whole time tells the others, who may have begun later. */
YK_TEST(promise_02_sigstop_and_timeout)
{
    int statuses[3];
    open_lines();
    yk_test_ranks_status(3, stopped_body, statuses, continue_later);
    for (int r = 0; r < 3; r++)
        assert_int_equal(WEXITSTATUS(statuses[r]), 3);
    const outcome all[] = {outcome_of(0), outcome_of(1), outcome_of(2)};
    for (int r = 0; r < 3; r++) {
        assert_int_equal(all[r].status, YK_ERROR_TIMEOUT);
        assert_contains(line_of(r), "broadcast(float32 x 1, root 0), operation 3: timed out");
        assert_contains(line_of(r), "rank 1 did not take part");
        bool remote = strstr(line_of(r), " on host "); /* from there only silence is seen */
        assert_true(remote || strstr(line_of(r), "is stopped)"));
    }
    double start = fmin(all[0].start, all[2].start), end = fmin(all[0].end, all[2].end);
    assert_true(end - start >= 0.9 * patience_s);
    for (int r = 0; r < 3; r += 2)
        assert_true(all[r].end - all[r].start < patience_s + answer_s + 2);
}

/* The error line of a timeout leaves out ranks that wait, too, so rank 0 may not forget for a
 * moment that rank 2 does. */
static void waiting_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    yk_work *work;
    float x = 1;
    if (rank == 1)
        await_text("watched", 0);
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, &work));
    if (rank == 0) {
        const atomic_bool *waits = &group->watched->waits[2];
        double deadline = yk_test_now() + 20;
        while (!atomic_load(waits) && yk_test_now() < deadline)
            usleep(1000);
        bool waited = atomic_load(waits);
        for (double end = yki_now() + 1; waited && yki_now() < end;)
            waited = atomic_load(waits);
        leave_text("watched", 0, "yes");
        assert_true(waited);
    }
    assert_ok(yk_work_wait(work));
    yk_group_destroy(group);
}

YK_TEST(a_rank_that_waits_is_known_to_wait_all_the_time)
{
    open_lines();
    yk_test_ranks(3, waiting_body);
}

/* Nobody is late while all are stopped, however long; rank 1, the last to go on, is then waited for
 * as if nothing had been. */
static void paused_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    float x = 1;
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    set_timeout(group, 3);
    leave_text("running", rank, "yes");
    if (rank == 1)
        raise(SIGSTOP);
    assert_ok(yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
    assert_true(x == 4);
    yk_group_destroy(group);
}

static void pause_all(const pid_t *pids, int world)
{
    siginfo_t info;
    await_texts("running", world);
    waitid(P_PID, (id_t)pids[1], &info, WSTOPPED | WNOWAIT);
    usleep(200000);
    kill(pids[0], SIGSTOP);
    usleep(3200000);
    kill(pids[0], SIGCONT);
    usleep(200000);
    kill(pids[1], SIGCONT);
}

YK_TEST(a_job_that_was_stopped_for_longer_than_the_timeout_goes_on)
{
    int statuses[2];
    open_lines();
    yk_test_ranks_status(2, paused_body, statuses, pause_all);
    for (int r = 0; r < 2; r++)
        assert_int_equal(statuses[r], 0);
}

/* Rank 0 is stopped, and the others use and destroy a group of their own meanwhile. */
static void leave_a_part(yk_group *group, int rank)
{
    yk_group *part;
    float x = 1;
    assert_ok(yk_group_split(&part, group, rank == 0 ? YK_COLOR_NONE : 0, rank));
    leave_text("running", rank, "yes");
    if (rank == 0) {
        raise(SIGSTOP);
    } else {
        await_text("stopped", 0);
        usleep(rank == 2 ? 300000 : 0);
        assert_ok(yk_all_reduce(part, &x, 1, YK_F32, YK_REDUCE_SUM, NULL));
        yk_group_destroy(part);
    }
}

/* Rank 0, which serves the store, is stopped while ranks 1 and 2 destroy a group of their own,
 * about which they have asked the store. The job can use the store again afterwards. */
static void leave_a_part_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60), *copy;
    leave_a_part(group, rank);
    assert_ok(yk_group_split(&copy, group, 0, rank));
    yk_group_destroy(copy);
    yk_group_destroy(group);
}

static void stop_rank_0_for_a_while(const pid_t *pids, int world)
{
    siginfo_t info;
    await_texts("running", world);
    waitid(P_PID, (id_t)pids[0], &info, WSTOPPED | WNOWAIT);
    leave_text("stopped", 0, "yes");
    usleep(1500000);
    kill(pids[0], SIGCONT);
}

YK_TEST(a_store_that_pauses_while_a_part_is_destroyed_is_not_lost)
{
    int statuses[3];
    open_lines();
    yk_test_ranks_status(3, leave_a_part_body, statuses, stop_rank_0_for_a_while);
    for (int r = 0; r < 3; r++)
        assert_int_equal(statuses[r], 0);
}

/* Rank 0, which serves the store, is stopped while the others leave, one in the middle of a
 * request. They leave without its answer. */
static void leave_all_body(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    leave_a_part(group, rank);
    yk_group_destroy(group);
    leave_text("left", rank, "yes");
}

static void stop_rank_0_until_the_others_have_left(const pid_t *pids, int world)
{
    siginfo_t info;
    await_texts("running", world);
    waitid(P_PID, (id_t)pids[0], &info, WSTOPPED | WNOWAIT);
    leave_text("stopped", 0, "yes");
    for (int r = 1; r < world; r++) {
        await_text("left", r);
        assert_string_equal(text_of("left", r), "yes");
    }
    assert_string_equal(text_of("left", 0), "");
    kill(pids[0], SIGCONT);
}

YK_TEST(ranks_leave_a_group_whose_store_does_not_answer)
{
    int statuses[3];
    open_lines();
    yk_test_ranks_status(3, leave_all_body, statuses, stop_rank_0_until_the_others_have_left);
    for (int r = 0; r < 3; r++)
        assert_int_equal(statuses[r], 0);
}

/* data: of 4 numbers */
typedef yk_status (*call_fn)(yk_group *group, void *data);

static yk_status call_reduce(yk_group *group, void *data)
{
    return yk_all_reduce(group, data, 4, YK_F32, YK_REDUCE_SUM, NULL);
}

/* Rank 0, which serves the store, is stopped, and has neither left nor lost its network. */
static void meet_a_stopped_store(call_fn call, int rank, int world)
{
    float x[4] = {0};
    yk_group *group = join(60);
    assert_ok(yk_store_set_patience(group->job.store, 1)); /* it is the timeout and more */
    leave_text("running", rank, "yes");
    await_texts("running", world);
    if (rank == 0)
        raise(SIGSTOP);
    else
        await_text("stopped", 0);
    yk_status status = call(group, x);
    leave_line(rank);
    for (int r = 1; r < world; r++) /* none sees another one's end before it knows the cause */
        await_text("line", r);
    yk_group_destroy(group);
    exit(status == YK_ERROR_TIMEOUT ? 3 : 4);
}

static void continue_rank_0(const pid_t *pids, int world)
{
    siginfo_t info;
    await_texts("running", world);
    waitid(P_PID, (id_t)pids[0], &info, WSTOPPED | WNOWAIT);
    leave_text("stopped", 0, "yes");
    for (int r = 1; r < world; r++)
        await_text("line", r);
    kill(pids[0], SIGCONT);
}

static void check_stopped_store(void (*body)(int rank, int world))
{
    int statuses[3];
    open_lines();
    yk_test_ranks_status(3, body, statuses, continue_rank_0);
    for (int r = 1; r < 3; r++) {
        assert_contains(line_of(r), "timed out after 60 s: rank 0 did not take part");
        assert_int_equal(WEXITSTATUS(statuses[r]), 3);
    }
}

static void reduce_without_answers(int rank, int world)
{
    meet_a_stopped_store(call_reduce, rank, world);
}

YK_TEST(a_store_that_is_stopped_for_too_long_is_a_rank_that_is_late)
{
    check_stopped_store(reduce_without_answers);
}

static yk_status call_duplicate(yk_group *group, void *data)
{
    (void)data;
    yk_group *copy;
    yk_status status = yk_group_duplicate(&copy, group);
    yk_group_destroy(copy);
    return status;
}

static void duplicate_without_answers(int rank, int world)
{
    meet_a_stopped_store(call_duplicate, rank, world);
}

YK_TEST(no_group_is_made_of_one_whose_store_is_stopped)
{
    check_stopped_store(duplicate_without_answers);
}

/* All ranks but the last make a call, in which they wait for it in different ways. */
static void call_without_the_last(call_fn call, const char *doing, int rank, int world)
{
    char expected[128];
    float x[4] = {0};
    yk_group *group = join(60);
    set_timeout(group, 3);
    snprintf(expected, sizeof expected, "%stimed out after 3 s: rank %d did not take part", doing,
             world - 1);
    if (rank < world - 1) {
        assert_status(YK_ERROR_TIMEOUT, call(group, x));
        leave_line(rank);
        assert_contains(yk_last_error(), expected);
    }
    for (int r = 0; r < world - 1; r++)
        await_text("line", r);
    yk_group_destroy(group);
}

static void duplicate_without_the_last(int rank, int world)
{
    call_without_the_last(call_duplicate, "creating the group: ", rank, world);
}

YK_TEST(a_rank_that_does_not_come_to_a_new_group_is_named)
{
    open_lines();
    yk_test_ranks(3, duplicate_without_the_last);
}

static yk_status call_alloc(yk_group *group, void *data)
{
    (void)data;
    void *memory;
    return yk_group_alloc(group, 4096, &memory);
}

/* On two hosts, ranks 1 and 2 wait for others which wait for rank 3. */
static void allocate_without_the_last(int rank, int world)
{
    call_without_the_last(call_alloc, "", rank, world);
}

YK_TEST(a_rank_that_does_not_allocate_is_named)
{
    open_lines();
    yk_test_ranks(4, allocate_without_the_last);
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
        assert_contains(yk_last_error(), "invalid arguments");
    }
    assert_true(yk_test_now() - start < 20);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST(promise_06_refused_arguments_of_one_rank)
{
    yk_test_ranks(3, refused_body);
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
