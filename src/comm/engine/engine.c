/* See engine.h. */
#include "comm/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "comm/engine/operators.h"
#include "comm/engine/small.h"

/* ---- life ------------------------------------------------------------------------------------ */

yk_status yki_engine_init(yki_engine_base *engine, const yk_backend_site *site,
                          const yki_engine_calls *calls, size_t small)
{
    size_t ranks = (size_t)site->ranks, line = 64;
    engine->calls = calls;
    engine->site = site;
    engine->rank = site->rank;
    engine->ranks = site->ranks;
    engine->small = small;
    engine->stride = sizeof(yk_descriptor);
    if (small > 0)
        engine->stride = (sizeof(yk_descriptor) + small + line - 1) / line * line;
    engine->all = calloc(ranks, sizeof *engine->all);
    engine->contributions = calloc(ranks, sizeof *engine->contributions);
    for (int i = 0; i < 2; i++)
        engine->messages[i] = calloc(ranks, engine->stride);
    if (engine->all && engine->contributions && engine->messages[0] && engine->messages[1])
        return YK_OK;
    yki_engine_fini(engine);
    return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for the messages of %d ranks",
                        site->ranks);
}

void yki_engine_fini(yki_engine_base *engine)
{
    free(engine->all);
    free(engine->contributions);
    free(engine->messages[0]);
    free(engine->messages[1]);
    engine->all = NULL;
    engine->contributions = NULL;
    engine->messages[0] = engine->messages[1] = NULL;
}

static bool is_missing(const void *wait, int rank)
{
    return rank == *(const int *)wait;
}

yk_status yki_engine_get(const yk_backend_site *site, int rank, const char *key, void *value,
                         size_t size, const char *name)
{
    for (;;) {
        size_t used;
        yk_status status = site->get(site->context, key, value, size, &used, 0.02);
        if (status == YK_OK && used != size)
            return yk_set_error(YK_ERROR_NETWORK,
                                "rank %d has another version of %s: install the same one "
                                "everywhere",
                                site->members[rank].job_rank, name);
        if (status != YK_ERROR_TIMEOUT)
            return status;
        status = site->look(site->context, is_missing, &rank);
        if (status != YK_OK)
            return status;
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

void *yki_engine_message(const yki_engine_base *engine, int rank)
{
    return engine->messages[engine->exchanges & 1] + (size_t)rank * engine->stride;
}

bool yki_engine_gets_result(const yki_engine_base *engine, const yk_descriptor *what)
{
    return what->operation != YK_OPERATION_REDUCE || what->root == engine->rank;
}

/* This rank's message, of so many bytes. */
static size_t write_message(yki_engine_base *engine, const yk_backend_call *call)
{
    char *mine = yki_engine_message(engine, engine->rank);
    size_t carried = call->compare_only ? 0 : yki_engine_contribution(engine, &call->what);
    memcpy(mine, &call->what, sizeof call->what);
    if (carried > 0)
        memcpy(mine + sizeof call->what, call->in, carried);
    return sizeof call->what + carried;
}

/* The messages of all ranks are here. */
static yk_status compare(yki_engine_base *engine, yk_backend_call *call)
{
    for (int r = 0; r < engine->ranks; r++)
        memcpy(&engine->all[r], yki_engine_message(engine, r), sizeof *engine->all);
    return yk_backend_compare(call, engine->all, engine->ranks);
}

/* Afterwards the ranks are known to call the same, and what they contribute is here if it is
 * small. */
static yk_status exchange(yki_engine_base *engine, yk_backend_call *call)
{
    yk_status status = engine->calls->exchange(engine, call, write_message(engine, call));
    return status == YK_OK ? compare(engine, call) : status;
}

yk_status yki_engine_reduce(yki_engine_base *engine, yk_backend_call *call,
                            yki_engine_function *sum)
{
    yk_dtype dtype = (yk_dtype)call->what.dtype;
    yk_reduce_op op = (yk_reduce_op)call->what.reduce;
    if (yki_engine_divides_before(dtype, op))
        yki_engine_divide(call->out, call->what.count, dtype, engine->ranks);
    yk_status status = sum(engine, call);
    if (status == YK_OK && yki_engine_divides_after(dtype, op) &&
        yki_engine_gets_result(engine, &call->what))
        yki_engine_divide(call->out, call->what.count, dtype, engine->ranks);
    return status;
}

static yk_status run_large(yki_engine_base *engine, yk_backend_call *call)
{
    const yki_engine_calls *calls = engine->calls;
    switch (call->what.operation) {
    case YK_OPERATION_ALL_REDUCE:
        return calls->all_reduce(engine, call);
    case YK_OPERATION_REDUCE:
        return calls->reduce(engine, call);
    case YK_OPERATION_BROADCAST:
        return calls->broadcast(engine, call);
    case YK_OPERATION_ALL_GATHER:
    case YK_OPERATION_ALL_TO_ALL_V:
        return calls->all_gather(engine, call);
    case YK_OPERATION_REDUCE_SCATTER:
        return calls->reduce_scatter(engine, call);
    case YK_OPERATION_GATHER:
        return calls->gather(engine, call);
    case YK_OPERATION_SCATTER:
        return calls->scatter(engine, call);
    case YK_OPERATION_ALL_TO_ALL:
        return calls->all_to_all(engine, call);
    default: /* a barrier has ended with the exchange */
        return YK_OK;
    }
}

yk_status yki_engine_run(void *context, yk_backend_call *call)
{
    yki_engine_base *engine = context;
    if (call->message_count > 0)
        return engine->calls->messages(engine, call);
    yk_status status = engine->exchanged ? YK_OK : exchange(engine, call);
    bool moves = status == YK_OK && !call->compare_only && call->what.count > 0;
    engine->exchanged = false;
    if (moves && yki_engine_is_small(engine, &call->what))
        yki_engine_finish_small(engine, call);
    else if (moves)
        status = run_large(engine, call);
    engine->exchanges++;
    return status;
}

/* ---- works ----------------------------------------------------------------------------------- */

static yk_backend_work *direct_work(yki_engine_base *engine)
{
    return (yk_backend_work *)&engine->direct;
}

/* No other call is in flight with one that is not in the background. */
static bool can_drive(const yki_engine_base *engine, const yk_backend_call *call)
{
    return engine->calls->begin_exchange && !call->background && call->message_count == 0;
}

yk_status yki_engine_post(yk_backend *backend, yk_backend_call *call, yk_backend_work **work)
{
    yki_engine_base *engine = (yki_engine_base *)backend;
    if (!can_drive(engine, call))
        return yk_backend_thread_post(engine->thread, call, work);
    *work = NULL;
    yk_status status = engine->calls->begin_exchange(engine, write_message(engine, call));
    if (status != YK_OK)
        return status;
    engine->direct = call;
    engine->rest = NULL;
    *work = direct_work(engine);
    return YK_OK;
}

/* The thread moves what is large, after the exchange. */
static yk_status post_rest(yki_engine_base *engine, bool *done)
{
    engine->exchanged = true; /* which the thread may read as soon as it has the call */
    yk_status status = yk_backend_thread_post(engine->thread, engine->direct, &engine->rest);
    *done = status != YK_OK;
    if (status != YK_OK) {
        engine->exchanged = false;
        engine->exchanges++;
    }
    return status;
}

/* After the exchange: what is small is finished here, and the rest by the thread. */
static yk_status finish_direct(yki_engine_base *engine, bool *done)
{
    yk_backend_call *call = engine->direct;
    yk_status status = compare(engine, call);
    bool moves = status == YK_OK && !call->compare_only && call->what.count > 0;
    if (moves && !yki_engine_is_small(engine, &call->what))
        return post_rest(engine, done);
    if (moves)
        yki_engine_finish_small(engine, call);
    engine->exchanges++;
    return status;
}

static yk_status test_direct(yki_engine_base *engine, double wait_s, bool *done)
{
    if (!engine->rest) {
        yk_status status = engine->calls->test_exchange(engine, wait_s, done);
        if (status == YK_OK && *done)
            status = finish_direct(engine, done);
        if (status != YK_OK || !engine->rest)
            return status;
    }
    return yk_backend_thread_test(engine->thread, engine->rest, wait_s, done);
}

yk_status yki_engine_test(yk_backend *backend, yk_backend_work *work, double wait_s, bool *done)
{
    yki_engine_base *engine = (yki_engine_base *)backend;
    return work == direct_work(engine) ? test_direct(engine, wait_s, done)
                                       : yk_backend_thread_test(engine->thread, work, wait_s, done);
}

void yki_engine_drop(yki_engine_base *engine, yk_backend_work *work, double wait_s)
{
    if (work == direct_work(engine) && !(work = engine->rest))
        return;
    if (!yk_backend_thread_cancel(engine->thread, work, engine->abandoned ? 0 : wait_s))
        engine->abandoned = true;
}
