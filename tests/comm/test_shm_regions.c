/* Regions of memory that the ranks of one machine share, and the files that they take. */
#define _GNU_SOURCE
#include "harness.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT,
                                            o.timeout_s = 60, o.backend = "shm")));
    return group;
}

/* As many ranks and regions as memory has room for: once all have mapped one, it takes no files. */
YK_TEST_RANKS(regions_take_no_files, 3)
{
    yk_group *group = join();
    struct rlimit limit = {40, 40};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < 40; i++) {
        void *memory;
        int32_t *value;
        assert_ok(yk_group_alloc(group, 4096, &memory));
        value = memory;
        *value = i + rank;
        assert_ok(yk_all_reduce(group, value, 1000, YK_I32, YK_REDUCE_SUM, NULL));
        assert_int_equal(*value, world * i + world * (world - 1) / 2);
    }
    yk_group_destroy(group);
}

/* Rank 0 can make its part of a region, and has no file left to open the other's. */
YK_TEST_RANKS(a_rank_that_cannot_open_a_region_says_why, 2)
{
    yk_group *group = join();
    void *memory;
    if (rank == 0) {
        int next = dup(0);
        struct rlimit limit = {(rlim_t)next + 1, (rlim_t)next + 1};
        close(next);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    assert_status(YK_ERROR_IO, yk_group_alloc(group, 4096, &memory));
    assert_contains(yk_last_error(),
                    rank ? "rank 0 cannot create or share its memory" : "Too many open files");
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* What one rank alone asks for can never be: the others learn at once that the calls differ. They
 * used to wait for a call that never came. */
YK_TEST_RANKS(promise_05_a_size_that_no_region_can_have_is_a_mismatch, 2)
{
    yk_group *group = join();
    void *memory;
    assert_status(YK_ERROR_MISMATCH, yk_group_alloc(group, rank == 0 ? SIZE_MAX : 4096, &memory));
    assert_contains(yk_last_error(), "rank 0 called alloc(18446744073709551615 bytes)");
    assert_null(memory);
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_group_alloc(group, SIZE_MAX, &memory));
    assert_contains(yk_last_error(), "one region has at most");
    assert_ok(yk_group_alloc(group, 4096, &memory));
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}
