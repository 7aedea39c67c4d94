/* conv2d, torch.nn.functional.conv2d: cross-correlation, NCHW. */
#include "base/options.h"
#include "graph/ops.h"

static yk_status infer_conv2d(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[0], *weight = node->in[1];
    YK_TRY(yki_expect_float(node, 3));
    YK_TRY(yki_expect_dims(node, 0, "input", 4));
    YK_TRY(yki_expect_weight(node, 4));
    YK_TRY(yki_expect_vector(node, 2, "bias", weight->dims[0]));
    if (!yki_in_range(a->stride, 1) || !yki_in_range(a->padding, 0) ||
        !yki_in_range(a->dilation, 1) || !yki_in_range(a->groups, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "stride %lld, padding %lld, dilation %lld, groups %lld",
                         (long long)a->stride, (long long)a->padding, (long long)a->dilation,
                         (long long)a->groups);
    char xt[96], wt[96];
    yki_shape_text(x, xt, sizeof xt);
    yki_shape_text(weight, wt, sizeof wt);
    if (x->dims[1] != weight->dims[1] * a->groups || weight->dims[0] % a->groups)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "input %s does not fit weight %s with %lld group%s", xt, wt,
                         (long long)a->groups, a->groups == 1 ? "" : "s");
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 4, .dims = {x->dims[0], weight->dims[0]}};
    for (int i = 2; i < 4; i++) {
        int64_t reach = a->dilation * (weight->dims[i] - 1) + 1;
        int64_t room = x->dims[i] + 2 * a->padding - reach;
        if (room < 0)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "weight %s is larger than input %s with padding %lld", wt, xt,
                             (long long)a->padding);
        out[0].dims[i] = room / a->stride + 1;
    }
    return YK_OK;
}

/* dweight [, dbias] first: a parameter's gradient may travel while dx is computed. */
static yk_status weight_gradient(yk_graph *graph, const yki_node *node, const yki_op *op,
                                 yk_value *dy, const bool *needs, yk_value **din)
{
    bool bias = node->in[2] && needs[2];
    if (!needs[1] && !bias)
        return YK_OK;
    yki_shape shapes[2] = {yki_shape_of(node->in[1]),
                           bias ? yki_shape_of(node->in[2]) : yki_shape_none()};
    yki_node *made =
        yki_append(graph, op, &node->attrs, 2, (yk_value *[]){node->in[0], dy}, 2, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    din[1] = made->out[0];
    din[2] = made->out[1];
    return YK_OK;
}

static yk_status gradient_conv2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                 const bool *needs, yk_value **din)
{
    YK_TRY(weight_gradient(graph, node, &yki_op_conv2d_backward_weight, dout[0], needs, din));
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_conv2d_backward_data, &node->attrs, 2,
                                 (yk_value *[]){dout[0], node->in[1]}, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_conv2d = {.name = "conv2d",
                              .required = 2,
                              .autocast = YKI_AUTOCAST_LOW,
                              .activations = 1,
                              .out_count = 1,
                              .infer = infer_conv2d,
                              .gradient = gradient_conv2d};
const yki_op yki_op_conv2d_backward_data = {.name = "conv2d_backward_data", .out_count = 1};
const yki_op yki_op_conv2d_backward_weight = {.name = "conv2d_backward_weight", .out_count = 2};

yk_value *yk_conv2d(yk_value *x, yk_value *weight, yk_value *bias, const yk_conv2d_options *options)
{
    yk_conv2d_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_conv2d_options, YK_CONV2D_OPTIONS_INIT) != YK_OK)
        return yki_emit_error(x, &yki_op_conv2d);
    yki_attrs attrs = {
        .stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
    return yki_emit(&yki_op_conv2d, &attrs, 3, (yk_value *[]){x, weight, bias});
}
