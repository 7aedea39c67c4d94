/* Agreement through the store: the first to ask decides, and the loss of the store has a cause. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdio.h>

#include "comm/group_internal.h"

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    return group;
}

YK_TEST_RANKS(the_first_rank_to_ask_decides, 3)
{
    yk_group *group = join();
    char first[16], again[16];
    snprintf(first, sizeof first, "rank %d", rank);
    for (int r = 0; r < world; r++) {
        if (r == rank)
            assert_ok(yki_group_agree(group, "who is first", first, sizeof first));
        assert_ok(yk_barrier(group));
    }
    assert_string_equal(first, "rank 0");
    snprintf(again, sizeof again, "rank %d", rank);
    assert_ok(yki_group_agree(group, "who is last", again, sizeof again));
    yk_group_destroy(group);
}

/* Rank 0, which serves the store, dies. */
static void agree_until_dead(int rank, bool works)
{
    yk_group *group = join();
    yk_work *work = NULL;
    float data = 1;
    assert_ok(yk_barrier(group));
    if (rank == 0)
        raise(SIGKILL);
    if (works)
        assert_ok(yk_all_reduce(group, &data, 1, YK_F32, YK_REDUCE_SUM, &work));
    yk_status status = YK_OK;
    for (int i = 0; status == YK_OK; i++) {
        char subject[32], text[16] = "mine";
        snprintf(subject, sizeof subject, "subject %d", i);
        status = yki_group_agree(group, subject, text, sizeof text);
    }
    assert_int_equal(status, YK_ERROR_PEER_FAILED);
    assert_contains(yk_last_error(), "while ranks agree");
    assert_contains(yk_last_error(), "rank 0");
    if (work)
        assert_status(YK_ERROR_PEER_FAILED, yk_work_wait(work));
    yk_group_destroy(group);
}

static void alone(int rank, int world)
{
    (void)world;
    agree_until_dead(rank, false);
}

static void beside_a_work(int rank, int world)
{
    (void)world;
    agree_until_dead(rank, true);
}

static void expect_survivor(void (*body)(int rank, int world))
{
    int statuses[2];
    yk_test_ranks_status(2, body, statuses, NULL);
    assert_int_equal(statuses[0], SIGKILL);
    assert_int_equal(statuses[1], 0);
}

YK_TEST(without_the_store_the_dead_rank_is_named)
{
    expect_survivor(alone);
}

YK_TEST(without_the_store_works_in_flight_end_first)
{
    expect_survivor(beside_a_work);
}
