/*
 * Broadcasting as in NumPy: the shapes of operands are matched from their last dimensions, and a
 * dimension of size 1, or a missing one, is repeated.
 */
#ifndef YKI_BROADCAST_H
#define YKI_BROADCAST_H

#include "device/device.h"

/* The sizes of an operand as YK_MAX_DIMS dimensions, with 1 for those that it does not have. */
static inline void yki_broadcast_dims(int ndim, const int64_t *dims, int64_t full[YK_MAX_DIMS])
{
    int missing = YK_MAX_DIMS - ndim;
    for (int d = 0; d < YK_MAX_DIMS; d++)
        full[d] = d < missing ? 1 : dims[d - missing];
}

/* Whether two operands have the same elements, so that neither is broadcast to the other. */
static inline bool yki_broadcast_none(const yki_operand *a, const yki_operand *b)
{
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = a->dims[d] == b->dims[d];
    return same;
}

#endif
