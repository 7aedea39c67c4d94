/* What take_along_dim takes: the geometry that its kernels share. */
#ifndef YKI_TAKE_H
#define YKI_TAKE_H

#include "device/device.h"

/* y (rows, taken, inner) of x (rows, places, inner) by index (rows, taken), or (taken) if shared.
 */
typedef struct yki_take {
    int64_t rows, places, taken, inner;
    int64_t samples; /* of the batch, into which rows are divided */
    bool shared;
} yki_take;

static inline yki_take yki_take_of(const yki_attrs *attrs, const yki_operand *x,
                                   const yki_operand *index)
{
    yki_take t = {.rows = 1,
                  .places = x->dims[attrs->dim],
                  .inner = 1,
                  .samples = x->dims[0],
                  .shared = attrs->shared};
    for (int d = 0; d < x->ndim; d++) {
        t.rows *= d < attrs->dim ? x->dims[d] : 1;
        t.inner *= d > attrs->dim ? x->dims[d] : 1;
    }
    const bool has_taken = attrs->shared || index->ndim > attrs->dim;
    t.taken = has_taken ? index->dims[index->ndim - 1] : 1;
    return t;
}

#endif
