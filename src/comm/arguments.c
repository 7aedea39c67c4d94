#include "comm/arguments.h"

#include <stdint.h>

#include "base/error.h"

yk_status yki_check_group(const yk_group *group, const char *name, yk_work **work)
{
    if (work)
        *work = NULL;
    if (!group)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: group is NULL", name);
    return YK_OK;
}

yk_status yki_check_buffer(const yk_group *group, const char *name, const void *data, size_t count,
                           yk_dtype dtype)
{
    if ((unsigned)dtype >= YK_DTYPE_COUNT)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: unknown dtype %d", name, (int)dtype);
    if (!data && count > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %zu elements, but the buffer is NULL",
                         name, count);
    if (count > (size_t)PTRDIFF_MAX / yk_dtype_size(dtype) / (size_t)yk_group_size(group))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %zu elements of %s are too many", name,
                         count, yk_dtype_name(dtype));
    return YK_OK;
}

yk_status yki_check_apart(const char *name, const void *a, size_t a_bytes, const void *b,
                          size_t b_bytes)
{
    uintptr_t from_a = (uintptr_t)a, from_b = (uintptr_t)b;
    if (a_bytes > 0 && b_bytes > 0 && from_a < from_b + b_bytes && from_b < from_a + a_bytes)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: in and out overlap", name);
    return YK_OK;
}

yk_status yki_check_reduction(const char *name, yk_dtype dtype, yk_reduce_op op)
{
    if ((unsigned)op > YK_REDUCE_PRODUCT)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: unknown reduction %d", name, (int)op);
    if (dtype == YK_U8)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: reductions do not support %s", name,
                         yk_dtype_name(dtype));
    return YK_OK;
}

yk_status yki_check_root(const yk_group *group, const char *name, int root)
{
    if (root < 0 || root >= yk_group_size(group))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: root is %d, expected a rank from 0 to %d",
                         name, root, yk_group_size(group) - 1);
    return YK_OK;
}

yk_status yki_check_peer(const yk_group *group, const char *name, int peer)
{
    if (peer < 0 || peer >= yk_group_size(group) || peer == yk_group_rank(group))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: rank %d is not a peer of rank %d of %d",
                         name, peer, yk_group_rank(group), yk_group_size(group));
    return YK_OK;
}
