/* conv2d and conv_transpose2d, as in torch.nn.functional: cross-correlation, NCHW. */
#include <yoke/functional.h>

#include "graph/operators.h"

#include "base/options.h"
#include "base/text.h"

static yk_status check_window(const yki_attrs *a)
{
    char stride[YKI_PAIR_TEXT], padding[YKI_PAIR_TEXT], dilation[YKI_PAIR_TEXT];
    bool fits = yki_in_range(a->groups, 1);
    for (int d = 0; d < 2; d++)
        fits = fits && yki_in_range(a->stride[d], 1) && yki_in_range(a->padding[d], 0) &&
               yki_in_range(a->dilation[d], 1);
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "stride %s, padding %s, dilation %s, groups %lld: expected 1 or more, and a "
                     "padding of 0 or more",
                     yki_pair_text(a->stride, stride), yki_pair_text(a->padding, padding),
                     yki_pair_text(a->dilation, dilation), (long long)a->groups);
}

/* Layers say how wide their kernels are; -1 means that they are square. */
static yk_status check_width(int64_t column_kernel, const yk_value *weight)
{
    int64_t dims[YK_MAX_DIMS];
    if (column_kernel == -1 || yk_value_shape(weight, dims) != 4 || dims[3] == column_kernel)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "column_kernel is %lld, but the weight has kernels of %lldx%lld",
                     (long long)column_kernel, (long long)dims[2], (long long)dims[3]);
}

yk_status yki_infer_conv2d(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[YKI_CONV2D_X], *weight = node->in[YKI_CONV2D_WEIGHT];
    YK_TRY(yki_expect_float(node, YKI_CONV2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_CONV2D_X, 4));
    YK_TRY(yki_expect_weight(node, YKI_CONV2D_WEIGHT, 4));
    YK_TRY(yki_expect_vector(node, YKI_CONV2D_BIAS, weight->dims[0]));
    YK_TRY(check_window(a));
    char xt[96], wt[96];
    yki_shape_text(x, xt, sizeof xt);
    yki_shape_text(weight, wt, sizeof wt);
    if (x->dims[1] % a->groups || x->dims[1] / a->groups != weight->dims[1] ||
        weight->dims[0] % a->groups)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input %s does not fit weight %s with %lld %s", xt,
                         wt, (long long)a->groups, yki_plural(a->groups, "group", "groups"));
    out[YKI_CONV2D_SUMS] = yki_shape_none();
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 4, .dims = {x->dims[0], weight->dims[0]}};
    for (int d = 0; d < 2; d++) {
        int64_t last = x->dims[2 + d] + 2 * a->padding[d] - 1; /* place for a tap */
        int64_t taps = weight->dims[2 + d];
        char padding[YKI_PAIR_TEXT];
        if (taps - 1 > last / a->dilation[d])
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "weight %s is larger than input %s with padding %s", wt, xt,
                             yki_pair_text(a->padding, padding));
        out[0].dims[2 + d] = (last - a->dilation[d] * (taps - 1)) / a->stride[d] + 1;
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
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_conv2d_options, YK_CONV2D_OPTIONS_INIT);
    if (status == YK_OK)
        status = check_width(o.column_kernel, weight);
    if (status != YK_OK)
        return yki_emit_error(x, "conv2d", status);
    yki_attrs attrs = {.stride = {o.stride, yki_columns(o.column_stride, o.stride)},
                       .padding = {o.padding, yki_columns(o.column_padding, o.padding)},
                       .dilation = {o.dilation, yki_columns(o.column_dilation, o.dilation)},
                       .groups = o.groups};
    return yki_emit(&yki_op_conv2d, &attrs, (yk_value *[]){x, weight, bias});
}

/* ---- conv1d: of images of one row ------------------------------------------------------------ */

/* x (N, C, L) and a weight of three dimensions as images of one row and a weight of theirs. Values
 * that hold errors are left as they are. */
static yk_status as_rows(yk_value **x, yk_value **weight, const char *weight_shape)
{
    int64_t taps[YK_MAX_DIMS];
    const int x_ndim = yk_value_shape(*x, NULL), ndim = yk_value_shape(*weight, taps);
    if (x_ndim >= 0 && x_ndim != 3)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has %d dimensions, expected (N, C, L)",
                         x_ndim);
    if (x_ndim >= 0 && ndim >= 0 && (ndim != 3 || taps[0] == YK_BATCH))
        return yki_error(YK_ERROR_INVALID_SHAPE, "weight has %d dimensions, expected %s", ndim,
                         weight_shape);
    if (x_ndim == 3)
        *x = yki_as_row(*x);
    if (ndim == 3)
        *weight = yk_reshape(*weight, 4, (int64_t[]){taps[0], taps[1], 1, taps[2]});
    return YK_OK;
}

yk_value *yk_conv1d(yk_value *x, yk_value *weight, yk_value *bias, const yk_conv1d_options *options)
{
    yk_conv1d_options o;
    yk_value *in[] = {x, weight, bias};
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_conv1d_options, YK_CONV1D_OPTIONS_INIT);
    if (status == YK_OK)
        status = as_rows(&in[YKI_CONV2D_X], &in[YKI_CONV2D_WEIGHT], "(K, C / groups, S)");
    if (status != YK_OK)
        return yki_emit_error(x, "conv1d", status);
    const yki_attrs attrs = {.stride = {1, o.stride},
                             .padding = {0, o.padding},
                             .dilation = {1, o.dilation},
                             .groups = o.groups};
    return yki_of_row(yki_emit(&yki_op_conv2d, &attrs, in), in[YKI_CONV2D_X]);
}

/* ---- conv_transpose2d: the gradient of a conv2d with respect to its input, as an operator ---- */

static yk_status check_output_padding(const yki_attrs *a)
{
    char padding[YKI_PAIR_TEXT], stride[YKI_PAIR_TEXT];
    bool fits = true;
    for (int d = 0; d < 2; d++)
        fits = fits && a->output_padding[d] >= 0 && a->output_padding[d] < a->stride[d];
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "output_padding %s with stride %s: expected 0 or more, and less than the "
                     "stride",
                     yki_pair_text(a->output_padding, padding), yki_pair_text(a->stride, stride));
}

yk_status yki_infer_conv_transpose2d(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[YKI_CONV_TRANSPOSE2D_X];
    const yk_value *weight = node->in[YKI_CONV_TRANSPOSE2D_WEIGHT];
    YK_TRY(yki_expect_float(node, YKI_CONV_TRANSPOSE2D_INPUTS));
    YK_TRY(yki_expect_dims(node, YKI_CONV_TRANSPOSE2D_X, 4));
    YK_TRY(yki_expect_weight(node, YKI_CONV_TRANSPOSE2D_WEIGHT, 4));
    YK_TRY(check_window(a));
    YK_TRY(check_output_padding(a));
    char xt[96], wt[96];
    yki_shape_text(x, xt, sizeof xt);
    yki_shape_text(weight, wt, sizeof wt);
    if (x->dims[1] != weight->dims[0] || weight->dims[0] % a->groups)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input %s does not fit weight %s with %lld %s", xt,
                         wt, (long long)a->groups, yki_plural(a->groups, "group", "groups"));
    int64_t filters = weight->dims[1] * a->groups; /* at most the elements of the weight */
    YK_TRY(yki_expect_vector(node, YKI_CONV_TRANSPOSE2D_BIAS, filters));
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 4, .dims = {x->dims[0], filters}};
    for (int d = 0; d < 2; d++) {
        const int64_t most = (int64_t)1 << 40, in = x->dims[2 + d], taps = weight->dims[2 + d];
        if (in > most / a->stride[d] || taps > most / a->dilation[d])
            return yki_error(YK_ERROR_INVALID_SHAPE, "the result is too large");
        int64_t size = (in - 1) * a->stride[d] - 2 * a->padding[d] + a->dilation[d] * (taps - 1) +
                       a->output_padding[d] + 1;
        char padding[YKI_PAIR_TEXT];
        if (size < 1)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "a padding of %s leaves nothing of the result of input %s and "
                             "weight %s",
                             yki_pair_text(a->padding, padding), xt, wt);
        out[0].dims[2 + d] = size;
    }
    return YK_OK;
}

/*
 * The convolution that this is the gradient of has y as its input and x as its result. dweight and
 * dbias come first, as in conv2d.
 */
yk_status yki_gradient_conv_transpose2d(yk_graph *graph, const yki_node *node,
                                        yk_value *const *dout, const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_CONV_TRANSPOSE2D_X];
    yk_value *weight = node->in[YKI_CONV_TRANSPOSE2D_WEIGHT];
    yk_value *bias = node->in[YKI_CONV_TRANSPOSE2D_BIAS];
    yk_value *dy = dout[YKI_CONV_TRANSPOSE2D_Y];
    if (needs[YKI_CONV_TRANSPOSE2D_WEIGHT]) {
        yk_value *in[] = {dy, x};
        yki_shape shapes[] = {yki_shape_of(weight), yki_shape_none()};
        yki_node *made =
            yki_append(graph, &yki_op_conv2d_backward_weight, &node->attrs, in, shapes);
        din[YKI_CONV_TRANSPOSE2D_WEIGHT] = made ? made->out[0] : NULL;
    }
    if (needs[YKI_CONV_TRANSPOSE2D_BIAS])
        din[YKI_CONV_TRANSPOSE2D_BIAS] =
            yki_append_like(graph, &yki_op_conv_transpose2d_backward_bias, &node->attrs, &dy, bias);
    if (needs[YKI_CONV_TRANSPOSE2D_X]) {
        yk_value *in[YKI_CONV2D_INPUTS] = {dy, weight, NULL};
        yki_shape shapes[] = {yki_shape_of(x), yki_shape_none()};
        yki_node *made = yki_append(graph, &yki_op_conv2d, &node->attrs, in, shapes);
        din[YKI_CONV_TRANSPOSE2D_X] = made ? made->out[YKI_CONV2D_Y] : NULL;
    }
    return YK_OK;
}

yk_value *yk_conv_transpose2d(yk_value *x, yk_value *weight, yk_value *bias,
                              const yk_conv_transpose2d_options *options)
{
    yk_conv_transpose2d_options o;
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_conv_transpose2d_options,
                                        YK_CONV_TRANSPOSE2D_OPTIONS_INIT);
    if (status == YK_OK)
        status = check_width(o.column_kernel, weight);
    if (status != YK_OK)
        return yki_emit_error(x, "conv_transpose2d", status);
    yki_attrs attrs = {.stride = {o.stride, yki_columns(o.column_stride, o.stride)},
                       .padding = {o.padding, yki_columns(o.column_padding, o.padding)},
                       .output_padding = {o.output_padding,
                                          yki_columns(o.column_output_padding, o.output_padding)},
                       .dilation = {o.dilation, yki_columns(o.column_dilation, o.dilation)},
                       .groups = o.groups};
    return yki_emit(&yki_op_conv_transpose2d, &attrs, (yk_value *[]){x, weight, bias});
}

yk_value *yk_conv_transpose1d(yk_value *x, yk_value *weight, yk_value *bias,
                              const yk_conv_transpose1d_options *options)
{
    yk_conv_transpose1d_options o;
    yk_value *in[] = {x, weight, bias};
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_conv_transpose1d_options,
                                        YK_CONV_TRANSPOSE1D_OPTIONS_INIT);
    if (status == YK_OK)
        status = as_rows(&in[YKI_CONV_TRANSPOSE2D_X], &in[YKI_CONV_TRANSPOSE2D_WEIGHT],
                         "(C, F / groups, S)");
    if (status != YK_OK)
        return yki_emit_error(x, "conv_transpose1d", status);
    const yki_attrs attrs = {.stride = {1, o.stride},
                             .padding = {0, o.padding},
                             .output_padding = {0, o.output_padding},
                             .dilation = {1, o.dilation},
                             .groups = o.groups};
    return yki_of_row(yki_emit(&yki_op_conv_transpose2d, &attrs, in), in[YKI_CONV_TRANSPOSE2D_X]);
}
