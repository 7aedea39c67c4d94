/* What ranks do together fails on all of them where one fails, wherever the others are by then. */
#include "harness.h"

#include <stdio.h>

#include "comm/group_internal.h"

enum { STEPS = 4 };

static yk_group *join(void)
{
    yk_group *group;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    return group;
}

/* A different collective in each step; this rank fails before one of them, or after the last. */
static yk_status make_steps(yk_group *group, int fails_before)
{
    int64_t own = 1, all[8];
    void *memory;
    for (int i = 0; i <= STEPS; i++) {
        if (i == fails_before)
            return yk_set_error(YK_ERROR_IO, "no luck in step %d", i);
        yk_status status = i == 0   ? yk_all_gather(group, all, &own, 1, YK_I64, NULL)
                           : i == 1 ? yk_broadcast(group, &own, 1, YK_I64, 0, NULL)
                           : i == 2 ? yk_group_alloc(group, 1000, &memory)
                           : i == 3 ? yk_barrier(group)
                                    : YK_OK;
        if (status != YK_OK)
            return status;
    }
    return YK_OK;
}

static yk_status do_together(yk_group *group, int fails_before)
{
    yki_joint joint = yki_joint_begin(group);
    return yki_joint_end(&joint, make_steps(group, fails_before));
}

static void one_fails(int rank, int world)
{
    yk_group *group = join();
    for (int culprit = 0; culprit < world; culprit++)
        for (int step = 0; step <= STEPS; step++) {
            bool fails = rank == culprit;
            char text[80];
            snprintf(text, sizeof text,
                     fails ? "no luck in step %d" : "cannot take part: no luck in step %d", step);
            assert_status(fails ? YK_ERROR_IO : YK_ERROR_MISMATCH,
                          do_together(group, fails ? step : -1));
            assert_contains(yk_last_error(), text);
            snprintf(text, sizeof text, "rank %d", culprit);
            assert_contains(yk_last_error(), text);
        }
    assert_ok(do_together(group, -1));
    yk_group_destroy(group);
}

YK_TEST(one_of_two_ranks_fails)
{
    yk_test_ranks(2, one_fails);
}

YK_TEST(one_of_three_ranks_fails)
{
    yk_test_ranks(3, one_fails);
}

/* Each has its own reason. */
YK_TEST_RANKS(all_ranks_fail, 3)
{
    (void)world;
    yk_group *group = join();
    char text[40];
    snprintf(text, sizeof text, "rank %d: no luck in step %d", rank, STEPS);
    assert_status(YK_ERROR_IO, do_together(group, STEPS));
    assert_contains(yk_last_error(), text);
    assert_ok(do_together(group, -1));
    yk_group_destroy(group);
}

/* A failure of an earlier call, of which all ranks know, is not taken for this one. */
YK_TEST_RANKS(a_mismatch_before_changes_nothing, 2)
{
    (void)world;
    yk_group *group = join();
    float data[2] = {0};
    assert_status(YK_ERROR_MISMATCH,
                  yk_all_reduce(group, data, 1 + (size_t)rank, YK_F32, YK_REDUCE_SUM, NULL));
    assert_status(rank ? YK_ERROR_IO : YK_ERROR_MISMATCH, do_together(group, rank ? 0 : -1));
    assert_ok(do_together(group, -1));
    yk_group_destroy(group);
}

/* The others have gone on to another call, such as a reduction of a training step in flight. */
YK_TEST_RANKS(others_may_be_elsewhere, 3)
{
    (void)world;
    yk_group *group = join();
    float data = 1;
    yk_work *work;
    if (rank == 1) {
        assert_status(YK_ERROR_IO, do_together(group, 0));
    } else {
        assert_ok(yk_all_reduce(group, &data, 1, YK_F32, YK_REDUCE_SUM, &work));
        assert_status(YK_ERROR_MISMATCH, yk_work_wait(work));
        assert_contains(yk_last_error(), "rank 1 cannot take part: no luck in step 0");
        assert_true(data == 1);
    }
    assert_ok(do_together(group, -1));
    yk_group_destroy(group);
}

/* Reasons of many refusals in a row are not mixed up, nor kept. */
YK_TEST_RANKS(every_refusal_has_its_reason, 2)
{
    (void)world;
    yk_group *group = join();
    for (int i = 0; i < 50; i++) {
        float data = 1;
        char text[80];
        int root = 2 + i;
        snprintf(text, sizeof text, "%sbroadcast: root is %d, expected",
                 rank ? "rank 0 cannot take part: " : "", root);
        assert_status(rank ? YK_ERROR_MISMATCH : YK_ERROR_INVALID_ARGUMENT,
                      yk_broadcast(group, &data, 1, YK_F32, rank ? 0 : root, NULL));
        assert_contains(yk_last_error(), text);
    }
    yk_group_destroy(group);
}

YK_TEST(one_rank_alone_keeps_its_error)
{
    yk_group *group = join();
    assert_status(YK_ERROR_IO, do_together(group, 1));
    assert_contains(yk_last_error(), "no luck in step 1");
    assert_ok(do_together(group, -1));
    yk_group_destroy(group);
}
