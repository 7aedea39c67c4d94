/* The thread for engines whose calls block. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/backend/thread.h"

static atomic_bool gate;
static atomic_int begun, ended;

/* Writes the call's sequence to `out`. Root 1 waits for the gate, root 2 fails. */
static yk_status run(void *context, yk_backend_call *call)
{
    (void)context;
    atomic_fetch_add(&begun, 1);
    while (call->what.root == 1 && !atomic_load(&gate))
        usleep(1000);
    atomic_fetch_add(&ended, 1);
    if (call->what.root == 2) {
        call->mismatch.rank_b = 7;
        return yk_set_error(YK_ERROR_MISMATCH, "number %d", 42);
    }
    *(uint64_t *)call->out = call->sequence;
    return YK_OK;
}

YK_TEST(works_complete_in_order)
{
    yk_backend_thread *thread;
    yk_backend_work *work[3];
    yk_backend_call call[3];
    uint64_t out[3] = {0};
    bool done;
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    for (int round = 0; round < 3; round++) { /* works are used again */
        for (int i = 0; i < 3; i++) {
            call[i] = (yk_backend_call){.sequence = (uint64_t)i + 1, .out = &out[i]};
            assert_ok(yk_backend_thread_post(thread, &call[i], &work[i]));
        }
        for (int i = 0; i < 3; i++) {
            for (done = false; !done;)
                assert_ok(yk_backend_thread_test(thread, work[i], 1, &done));
            assert_int_equal(out[i], i + 1);
        }
    }
    yk_backend_thread_destroy(thread, false);
}

/* Until none is left, and the system gives no more. */
static void take_all_memory(void)
{
    static void *volatile taken;
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t size = 1 << 20; size > 0; size /= 2)
        while ((taken = malloc(size)))
            ;
}

static void give_memory_again(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
}

YK_TEST(posting_what_was_reserved_needs_no_memory)
{
    yk_backend_thread *thread;
    yk_backend_work *work[3];
    yk_backend_call call[3];
    uint64_t out[3] = {0};
    bool done;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("sanitizers need memory of their own");
#endif
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    assert_ok(yki_backend_thread_reserve(thread, 2));
    take_all_memory();
    for (int i = 0; i < 3; i++)
        call[i] = (yk_backend_call){.sequence = (uint64_t)i + 1, .out = &out[i], .what.root = 1};
    assert_ok(yk_backend_thread_post(thread, &call[0], &work[0]));
    assert_ok(yk_backend_thread_post(thread, &call[1], &work[1]));
    assert_status(YK_ERROR_OUT_OF_MEMORY, yk_backend_thread_post(thread, &call[2], &work[2]));
    give_memory_again();
    atomic_store(&gate, true);
    for (int i = 0; i < 2; i++) {
        for (done = false; !done;)
            assert_ok(yk_backend_thread_test(thread, work[i], 1, &done));
        assert_int_equal(out[i], i + 1);
    }
    yk_backend_thread_destroy(thread, false);
}

YK_TEST(a_failure_carries_its_line_and_mismatch)
{
    yk_backend_thread *thread;
    yk_backend_work *work;
    yk_backend_call call = {.what.root = 2};
    yk_status status = YK_OK;
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    assert_ok(yk_backend_thread_post(thread, &call, &work));
    for (bool done = false; !done;)
        status = yk_backend_thread_test(thread, work, 1, &done);
    assert_int_equal(status, YK_ERROR_MISMATCH);
    assert_string_equal(yk_last_error(), "yoke: number 42");
    assert_int_equal(call.mismatch.rank_b, 7);
    yk_backend_thread_destroy(thread, false);
}

/* The call may still run when its caller's memory is gone, and ends after the thread was left. */
YK_TEST(an_abandoned_thread_ends_by_itself)
{
    static uint64_t out;
    yk_backend_thread *thread;
    yk_backend_work *work;
    bool done = true;
    yk_backend_call call = {.what.root = 1, .out = &out, .sequence = 9};
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    assert_ok(yk_backend_thread_post(thread, &call, &work));
    while (atomic_load(&begun) == 0)
        usleep(1000);
    assert_ok(yk_backend_thread_test(thread, work, 0, &done));
    assert_false(done);
    yk_backend_thread_destroy(thread, true);
    memset(&call, 0xff, sizeof call);
    atomic_store(&gate, true);
    while (atomic_load(&ended) == 0)
        usleep(1000);
}

/* The call that runs is waited for; the one behind it never begins. */
YK_TEST(a_cancelled_thread_begins_no_call)
{
    uint64_t out[2] = {0};
    yk_backend_thread *thread;
    yk_backend_work *work[2];
    yk_backend_call call[2] = {{.what.root = 1, .out = &out[0], .sequence = 5},
                               {.out = &out[1], .sequence = 6}};
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(yk_backend_thread_post(thread, &call[i], &work[i]));
    while (atomic_load(&begun) == 0)
        usleep(1000);
    assert_false(yk_backend_thread_cancel(thread, work[0], 0.01));
    atomic_store(&gate, true);
    assert_true(yk_backend_thread_cancel(thread, work[0], 60));
    assert_true(yk_backend_thread_cancel(thread, work[1], 60));
    assert_int_equal(out[0], 5);
    assert_int_equal(out[1], 0);
    yk_backend_thread_destroy(thread, false);
}

/* As a site's own backend might call them. */
YK_TEST(missing_arguments_are_errors)
{
    yk_backend_thread *thread;
    yk_backend_call call = {.sequence = 1};
    yk_backend_work *work = (yk_backend_work *)&call;
    bool done = false;
    assert_ok(yk_backend_thread_create(&thread, "engine", run, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_thread_post(NULL, &call, &work));
    assert_null(work);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_thread_post(thread, NULL, &work));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_thread_post(thread, &call, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_thread_test(thread, NULL, 0, &done));
    assert_true(done);
    assert_true(yk_backend_thread_cancel(thread, NULL, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_compare(&call, NULL, 2));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_backend_compare(NULL, &call.what, 1));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_backend_compare_messages(&call, 0, &call.what, 1, NULL));
    assert_non_null(yk_backend_module_file(0, NULL));
    yk_backend_thread_destroy(thread, false);
}
