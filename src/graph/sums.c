/*
 * Sums over the elements of a value: over one dimension, and over all of them, which makes a loss
 * of any value. The gradient of both is broadcast. And the largest and the smallest of them over a
 * dimension.
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
    YK_TRY(yki_expect_dim(node->in[YKI_SUM_X], "input", node->attrs.dim));
    YK_TRY(yki_infer_same(node, out));
    out[YKI_SUM_Y].dims[node->attrs.dim] = 1;
    return YK_OK;
}

yk_status yki_gradient_sum(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    return gradient_expanded(graph, node, dout, needs, din, YK_LOSS_SUM);
}

bool yki_reduces_first(const yk_value *x, int64_t dim)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, dims);
    return ndim > 0 && yki_from_front(dim, ndim) == 0 && dims[0] != YK_BATCH;
}

/* The dimensions of x, of which the first has become the last. */
static yk_value *first_to_last(yk_value *x)
{
    int64_t order[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, NULL);
    for (int d = 0; d < ndim; d++)
        order[d] = (d + 1) % ndim;
    return yk_permute(x, ndim, order);
}

yk_value *yki_reduce_first(yk_value *x, yk_loss_reduction reduction)
{
    if (yk_value_shape(x, NULL) == 1)
        return yk_reduce_loss(x, reduction);
    x = first_to_last(x);
    return reduction == YK_LOSS_SUM ? yk_sum(x, -1) : yk_mean(x, -1);
}

/* An operator that leaves a dimension with size 1, without that dimension. */
static yk_value *reduce(yk_value *x, int64_t dim, const yki_op *op)
{
    int64_t dims[YK_MAX_DIMS], at = x ? yki_from_front(dim, x->ndim) : dim;
    yk_value *y = yki_emit_one(x, op, &(yki_attrs){.dim = at});
    int ndim = yk_value_shape(y, dims), kept = 0;
    for (int d = 0; d < ndim; d++)
        if (d != at)
            dims[kept++] = dims[d];
    return ndim < 0 ? y : yk_reshape(y, kept, dims);
}

yk_value *yk_sum(yk_value *x, int64_t dim)
{
    if (yki_reduces_first(x, dim))
        return yki_reduce_first(x, YK_LOSS_SUM);
    return reduce(x, dim, &yki_op_sum);
}

/* ---- amax, amin ------------------------------------------------------------------------------ */

/* Operands and outputs of both have the same numbers. */
_Static_assert((int)YKI_AMAX_X == (int)YKI_AMIN_X && (int)YKI_AMAX_Y == (int)YKI_AMIN_Y,
               "the operands of amin");

yk_status yki_infer_amax(const yki_node *node, yki_shape *out)
{
    return yki_infer_sum(node, out);
}

yk_status yki_infer_amin(const yki_node *node, yki_shape *out)
{
    return yki_infer_sum(node, out);
}

yk_status yki_gradient_amax(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                            const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_AMAX_X], *in[] = {dout[YKI_AMAX_Y], x, node->out[YKI_AMAX_Y]};
    if (needs[YKI_AMAX_X])
        din[YKI_AMAX_X] = yki_append_like(graph, &yki_op_amax_backward,
                                          &(yki_attrs){.dim = node->attrs.dim}, in, x);
    return YK_OK;
}

yk_status yki_gradient_amin(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                            const bool *needs, yk_value **din)
{
    return yki_gradient_amax(graph, node, dout, needs, din);
}

static yk_value *extreme(yk_value *x, int64_t dim, const yki_op *op)
{
    if (!yki_reduces_first(x, dim))
        return reduce(x, dim, op);
    if (yk_value_shape(x, NULL) > 1)
        return reduce(first_to_last(x), -1, op);
    return yk_reduce_loss(yki_emit_one(x, op, NULL), YK_LOSS_SUM); /* of one number */
}

yk_value *yk_amax(yk_value *x, int64_t dim)
{
    return extreme(x, dim, &yki_op_amax);
}

yk_value *yk_amin(yk_value *x, int64_t dim)
{
    return extreme(x, dim, &yki_op_amin);
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
