/*
 * Losses. cross_entropy of logits and class labels, or of logits and the probabilities that a
 * sample should have, with label smoothing as in PyTorch: the target is (1 - s) * labels + s / C,
 * in which a class label counts as one-hot. The softmax is kept for backward: dlogits = softmax *
 * sum(target)
 * - target, where the sum is 1 unless the given probabilities add up to something else.
 */
#include "graph/operators.h"

#include "base/options.h"

static yk_status expect_reduction(const yki_node *node)
{
    yk_loss_reduction reduction = node->attrs.reduction;
    if (reduction != YK_LOSS_MEAN && reduction != YK_LOSS_SUM)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no reduction %d", (int)reduction);
    return YK_OK;
}

/* int32 class labels (N), or probabilities like the logits. */
static yk_status expect_labels(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    const yk_value *labels = node->in[YKI_CROSS_ENTROPY_LABELS];
    char here[96], there[96];
    if (labels->ndim != 2) {
        YK_TRY(yki_expect_vector(node, YKI_CROSS_ENTROPY_LABELS, logits->dims[0]));
        return labels->dtype == YK_I32
                   ? YK_OK
                   : yki_error(YK_ERROR_INVALID_ARGUMENT, "labels are %s, expected int32",
                               yk_dtype_name(labels->dtype));
    }
    if (labels->dims[0] == logits->dims[0] && labels->dims[1] == logits->dims[1] &&
        labels->dtype == logits->dtype)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "labels that are probabilities have the logits' shape and dtype, %s %s, not "
                     "%s %s",
                     yki_shape_text(logits, here, sizeof here), yk_dtype_name(logits->dtype),
                     yki_shape_text(labels, there, sizeof there), yk_dtype_name(labels->dtype));
}

yk_status yki_infer_cross_entropy(const yki_node *node, yki_shape *out)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    double smoothing = node->attrs.label_smoothing;
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_dims(node, YKI_CROSS_ENTROPY_LOGITS, 2));
    YK_TRY(expect_labels(node));
    if (!(smoothing >= 0 && smoothing <= 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "label_smoothing is %g, expected 0 to 1",
                         smoothing);
    YK_TRY(expect_reduction(node));
    yk_dtype dtype = yki_accumulate_dtype(logits->dtype);
    out[YKI_CROSS_ENTROPY_LOSS] = (yki_shape){.dtype = dtype, .ndim = 0};
    out[YKI_CROSS_ENTROPY_PROBABILITIES] = yki_shape_of(logits);
    out[YKI_CROSS_ENTROPY_PROBABILITIES].dtype = dtype;
    return YK_OK;
}

yk_status yki_gradient_cross_entropy(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                     const bool *needs, yk_value **din)
{
    yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    yk_value *in[] = {node->out[YKI_CROSS_ENTROPY_PROBABILITIES],
                      node->in[YKI_CROSS_ENTROPY_LABELS], dout[YKI_CROSS_ENTROPY_LOSS]};
    if (needs[YKI_CROSS_ENTROPY_LOGITS])
        din[YKI_CROSS_ENTROPY_LOGITS] =
            yki_append_like(graph, &yki_op_cross_entropy_backward, &node->attrs, in, logits);
    return YK_OK;
}

yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options)
{
    yk_cross_entropy_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT) !=
        YK_OK)
        return yki_emit_error(logits, &yki_op_cross_entropy);
    yki_attrs attrs = {.label_smoothing = o.label_smoothing, .reduction = o.reduction};
    return yki_emit(&yki_op_cross_entropy, &attrs, (yk_value *[]){logits, labels});
}

/* ---- mse_loss: (x - target)^2, over all elements; symmetric, so is its gradient -------------- */

yk_status yki_infer_mse_loss(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_MSE_LOSS_X], *target = node->in[YKI_MSE_LOSS_TARGET];
    bool same = x->ndim == target->ndim && x->dtype == target->dtype;
    char here[96], there[96];
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(expect_reduction(node));
    for (int i = 0; same && i < x->ndim; i++)
        same = x->dims[i] == target->dims[i];
    if (!same)
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s %s and the target's %s %s differ",
                         yki_shape_text(x, here, sizeof here), yk_dtype_name(x->dtype),
                         yki_shape_text(target, there, sizeof there), yk_dtype_name(target->dtype));
    out[YKI_MSE_LOSS_LOSS] = (yki_shape){.dtype = yki_accumulate_dtype(x->dtype), .ndim = 0};
    return YK_OK;
}

yk_status yki_gradient_mse_loss(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_MSE_LOSS_INPUTS; i++) {
        yk_value *in[] = {node->in[i], node->in[1 - i], dout[YKI_MSE_LOSS_LOSS]};
        if (needs[i])
            din[i] =
                yki_append_like(graph, &yki_op_mse_loss_backward, &node->attrs, in, node->in[i]);
    }
    return YK_OK;
}

yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction)
{
    yki_attrs attrs = {.reduction = reduction};
    return yki_emit(&yki_op_mse_loss, &attrs, (yk_value *[]){x, target});
}
