/* The sizes of matmul: so many products, whose matrices lie one after another. */
#ifndef YKI_DEVICE_MATMUL_H
#define YKI_DEVICE_MATMUL_H

#include "device/device.h"

typedef struct yki_matmul {
    int64_t count, rows, inner, columns; /* (rows, inner) times (inner, columns) */
    bool transpose_a, transpose_b;       /* in memory: (inner, rows), (columns, inner) */
} yki_matmul;

static inline yki_matmul yki_matmul_of(const yki_kernel_desc *desc)
{
    const yki_attrs *attrs = desc->attrs;
    const yki_operand *a = &desc->in[YKI_MATMUL_A], *y = &desc->out[YKI_MATMUL_Y];
    const int last = y->ndim - 1;
    return (yki_matmul){.count = (y->ndim == 3 ? y->dims[0] : 1) * attrs->heads,
                        .rows = y->dims[last - 1] / attrs->heads,
                        .inner =
                            attrs->transpose_a ? a->dims[last - 1] / attrs->heads : a->dims[last],
                        .columns = y->dims[last],
                        .transpose_a = attrs->transpose_a,
                        .transpose_b = attrs->transpose_b};
}

#endif
