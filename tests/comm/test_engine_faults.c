/*
 * What a group makes of an engine that fails: on the fake backend, whose faults are asked for with
 * YOKE_FAKE_FAULT (tests/fake/adversary.h).
 */
#define _GNU_SOURCE
#include "../faults/rank_lines.h"

#include <stdlib.h>

static yk_status join_with(yk_group **group, const char *fault)
{
    char modules[512];
    snprintf(modules, sizeof modules, "%s/tests/modules", getenv("YOKE_BUILD"));
    setenv("YOKE_MODULES", modules, 1);
    setenv("YOKE_FAKE_FAULT", fault, 1);
    return yk_group_init(group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.backend = "fake",
                                        o.timeout_s = 60));
}

/* Calls until a call fails; the line names operation and cause. Later calls fail at once. */
static yk_status reduce_until_failure(yk_group *group)
{
    yk_status status = YK_OK;
    float x = 1;
    for (int i = 0; i < 10 && status == YK_OK; i++)
        status = yk_all_reduce(group, &x, 1, YK_F32, YK_REDUCE_SUM, NULL);
    assert_contains(yk_last_error(), "all_reduce(float32 x 1, sum), operation ");
    double start = yk_test_now();
    assert_status(status, yk_barrier(group));
    assert_true(yk_test_now() - start < 20);
    return status;
}

YK_TEST_RANKS(a_work_that_fails_on_one_rank_is_a_failure_on_all, 3)
{
    yk_group *group;
    assert_ok(join_with(&group, "error:1:3"));
    assert_int_equal(reduce_until_failure(group), YK_ERROR_NETWORK);
    assert_contains(yk_last_error(), "backend of rank 1 has failed: fake: the engine has failed");
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_call_that_cannot_be_posted_is_a_failure_on_all, 3)
{
    yk_group *group;
    assert_ok(join_with(&group, "post:2:4"));
    assert_int_equal(reduce_until_failure(group), YK_ERROR_NETWORK);
    assert_contains(yk_last_error(), "rank 2 has failed: fake: this call cannot be posted");
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_call_that_one_rank_has_no_memory_for_is_a_failure_on_all, 3)
{
    yk_group *group;
    assert_ok(join_with(&group, "memory:1:4"));
    assert_int_equal(reduce_until_failure(group), YK_ERROR_OUT_OF_MEMORY);
    assert_contains(yk_last_error(), "rank 1 cannot take part: fake: no memory for a work");
    yk_group_destroy(group);
}

YK_TEST_RANKS(a_work_that_hangs_is_cancelled_at_the_timeout, 3)
{
    yk_group *group;
    assert_ok(join_with(&group, "hang:1:3"));
    set_timeout(group, 1);
    assert_int_equal(reduce_until_failure(group), YK_ERROR_TIMEOUT);
    assert_contains(yk_last_error(), "timed out after 1 s");
    yk_group_destroy(group);
}

YK_TEST_RANKS(an_engine_that_does_not_start_is_a_failure_on_all, 3)
{
    yk_group *group;
    double start = yk_test_now();
    yk_status status = join_with(&group, "open:1");
    assert_null(group);
    assert_contains(yk_last_error(), "fake: the engine does not start");
    if (rank == 1) {
        assert_int_not_equal(status, YK_OK);
    } else {
        assert_int_equal(status, YK_ERROR_PEER_FAILED);
        assert_contains(yk_last_error(), "creating the group: rank 1 cannot take part: ");
    }
    assert_true(yk_test_now() - start < 20);
}

/* As a first program does, which only tells its rank. One that was late to open its backend used to
 * fail, because the others had left the group or had even ended. */
YK_TEST_RANKS(ranks_may_end_as_soon_as_they_have_a_group, 3)
{
    yk_group *group;
    assert_ok(join_with(&group, "late:2"));
    yk_group_destroy(group);
}

/* Works behind the one that fails fail, too; their buffers are the caller's again. */
YK_TEST_RANKS(works_behind_a_failed_one_end, 3)
{
    enum { WORKS = 12, COUNT = 5000 };
    yk_group *group;
    yk_work *works[WORKS];
    float *data[WORKS];
    int failed = 0;
    assert_ok(join_with(&group, "hang:0:6"));
    set_timeout(group, 1);
    for (int i = 0; i < WORKS; i++) {
        data[i] = calloc(COUNT, sizeof *data[i]);
        assert_ok(yk_all_reduce(group, data[i], COUNT, YK_F32, YK_REDUCE_SUM, &works[i]));
    }
    for (int i = 0; i < WORKS; i++) {
        yk_status status = yk_work_wait(works[i]);
        if (status != (i < 5 ? YK_OK : YK_ERROR_TIMEOUT))
            fail_msg("work %d: %s (%s)", i, yk_status_string(status), yk_last_error());
        failed += status != YK_OK;
        free(data[i]);
    }
    assert_int_equal(failed, WORKS - 5);
    yk_group_destroy(group);
}
