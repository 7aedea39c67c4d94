/*
 * The public collectives. Each checks its arguments and becomes a yki_call, which run.c runs.
 *
 * A call with invalid arguments still takes part in the exchange, marked as invalid, so that the
 * other ranks learn of it at once instead of waiting for a call that never comes.
 */
#include <assert.h>

#include "comm/arguments.h"
#include "comm/group_internal.h"

static yki_call make_collective(yk_operation operation, yk_dtype dtype, yk_reduce_op op, int root,
                                size_t count)
{
    return (yki_call){.base.what = {.operation = (uint8_t)operation,
                                    .dtype = (uint8_t)dtype,
                                    .reduce = (uint8_t)op,
                                    .root = root,
                                    .count = count}};
}

/* ---- collectives ----------------------------------------------------------------------------- */

static yk_status check_operands(const yk_group *group, const char *name, const void *data,
                                size_t count, yk_dtype dtype, yk_reduce_op op)
{
    YK_TRY(yki_check_buffer(group, name, data, count, dtype));
    return yki_check_reduction(name, dtype, op);
}

yk_status yk_all_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                        yk_work **work)
{
    YK_TRY(yki_check_group(group, "all_reduce", work));
    yki_call call = make_collective(YK_OPERATION_ALL_REDUCE, dtype, op, 0, count);
    call.base.in = call.base.out = data;
    yk_status checked = check_operands(group, "all_reduce", data, count, dtype, op);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yki_group_sum_between(yk_group *group, void *data, size_t count, yk_dtype dtype,
                                void (*before)(void *context), void (*after)(void *context),
                                void *context, yk_work **work)
{
    assert(work); /* the group's thread alone runs before and after */
    yki_call call = make_collective(YK_OPERATION_ALL_REDUCE, dtype, YK_REDUCE_SUM, 0, count);
    call.base.in = call.base.out = data;
    call.before = before;
    call.after = after;
    call.task_context = context;
    yk_status checked = check_operands(group, "all_reduce", data, count, dtype, YK_REDUCE_SUM);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_reduce(yk_group *group, void *data, size_t count, yk_dtype dtype, yk_reduce_op op,
                    int root, yk_work **work)
{
    YK_TRY(yki_check_group(group, "reduce", work));
    yki_call call = make_collective(YK_OPERATION_REDUCE, dtype, op, root, count);
    call.base.in = call.base.out = data;
    yk_status checked = check_operands(group, "reduce", data, count, dtype, op);
    if (checked == YK_OK)
        checked = yki_check_root(group, "reduce", root);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_broadcast(yk_group *group, void *data, size_t count, yk_dtype dtype, int root,
                       yk_work **work)
{
    YK_TRY(yki_check_group(group, "broadcast", work));
    yki_call call = make_collective(YK_OPERATION_BROADCAST, dtype, 0, root, count);
    call.base.in = call.base.out = data;
    yk_status checked = yki_check_buffer(group, "broadcast", data, count, dtype);
    if (checked == YK_OK)
        checked = yki_check_root(group, "broadcast", root);
    return yki_group_submit(group, &call, checked, work);
}

/* Where this rank uses only one of the buffers, that one is passed for both. */
static yk_status check_both(const yk_group *group, const char *name, const void *in,
                            const void *out, size_t count, yk_dtype dtype)
{
    YK_TRY(yki_check_buffer(group, name, in, count, dtype));
    return yki_check_buffer(group, name, out, count, dtype);
}

yk_status yk_all_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                        yk_work **work)
{
    YK_TRY(yki_check_group(group, "all_gather", work));
    yki_call call = make_collective(YK_OPERATION_ALL_GATHER, dtype, 0, 0, count);
    call.base.in = in;
    call.base.out = out;
    yk_status checked = check_both(group, "all_gather", in, out, count, dtype);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_reduce_scatter(yk_group *group, void *out, const void *in, size_t count,
                            yk_dtype dtype, yk_reduce_op op, yk_work **work)
{
    YK_TRY(yki_check_group(group, "reduce_scatter", work));
    yki_call call = make_collective(YK_OPERATION_REDUCE_SCATTER, dtype, op, 0, count);
    call.base.in = in;
    call.base.out = out;
    yk_status checked = check_both(group, "reduce_scatter", in, out, count, dtype);
    if (checked == YK_OK)
        checked = yki_check_reduction("reduce_scatter", dtype, op);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_gather(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                    int root, yk_work **work)
{
    YK_TRY(yki_check_group(group, "gather", work));
    bool on_root = root == yk_group_rank(group);
    yki_call call = make_collective(YK_OPERATION_GATHER, dtype, 0, root, count);
    call.base.in = in;
    call.base.out = on_root ? out : NULL;
    yk_status checked = check_both(group, "gather", in, on_root ? out : in, count, dtype);
    if (checked == YK_OK)
        checked = yki_check_root(group, "gather", root);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_scatter(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                     int root, yk_work **work)
{
    YK_TRY(yki_check_group(group, "scatter", work));
    bool on_root = root == yk_group_rank(group);
    yki_call call = make_collective(YK_OPERATION_SCATTER, dtype, 0, root, count);
    call.base.in = on_root ? in : NULL;
    call.base.out = out;
    yk_status checked = check_both(group, "scatter", on_root ? in : out, out, count, dtype);
    if (checked == YK_OK)
        checked = yki_check_root(group, "scatter", root);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_all_to_all(yk_group *group, void *out, const void *in, size_t count, yk_dtype dtype,
                        yk_work **work)
{
    YK_TRY(yki_check_group(group, "all_to_all", work));
    yki_call call = make_collective(YK_OPERATION_ALL_TO_ALL, dtype, 0, 0, count);
    call.base.in = in;
    call.base.out = out;
    yk_status checked = check_both(group, "all_to_all", in, out, count, dtype);
    size_t bytes =
        checked == YK_OK ? count * yk_dtype_size(dtype) * (size_t)yk_group_size(group) : 0;
    if (checked == YK_OK)
        checked = yki_check_apart("all_to_all", in, bytes, out, bytes);
    return yki_group_submit(group, &call, checked, work);
}

yk_status yk_barrier(yk_group *group)
{
    YK_TRY(yki_check_group(group, "barrier", NULL));
    yki_call call = make_collective(YK_OPERATION_BARRIER, 0, 0, 0, 0);
    return yki_group_submit(group, &call, YK_OK, NULL);
}

yk_status yk_group_alloc(yk_group *group, size_t bytes, void **memory)
{
    if (memory)
        *memory = NULL;
    YK_TRY(yki_check_group(group, "alloc", NULL));
    if (!memory)
        return yki_group_refuse(group, YKI_CHECK_NOT_NULL(memory));
    yki_call call = make_collective(YK_OPERATION_ALLOC, 0, 0, 0, bytes);
    call.memory = memory;
    return yki_group_submit(group, &call, YK_OK, NULL);
}
