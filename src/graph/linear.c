/* linear: y = x weight^T + bias, row by row. */
#include "graph/operators.h"

static yk_status refuse_sizes(const yk_value *x, const yk_value *weight)
{
    char xt[96], wt[96];
    return yki_error(YK_ERROR_INVALID_SHAPE, "input %s does not fit weight %s%s",
                     yki_shape_text(x, xt, sizeof xt), yki_shape_text(weight, wt, sizeof wt),
                     x->ndim == 4 ? ": rows are along the last dimension; yk_flatten makes each "
                                    "sample one row"
                                  : "");
}

yk_status yki_infer_linear(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_LINEAR_X], *weight = node->in[YKI_LINEAR_WEIGHT];
    YK_TRY(yki_expect_float(node, YKI_LINEAR_INPUTS));
    if (x->ndim < 2)
        return yki_expect_dims(node, YKI_LINEAR_X, 2);
    YK_TRY(yki_expect_weight(node, YKI_LINEAR_WEIGHT, 2));
    YK_TRY(yki_expect_vector(node, YKI_LINEAR_BIAS, weight->dims[0]));
    if (x->dims[x->ndim - 1] != weight->dims[1])
        return refuse_sizes(x, weight);
    out[0] = yki_shape_of(x);
    out[0].dims[x->ndim - 1] = weight->dims[0];
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

/* As a node, of up to three dimensions: devices may keep values of four in the order of images. */
yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias)
{
    int64_t dims[YK_MAX_DIMS], sizes[YK_MAX_DIMS];
    const int ndim = yk_value_shape(x, dims), last = ndim - 1;
    bool fits = ndim > 3 && yk_value_shape(weight, sizes) == 2 && sizes[1] == dims[last];
    if (fits)
        x = yk_reshape(x, 3, (int64_t[]){dims[0], -1, dims[last]});
    yk_value *y = yki_emit(&yki_op_linear, &(yki_attrs){0}, (yk_value *[]){x, weight, bias});
    if (!fits)
        return y;
    dims[last] = -1;
    return yk_reshape(y, ndim, dims);
}
