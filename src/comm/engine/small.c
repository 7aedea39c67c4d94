/* See small.h. */
#include "comm/engine/small.h"

#include <string.h>

#include "comm/engine/reduce.h"

bool yki_engine_is_small(const yki_engine_base *engine, const yk_descriptor *what)
{
    if (what->invalid || what->count == 0)
        return false;
    switch (what->operation) {
    case YK_OPERATION_ALL_REDUCE:
    case YK_OPERATION_REDUCE:
    case YK_OPERATION_BROADCAST:
    case YK_OPERATION_ALL_GATHER:
    case YK_OPERATION_ALL_TO_ALL_V:
        return what->count <= engine->small / yk_dtype_size((yk_dtype)what->dtype);
    default: /* the others send different data to different ranks, or none */
        return false;
    }
}

size_t yki_engine_contribution(const yki_engine_base *engine, const yk_descriptor *what)
{
    if (!yki_engine_is_small(engine, what) ||
        (what->operation == YK_OPERATION_BROADCAST && what->root != engine->rank))
        return 0;
    return what->count * yk_dtype_size((yk_dtype)what->dtype);
}

static char *carried(const yki_engine_base *engine, int rank)
{
    return (char *)yki_engine_message(engine, rank) + sizeof(yk_descriptor);
}

static void reduce(const yki_engine_base *engine, yk_backend_call *call)
{
    for (int r = 0; r < engine->ranks; r++)
        engine->contributions[r] = carried(engine, r);
    yki_reduce_ranks(&call->out, 1, engine->contributions, engine->ranks, call->what.count,
                     (yk_dtype)call->what.dtype, (yk_reduce_op)call->what.reduce);
}

void yki_engine_finish_small(const yki_engine_base *engine, yk_backend_call *call)
{
    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    switch (call->what.operation) {
    case YK_OPERATION_ALL_REDUCE:
    case YK_OPERATION_REDUCE:
        if (yki_engine_gets_result(engine, &call->what))
            reduce(engine, call);
        break;
    case YK_OPERATION_BROADCAST:
        if (engine->rank != call->what.root)
            memcpy(call->out, carried(engine, call->what.root), bytes);
        break;
    default: /* all_gather, or the sizes of all_to_all_v */
        for (int r = 0; r < engine->ranks; r++)
            memcpy((char *)call->out + (size_t)r * bytes, carried(engine, r), bytes);
    }
}
