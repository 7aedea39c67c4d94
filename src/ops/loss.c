/*
 * cross_entropy of logits and class labels, with label smoothing as PyTorch: the target is
 * (1 - s) * one_hot + s / C. The softmax is kept for backward: dlogits = probabilities - target.
 */
#include "ops/ops.h"

static yk_status infer_cross_entropy(const yki_node *node, yki_shape *out)
{
    const yk_value *logits = node->in[0], *labels = node->in[1];
    double smoothing = node->attrs.label_smoothing;
    YK_TRY(yki_expect_float(node));
    YK_TRY(yki_expect_dims(node, 0, "logits", 2));
    YK_TRY(yki_expect_vector(node, 1, "labels", logits->dims[0]));
    if (labels->dtype != YK_I32)
        return yki_error(YK_INVALID_ARGUMENT, "labels are %s, expected int32",
                         yk_dtype_name(labels->dtype));
    if (!(smoothing >= 0 && smoothing <= 1))
        return yki_error(YK_INVALID_ARGUMENT, "label_smoothing is %g, expected 0 to 1", smoothing);
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
                                     .autocast = YKI_AUTOCAST_FULL,
                                     .activations = 1,
                                     .out_count = 2,
                                     .infer = infer_cross_entropy,
                                     .gradient = gradient_cross_entropy};
const yki_op yki_op_cross_entropy_backward = {.name = "cross_entropy_backward", .out_count = 1};

yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options)
{
    yki_attrs attrs = {0};
    if (options) {
        attrs.label_smoothing = options->label_smoothing;
        attrs.reduction = options->reduction;
    }
    if (!logits->valid)
        return logits;
    return yki_emit(logits->graph, &yki_op_cross_entropy, &attrs, 2,
                    (yk_value *[]){logits, labels});
}
