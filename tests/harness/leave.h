/* Leaving a job only when all ranks are done, so that none of them misses another one. */
#ifndef YK_TEST_LEAVE_H
#define YK_TEST_LEAVE_H

#include <unistd.h>

#include "comm/group_state.h"
#include "harness.h"

static inline int64_t yk_test_add_done(yk_group *group, int64_t delta)
{
    int64_t done = 0;
    yki_fair_lock_take(group->job.lock);
    yk_status status = yk_store_add(group->job.store, "test/done", delta, &done);
    yki_fair_lock_release(group->job.lock);
    assert_ok(status);
    return done;
}

/* All ranks call it once. Rank 0, which serves the store, leaves last. */
static inline void yk_test_await_all(yk_group *group)
{
    const int world = yk_group_size(group);
    yk_test_add_done(group, 1);
    while (yk_test_add_done(group, 0) < world)
        usleep(1000);
    yk_test_add_done(group, 1);
    while (yk_group_rank(group) == 0 && yk_test_add_done(group, 0) < 2 * world)
        usleep(1000);
}

#endif
