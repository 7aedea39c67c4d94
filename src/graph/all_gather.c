/*
 * all_gather_batch: the joint batch of all ranks, as torch.distributed.nn.functional.all_gather. It
 * has no batch dimension any more, so what is computed of it can be an operand that all samples
 * share: the weight of linear.
 */
#include "graph/operators.h"

yk_status yki_infer_all_gather_batch(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_ALL_GATHER_BATCH_X];
    int64_t ranks = node->attrs.ranks, samples = node->attrs.samples;
    char text[96];
    if (ranks < 1 || !yki_in_range(samples, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%lld ranks of %lld samples: expected 1 or more of both", (long long)ranks,
                         (long long)samples);
    if (x->ndim != 2 && x->ndim != 3)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected (N, C) or (N, T, C)",
                         yki_shape_text(x, text, sizeof text));
    if (x->dims[0] != YK_BATCH && x->dims[0] != samples)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected %lld samples",
                         yki_shape_text(x, text, sizeof text), (long long)samples);
    YK_TRY(yki_infer_same(node, out));
    out[YKI_ALL_GATHER_BATCH_Y].dims[0] = ranks * samples;
    return YK_OK;
}

/* Every rank's loss depends on this rank's samples, and has a gradient for them. */
yk_status yki_gradient_all_gather_batch(yk_graph *graph, const yki_node *node,
                                        yk_value *const *dout, const bool *needs, yk_value **din)
{
    const yk_value *x = node->in[YKI_ALL_GATHER_BATCH_X];
    if (needs[YKI_ALL_GATHER_BATCH_X])
        din[YKI_ALL_GATHER_BATCH_X] =
            yki_append_like(graph, &yki_op_reduce_scatter_batch, &node->attrs, dout, x);
    return YK_OK;
}

yk_value *yk_all_gather_batch(yk_value *x, int ranks, int64_t samples)
{
    yki_attrs attrs = {.ranks = ranks, .samples = samples};
    return yki_emit_one(x, &yki_op_all_gather_batch, &attrs);
}
