/*
 * What groups promise when ranks are late: stopped, for longer than the timeout or for less, or
 * absent.
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

/* No rank is late while all of them are stopped. Rank 1 continues last, and rank 0 waits for it as
 * usual. */
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

/* All ranks run, and this one is then stopped. */
static void await_stop(pid_t pid, int world)
{
    siginfo_t info;
    await_texts("running", world);
    waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT);
}

static void pause_all(const pid_t *pids, int world)
{
    await_stop(pids[1], world);
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
    await_stop(pids[0], world);
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
    await_stop(pids[0], world);
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
    await_stop(pids[0], world);
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

/* Unlike those of yk_group_duplicate, the ranks do not meet in the group before. */
static yk_status call_channel(yk_group *group, void *data)
{
    (void)data;
    yk_group *channel;
    return yki_group_channel(&channel, group);
}

static void make_channel_without_the_last(int rank, int world)
{
    call_without_the_last(call_channel, "creating the group: ", rank, world);
}

YK_TEST(a_rank_that_does_not_come_to_a_new_group_is_named)
{
    open_lines();
    yk_test_ranks(3, make_channel_without_the_last);
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
