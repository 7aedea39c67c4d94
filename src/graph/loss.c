/*
 * Losses. cross_entropy of logits and class labels, with label smoothing as PyTorch: the target is
 * (1 - s) * one_hot + s / C. The softmax is kept for backward: dlogits = probabilities - target.
 */
#include "base/options.h"
#include "graph/ops.h"

static yk_status expect_reduction(const yki_node *node)
{
    yk_loss_reduction reduction = node->attrs.reduction;
    if (reduction != YK_LOSS_MEAN && reduction != YK_LOSS_SUM)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no reduction %d", (int)reduction);
    return YK_OK;
}

static yk_status infer_cross_entropy(const yki_node *node, yki_shape *out)
{
    const yk_value *logits = node->in[0], *labels = node->in[1];
    double smoothing = node->attrs.label_smoothing;
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_dims(node, 0, "logits", 2));
    YK_TRY(yki_expect_vector(node, 1, "labels", logits->dims[0]));
    if (labels->dtype != YK_I32)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "labels are %s, expected int32",
                         yk_dtype_name(labels->dtype));
    if (!(smoothing >= 0 && smoothing <= 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "label_smoothing is %g, expected 0 to 1",
                         smoothing);
    YK_TRY(expect_reduction(node));
    yk_dtype dtype = yki_accumulate_dtype(logits->dtype);
    out[0] = (yki_shape){.dtype = dtype, .ndim = 0};
    out[1] = yki_shape_of(logits);
    out[1].dtype = dtype;
    return YK_OK;
}

static yk_status gradient_cross_entropy(yk_graph *graph, const yki_node *node,
                                        yk_value *const *dout, const bool *needs, yk_value **din)
{
    if (needs[0])
        din[0] = yki_append_like(graph, &yki_op_cross_entropy_backward, &node->attrs, 3,
                                 (yk_value *[]){node->out[1], node->in[1], dout[0]}, node->in[0]);
    return YK_OK;
}

const yki_op yki_op_cross_entropy = {.name = "cross_entropy",
                                     .required = 2,
                                     .autocast = YKI_AUTOCAST_FULL,
                                     .activations = 1,
                                     .out_count = 2,
                                     .infer = infer_cross_entropy,
                                     .gradient = gradient_cross_entropy};
const yki_op yki_op_cross_entropy_backward = {.name = "cross_entropy_backward", .out_count = 1};

yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options)
{
    yk_cross_entropy_options o;
    if (YKI_READ_OPTIONS(&o, options, yk_cross_entropy_options, YK_CROSS_ENTROPY_OPTIONS_INIT) !=
        YK_OK)
        return yki_emit_error(logits, &yki_op_cross_entropy);
    yki_attrs attrs = {.label_smoothing = o.label_smoothing, .reduction = o.reduction};
    return yki_emit(&yki_op_cross_entropy, &attrs, 2, (yk_value *[]){logits, labels});
}

/* ---- mse_loss: (x - target)^2, over all elements; symmetric, so is its gradient -------------- */

static yk_status infer_mse_loss(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[0], *target = node->in[1];
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
    out[0] = (yki_shape){.dtype = yki_accumulate_dtype(x->dtype), .ndim = 0};
    return YK_OK;
}

static yk_status gradient_mse_loss(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din)
{
    for (int i = 0; i < 2; i++)
        if (needs[i])
            din[i] =
                yki_append_like(graph, &yki_op_mse_loss_backward, &node->attrs, 3,
                                (yk_value *[]){node->in[i], node->in[1 - i], dout[0]}, node->in[i]);
    return YK_OK;
}

const yki_op yki_op_mse_loss = {.name = "mse_loss",
                                .required = 2,
                                .autocast = YKI_AUTOCAST_FULL,
                                .activations = 2,
                                .out_count = 1,
                                .infer = infer_mse_loss,
                                .gradient = gradient_mse_loss};
const yki_op yki_op_mse_loss_backward = {.name = "mse_loss_backward", .out_count = 1};

yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction)
{
    yki_attrs attrs = {.reduction = reduction};
    return yki_emit(&yki_op_mse_loss, &attrs, 2, (yk_value *[]){x, target});
}
