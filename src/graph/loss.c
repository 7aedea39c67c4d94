/*
 * Losses. cross_entropy of logits and class labels, or of logits and the probabilities that a
 * sample should have, as in PyTorch: the target is ((1 - s) labels + s / C) weight with label
 * smoothing s, in which a class label counts as one-hot, and 0 where the label is ignore_index.
 * dlogits = softmax * sum(target) - target, where the sum is 1 unless there are weights or the
 * given probabilities add up to something else. Backward makes the softmax of the logits and of
 * what is kept of each sample, log(sum(exp(logits))), so that there never is another tensor of
 * their size. A mean is over what class labels count, which is their weight, or over all samples
 * where labels are probabilities.
 */
#include "graph/operators.h"

#include <math.h>

#include "base/options.h"
#include "tensor/element.h"

yk_status yki_expect_reduction(const yki_node *node)
{
    yk_loss_reduction reduction = node->attrs.reduction;
    if (reduction != YK_LOSS_MEAN && reduction != YK_LOSS_SUM)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no reduction %d", (int)reduction);
    return YK_OK;
}

/* The dimension of the logits that classes are. */
static int class_dim(const yki_node *node)
{
    return node->attrs.classes_last ? node->in[YKI_CROSS_ENTROPY_LOGITS]->ndim - 1 : 1;
}

int64_t yki_cross_entropy_classes(const yki_node *node)
{
    return node->in[YKI_CROSS_ENTROPY_LOGITS]->dims[class_dim(node)];
}

/* What to do about logits that are not made for labels (N). */
static const char *hint_for(const yk_value *logits, const yk_value *labels)
{
    if (labels->ndim == 1 && logits->ndim == 4)
        return ", one for each place of an image; for one for each sample, call yk_flatten before "
               "the last linear layer";
    if (labels->ndim == 1 && logits->ndim == 3 && logits->dims[1] == 1)
        return "; of logits (N, 1, C), as yk_slice gives them, yk_reshape makes (N, C)";
    return "";
}

/* Class labels: the logits' dimensions without the classes. */
static yk_status expect_classes(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    const yk_value *labels = node->in[YKI_CROSS_ENTROPY_LABELS];
    yk_value expected = {.ndim = logits->ndim - 1, .dims = {logits->dims[0]}};
    char here[96], there[96];
    for (int d = 1; d < expected.ndim; d++)
        expected.dims[d] = logits->dims[d < class_dim(node) ? d : d + 1];
    if (labels->ndim != expected.ndim || !yki_same_dims(labels, &expected))
        return yki_error(YK_ERROR_INVALID_SHAPE, "labels have shape %s, expected %s%s",
                         yki_shape_text(labels, here, sizeof here),
                         yki_shape_text(&expected, there, sizeof there), hint_for(logits, labels));
    if (!yki_is_index(labels->dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "labels are %s, expected int32 or int64",
                         yk_dtype_name(labels->dtype));
    return YK_OK;
}

/* Class labels, or probabilities like the logits. */
static yk_status expect_labels(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    const yk_value *labels = node->in[YKI_CROSS_ENTROPY_LABELS];
    char here[96], there[96];
    bool is_alike = labels->ndim == logits->ndim && yki_same_dims(labels, logits);
    if (labels->ndim != logits->ndim || (yki_is_index(labels->dtype) && !is_alike))
        return expect_classes(node);
    const yk_dtype expected = yki_accumulate_dtype(logits->dtype);
    if (is_alike && labels->dtype == expected)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "labels that are probabilities have the logits' shape and dtype, %s %s, not "
                     "%s %s",
                     yki_shape_text(logits, here, sizeof here), yk_dtype_name(expected),
                     yki_shape_text(labels, there, sizeof there), yk_dtype_name(labels->dtype));
}

/* One for each class. */
static yk_status expect_class_weight(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    const yk_value *weight = node->in[YKI_CROSS_ENTROPY_WEIGHT];
    YK_TRY(yki_expect_vector(node, YKI_CROSS_ENTROPY_WEIGHT, yki_cross_entropy_classes(node)));
    const yk_dtype expected = yki_accumulate_dtype(logits->dtype);
    if (weight && weight->dtype != expected)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "weight is %s, expected %s as the logits",
                         yk_dtype_name(weight->dtype), yk_dtype_name(expected));
    return YK_OK;
}

/* (N, P): a number for each of a sample's P pixels or tokens. */
static yki_shape shape_of_log_sums(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    yki_shape sums = {
        .dtype = yki_accumulate_dtype(logits->dtype), .ndim = 2, .dims = {logits->dims[0], 1}};
    for (int d = 1; d < logits->ndim; d++)
        sums.dims[1] *= d == class_dim(node) ? 1 : logits->dims[d];
    return sums;
}

yk_status yki_infer_cross_entropy(const yki_node *node, yki_shape *out)
{
    const yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    double smoothing = node->attrs.label_smoothing;
    bool mean = node->attrs.reduction == YK_LOSS_MEAN;
    char text[96];
    YK_TRY(yki_expect_float(node, 1));
    if (logits->ndim < 2)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "logits have shape %s, expected at least 2 dimensions",
                         yki_shape_text(logits, text, sizeof text));
    if (node->attrs.classes_last && logits->ndim > 3)
        return yki_error(
            YK_ERROR_INVALID_SHAPE,
            "logits have shape %s, expected at most 3 dimensions where class_dim is -1",
            yki_shape_text(logits, text, sizeof text));
    YK_TRY(expect_labels(node));
    YK_TRY(expect_class_weight(node));
    if (!(smoothing >= 0 && smoothing <= 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "label_smoothing is %g, expected 0 to 1",
                         smoothing);
    YK_TRY(yki_expect_reduction(node));
    yk_dtype dtype = yki_accumulate_dtype(logits->dtype);
    out[YKI_CROSS_ENTROPY_LOSS] = (yki_shape){.dtype = dtype, .ndim = 0};
    out[YKI_CROSS_ENTROPY_LOG_SUMS] = shape_of_log_sums(node);
    out[YKI_CROSS_ENTROPY_TOTAL] = mean ? out[YKI_CROSS_ENTROPY_LOSS] : yki_shape_none();
    return YK_OK;
}

yk_status yki_gradient_cross_entropy(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                     const bool *needs, yk_value **din)
{
    yk_value *logits = node->in[YKI_CROSS_ENTROPY_LOGITS];
    yk_value *in[] = {logits,
                      node->in[YKI_CROSS_ENTROPY_LABELS],
                      dout[YKI_CROSS_ENTROPY_LOSS],
                      node->out[YKI_CROSS_ENTROPY_LOG_SUMS],
                      node->in[YKI_CROSS_ENTROPY_WEIGHT],
                      node->out[YKI_CROSS_ENTROPY_TOTAL]};
    if (needs[YKI_CROSS_ENTROPY_LOGITS])
        din[YKI_CROSS_ENTROPY_LOGITS] =
            yki_append_like(graph, &yki_op_cross_entropy_backward, &node->attrs, in, logits);
    return YK_OK;
}

yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options)
{
    yk_cross_entropy_options o;
    yk_status status =
        YKI_READ_OPTIONS(&o, options, yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(logits, "cross_entropy", status);
    if (o.class_dim != 1 && o.class_dim != -1) {
        status = yki_error(YK_ERROR_INVALID_ARGUMENT, "class_dim is %lld, expected 1 or -1",
                           (long long)o.class_dim);
        return yki_emit_error(logits, "cross_entropy", status);
    }
    yki_attrs attrs = {.label_smoothing = o.label_smoothing,
                       .reduction = o.reduction,
                       .ignore_index = o.ignore_index,
                       .classes_last = o.class_dim == -1};
    return yki_emit(&yki_op_cross_entropy, &attrs, (yk_value *[]){logits, labels, o.weight});
}

/* ---- losses over pairs of elements: input 0 is x, input 1 the target ------------------------- */

static yk_status infer_pairs(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[0], *target = node->in[1];
    bool same = x->ndim == target->ndim && x->dtype == target->dtype;
    char here[96], there[96];
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_reduction(node));
    for (int i = 0; same && i < x->ndim; i++)
        same = x->dims[i] == target->dims[i];
    if (!same)
        return yki_error(YK_ERROR_INVALID_SHAPE, "%s %s and the target's %s %s differ",
                         yki_shape_text(x, here, sizeof here), yk_dtype_name(x->dtype),
                         yki_shape_text(target, there, sizeof there), yk_dtype_name(target->dtype));
    out[0] = (yki_shape){.dtype = yki_accumulate_dtype(x->dtype), .ndim = 0};
    return YK_OK;
}

/* For a loss of x - target that is the same of target - x. */
static yk_status symmetric_gradient(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                    const bool *needs, yk_value **din, const yki_op *backward)
{
    for (int i = 0; i < 2; i++) {
        yk_value *in[] = {node->in[i], node->in[1 - i], dout[0]};
        if (needs[i])
            din[i] = yki_append_like(graph, backward, &node->attrs, in, node->in[i]);
    }
    return YK_OK;
}

/* ---- mse_loss: (x - target)^2 ---------------------------------------------------------------- */

yk_status yki_infer_mse_loss(const yki_node *node, yki_shape *out)
{
    return infer_pairs(node, out);
}

yk_status yki_gradient_mse_loss(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    return symmetric_gradient(graph, node, dout, needs, din, &yki_op_mse_loss_backward);
}

yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction)
{
    yki_attrs attrs = {.reduction = reduction};
    return yki_emit(&yki_op_mse_loss, &attrs, (yk_value *[]){x, target});
}

/* ---- smooth_l1_loss: with d = x - target, d^2 / (2 beta) below beta, else |d| - beta / 2 ----- */

yk_status yki_infer_smooth_l1_loss(const yki_node *node, yki_shape *out)
{
    double beta = node->attrs.beta;
    YK_TRY(infer_pairs(node, out));
    if (!(beta >= 0) || isinf(beta))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "beta is %g, expected at least 0", beta);
    return YK_OK;
}

yk_status yki_gradient_smooth_l1_loss(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                      const bool *needs, yk_value **din)
{
    return symmetric_gradient(graph, node, dout, needs, din, &yki_op_smooth_l1_loss_backward);
}

yk_value *yk_smooth_l1_loss(yk_value *x, yk_value *target, double beta, yk_loss_reduction reduction)
{
    yki_attrs attrs = {.beta = beta, .reduction = reduction};
    return yki_emit(&yki_op_smooth_l1_loss, &attrs, (yk_value *[]){x, target});
}

yk_value *yk_l1_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction)
{
    return yk_smooth_l1_loss(x, target, 0, reduction);
}

yk_value *yk_huber_loss(yk_value *x, yk_value *target, double delta, yk_loss_reduction reduction)
{
    if (delta > 0)
        return yk_scale(yk_smooth_l1_loss(x, target, delta, reduction), delta);
    yk_status status = yki_error(YK_ERROR_INVALID_ARGUMENT, "delta is %g, expected above 0", delta);
    return yki_emit_error(x, "huber_loss", status);
}

/* ---- binary_cross_entropy_with_logits -------------------------------------------------------- */

/* A weight for each channel, or one for all. */
static yk_status expect_pos_weight(const yki_node *node)
{
    const yk_value *logits = node->in[YKI_BCE_LOGITS], *weight = node->in[YKI_BCE_POS_WEIGHT];
    int64_t channels = logits->ndim > 1 ? logits->dims[1] : 1;
    char here[96];
    if (!weight || (weight->ndim == 1 && weight->dtype == logits->dtype &&
                    (weight->dims[0] == 1 || weight->dims[0] == channels)))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "pos_weight is %s %s, expected (%lld) or (1) %s",
                     yki_shape_text(weight, here, sizeof here), yk_dtype_name(weight->dtype),
                     (long long)channels, yk_dtype_name(logits->dtype));
}

yk_status yki_infer_binary_cross_entropy_with_logits(const yki_node *node, yki_shape *out)
{
    YK_TRY(infer_pairs(node, out));
    return expect_pos_weight(node);
}

yk_status yki_gradient_binary_cross_entropy_with_logits(yk_graph *graph, const yki_node *node,
                                                        yk_value *const *dout, const bool *needs,
                                                        yk_value **din)
{
    yk_value *logits = node->in[YKI_BCE_LOGITS];
    yk_value *in[] = {logits, node->in[YKI_BCE_TARGET], dout[YKI_BCE_LOSS],
                      node->in[YKI_BCE_POS_WEIGHT]};
    if (needs[YKI_BCE_LOGITS])
        din[YKI_BCE_LOGITS] = yki_append_like(
            graph, &yki_op_binary_cross_entropy_with_logits_backward, &node->attrs, in, logits);
    return YK_OK;
}

yk_value *yk_binary_cross_entropy_with_logits(yk_value *logits, yk_value *target,
                                              const yk_binary_cross_entropy_options *options)
{
    yk_binary_cross_entropy_options o;
    const yki_op *op = &yki_op_binary_cross_entropy_with_logits;
    yk_status status = YKI_READ_OPTIONS(&o, options, yk_binary_cross_entropy_options,
                                        YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT);
    if (status != YK_OK)
        return yki_emit_error(logits, op->name, status);
    yki_attrs attrs = {.reduction = o.reduction};
    return yki_emit(op, &attrs, (yk_value *[]){logits, target, o.pos_weight});
}
