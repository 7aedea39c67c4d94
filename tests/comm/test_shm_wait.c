/* When a wait for counters in shared memory ends. */
#include "comm/shm/shm.h"
#include "harness.h"

static shm_counter *bell_of(const shm_wait *wait, int rank)
{
    return &wait->shm->ranks[rank]->bell;
}

static bool is_needed(const shm_wait *wait, int rank)
{
    (void)wait, (void)rank;
    return true;
}

/* A rank that is waited for rings, and may be gone the next moment: it is not missing any more. */
static yk_status look(void *context, bool (*missing)(const void *wait, int rank), const void *wait)
{
    (void)context;
    if (!((const shm_wait *)wait)->missing)
        return YK_OK;
    assert_true(missing(wait, 1));
    atomic_fetch_add(bell_of(wait, 0), 1);
    assert_false(missing(wait, 1));
    return YK_OK;
}

static bool is_out_of_step(yk_mismatch *mismatch)
{
    return yki_shm_out_of_step(mismatch, 0, &(yk_descriptor){.operation = YK_OPERATION_BATCH}, 1,
                               &(yk_descriptor){.operation = YK_OPERATION_BARRIER});
}

/* The other rank rings just before it begins its next call. */
static bool rings_before(const shm_wait *wait, yk_mismatch *mismatch)
{
    atomic_fetch_add(bell_of(wait, 0), 1);
    return is_out_of_step(mismatch);
}

static bool never_rings(const shm_wait *wait, yk_mismatch *mismatch)
{
    (void)wait;
    return is_out_of_step(mismatch);
}

static yk_status wait_for_bell(bool (*hopeless)(const shm_wait *wait, yk_mismatch *mismatch),
                               bool (*missing)(const shm_wait *wait, int rank),
                               yk_backend_call *call)
{
    static shm_rank memory;
    shm_rank *ranks[] = {&memory};
    yk_backend_site site = {.look = look};
    shm_backend shm = {.site = &site, .world = 1, .ranks = ranks, .me = &memory};
    return yki_shm_wait_for(&(shm_wait){.shm = &shm,
                                        .counter = bell_of,
                                        .target = atomic_load(&memory.bell) + 1,
                                        .hopeless = hopeless,
                                        .missing = missing,
                                        .call = call});
}

/* Such a rank has done its part. The mismatch of an earlier message of the call stays what it is.
 */
YK_TEST(a_wait_that_ends_is_no_mismatch)
{
    yk_backend_call call = {.mismatch = {.rank_a = 3, .rank_b = 2}};
    assert_ok(wait_for_bell(rings_before, NULL, &call));
    assert_int_equal(call.mismatch.rank_a, 3);
    assert_false(call.mismatch.out_of_step);
}

YK_TEST(a_wait_that_cannot_end_is_a_mismatch)
{
    yk_backend_call call = {0};
    assert_int_equal(wait_for_bell(never_rings, NULL, &call), YK_ERROR_MISMATCH);
    assert_int_equal(call.mismatch.rank_b, 1);
    assert_true(call.mismatch.out_of_step);
}

YK_TEST(a_rank_that_has_rung_is_not_missing)
{
    yk_backend_call call = {0};
    assert_ok(wait_for_bell(NULL, is_needed, &call));
}
