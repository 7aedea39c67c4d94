/* Ranks that wait for each other in different groups, and ranks that only seem to. */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <unistd.h>

#include "comm/group_state.h"
#include "leave.h"

/* A rank that waits for STANDS_S in each of its calls stands still. */
enum { STANDS_S = 1, LONG_S = 4, TIMEOUT_S = 9 };

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(yk_group_init(
        &group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = TIMEOUT_S)));
    return group;
}

static void be_quick(yk_group *group)
{
    group->watched->job.timeout_s = 2 * STANDS_S;
}

static yk_group *duplicate(yk_group *group)
{
    yk_group *copy = NULL;
    assert_ok(yk_group_duplicate(&copy, group));
    be_quick(copy);
    return copy;
}

static yk_status sum(yk_group *group)
{
    float x[4] = {1, 2, 3, 4};
    return yk_all_reduce(group, x, 4, YK_F32, YK_REDUCE_SUM, NULL);
}

/* The error of all ranks, which this waits for. */
static void assert_told(yk_group *all, const char *first, const char *second)
{
    assert_contains(yk_last_error(),
                    "timed out after 9 s: ranks wait for each other in different groups: rank ");
    assert_contains(yk_last_error(), first);
    assert_contains(yk_last_error(), second);
    yk_test_await_all(all);
}

YK_TEST_RANKS(a_group_and_its_duplicate, 2)
{
    (void)world;
    yk_group *all = join(), *copy = duplicate(all);
    be_quick(all);
    assert_ok(yk_barrier(copy));
    assert_status(YK_ERROR_TIMEOUT, rank == 0 ? sum(all) : yk_barrier(copy));
    assert_told(all, " called all_reduce(float32 x 4, sum) in the group of all ranks",
                " called barrier() in duplicate 1 of the group of all ranks");
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/* The third rank waits with one of the two. */
YK_TEST_RANKS(one_of_three_is_in_another_group, 3)
{
    (void)world;
    yk_group *all = join(), *copy = duplicate(all);
    be_quick(all);
    assert_status(YK_ERROR_TIMEOUT, rank == 1 ? yk_barrier(copy) : sum(all));
    assert_told(all, " called all_reduce(float32 x 4, sum) in the group of all ranks",
                " called barrier() in duplicate 1 of the group of all ranks");
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/* The groups' own threads wait for the other ranks, and the program's for them. */
YK_TEST_RANKS(works_in_different_groups, 2)
{
    (void)world;
    yk_group *all = join(), *copy = duplicate(all);
    yk_work *works[3];
    float x[3] = {1, 2, 3};
    be_quick(all);
    yk_group *mine = rank == 0 ? all : copy;
    for (int i = 0; i < 3; i++)
        assert_ok(yk_all_reduce(mine, &x[i], 1, YK_F32, YK_REDUCE_SUM, &works[i]));
    for (int i = 0; i < 3; i++)
        assert_status(YK_ERROR_TIMEOUT, yk_work_wait(works[i]));
    assert_told(all, " called all_reduce(float32 x 1, sum) in the group of all ranks",
                " called all_reduce(float32 x 1, sum) in duplicate 1 of the group");
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/* Each of three ranks waits for the next one, in a group of the two. */
YK_TEST_RANKS(a_cycle_of_three_groups, 3)
{
    yk_group *all = join(), *pairs[3];
    be_quick(all);
    for (int i = 0; i < 3; i++) {
        bool in = rank == i || rank == (i + 1) % world;
        assert_ok(yk_group_split(&pairs[i], all, in ? 0 : YK_COLOR_NONE, 0));
        if (in)
            be_quick(pairs[i]);
    }
    assert_status(YK_ERROR_TIMEOUT, yk_barrier(pairs[rank]));
    assert_told(all, " called barrier() in part 1 of the group of all ranks",
                " called barrier() in part 3 of the group of all ranks");
    for (int i = 0; i < 3; i++)
        yk_group_destroy(pairs[i]);
    yk_group_destroy(all);
}

/* Rank 0 waits for rank 1, and rank 1 in a part for rank 2, which comes. */
YK_TEST_RANKS(a_rank_that_comes_late_ends_all_waits, 3)
{
    (void)world;
    yk_group *all = join(), *part;
    be_quick(all);
    assert_ok(yk_group_split(&part, all, rank == 0 ? YK_COLOR_NONE : 0, 0));
    if (rank > 0)
        be_quick(part);
    if (rank == 2)
        sleep(LONG_S);
    if (rank > 0)
        assert_ok(sum(part));
    assert_ok(sum(all));
    yk_group_destroy(part);
    yk_group_destroy(all);
}

/* A thread with a group of its own. */
typedef struct party {
    yk_group *group;
    bool late;
    yk_status status;
} party;

static void *take_part(void *argument)
{
    party *p = argument;
    p->status = yk_barrier(p->group);
    if (p->late)
        sleep(LONG_S);
    if (p->status == YK_OK)
        p->status = sum(p->group);
    return NULL;
}

/* Rank 0 waits in one group and rank 1 in the other; a second thread of each is on its way. */
YK_TEST_RANKS(threads_wait_in_groups_of_their_own, 2)
{
    (void)world;
    pthread_t thread;
    yk_group *all = join(), *copy = duplicate(all);
    be_quick(all);
    party first = {.group = all, .late = rank == 0}, second = {.group = copy, .late = rank == 1};
    assert_int_equal(pthread_create(&thread, NULL, take_part, &second), 0);
    take_part(&first);
    pthread_join(thread, NULL);
    assert_ok(first.status);
    assert_ok(second.status);
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/* A thread that has ended makes no more calls. */
YK_TEST_RANKS(a_thread_that_has_ended_does_not_count, 2)
{
    (void)world;
    pthread_t thread;
    yk_group *all = join(), *copy = duplicate(all);
    be_quick(all);
    party ended = {.group = copy};
    assert_int_equal(pthread_create(&thread, NULL, take_part, &ended), 0);
    pthread_join(thread, NULL);
    assert_ok(ended.status);
    assert_status(YK_ERROR_TIMEOUT, rank == 0 ? sum(all) : yk_barrier(copy));
    assert_told(all, "rank 0 ", "rank 1 ");
    yk_group_destroy(copy);
    yk_group_destroy(all);
}

/* A task is a step of the group's own thread, which may still make the missing call. */
static yk_status pause_and_sum(void *context)
{
    sleep(LONG_S);
    return sum(context);
}

YK_TEST_RANKS(a_task_that_takes_long_may_still_make_the_call, 2)
{
    (void)world;
    yk_work *work = NULL;
    yk_group *all = join(), *copy = duplicate(all);
    be_quick(all);
    assert_ok(yk_barrier(copy));
    if (rank == 0) {
        assert_ok(sum(all));
        assert_ok(yk_barrier(copy));
    } else {
        assert_ok(yki_group_run(all, pause_and_sum, all, &work));
        assert_ok(yk_barrier(copy));
        assert_ok(yk_work_wait(work));
    }
    yk_group_destroy(copy);
    yk_group_destroy(all);
}
