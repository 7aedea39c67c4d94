/* linear: y = x weight^T + bias; and flatten, which usually stands before it. */
#include "graph/ops.h"

static yk_status infer_linear(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[0], *weight = node->in[1];
    YK_TRY(yki_expect_float(node, 3));
    YK_TRY(yki_expect_dims(node, 0, "input", 2));
    YK_TRY(yki_expect_weight(node, 2));
    YK_TRY(yki_expect_vector(node, 2, "bias", weight->dims[0]));
    char xt[96], wt[96];
    if (x->dims[1] != weight->dims[1])
        return yki_error(YK_ERROR_INVALID_SHAPE, "input %s does not fit weight %s",
                         yki_shape_text(x, xt, sizeof xt), yki_shape_text(weight, wt, sizeof wt));
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[0], weight->dims[0]}};
    return YK_OK;
}

static yk_status gradient_linear(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                 const bool *needs, yk_value **din)
{
    bool bias = node->in[2] && needs[2];
    if (needs[1] || bias) {
        yki_shape shapes[2] = {yki_shape_of(node->in[1]),
                               bias ? yki_shape_of(node->in[2]) : yki_shape_none()};
        yki_node *made = yki_append(graph, &yki_op_linear_backward_weight, &node->attrs, 2,
                                    (yk_value *[]){node->in[0], dout[0]}, 2, shapes);
        if (!made)
            return YK_ERROR_OUT_OF_MEMORY;
        din[1] = made->out[0];
        din[2] = made->out[1];
    }
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_linear_backward_data, &node->attrs, 2,
                                 (yk_value *[]){dout[0], node->in[1]}, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_linear = {.name = "linear",
                              .required = 2,
                              .autocast = YKI_AUTOCAST_LOW,
                              .activations = 1,
                              .out_count = 1,
                              .infer = infer_linear,
                              .gradient = gradient_linear};
const yki_op yki_op_linear_backward_data = {.name = "linear_backward_data", .out_count = 1};
const yki_op yki_op_linear_backward_weight = {.name = "linear_backward_weight", .out_count = 2};

yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias)
{
    return yki_emit(&yki_op_linear, &(yki_attrs){0}, 3, (yk_value *[]){x, weight, bias});
}

static yk_status infer_flatten(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[0];
    if (x->ndim < 2)
        return yki_expect_dims(node, 0, "input", 2);
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[0], 1}};
    for (int i = 1; i < x->ndim; i++)
        out[0].dims[1] *= x->dims[i];
    return YK_OK;
}

static yk_status gradient_flatten(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_unflatten, NULL, 1, dout, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_flatten = {.name = "flatten",
                               .required = 1,
                               .activations = 1,
                               .out_count = 1,
                               .infer = infer_flatten,
                               .gradient = gradient_flatten};
const yki_op yki_op_unflatten = {.name = "unflatten", .out_count = 1};

yk_value *yk_flatten(yk_value *x)
{
    return yki_emit_one(x, &yki_op_flatten, NULL);
}
