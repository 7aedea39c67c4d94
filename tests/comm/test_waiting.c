/* What ranks tell the store about calls that take long, and a rank that no longer comes. */
#define _GNU_SOURCE
#include "clock.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/group_state.h"

static yk_store *connect_to_store(void)
{
    yk_store *store;
    const char *secret = getenv("YOKE_SECRET");
    assert_ok(yk_store_connect(&store, getenv("MASTER_ADDR"), atoi(getenv("MASTER_PORT")),
                               secret ? secret : "", 10));
    return store;
}

YK_TEST_RANKS(a_long_wait_is_published_and_withdrawn, 2)
{
    (void)world;
    char text[256];
    size_t used;
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    assert_ok(yk_barrier(group));
    if (rank == 1) {
        yk_store *store = connect_to_store();
        assert_ok(yk_store_get(store, "group/0/waiting/0", text, sizeof text - 1, &used, 20));
        text[used] = '\0';
        assert_int_equal(atoi(text), 2); /* the second call */
        assert_contains(text, "barrier()");
        assert_ok(yk_barrier(group));
        for (bool found = true; found;) {
            usleep(10000);
            assert_ok(yk_store_check(store, "group/0/waiting/0", &found));
        }
        yk_store_destroy(store);
    } else {
        assert_ok(yk_barrier(group));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Rank 0 is stopped, as in a debugger, right after a call for which it has waited so long that it
 * was published: the store still says so. Rank 1, which has made that call too, must not take it
 * for one that does not match its own. */
YK_TEST_RANKS(a_wait_that_is_over_is_no_mismatch, 2)
{
    char barrier[64], message[64];
    (void)world;
    snprintf(barrier, sizeof barrier, "1 1700000000 %d 0 barrier()", YK_OPERATION_BARRIER);
    snprintf(message, sizeof message, "1 1700000000 %d 1 recv(uint8 x 1, from rank 1)",
             YK_OPERATION_RECV);
    unsigned char byte = 1;
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    assert_ok(yk_barrier(group));
    if (rank == 0) {
        yk_store *store = connect_to_store();
        assert_ok(yk_recv(group, &byte, 1, YK_U8, 1));
        assert_ok(yk_store_set(store, "group/0/waiting/0", barrier, strlen(barrier)));
        sleep(3);
        assert_ok(yk_send(group, &byte, 1, YK_U8, 1));
        assert_ok(yk_store_set(store, "group/0/waiting/0", message, strlen(message)));
        sleep(3);
        assert_ok(yk_send(group, &byte, 1, YK_U8, 1));
        yk_store_destroy(store);
    } else {
        assert_ok(yk_send(group, &byte, 1, YK_U8, 0));
        assert_ok(yk_recv(group, &byte, 1, YK_U8, 0));
        assert_ok(yk_recv(group, &byte, 1, YK_U8, 0));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Rank 0 waits for rank 2 alone, in a batch whose first message is over: rank 1 has had it, and
 * waits for the others in its next call. */
YK_TEST_RANKS(a_message_that_is_over_is_no_mismatch, 3)
{
    (void)world;
    unsigned char mine = 1, theirs = 0;
    yk_message messages[] = {
        {.kind = YK_MESSAGE_SEND, .peer = 1, .data = &mine, .count = 1, .dtype = YK_U8},
        {.kind = YK_MESSAGE_RECV, .peer = 2, .data = &theirs, .count = 1, .dtype = YK_U8},
    };
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    assert_ok(yk_barrier(group));
    if (rank == 0) {
        assert_ok(yk_batch_send_recv(group, messages, 2, NULL));
        assert_int_equal(theirs, 1);
    } else if (rank == 1) {
        assert_ok(yk_recv(group, &theirs, 1, YK_U8, 0));
    } else {
        yk_store *store = connect_to_store();
        assert_ok(yk_store_wait(store, "group/0/waiting/0", 20));
        assert_ok(yk_store_wait(store, "group/0/waiting/1", 20));
        sleep(3);
        assert_ok(yk_send(group, &mine, 1, YK_U8, 0));
        yk_store_destroy(store);
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* The thread of rank 0 that waits gets no core for a second: rank 1 must not believe meanwhile that
 * rank 0 does not wait, and name it as one that did not take part. */
YK_TEST_RANKS(a_wait_is_published_until_its_end_is_told, 2)
{
    (void)world;
    bool found = true;
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    yk_store *store = connect_to_store();
    if (rank == 0) {
        yki_watch_ask(group->watched, &(yki_waiting){.active = true,
                                                     .end_is_told = true,
                                                     .sequence = 1,
                                                     .what.operation = YK_OPERATION_BARRIER,
                                                     .since = yki_now(),
                                                     .messages = group->watched->messages});
        assert_ok(yk_store_wait(store, "test/seen", 20));
        yki_watch_rest(group->watched);
    } else {
        assert_ok(yk_store_wait(store, "group/0/waiting/0", 20));
        for (double end = yki_now() + 1; found && yki_now() < end; usleep(10000))
            assert_ok(yk_store_check(store, "group/0/waiting/0", &found));
        assert_ok(yk_store_set(store, "test/seen", "", 0));
        assert_true(found);
        for (; found; usleep(10000))
            assert_ok(yk_store_check(store, "group/0/waiting/0", &found));
    }
    yk_store_destroy(store);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* The seconds that rank 0 has published as its wait. */
static long long published_seconds(yk_store *store)
{
    char text[256];
    size_t used;
    long long seconds;
    assert_ok(yk_store_get(store, "group/0/waiting/0", text, sizeof text - 1, &used, 20));
    text[used] = '\0';
    assert_int_equal(sscanf(text, "%*u %lld", &seconds), 1);
    return seconds;
}

/* The clocks of hosts may differ by hours. */
YK_TEST_RANKS(how_long_a_rank_waits_is_told_without_clocks, 2)
{
    (void)world;
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    if (rank == 0) {
        yk_store *store = connect_to_store();
        yki_watch_ask(group->watched, &(yki_waiting){.active = true,
                                                     .end_is_told = true,
                                                     .sequence = 1,
                                                     .what.operation = YK_OPERATION_BARRIER,
                                                     .since = yki_now() - 100,
                                                     .messages = group->watched->messages});
        long long first = published_seconds(store), last = first;
        assert_in_range(first, 100, 160);
        for (double end = yk_test_now() + 20; last == first && yk_test_now() < end; usleep(10000))
            last = published_seconds(store);
        assert_in_range(last, first + 1, first + 30);
        yki_watch_rest(group->watched);
        yk_store_destroy(store);
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* A look at the others, a second after the one before. */
static yk_status look_later(yk_group *group)
{
    yki_call *call = group->running;
    for (int r = 0; r < group->job.world; r++)
        group->gone[r] -= group->gone[r] > 0;
    call->looked = 0;
    call->waited += 1;
    return yki_group_look_at_all(group);
}

/* Rank 0 waits for a message of rank 2, which leaves long after rank 1 has left. The message may
 * have come before, so that rank 2 counts as missing only some time later. */
YK_TEST_RANKS(each_departure_gives_a_call_some_more_time, 3)
{
    (void)world;
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    yk_store *store = connect_to_store();
    if (rank == 0) {
        yk_backend_message message = {.what = {.operation = YK_OPERATION_RECV, .root = 2},
                                      .sequence = 1};
        yki_call call = {.base = {.messages = &message, .message_count = 1}};
        group->running = &call;
        atomic_store(&group->watched->left[1], true);
        assert_ok(yki_group_look_at_all(group));
        assert_ok(look_later(group));
        atomic_store(&group->watched->left[2], true);
        assert_ok(look_later(group));
        assert_status(YK_ERROR_PEER_FAILED, look_later(group));
        assert_contains(yk_last_error(), "rank 2");
        assert_contains(yk_last_error(), "has left the group");
        group->running = NULL;
        assert_ok(yk_store_set(store, "test/over", "", 0));
    }
    assert_ok(yk_store_wait(store, "test/over", 20));
    yk_store_destroy(store);
    yk_group_destroy(group);
}

/* As a rank that has fewer batches does, without Join, or that does not call yk_ddp_create. It
 * writes the launcher's note of its end, because kernels before 6.15 do not tell how a process has
 * ended. */
static void check_explained(int rank, int world, bool batches, const char *words)
{
    (void)world;
    char note[48];
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    group->job.launcher = true;
    assert_ok(yk_barrier(group));
    if (batches)
        yki_group_note_batches(group);
    if (rank == 1) {
        int size = snprintf(note, sizeof note, "pid %d exited with code 0", (int)getpid());
        assert_ok(yk_store_set(connect_to_store(), "dead/1", note, (size_t)size));
        _exit(0);
    }
    assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
    assert_contains(yk_last_error(), words);
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_rank_that_has_ended_well_is_explained, 2)
{
    check_explained(rank, world, false,
                    "exited with code 0, ahead of this rank, although all ranks make the same "
                    "calls");
}

YK_TEST_RANKS(a_rank_that_may_have_had_fewer_batches_is_explained, 2)
{
    check_explained(rank, world, true,
                    "exited with code 0, ahead of this rank; if it had fewer batches, see "
                    "yk_ddp_join_begin");
}
