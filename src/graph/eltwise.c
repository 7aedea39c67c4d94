/*
 * Operators that work element by element without a curve: add, multiply, scale, cast,
 * dropout.
 */
#include "graph/operators.h"

/* ---- add: the gradient passes to both sides as it is ----------------------------------------- */

static yk_status infer_two(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[0], *b = node->in[1];
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; same && i < a->ndim; i++)
        same = a->dims[i] == b->dims[i];
    char at[96], bt[96];
    if (!same)
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s %s and %s %s differ",
                         yki_shape_text(a, at, sizeof at), yk_dtype_name(a->dtype),
                         yki_shape_text(b, bt, sizeof bt), yk_dtype_name(b->dtype));
    return yki_infer_same(node, out);
}

yk_status yki_infer_add(const yki_node *node, yki_shape *out)
{
    return infer_two(node, out);
}

yk_status yki_gradient_add(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    (void)graph, (void)node;
    for (int i = 0; i < YKI_ADD_INPUTS; i++)
        din[i] = needs[i] ? dout[YKI_ADD_Y] : NULL;
    return YK_OK;
}

yk_value *yk_add(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_add, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- multiply: the gradient of each side is dy times the other ------------------------------- */

yk_status yki_infer_multiply(const yki_node *node, yki_shape *out)
{
    return infer_two(node, out);
}

yk_status yki_gradient_multiply(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_MULTIPLY_INPUTS; i++) {
        yk_value *in[] = {dout[YKI_MULTIPLY_Y], node->in[1 - i]};
        if (needs[i])
            din[i] = yki_append_like(graph, &yki_op_multiply, NULL, in, node->in[i]);
    }
    return YK_OK;
}

yk_value *yk_multiply(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_multiply, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- scale, cast ----------------------------------------------------------------------------- */

yk_status yki_infer_scale(const yki_node *node, yki_shape *out)
{
    return yki_infer_same(node, out);
}

yk_status yki_gradient_scale(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                             const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_SCALE_X];
    if (needs[YKI_SCALE_X])
        din[YKI_SCALE_X] = yki_append_like(graph, &yki_op_scale, &node->attrs, dout, x);
    return YK_OK;
}

yk_status yki_gradient_cast(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                            const bool *needs, yk_value **din)
{
    if (needs[YKI_CAST_X])
        din[YKI_CAST_X] = yki_append_like(graph, &yki_op_cast, NULL, dout, node->in[YKI_CAST_X]);
    return YK_OK;
}

yk_value *yk_scale(yk_value *x, double alpha)
{
    return yki_emit_one(x, &yki_op_scale, &(yki_attrs){.alpha = alpha});
}

/* ---- dropout: the mask is a function of (seed, step, salt, element), so none is kept --------- */

yk_status yki_infer_dropout(const yki_node *node, yki_shape *out)
{
    if (!(node->attrs.p >= 0 && node->attrs.p < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", node->attrs.p);
    return yki_infer_same(node, out);
}

yk_status yki_gradient_dropout(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_DROPOUT_X];
    if (needs[YKI_DROPOUT_X])
        din[YKI_DROPOUT_X] =
            yki_append_like(graph, &yki_op_dropout_backward, &node->attrs, dout, x);
    return YK_OK;
}

yk_value *yk_dropout(yk_value *x, double p)
{
    uint64_t salt = x && x->valid ? (uint64_t)x->graph->node_count : 0;
    return yki_emit_one(x, &yki_op_dropout, &(yki_attrs){.p = p, .salt = salt});
}
