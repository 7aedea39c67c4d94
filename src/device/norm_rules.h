/* What batch norm cannot train with, on every device. */
#ifndef YKI_NORM_RULES_H
#define YKI_NORM_RULES_H

#include "base/error.h"
#include "base/text.h"

/* A channel of all ranks has `count` values, fewer than two. */
static inline yk_status yki_too_few_values(int64_t count)
{
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "batch_norm: a channel of %lld %s has no variance to train with; use a larger "
                     "batch",
                     (long long)count, yki_plural(count, "value", "values"));
}

#endif
