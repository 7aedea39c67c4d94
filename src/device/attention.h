/*
 * The sizes of scaled_dot_product_attention and its gradient, and where heads lie in memory. Rows
 * of q, k, v and y are plain; the columns of a head are next to each other. Where q has all three,
 * k and v are parts of its rows.
 */
#ifndef YKI_ATTENTION_H
#define YKI_ATTENTION_H

#include "device/attention_mask.h"
#include "device/broadcast.h"
#include "device/device.h"
#include "graph/dropout.h"

/* One of q, k, v, y and their gradients. */
typedef struct yki_attention_part {
    int operand;          /* whose memory it is in: YKI_ATTENTION_Q, K or V, and so of gradients */
    int64_t rows, width;  /* of a sample; of a head */
    int64_t first, pitch; /* elements before the first row, and from one row to the next */
    int64_t group;        /* heads of queries that share a head */
} yki_attention_part;

typedef struct yki_attention {
    int64_t batch, heads;
    int64_t kv_heads, group; /* of keys and values, and heads of queries that share one of them */
    yki_attention_part q, k, v, y;
    yki_attention_mask mask;
    bool causal;
    double scale;
    double dropout; /* the probability that a share is dropped: 0 in evaluation */
    uint64_t salt;
} yki_attention;

/* In a layout that is not blocked. */
static inline yki_attention_mask yki_attention_mask_of(const yki_operand *mask)
{
    int64_t sizes[YK_MAX_DIMS];
    if (mask->ndim < 0)
        return (yki_attention_mask){0};
    yki_broadcast_dims(mask->ndim, mask->dims, sizes);
    const int64_t *last = sizes + YK_MAX_DIMS - 4; /* all others are 1 */
    return (yki_attention_mask){.samples = last[0],
                                .heads = last[1],
                                .queries = last[2],
                                .keys = last[3],
                                .block = mask->layout == YKI_CHANNELS_LAST ? last[1] : 1};
}

/* Of the operator or its gradient. */
static inline yki_attention yki_attention_of(const yki_kernel_desc *desc)
{
    const yki_operand *q = &desc->in[YKI_ATTENTION_Q], *k = &desc->in[YKI_ATTENTION_K];
    const yki_operand *v = &desc->in[YKI_ATTENTION_V];
    const int64_t heads = desc->attrs->heads, kv_heads = desc->attrs->kv_heads;
    const int64_t group = heads / kv_heads, rows = q->dims[1], pitch = q->dims[2];
    yki_attention a = {.batch = q->dims[0],
                       .heads = heads,
                       .kv_heads = kv_heads,
                       .group = group,
                       .mask = yki_attention_mask_of(&desc->in[YKI_ATTENTION_MASK]),
                       .causal = desc->attrs->causal,
                       .scale = desc->attrs->alpha,
                       .dropout = desc->training ? desc->attrs->p : 0,
                       .salt = desc->attrs->salt};
    if (k->ndim >= 0) {
        const int64_t keys = k->dims[1], of_k = k->dims[2], of_v = v->dims[2];
        a.q = (yki_attention_part){YKI_ATTENTION_Q, rows, pitch / heads, 0, pitch, 1};
        a.k = (yki_attention_part){YKI_ATTENTION_K, keys, of_k / kv_heads, 0, of_k, group};
        a.v = (yki_attention_part){YKI_ATTENTION_V, keys, of_v / kv_heads, 0, of_v, group};
    } else {
        const int64_t width = pitch / (heads + 2 * kv_heads);
        const int64_t keys = heads * width, values = keys + kv_heads * width; /* where they begin */
        a.q = (yki_attention_part){YKI_ATTENTION_Q, rows, width, 0, pitch, 1};
        a.k = (yki_attention_part){YKI_ATTENTION_Q, rows, width, keys, pitch, group};
        a.v = (yki_attention_part){YKI_ATTENTION_Q, rows, width, values, pitch, group};
    }
    a.y = (yki_attention_part){YKI_ATTENTION_Y, rows, a.v.width, 0, a.v.width * heads, 1};
    return a;
}

/* The first element in a row of a sample of what a head of queries reads or writes. */
static inline int64_t yki_attention_at(const yki_attention_part *part, int64_t sample, int64_t row,
                                       int64_t head)
{
    return part->first + (sample * part->rows + row) * part->pitch +
           head / part->group * part->width;
}

/* How many keys, from the first on, a query sees: with the causal mask, up to its position. */
static inline int64_t yki_attention_keys(const yki_attention *a, int64_t query)
{
    return a->causal && query < a->k.rows ? query + 1 : a->k.rows;
}

/* ---- dropout of the shares that queries have of keys ----------------------------------------- */

/* The draw of a pass. */
static inline yki_dropout_draw yki_attention_draw(const yki_attention *a,
                                                  const yki_scalars *scalars)
{
    return yki_dropout_draw_of(scalars->seed, scalars->step, a->salt, a->dropout);
}

/* The place in the mask, (N, heads, T, S), of a query and the first key. */
static inline uint64_t yki_attention_share(const yki_attention *a, int64_t sample, int64_t head,
                                           int64_t query)
{
    return (uint64_t)(((sample * a->heads + head) * a->q.rows + query) * a->k.rows);
}

#endif
