/* softmax, log_softmax, layer_norm and rms_norm: operators over rows, which are the last dimension
 * or dimensions of x. */
#include "graph/operators.h"

#include <math.h>

#include "base/text.h"

/* The last `count` dimensions exist, and the batch is none of them. */
static yk_status expect_rows(const yki_node *node, int count)
{
    char text[96];
    const yk_value *x = node->in[0];
    bool has_batch = x->ndim == count && count > 0 && x->dims[0] == YK_BATCH;
    if (x->ndim >= count && !has_batch)
        return YK_OK;
    return yki_error(
        YK_ERROR_INVALID_SHAPE, "input has shape %s, expected at least %d %s besides the batch",
        yki_shape_text(x, text, sizeof text), count, yki_plural(count, "dimension", "dimensions"));
}

/* ---- softmax, log_softmax -------------------------------------------------------------------- */

/* Operands and outputs of both, and of their gradients, have the same numbers. */
_Static_assert((int)YKI_SOFTMAX_X == (int)YKI_LOG_SOFTMAX_X &&
                   (int)YKI_SOFTMAX_Y == (int)YKI_LOG_SOFTMAX_Y &&
                   (int)YKI_SOFTMAX_BACKWARD_DY == (int)YKI_LOG_SOFTMAX_BACKWARD_DY &&
                   (int)YKI_SOFTMAX_BACKWARD_Y == (int)YKI_LOG_SOFTMAX_BACKWARD_Y &&
                   (int)YKI_SOFTMAX_BACKWARD_DX == (int)YKI_LOG_SOFTMAX_BACKWARD_DX,
               "the operands of log_softmax");

yk_status yki_infer_softmax(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_rows(node, 1));
    return yki_infer_same(node, out);
}

yk_status yki_infer_log_softmax(const yki_node *node, yki_shape *out)
{
    return yki_infer_softmax(node, out);
}

/* Both are computed from y. */
static yk_status append_softmax_backward(yk_graph *graph, const yki_op *backward,
                                         const yki_node *node, yk_value *const *dout,
                                         const bool *needs, yk_value **din)
{
    yk_value *in[] = {dout[YKI_SOFTMAX_Y], node->out[YKI_SOFTMAX_Y]};
    if (needs[YKI_SOFTMAX_X])
        din[YKI_SOFTMAX_X] = yki_append_like(graph, backward, NULL, in, node->in[YKI_SOFTMAX_X]);
    return YK_OK;
}

yk_status yki_gradient_softmax(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    return append_softmax_backward(graph, &yki_op_softmax_backward, node, dout, needs, din);
}

yk_status yki_gradient_log_softmax(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din)
{
    return append_softmax_backward(graph, &yki_op_log_softmax_backward, node, dout, needs, din);
}

yk_value *yk_softmax(yk_value *x)
{
    return yki_emit_one(x, &yki_op_softmax, NULL);
}

yk_value *yk_log_softmax(yk_value *x)
{
    return yki_emit_one(x, &yki_op_log_softmax, NULL);
}

/* ---- layer_norm (Ba, Kiros and Hinton 2016), rms_norm (Zhang and Sennrich 2019) -------------- */

/* x and weight of both have the same numbers. */
_Static_assert((int)YKI_LAYER_NORM_X == (int)YKI_RMS_NORM_X &&
                   (int)YKI_LAYER_NORM_WEIGHT == (int)YKI_RMS_NORM_WEIGHT,
               "the operands of rms_norm");

/* The operand has the sizes of the last dimensions of x. */
static yk_status expect_row(const yki_node *node, int operand)
{
    char xt[96], rt[96];
    const yk_value *x = node->in[YKI_LAYER_NORM_X], *row = node->in[operand];
    bool fits = row->ndim > 0;
    for (int d = 0; fits && d < row->ndim; d++)
        fits = row->dims[d] == x->dims[x->ndim - row->ndim + d];
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "%s has shape %s, expected that of the last dimensions of the input %s",
                     node->op->in[operand].name, yki_shape_text(row, rt, sizeof rt),
                     yki_shape_text(x, xt, sizeof xt));
}

static yk_status expect_eps(const yki_node *node)
{
    if (node->attrs.eps > 0 && isfinite(node->attrs.eps))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "eps is %g, expected a finite number above 0",
                     node->attrs.eps);
}

yk_status yki_infer_layer_norm(const yki_node *node, yki_shape *out)
{
    const yk_value *weight = node->in[YKI_LAYER_NORM_WEIGHT];
    const yk_value *bias = node->in[YKI_LAYER_NORM_BIAS];
    YK_TRY(expect_rows(node, weight->ndim > bias->ndim ? weight->ndim : bias->ndim));
    YK_TRY(expect_row(node, YKI_LAYER_NORM_WEIGHT));
    YK_TRY(expect_row(node, YKI_LAYER_NORM_BIAS));
    if (weight->ndim != bias->ndim)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "weight has %d dimensions and bias %d, expected the same number",
                         weight->ndim, bias->ndim);
    YK_TRY(expect_eps(node));
    return yki_infer_same(node, out);
}

yk_status yki_infer_rms_norm(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_rows(node, node->in[YKI_RMS_NORM_WEIGHT]->ndim));
    YK_TRY(expect_row(node, YKI_RMS_NORM_WEIGHT));
    YK_TRY(expect_eps(node));
    return yki_infer_same(node, out);
}

/* Appends the operator of backward, which takes the moments of each row again from x: they are
 * quickly computed. Its outputs are the gradients of the inputs, in the same order. */
static yk_status append_backward(yk_graph *graph, const yki_op *backward, const yki_node *node,
                                 yk_value *dy, const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_LAYER_NORM_X], *weight = node->in[YKI_LAYER_NORM_WEIGHT];
    yk_value *in[] = {x, dy, weight};
    yki_shape shapes[] = {yki_shape_of(x), yki_shape_of(weight), yki_shape_of(weight)};
    const yki_node *made = yki_append(graph, backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < node->in_count; i++)
        din[i] = needs[i] ? made->out[i] : NULL;
    return YK_OK;
}

yk_status yki_gradient_layer_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    return append_backward(graph, &yki_op_layer_norm_backward, node, dout[YKI_LAYER_NORM_Y], needs,
                           din);
}

yk_status yki_gradient_rms_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    return append_backward(graph, &yki_op_rms_norm_backward, node, dout[YKI_RMS_NORM_Y], needs,
                           din);
}

yk_value *yk_layer_norm(yk_value *x, yk_value *weight, yk_value *bias, double eps)
{
    return yki_emit(&yki_op_layer_norm, &(yki_attrs){.eps = eps}, (yk_value *[]){x, weight, bias});
}

yk_value *yk_rms_norm(yk_value *x, yk_value *weight, double eps)
{
    return yki_emit(&yki_op_rms_norm, &(yki_attrs){.eps = eps}, (yk_value *[]){x, weight});
}
