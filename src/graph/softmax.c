/* softmax and layer_norm: operators over rows, which are the last dimension or dimensions of x. */
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

/* ---- softmax --------------------------------------------------------------------------------- */

yk_status yki_infer_softmax(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_rows(node, 1));
    return yki_infer_same(node, out);
}

yk_status yki_gradient_softmax(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *in[] = {dout[YKI_SOFTMAX_Y], node->out[YKI_SOFTMAX_Y]};
    if (needs[YKI_SOFTMAX_X])
        din[YKI_SOFTMAX_X] =
            yki_append_like(graph, &yki_op_softmax_backward, NULL, in, node->in[YKI_SOFTMAX_X]);
    return YK_OK;
}

yk_value *yk_softmax(yk_value *x)
{
    return yki_emit_one(x, &yki_op_softmax, NULL);
}

/* ---- layer_norm (Ba, Kiros and Hinton 2016) -------------------------------------------------- */

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
    if (!(node->attrs.eps > 0 && isfinite(node->attrs.eps)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "eps is %g, expected a finite number above 0",
                         node->attrs.eps);
    return yki_infer_same(node, out);
}

/* Backward takes mean and variance of each row again from x: they are quickly computed. */
yk_status yki_gradient_layer_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_LAYER_NORM_X], *weight = node->in[YKI_LAYER_NORM_WEIGHT];
    yk_value *in[] = {x, dout[YKI_LAYER_NORM_Y], weight};
    yki_shape shapes[] = {yki_shape_of(x), yki_shape_of(weight), yki_shape_of(weight)};
    const yki_node *made = yki_append(graph, &yki_op_layer_norm_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < YKI_LAYER_NORM_INPUTS; i++) /* dx, dweight, dbias, in the same order */
        din[i] = needs[i] ? made->out[i] : NULL;
    return YK_OK;
}

yk_value *yk_layer_norm(yk_value *x, yk_value *weight, yk_value *bias, double eps)
{
    return yki_emit(&yki_op_layer_norm, &(yki_attrs){.eps = eps}, (yk_value *[]){x, weight, bias});
}
