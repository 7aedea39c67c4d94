/*
 * Calls whose exchange the caller drives (comm/engine/engine.h), on an engine that is a script:
 * this process is rank 1 of 3, and what the other two send is computed here.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/engine/engine.h"
#include "comm/engine/operators.h"
#include "comm/engine/small.h"
#include "tensor/element.h"

enum { RANK = 1, RANKS = 3, SMALL = 800, LARGEST = 5003, WIDEST = 8 };

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const yk_dtype dtypes[] = {YK_F32, YK_F64, YK_BF16, YK_F16, YK_I32, YK_I64};
static const yk_reduce_op ops[] = {YK_REDUCE_SUM, YK_REDUCE_AVG, YK_REDUCE_MIN, YK_REDUCE_MAX,
                                   YK_REDUCE_PRODUCT};

typedef struct script {
    yki_engine_base common; /* first */
    pthread_t caller;
    int not_yet;       /* so often a test of the exchange finds that it is not over */
    bool rank_2_errs;  /* it calls one element more */
    bool cannot_begin; /* the exchange */
    bool breaks;       /* the exchange, once it has begun */
    atomic_bool stuck; /* whoever moves data waits */
    int by_caller, by_thread, moved;
} script;

/* ---- numbers --------------------------------------------------------------------------------- */

/* So small that sums, averages and products are exact in every dtype. */
static void fill(void *data, yk_dtype dtype, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        yki_element_set(dtype, data, i, (double)(rank + 1) * (double)(i % 2 + 1));
}

static double reduced(size_t i, yk_reduce_op op)
{
    double each = (double)(i % 2 + 1);
    switch (op) {
    case YK_REDUCE_SUM:
        return 6 * each;
    case YK_REDUCE_AVG:
        return 2 * each;
    case YK_REDUCE_MIN:
        return each;
    case YK_REDUCE_MAX:
        return 3 * each;
    default:
        return 6 * each * each * each;
    }
}

/* ---- the script ------------------------------------------------------------------------------ */

static bool is_caller(const script *s)
{
    return pthread_equal(pthread_self(), s->caller);
}

/* Messages of before are gone when an exchange begins, as others may have been received there. */
static void spoil(yki_engine_base *engine)
{
    for (int r = 0; r < RANKS; r++)
        if (r != RANK)
            memset(yki_engine_message(engine, r), 0xee, engine->stride);
}

static void receive(script *s)
{
    yki_engine_base *engine = &s->common;
    yk_descriptor what;
    memcpy(&what, yki_engine_message(engine, RANK), sizeof what);
    for (int r = 0; r < RANKS; r++) {
        char *message = yki_engine_message(engine, r);
        if (r == RANK)
            continue;
        if (yki_engine_is_small(engine, &what) &&
            (what.operation != YK_OPERATION_BROADCAST || what.root == r))
            fill(message + sizeof what, (yk_dtype)what.dtype, r, what.count);
        what.count += r == 2 && s->rank_2_errs;
        memcpy(message, &what, sizeof what);
    }
}

static yk_status begin_exchange(yki_engine_base *engine, size_t bytes)
{
    script *s = (script *)engine;
    assert_true(is_caller(s) && bytes >= sizeof(yk_descriptor) && bytes <= engine->stride);
    if (s->cannot_begin)
        return yk_set_error(YK_ERROR_NETWORK, "nobody is there");
    s->by_caller++;
    spoil(engine);
    return YK_OK;
}

static yk_status test_exchange(yki_engine_base *engine, double wait_s, bool *done)
{
    script *s = (script *)engine;
    (void)wait_s;
    assert_true(is_caller(s));
    *done = s->not_yet-- <= 0;
    if (*done && s->breaks)
        return yk_set_error(YK_ERROR_NETWORK, "the cable is cut");
    if (*done)
        receive(s);
    return YK_OK;
}

static yk_status exchange(yki_engine_base *engine, yk_backend_call *call, size_t bytes)
{
    script *s = (script *)engine;
    (void)call, (void)bytes;
    assert_false(is_caller(s));
    s->by_thread++;
    spoil(engine);
    receive(s);
    return YK_OK;
}

/* What is large. */
static yk_status sum(yki_engine_base *engine, yk_backend_call *call)
{
    script *s = (script *)engine;
    assert_false(is_caller(s));
    while (atomic_load(&s->stuck))
        usleep(1000);
    static char theirs[LARGEST * WIDEST];
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    yk_reduce_op op = (yk_reduce_op)call->what.reduce;
    for (int r = 0; r < RANKS; r++) {
        if (r == RANK)
            continue;
        fill(theirs, dtype, r, call->what.count);
        if (yki_engine_divides_before(dtype, op))
            yki_engine_divide(theirs, call->what.count, dtype, RANKS);
        yki_engine_operator_of(dtype, op)(call->out, call->out, theirs, call->what.count);
    }
    s->moved++;
    return YK_OK;
}

static yk_status all_reduce(yki_engine_base *engine, yk_backend_call *call)
{
    return yki_engine_reduce(engine, call, sum);
}

static const yki_engine_calls calls = {.exchange = exchange,
                                       .begin_exchange = begin_exchange,
                                       .test_exchange = test_exchange,
                                       .all_reduce = all_reduce,
                                       .reduce = all_reduce};

static void open_script(script *s)
{
    static const yk_backend_site site = {.rank = RANK, .ranks = RANKS};
    *s = (script){.caller = pthread_self()};
    assert_ok(yki_engine_init(&s->common, &site, &calls, SMALL));
    assert_ok(yk_backend_thread_create(&s->common.thread, "script", yki_engine_run, s));
}

static void close_script(script *s)
{
    yk_backend_thread_destroy(s->common.thread, s->common.abandoned);
    if (!s->common.abandoned)
        yki_engine_fini(&s->common);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static yk_backend_call reduce_call(void *data, size_t count, yk_dtype dtype, yk_reduce_op op)
{
    return (yk_backend_call){.what = {.operation = YK_OPERATION_ALL_REDUCE,
                                      .dtype = (uint8_t)dtype,
                                      .reduce = (uint8_t)op,
                                      .count = count},
                             .in = data,
                             .out = data};
}

static yk_status finish(script *s, yk_backend_work *work)
{
    yk_status status = YK_OK;
    for (bool done = false; !done;)
        status = yki_engine_test(&s->common.base, work, 0.02, &done);
    return status;
}

static yk_status run(script *s, yk_backend_call *call)
{
    yk_backend_work *work;
    yk_status status = yki_engine_post(&s->common.base, call, &work);
    return status == YK_OK ? finish(s, work) : status;
}

static void check_reduced(const void *data, size_t count, yk_dtype dtype, yk_reduce_op op)
{
    static char expected[LARGEST * WIDEST];
    for (size_t i = 0; i < count; i++)
        yki_element_set(dtype, expected, i, reduced(i, op));
    assert_memory_equal(data, expected, count * yk_dtype_size(dtype));
}

static void check_all_reduce(script *s, size_t count, yk_dtype dtype, yk_reduce_op op)
{
    static char data[LARGEST * WIDEST];
    fill(data, dtype, RANK, count);
    yk_backend_call call = reduce_call(data, count, dtype, op);
    assert_ok(run(s, &call));
    check_reduced(data, count, dtype, op);
    assert_true(call.met_s > 0);
}

YK_TEST(small_calls_end_on_the_thread_of_their_caller)
{
    script s;
    int made = 0;
    open_script(&s);
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++) {
            const size_t counts[] = {1, 3, 37, SMALL / yk_dtype_size(dtypes[d])};
            for (size_t c = 0; c < LENGTH(counts); c++, made++)
                check_all_reduce(&s, counts[c], dtypes[d], ops[o]);
        }
    assert_int_equal(s.by_caller, made);
    assert_int_equal(s.by_thread + s.moved, 0);
    close_script(&s);
}

YK_TEST(large_calls_are_moved_by_the_thread_after_their_callers_exchange)
{
    script s;
    int made = 0;
    open_script(&s);
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++) {
            const size_t counts[] = {SMALL / yk_dtype_size(dtypes[d]) + 1, LARGEST};
            for (size_t c = 0; c < LENGTH(counts); c++, made++)
                check_all_reduce(&s, counts[c], dtypes[d], ops[o]);
        }
    assert_int_equal(s.by_caller, made);
    assert_int_equal(s.moved, made);
    assert_int_equal(s.by_thread, 0); /* nothing is exchanged twice */
    close_script(&s);
}

/* Whatever their size: to this rank and to another. */
YK_TEST(reductions_to_a_root)
{
    static char data[LARGEST * WIDEST];
    script s;
    open_script(&s);
    for (size_t d = 0; d < LENGTH(dtypes); d++)
        for (size_t o = 0; o < LENGTH(ops); o++)
            for (int root = 0; root < 2 * RANKS; root++) {
                size_t count = root < RANKS ? SMALL / yk_dtype_size(dtypes[d]) : LARGEST;
                fill(data, dtypes[d], RANK, count);
                yk_backend_call call = reduce_call(data, count, dtypes[d], ops[o]);
                call.what.operation = YK_OPERATION_REDUCE;
                call.what.root = root % RANKS;
                assert_ok(run(&s, &call));
                if (root % RANKS == RANK)
                    check_reduced(data, count, dtypes[d], ops[o]);
            }
    assert_int_equal(s.by_caller, LENGTH(dtypes) * LENGTH(ops) * 2 * RANKS);
    assert_int_equal(s.moved, s.by_caller / 2);
    close_script(&s);
}

YK_TEST(broadcasts_and_gathers_by_their_caller)
{
    script s;
    int32_t data[RANKS * 37], expected[RANKS * 37];
    open_script(&s);
    for (int root = 0; root < RANKS; root++) {
        fill(data, YK_I32, RANK, 37);
        fill(expected, YK_I32, root, 37);
        yk_backend_call call = {.what = {.operation = YK_OPERATION_BROADCAST,
                                         .dtype = YK_I32,
                                         .root = root,
                                         .count = 37},
                                .in = data,
                                .out = data};
        assert_ok(run(&s, &call));
        assert_memory_equal(data, expected, 37 * sizeof *data);
    }
    for (int r = 0; r < RANKS; r++)
        fill(expected + (ptrdiff_t)r * 37, YK_I32, r, 37);
    int32_t mine[37];
    fill(mine, YK_I32, RANK, 37);
    yk_backend_call call = {
        .what = {.operation = YK_OPERATION_ALL_GATHER, .dtype = YK_I32, .count = 37},
        .in = mine,
        .out = data};
    assert_ok(run(&s, &call));
    assert_memory_equal(data, expected, sizeof data);
    assert_int_equal(s.by_thread + s.moved, 0);
    close_script(&s);
}

/* Also a barrier, a call of no elements, and one that is only compared, of any size. */
YK_TEST(calls_that_move_nothing_end_with_the_exchange)
{
    script s;
    open_script(&s);
    float x = 7;
    yk_backend_call barrier = {.what.operation = YK_OPERATION_BARRIER};
    yk_backend_call empty = reduce_call(&x, 0, YK_F32, YK_REDUCE_SUM);
    yk_backend_call compared = reduce_call(NULL, 1, YK_F32, YK_REDUCE_SUM);
    compared.compare_only = true;
    assert_ok(run(&s, &barrier));
    assert_ok(run(&s, &empty));
    assert_ok(run(&s, &compared));
    compared.what.count = LARGEST;
    assert_ok(run(&s, &compared));
    assert_int_equal(s.by_caller, 4);
    assert_int_equal(s.by_thread + s.moved, 0);
    assert_true(x == 7);
    close_script(&s);
}

/* Nothing is touched before the messages of all ranks are there. */
YK_TEST(a_caller_that_waits_has_its_data_to_itself)
{
    script s;
    float data[5];
    yk_backend_work *work;
    open_script(&s);
    fill(data, YK_F32, RANK, 5);
    yk_backend_call call = reduce_call(data, 5, YK_F32, YK_REDUCE_SUM);
    s.not_yet = 3;
    assert_ok(yki_engine_post(&s.common.base, &call, &work));
    for (int i = 0; i < 3; i++) {
        bool done = true;
        float before[5];
        fill(before, YK_F32, RANK, 5);
        assert_ok(yki_engine_test(&s.common.base, work, 0.02, &done));
        assert_false(done);
        assert_memory_equal(data, before, sizeof data);
    }
    assert_ok(finish(&s, work));
    check_reduced(data, 5, YK_F32, YK_REDUCE_SUM);
    close_script(&s);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

YK_TEST(a_mismatch_that_its_caller_finds_moves_nothing)
{
    script s;
    static const size_t counts[] = {37, LARGEST};
    static float data[LARGEST], before[LARGEST];
    open_script(&s);
    for (size_t c = 0; c < LENGTH(counts); c++) {
        fill(data, YK_F32, RANK, counts[c]);
        memcpy(before, data, sizeof data);
        yk_backend_call call = reduce_call(data, counts[c], YK_F32, YK_REDUCE_AVG);
        s.rank_2_errs = true;
        assert_status(YK_ERROR_MISMATCH, run(&s, &call));
        assert_int_equal(call.mismatch.rank_a, 0);
        assert_int_equal(call.mismatch.rank_b, 2);
        assert_int_equal(call.mismatch.what_b.count, counts[c] + 1);
        assert_memory_equal(data, before, sizeof data);
        assert_int_equal(s.by_thread + s.moved, 0);
        s.rank_2_errs = false; /* all go on */
        check_all_reduce(&s, counts[c], YK_F32, YK_REDUCE_AVG);
    }
    close_script(&s);
}

YK_TEST(an_exchange_that_fails_is_an_error_of_its_call)
{
    script s;
    float x = 7;
    bool done = false;
    yk_backend_work *work = (yk_backend_work *)&x;
    open_script(&s);
    yk_backend_call call = reduce_call(&x, 1, YK_F32, YK_REDUCE_SUM);
    s.cannot_begin = true;
    assert_status(YK_ERROR_NETWORK, yki_engine_post(&s.common.base, &call, &work));
    assert_contains(yk_last_error(), "nobody is there");
    assert_null(work);
    s.cannot_begin = false;
    s.breaks = true;
    assert_ok(yki_engine_post(&s.common.base, &call, &work));
    assert_status(YK_ERROR_NETWORK, yki_engine_test(&s.common.base, work, 0.02, &done));
    assert_true(done);
    assert_contains(yk_last_error(), "the cable is cut");
    assert_true(x == 7);
    close_script(&s);
}

/* The exchange of the call is over then, and the next call begins with its own. */
YK_TEST(a_call_that_the_thread_does_not_take_is_an_error)
{
    script s;
    static float data[LARGEST];
    bool done = false;
    yk_backend_work *work;
    open_script(&s);
    yk_backend_call call = reduce_call(data, LARGEST, YK_F32, YK_REDUCE_SUM);
    yk_backend_thread *thread = s.common.thread;
    assert_ok(yki_engine_post(&s.common.base, &call, &work));
    s.common.thread = NULL; /* which nothing can be posted to */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yki_engine_test(&s.common.base, work, 0.02, &done));
    assert_true(done);
    s.common.thread = thread;
    assert_int_equal(s.common.exchanges, 1);
    fill(data, YK_F32, RANK, LARGEST);
    call.background = true; /* the thread exchanges */
    assert_ok(run(&s, &call));
    check_reduced(data, LARGEST, YK_F32, YK_REDUCE_SUM);
    assert_int_equal(s.by_thread, 1);
    close_script(&s);
}

/* A rank is late in the exchange: there is no thread to wait for. */
YK_TEST(a_call_is_given_up_during_its_exchange)
{
    script s;
    float x = 7;
    bool done = true;
    yk_backend_work *work;
    open_script(&s);
    yk_backend_call call = reduce_call(&x, 1, YK_F32, YK_REDUCE_SUM);
    s.not_yet = 1000;
    assert_ok(yki_engine_post(&s.common.base, &call, &work));
    assert_ok(yki_engine_test(&s.common.base, work, 0, &done));
    assert_false(done);
    yki_engine_drop(&s.common, work, 60);
    assert_false(s.common.abandoned);
    assert_true(x == 7);
    close_script(&s);
}

/* Later, the thread moves the data and cannot be interrupted: it is left behind. */
YK_TEST(a_call_is_given_up_while_its_data_moves)
{
    static script s;
    static float data[LARGEST];
    bool done = false;
    yk_backend_work *work;
    open_script(&s);
    fill(data, YK_F32, RANK, LARGEST);
    yk_backend_call call = reduce_call(data, LARGEST, YK_F32, YK_REDUCE_SUM);
    atomic_store(&s.stuck, true);
    assert_ok(yki_engine_post(&s.common.base, &call, &work));
    for (int i = 0; i < 3; i++) {
        assert_ok(yki_engine_test(&s.common.base, work, 0.01, &done));
        assert_false(done);
    }
    yki_engine_drop(&s.common, work, 0.05);
    assert_true(s.common.abandoned);
    close_script(&s);
    atomic_store(&s.stuck, false);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Calls of the background, which the thread exchanges, before and after those of a caller. */
YK_TEST(calls_of_thread_and_caller_follow_each_other)
{
    enum { ROUNDS = 30, POSTED = 3 };
    static const size_t counts[] = {1, LARGEST, 37, SMALL / 4, SMALL / 4 + 1};
    static float data[POSTED][LARGEST];
    script s;
    uint64_t made = 0;
    open_script(&s);
    for (int round = 0; round < ROUNDS; round++) {
        yk_backend_call posted[POSTED];
        yk_backend_work *works[POSTED];
        int many = round % (POSTED + 1); /* so that callers meet both sets of messages */
        for (int i = 0; i < many; i++) {
            size_t count = counts[(size_t)(round + i) % LENGTH(counts)];
            fill(data[i], YK_F32, RANK, count);
            posted[i] = reduce_call(data[i], count, YK_F32, YK_REDUCE_SUM);
            posted[i].background = true;
            assert_ok(yki_engine_post(&s.common.base, &posted[i], &works[i]));
        }
        for (int i = 0; i < many; i++) {
            assert_ok(finish(&s, works[i]));
            check_reduced(data[i], posted[i].what.count, YK_F32, YK_REDUCE_SUM);
        }
        for (int i = 0; i <= round % 2; i++)
            check_all_reduce(&s, counts[(size_t)(round + 2 + i) % LENGTH(counts)], YK_F32,
                             YK_REDUCE_MAX);
        made += (uint64_t)many + 1 + (uint64_t)round % 2;
    }
    assert_int_equal(s.common.exchanges, made);
    assert_int_equal((uint64_t)(s.by_caller + s.by_thread), made);
    close_script(&s);
}
