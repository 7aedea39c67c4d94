/* linear: y = x weight^T + bias; and flatten, which usually comes before it. */
#include "graph/operators.h"

yk_status yki_infer_linear(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_LINEAR_X], *weight = node->in[YKI_LINEAR_WEIGHT];
    YK_TRY(yki_expect_float(node, YKI_LINEAR_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_LINEAR_X, 2));
    YK_TRY(yki_expect_weight(node, YKI_LINEAR_WEIGHT, 2));
    YK_TRY(yki_expect_vector(node, YKI_LINEAR_BIAS, weight->dims[0]));
    char xt[96], wt[96];
    if (x->dims[1] != weight->dims[1])
        return yki_error(YK_ERROR_INVALID_SHAPE, "input %s does not fit weight %s",
                         yki_shape_text(x, xt, sizeof xt), yki_shape_text(weight, wt, sizeof wt));
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[0], weight->dims[0]}};
    return YK_OK;
}

yk_status yki_gradient_linear(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_LINEAR_X], *weight = node->in[YKI_LINEAR_WEIGHT];
    yk_value *dy = dout[YKI_LINEAR_Y];
    if (needs[YKI_LINEAR_WEIGHT] || needs[YKI_LINEAR_BIAS])
        YK_TRY(yki_append_weight_gradient(graph, &yki_op_linear_backward_weight, node, dy, needs,
                                          din));
    if (needs[YKI_LINEAR_X])
        din[YKI_LINEAR_X] = yki_append_like(graph, &yki_op_linear_backward_data, &node->attrs,
                                            (yk_value *[]){dy, weight}, x);
    return YK_OK;
}

yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias)
{
    return yki_emit(&yki_op_linear, &(yki_attrs){0}, (yk_value *[]){x, weight, bias});
}

yk_status yki_infer_flatten(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_FLATTEN_X];
    if (x->ndim < 2)
        return yki_expect_dims(node, YKI_FLATTEN_X, 2);
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[0], 1}};
    for (int i = 1; i < x->ndim; i++)
        out[0].dims[1] *= x->dims[i];
    return YK_OK;
}

yk_status yki_gradient_flatten(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_FLATTEN_X];
    if (needs[YKI_FLATTEN_X])
        din[YKI_FLATTEN_X] = yki_append_like(graph, &yki_op_unflatten, NULL, dout, x);
    return YK_OK;
}

yk_value *yk_flatten(yk_value *x)
{
    return yki_emit_one(x, &yki_op_flatten, NULL);
}
