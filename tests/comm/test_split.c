/* Groups made of groups: who is in them, what they say of failures, and in which order they end. */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "comm/group_state.h"

static yk_group *join(double timeout_s)
{
    yk_group *group = NULL;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = timeout_s)));
    return group;
}

static int64_t sum_of(yk_group *group, int64_t x)
{
    assert_ok(yk_all_reduce(group, &x, 1, YK_I64, YK_REDUCE_SUM, NULL));
    return x;
}

/* Even and odd ranks, the odd ones in reverse order. */
YK_TEST_RANKS(five_ranks_split_unevenly, 5)
{
    (void)world;
    yk_group *all = join(60), *part;
    bool odd = rank % 2;
    assert_ok(yk_group_split(&part, all, odd, odd ? -rank : 0));
    assert_int_equal(yk_group_size(part), odd ? 2 : 3);
    assert_int_equal(yk_group_rank(part), odd ? rank == 1 : rank / 2);
    assert_int_equal(sum_of(part, rank), odd ? 1 + 3 : 0 + 2 + 4);
    assert_int_equal(sum_of(all, rank), 10);
    int64_t ranks[3] = {-1, -1, -1}, mine = rank;
    assert_ok(yk_all_gather(part, ranks, &mine, 1, YK_I64, NULL));
    assert_int_equal(ranks[0], odd ? 3 : 0);
    assert_int_equal(ranks[1], odd ? 1 : 2);
    yk_group_destroy(part);
    yk_group_destroy(all);
}

YK_TEST_RANKS(the_ranks_of_each_host_are_a_part, 3)
{
    yk_group *all = join(60), *host;
    int before = 0, ranks_here = 0;
    for (int r = 0; r < world; r++) {
        before += r < rank && !all->job.peers[r].remote;
        ranks_here += !all->job.peers[r].remote;
    }
    assert_ok(yk_group_split_by_host(&host, all));
    assert_int_equal(yk_group_size(host), ranks_here);
    assert_int_equal(yk_group_rank(host), before);
    assert_int_equal(sum_of(host, 1), ranks_here);
    assert_int_equal(sum_of(all, rank), world * (world - 1) / 2);
    yk_group_destroy(host);
    yk_group_destroy(all);
}

YK_TEST_RANKS(a_rank_without_color_is_in_no_part, 4)
{
    (void)world;
    yk_group *all = join(60), *part;
    assert_ok(yk_group_split(&part, all, rank == 2 ? YK_COLOR_NONE : 7, 0));
    if (rank == 2) {
        assert_null(part);
    } else {
        assert_int_equal(yk_group_size(part), 3);
        assert_int_equal(sum_of(part, rank), 0 + 1 + 3);
    }
    assert_int_equal(sum_of(all, 1), 4);
    yk_group_destroy(part);
    yk_group_destroy(all);
}

YK_TEST_RANKS(a_part_of_one_and_a_part_of_a_part, 5)
{
    (void)world;
    yk_group *all = join(60), *part, *inner;
    assert_ok(yk_group_split(&part, all, rank == 0 ? 0 : 1, 0));
    assert_int_equal(yk_group_size(part), rank == 0 ? 1 : 4);
    assert_string_equal(yk_group_backend(part), rank == 0 ? "self" : yk_group_backend(all));
    assert_ok(yk_group_split(&inner, part, rank > 2, 0));
    assert_int_equal(sum_of(inner, rank), rank == 0 ? 0 : rank > 2 ? 3 + 4 : 1 + 2);
    assert_ok(yk_barrier(all)); /* rank 0 serves the store, which splits need */
    /* The part outlives both handles above it. */
    yk_group_destroy(all);
    yk_group_destroy(part);
    assert_int_equal(sum_of(inner, 1), rank == 0 ? 1 : 2);
    yk_group_destroy(inner);
}

YK_TEST_RANKS(a_duplicate_is_independent, 3)
{
    yk_group *all = join(60), *copy;
    yk_work *work[8];
    int64_t x[8];
    void *memory;
    assert_ok(yk_group_duplicate(&copy, all));
    assert_int_equal(yk_group_rank(copy), rank);
    assert_int_equal(yk_group_size(copy), world);
    assert_ok(yk_group_alloc(copy, 1000, &memory));
    for (int i = 0; i < 8; i++) {
        x[i] = rank + i;
        assert_ok(yk_all_reduce(all, &x[i], 1, YK_I64, YK_REDUCE_SUM, &work[i]));
        assert_int_equal(sum_of(copy, i), 3 * i);
    }
    for (int i = 0; i < 8; i++) {
        assert_ok(yk_work_wait(work[i]));
        assert_int_equal(x[i], 3 + 3 * i);
    }
    yk_group_destroy(all);
    assert_int_equal(sum_of(copy, 2), 6);
    yk_group_destroy(copy);
}

/* Many parts at once: each has keys, counters and memory of its own. */
YK_TEST_RANKS(many_parts_come_and_go, 4)
{
    (void)world;
    yk_group *all = join(60), *part[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            assert_ok(yk_group_split(&part[i], all, (rank >> (i & 1)) & 1, 0));
        for (int i = 7; i >= 0; i--)
            assert_int_equal(sum_of(part[i], 1), 2);
        for (int i = 0; i < 8; i++)
            yk_group_destroy(part[i]);
    }
    yk_group_destroy(all);
}

/* How many keys the store has of the group and what was made of it, without those of waits. */
static int count_keys(const yk_group *group)
{
    static char keys[1 << 16];
    size_t used;
    int count = 0;
    yki_fair_lock_take(group->job.lock);
    assert_ok(yk_store_list(group->job.store, "group/0/", keys, sizeof keys, &used));
    yki_fair_lock_release(group->job.lock);
    for (const char *key = keys; key < keys + used; key += strlen(key) + 1)
        count += !strstr(key, "/waiting/");
    return count;
}

/* A job that makes groups for days does not fill its store. */
YK_TEST_RANKS(parts_leave_nothing_in_the_store, 4)
{
    (void)world;
    yk_group *all = join(60), *part, *inner;
    assert_ok(yk_barrier(all));
    int before = count_keys(all);
    assert_ok(yk_barrier(all));
    for (int round = 0; round < 3; round++) {
        assert_ok(yk_group_split(&part, all, rank & 1, 0));
        assert_ok(yk_group_duplicate(&inner, part));
        assert_int_equal(sum_of(inner, 1), 2);
        yk_group_destroy(part);
        yk_group_destroy(inner);
    }
    assert_ok(yk_barrier(all));
    while (count_keys(all) > before) /* goodbyes are said in the background */
        usleep(1000);
    assert_int_equal(count_keys(all), before);
    assert_ok(yk_barrier(all));
    yk_group_destroy(all);
}

YK_TEST_RANKS(a_wrong_color_is_refused_on_all_ranks, 2)
{
    (void)world;
    yk_group *all = join(60), *part = all;
    yk_status status = yk_group_split(&part, all, rank == 0 ? -5 : 0, 0);
    assert_int_equal(status, rank == 0 ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH);
    assert_contains(yk_last_error(),
                    rank == 0 ? "color -5" : "rank 0 cannot take part: yk_group_split: color -5");
    assert_null(part);
    assert_int_equal(sum_of(all, 1), 2);
    yk_group_destroy(all);
}

/* Where a rank has no room for its result, or calls something else, none waits for the others. */
YK_TEST_RANKS(a_rank_that_gets_no_group_is_named_on_all, 2)
{
    (void)world;
    yk_group *all = join(60), *part = all;
    yk_group **out = rank == 1 ? NULL : &part;
    const char *line = rank == 1 ? "is NULL" : "rank 1 cannot take part: yk_group_";
    yk_status expected = rank == 1 ? YK_ERROR_INVALID_ARGUMENT : YK_ERROR_MISMATCH;
    assert_status(expected, yk_group_split(out, all, 0, 0));
    assert_contains(yk_last_error(), line);
    assert_status(expected, yk_group_split_by_host(out, all));
    assert_contains(yk_last_error(), line);
    assert_status(expected, yk_group_duplicate(out, all));
    assert_contains(yk_last_error(), line);
    void *memory;
    assert_status(expected, yk_group_alloc(all, 100, rank == 1 ? NULL : &memory));
    assert_contains(yk_last_error(), line);
    assert_true(rank == 1 || (!part && !memory));
    int64_t one = 1;
    assert_status(YK_ERROR_MISMATCH,
                  rank == 0 ? yk_group_duplicate(&part, all)
                            : yk_all_reduce(all, &one, 1, YK_I64, YK_REDUCE_SUM, NULL));
    assert_ok(yk_group_duplicate(&part, all));
    assert_int_equal(sum_of(part, 1), 2);
    yk_group_destroy(part);
    yk_group_destroy(all);
}

YK_TEST(nothing_is_split_without_a_group)
{
    yk_group *part;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_split(&part, NULL, 0, 0));
    assert_null(part);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_group_duplicate(&part, NULL));
    assert_null(part);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Rank 3 of the job, rank 1 of its part, dies. Its part names it by its number in the job, and the
 * others go on. */
static void death_body(int rank, int world)
{
    (void)world;
    yk_group *all = join(60), *part;
    assert_ok(yk_group_split(&part, all, rank >= 2, 0));
    assert_int_equal(sum_of(part, 1), 2);
    if (rank == 3)
        raise(SIGKILL);
    if (rank >= 2) {
        assert_status(YK_ERROR_PEER_FAILED, yk_barrier(part));
        assert_contains(yk_last_error(), ": rank 3 ");
        assert_contains(yk_last_error(), "is dead");
    } else {
        for (int i = 0; i < 100; i++)
            assert_int_equal(sum_of(part, i), 2 * i);
    }
    yk_group_destroy(part);
    yk_group_destroy(all);
    exit(3);
}

YK_TEST(promise_01_death_in_a_part)
{
    int statuses[4];
    yk_test_ranks_status(4, death_body, statuses, NULL);
    for (int r = 0; r < 4; r++)
        assert_int_equal(r == 3 ? WTERMSIG(statuses[r]) : WEXITSTATUS(statuses[r]),
                         r == 3 ? SIGKILL : 3);
}

YK_TEST_RANKS(a_mismatch_in_a_part_names_ranks_of_the_job, 4)
{
    (void)world;
    yk_group *all = join(60), *part;
    float x[4] = {0};
    assert_ok(yk_group_split(&part, all, rank >= 2, 0));
    if (rank >= 2) {
        assert_status(YK_ERROR_MISMATCH,
                      yk_all_reduce(part, x, rank == 2 ? 3 : 4, YK_F32, YK_REDUCE_SUM, NULL));
        assert_contains(yk_last_error(), "rank 2 called all_reduce(float32 x 3, sum)");
        assert_contains(yk_last_error(), "rank 3 called all_reduce(float32 x 4, sum)");
        assert_status(YK_ERROR_MISMATCH,
                      yk_broadcast(part, x, 4, YK_F32, yk_group_rank(part), NULL));
        assert_contains(yk_last_error(), "rank 2 called broadcast(float32 x 4, root 2)");
        assert_contains(yk_last_error(), "rank 3 called broadcast(float32 x 4, root 3)");
        assert_status(YK_ERROR_MISMATCH,
                      rank == 2 ? yk_send(part, x, 1, YK_F32, 1) : yk_recv(part, x, 2, YK_F32, 0));
        assert_contains(yk_last_error(), "rank 2 called send(float32 x 1, to rank 3)");
        assert_contains(yk_last_error(), "rank 3 called recv(float32 x 2, from rank 2)");
    }
    assert_int_equal(sum_of(part, 1), 2);
    yk_group_destroy(all);
    yk_group_destroy(part);
}

YK_TEST_RANKS(a_departure_from_a_part_is_named, 3)
{
    (void)world;
    yk_group *all = join(60), *part;
    assert_ok(yk_group_duplicate(&part, all));
    if (rank == 1)
        yk_group_destroy(part);
    if (rank != 1) {
        assert_status(YK_ERROR_PEER_FAILED, yk_barrier(part));
        assert_contains(yk_last_error(), ": rank 1 ");
        assert_contains(yk_last_error(), "has left the group");
        yk_group_destroy(part);
    }
    assert_int_equal(sum_of(all, 1), 3);
    yk_group_destroy(all);
}
