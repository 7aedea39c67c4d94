/* Messages of which a rank dies, leaves, is late, or calls something else. */
#define _GNU_SOURCE
#include "rank_lines.h"

#include <signal.h>
#include <sys/wait.h>

enum { RANKS = 3, LARGE = 8 << 20 };

static const double patience_s = 3;

static unsigned char out[LARGE], in[LARGE];

/* To the next rank and from the one before, ending with the one that is rank 1 if one is. */
static yk_status exchange_in_ring(yk_group *group, size_t count, yk_work **work)
{
    int rank = yk_group_rank(group), world = yk_group_size(group);
    int next = (rank + 1) % world, previous = (rank + world - 1) % world;
    yk_message to = {
        .kind = YK_MESSAGE_SEND, .peer = next, .data = out, .count = count, .dtype = YK_U8};
    yk_message from = {
        .kind = YK_MESSAGE_RECV, .peer = previous, .data = in, .count = count, .dtype = YK_U8};
    yk_message messages[] = {next == 1 ? from : to, next == 1 ? to : from};
    return yk_batch_send_recv(group, messages, 2, work);
}

/* ---- deaths and departures ------------------------------------------------------------------- */

/* The same number of bytes between any two ranks. */
static yk_status trade_parts(yk_group *group, size_t count, yk_work **work)
{
    const size_t counts[RANKS] = {count / RANKS, count / RANKS, count / RANKS};
    return yk_all_to_all_v(group, in, counts, out, counts, YK_U8, work);
}

static void run_until_failure(int rank,
                              yk_status (*run)(yk_group *group, size_t count, yk_work **work))
{
    yk_group *group = join(60);
    yk_status status;
    leave_text("running", rank, "yes");
    while ((status = run(group, LARGE, NULL)) == YK_OK)
        ;
    leave_line(rank);
    yk_work *work;
    assert_ok(run(group, RANKS, &work));
    assert_status(YK_ERROR_PEER_FAILED, yk_work_wait(work));
    assert_contains(yk_last_error(), "is dead");
    yk_group_destroy(group);
    exit(status == YK_ERROR_PEER_FAILED ? 3 : 4);
}

static void exchange_until_failure(int rank, int world)
{
    (void)world;
    run_until_failure(rank, exchange_in_ring);
}

static void trade_until_failure(int rank, int world)
{
    (void)world;
    run_until_failure(rank, trade_parts);
}

static void kill_rank_1(const pid_t *pids, int world)
{
    await_texts("running", world);
    usleep(50000);
    kill(pids[1], SIGKILL);
}

static void expect_rank_1_dead(void (*body)(int rank, int world), const char *call)
{
    int statuses[RANKS];
    open_lines();
    yk_test_ranks_status(RANKS, body, statuses, kill_rank_1);
    for (int r = 0; r < RANKS; r++)
        if (r != 1) {
            assert_true(WIFEXITED(statuses[r]));
            assert_int_equal(WEXITSTATUS(statuses[r]), 3);
            assert_contains(line_of(r), call);
            assert_contains(line_of(r), "rank 1 ");
            assert_contains(line_of(r), "is dead");
        }
}

YK_TEST(promise_01_sigkill_among_messages)
{
    expect_rank_1_dead(exchange_until_failure, "batch_send_recv(2 messages), operation ");
}

YK_TEST(promise_01_sigkill_in_all_to_all_v)
{
    expect_rank_1_dead(trade_until_failure, "all_to_all_v(uint8), operation ");
}

/* The rank that dies has brought the first of its two messages. */
static void die_between_messages(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    yk_message messages[] = {
        {.kind = YK_MESSAGE_RECV, .peer = 1, .data = in, .count = 100000, .dtype = YK_U8},
        {.kind = YK_MESSAGE_RECV, .peer = 1, .data = in, .count = 1, .dtype = YK_U8},
    };
    if (rank == 1) {
        assert_ok(yk_send(group, out, 100000, YK_U8, 0));
        raise(SIGKILL);
    }
    assert_status(YK_ERROR_PEER_FAILED,
                  rank == 0 ? yk_batch_send_recv(group, messages, 2, NULL) : yk_barrier(group));
    assert_contains(yk_last_error(), "rank 1 ");
    assert_contains(yk_last_error(), "is dead");
    yk_group_destroy(group);
}

YK_TEST(promise_01_death_between_two_messages)
{
    int statuses[RANKS];
    yk_test_ranks_status(RANKS, die_between_messages, statuses, NULL);
    assert_int_equal(statuses[0], 0);
    assert_int_equal(statuses[2], 0);
}

static void leave_before_messages(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    if (rank != 1) {
        assert_status(YK_ERROR_PEER_FAILED, exchange_in_ring(group, 1000, NULL));
        assert_contains(yk_last_error(), "rank 1");
        assert_contains(yk_last_error(), "has left the group");
        leave_line(rank);
    }
    yk_group_destroy(group);
    for (int r = 0; rank == 1 && r < RANKS; r += 2) /* alive, so that only the departure is seen */
        await_text("line", r);
}

YK_TEST(a_departure_before_messages_is_named)
{
    open_lines();
    yk_test_ranks(RANKS, leave_before_messages);
}

/* Rank 1 has done its part; only rank 2 is waited for. */
static void rank_1_leaves_first(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    yk_message messages[] = {
        {.kind = YK_MESSAGE_RECV, .peer = 1, .data = in, .count = 1, .dtype = YK_U8},
        {.kind = YK_MESSAGE_RECV, .peer = 2, .data = in + 1, .count = 1, .dtype = YK_U8},
    };
    out[0] = (unsigned char)rank;
    if (rank == 2) {
        await_text("left", 1);
        sleep(2);
    }
    if (rank == 0)
        assert_ok(yk_batch_send_recv(group, messages, 2, NULL));
    else
        assert_ok(yk_send(group, out, 1, YK_U8, 0));
    assert_int_equal(in[0] + in[1], rank == 0 ? 3 : 0);
    yk_group_destroy(group);
    leave_text("left", rank, "yes");
}

YK_TEST(a_departure_after_messages_is_no_failure)
{
    open_lines();
    yk_test_ranks(RANKS, rank_1_leaves_first);
}

/* ---- delays ---------------------------------------------------------------------------------- */

/* The others exchange what they can; rank 2 needs both. */
static void rank_1_is_late(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    set_timeout(group, patience_s);
    if (rank == 1) {
        await_text("line", 0);
        await_text("line", 2);
    } else {
        assert_status(YK_ERROR_TIMEOUT, exchange_in_ring(group, 1000, NULL));
        assert_contains(yk_last_error(), "batch_send_recv(2 messages), operation 1: ");
        assert_contains(yk_last_error(), "rank 1 did not take part");
        leave_line(rank);
    }
    yk_group_destroy(group);
}

YK_TEST(promise_02_a_late_rank_among_messages)
{
    open_lines();
    yk_test_ranks(RANKS, rank_1_is_late);
}

/* Both ranks come, but there is nothing to send. */
static void nobody_sends(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    set_timeout(group, patience_s);
    yk_message messages[] = {
        {.kind = YK_MESSAGE_RECV, .peer = 1 - rank, .data = in, .count = 1, .dtype = YK_U8},
        {.kind = YK_MESSAGE_RECV, .peer = 1 - rank, .data = in + 1, .count = 1, .dtype = YK_U8},
    };
    assert_status(YK_ERROR_TIMEOUT, yk_batch_send_recv(group, messages, 2, NULL));
    yk_group_destroy(group);
}

YK_TEST(messages_that_nobody_sends_end_at_the_timeout)
{
    yk_test_ranks(2, nobody_sends);
}

/* ---- other calls ----------------------------------------------------------------------------- */

/* The call of the others cannot end either: all are told, and the group has failed. */
static void rank_1_calls_a_collective(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    for (int i = 0; i < 2; i++) { /* the second time it is known */
        assert_status(YK_ERROR_MISMATCH,
                      rank == 1 ? yk_barrier(group) : exchange_in_ring(group, 1000, NULL));
        assert_contains(yk_last_error(), "barrier()");
        assert_contains(yk_last_error(), "disagree in operation");
    }
    yk_group_destroy(group);
}

YK_TEST(promise_06_messages_against_a_collective)
{
    yk_test_ranks(RANKS, rank_1_calls_a_collective);
}

/* Rank 1 takes the first of two messages, and not the second. */
static void rank_1_takes_one_message(int rank, int world)
{
    (void)world;
    yk_group *group = join(60);
    yk_message messages[] = {
        {.kind = YK_MESSAGE_SEND, .peer = 1, .data = out, .count = 1, .dtype = YK_U8},
        {.kind = YK_MESSAGE_SEND, .peer = 1, .data = out + 1, .count = 1, .dtype = YK_U8},
    };
    if (rank == 1)
        assert_ok(yk_recv(group, in, 1, YK_U8, 0));
    assert_status(YK_ERROR_MISMATCH,
                  rank == 0 ? yk_batch_send_recv(group, messages, 2, NULL) : yk_barrier(group));
    assert_contains(yk_last_error(), "barrier()");
    assert_contains(yk_last_error(), "disagree in operation");
    yk_group_destroy(group);
}

YK_TEST(promise_06_a_second_message_against_a_collective)
{
    yk_test_ranks(RANKS, rank_1_takes_one_message);
}
