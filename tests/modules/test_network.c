/* The engine of YOKE_BACKEND, or tcp, between processes of this machine. */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"
#include "engine.h"

#include <stdlib.h>
#include <unistd.h>

#include "comm/job/rendezvous.h"

YK_TEST_RANKS(two_ranks_run_every_collective, 2)
{
    yk_group *group = open_network(60);
    check_collectives(group);
    yk_group_destroy(group);
}

YK_TEST_RANKS(three_ranks_run_every_collective, 3)
{
    yk_group *group = open_network(60);
    check_collectives(group);
    yk_group_destroy(group);
}

static int sockets_of_a_child(void)
{
    char output[64];
    yk_test_command(output, sizeof output, "ls -l /proc/self/fd | grep -c socket:");
    return atoi(output);
}

/* They would keep the connections of a rank that has ended. */
YK_TEST_RANKS(programs_that_a_rank_starts_get_no_connections, 3)
{
    int before = sockets_of_a_child();
    yk_group *group = open_network(60);
    assert_ok(yk_barrier(group));
    assert_int_equal(sockets_of_a_child(), before);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(five_ranks_reduce, 5)
{
    yk_group *group = open_network(60);
    static float data[100003];
    for (size_t i = 0; i < 100003; i++)
        data[i] = (float)(rank + (int)(i % 10));
    assert_ok(yk_all_reduce(group, data, 100003, YK_F32, YK_REDUCE_SUM, NULL));
    for (size_t i = 0; i < 100003; i++)
        assert_true(data[i] == (float)(10 + 5 * (int)(i % 10)));
    yk_group_destroy(group);
}

YK_TEST_RANKS(messages_arrive, 3)
{
    yk_group *group = open_network(60);
    check_messages(group);
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(promise_03_a_mismatch_is_an_error_everywhere, 3)
{
    yk_group *group = open_network(60);
    check_mismatches(group);
    yk_group_destroy(group);
}

/* Rank 1 stops in the middle of a collective: the call of rank 0 is cancelled, which returns. */
static void be_late(int rank, int world)
{
    (void)world;
    yk_group *group = open_network(60);
    static float data[1000];
    assert_ok(yk_barrier(group));
    set_timeout(group, 2);
    if (rank == 1) {
        await_text("line", 0);
        _exit(0);
    }
    assert_status(YK_ERROR_TIMEOUT, yk_all_reduce(group, data, 1000, YK_F32, YK_REDUCE_SUM, NULL));
    assert_contains(yk_last_error(), "rank 1");
    assert_int_not_equal(yk_barrier(group), YK_OK);
    leave_line(rank);
    yk_group_destroy(group);
}

YK_TEST(a_late_rank_ends_the_call)
{
    open_lines();
    yk_test_ranks(2, be_late);
}

YK_TEST_RANKS(a_rank_that_leaves_early_is_named, 3)
{
    yk_group *group = open_network(60);
    if (rank < 2) {
        assert_status(YK_ERROR_PEER_FAILED, yk_barrier(group));
        assert_contains(yk_last_error(), "rank 2");
    }
    yk_group_destroy(group);
}

/* Rank 0, which serves the store, ends when it has met the other one, which waits for its part of
 * the engine. */
YK_TEST_RANKS(a_rank_that_ends_with_the_store_is_named, 2)
{
    yk_group *group;
    yki_job job;
    yk_group_options options = YK_GROUP_OPTIONS_INIT;
    options.backend = require_network();
    if (rank == 0) {
        assert_ok(yki_job_join(&job, &options));
        usleep(300000);
        _exit(0);
    }
    assert_status(YK_ERROR_PEER_FAILED, yk_group_init(&group, &options));
    assert_contains(yk_last_error(), "rank 0");
}
