/*
 * Where the elements of attention's attn_mask lie, which is broadcast to scores (N, heads, T, S):
 * to kernels of all devices, whatever its layout.
 */
#ifndef YKI_ATTENTION_MASK_H
#define YKI_ATTENTION_MASK_H

#include <stdint.h>

#include "base/host_device.h"

/* Its sizes, of which each may be 1; all are 0 where there is no mask. Heads lie in blocks, as
 * channels do: 1 of them in a plain layout, all where channels are last. */
typedef struct yki_attention_mask {
    int64_t samples, heads, queries, keys, block;
} yki_attention_mask;

/* The element of a query and the first key. */
YKI_HOST_DEVICE int64_t yki_attention_mask_at(const yki_attention_mask *mask, int64_t sample,
                                              int64_t head, int64_t query)
{
    const int64_t n = mask->samples > 1 ? sample : 0, c = mask->heads > 1 ? head : 0;
    const int64_t row = mask->queries > 1 ? query : 0, b = mask->block;
    const int64_t blocks = (mask->heads + b - 1) / b;
    return ((n * blocks + c / b) * mask->queries + row) * mask->keys * b + c % b;
}

/* How far it is from one key to the next. */
YKI_HOST_DEVICE int64_t yki_attention_mask_step(const yki_attention_mask *mask)
{
    return mask->keys > 1 ? mask->block : 0;
}

#endif
