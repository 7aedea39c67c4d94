/*
 * Sums over the elements of a value: over one dimension, and over all of them, which makes a loss
 * of any value. The gradient of both is broadcast.
 */
#include "graph/operators.h"

static yk_status gradient_expanded(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din, yk_loss_reduction reduction)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_expand, &(yki_attrs){.reduction = reduction}, dout,
                                 node->in[0]);
    return YK_OK;
}

/* ---- sum ------------------------------------------------------------------------------------- */

yk_status yki_infer_sum(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_SUM_X];
    int64_t dim = yki_from_front(node->attrs.dim, x->ndim);
    YK_TRY(yki_infer_same(node, out));
    if (dim < 1 || dim >= x->ndim)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "dimension %lld of %d, expected one that is not the batch",
                         (long long)node->attrs.dim, x->ndim);
    out[YKI_SUM_Y].dims[dim] = 1;
    return YK_OK;
}

yk_status yki_gradient_sum(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    return gradient_expanded(graph, node, dout, needs, din, YK_LOSS_SUM);
}

yk_value *yk_sum(yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS];
    yk_value *y = yki_emit_one(x, &yki_op_sum, &(yki_attrs){.dim = dim});
    int ndim = yk_value_shape(y, dims), kept = 0;
    for (int d = 0; d < ndim; d++)
        if (d != yki_from_front(dim, ndim))
            dims[kept++] = dims[d];
    return ndim < 0 ? y : yk_reshape(y, kept, dims);
}

/* ---- reduce_loss ----------------------------------------------------------------------------- */

yk_status yki_infer_reduce_loss(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, YKI_REDUCE_LOSS_INPUTS));
    YK_TRY(yki_expect_reduction(node));
    out[YKI_REDUCE_LOSS_LOSS] =
        (yki_shape){.dtype = yki_accumulate_dtype(node->in[YKI_REDUCE_LOSS_X]->dtype)};
    return YK_OK;
}

yk_status yki_gradient_reduce_loss(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din)
{
    return gradient_expanded(graph, node, dout, needs, din, node->attrs.reduction);
}

yk_value *yk_reduce_loss(yk_value *x, yk_loss_reduction reduction)
{
    return yki_emit_one(x, &yki_op_reduce_loss, &(yki_attrs){.reduction = reduction});
}
