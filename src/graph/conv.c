/* conv2d, torch.nn.functional.conv2d: cross-correlation, NCHW. */
#include "graph/operators.h"

#include "base/options.h"

yk_status yki_infer_conv2d(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[YKI_CONV2D_X], *weight = node->in[YKI_CONV2D_WEIGHT];
    YK_TRY(yki_expect_float(node, YKI_CONV2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_CONV2D_X, 4));
    YK_TRY(yki_expect_weight(node, YKI_CONV2D_WEIGHT, 4));
    YK_TRY(yki_expect_vector(node, YKI_CONV2D_BIAS, weight->dims[0]));
    if (!yki_in_range(a->stride, 1) || !yki_in_range(a->padding, 0) ||
        !yki_in_range(a->dilation, 1) || !yki_in_range(a->groups, 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "stride %lld, padding %lld, dilation %lld, groups %lld: expected 1 or "
                         "more, and a padding of 0 or more",
                         (long long)a->stride, (long long)a->padding, (long long)a->dilation,
                         (long long)a->groups);
    char xt[96], wt[96];
    yki_shape_text(x, xt, sizeof xt);
    yki_shape_text(weight, wt, sizeof wt);
    if (x->dims[1] % a->groups || x->dims[1] / a->groups != weight->dims[1] ||
        weight->dims[0] % a->groups)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "input %s does not fit weight %s with %lld group%s", xt, wt,
                         (long long)a->groups, a->groups == 1 ? "" : "s");
    out[YKI_CONV2D_SUMS] = yki_shape_none();
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 4, .dims = {x->dims[0], weight->dims[0]}};
    for (int i = 2; i < 4; i++) {
        int64_t last = x->dims[i] + 2 * a->padding - 1; /* place for a tap */
        if (weight->dims[i] - 1 > last / a->dilation)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "weight %s is larger than input %s with padding %lld", wt, xt,
                             (long long)a->padding);
        out[0].dims[i] = (last - a->dilation * (weight->dims[i] - 1)) / a->stride + 1;
    }
    return YK_OK;
}

/* dweight and dbias first: a parameter's gradient may travel while dx is computed. */
yk_status yki_gradient_conv2d(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_CONV2D_X], *weight = node->in[YKI_CONV2D_WEIGHT];
    yk_value *dy = dout[YKI_CONV2D_Y];
    if (needs[YKI_CONV2D_WEIGHT] || needs[YKI_CONV2D_BIAS])
        YK_TRY(yki_append_weight_gradient(graph, &yki_op_conv2d_backward_weight, node, dy, needs,
                                          din));
    if (needs[YKI_CONV2D_X])
        din[YKI_CONV2D_X] = yki_append_like(graph, &yki_op_conv2d_backward_data, &node->attrs,
                                            (yk_value *[]){dy, weight}, x);
    return YK_OK;
}

yk_value *yk_conv2d(yk_value *x, yk_value *weight, yk_value *bias, const yk_conv2d_options *options)
{
    yk_conv2d_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_conv2d_options, YK_CONV2D_OPTIONS_INIT) != YK_OK)
        return yki_emit_error(x, &yki_op_conv2d);
    yki_attrs attrs = {
        .stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
    return yki_emit(&yki_op_conv2d, &attrs, (yk_value *[]){x, weight, bias});
}
