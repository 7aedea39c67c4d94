/*
 * An operand whose dimension `dim` is reduced, as three dimensions in the order of its memory, of
 * which that is the one in the middle.
 */
#ifndef YKI_MIDDLE_H
#define YKI_MIDDLE_H

#include "device/device.h"

typedef struct yki_middle {
    int64_t outer, size, inner;
} yki_middle;

/* block: of YKI_BLOCKED, where the channels' middle are their blocks, and lanes are inner. */
static inline yki_middle yki_middle_of(const yki_operand *x, int64_t dim, int64_t block)
{
    static const int last[] = {0, 3, 1, 2}; /* where the dimensions of YKI_CHANNELS_LAST are */
    const int64_t place = x->layout == YKI_CHANNELS_LAST ? last[dim] : dim;
    yki_middle m = {1, x->dims[dim], 1};
    for (int d = 0; d < x->ndim; d++) {
        const int64_t at = x->layout == YKI_CHANNELS_LAST ? last[d] : d;
        const bool in_blocks = x->layout == YKI_BLOCKED && d == 1;
        const int64_t size = in_blocks ? (x->dims[d] + block - 1) / block : x->dims[d];
        if (at == place)
            m.size = size;
        else
            *(at < place ? &m.outer : &m.inner) *= size;
    }
    m.inner *= x->layout == YKI_BLOCKED ? block : 1;
    return m;
}

#endif
