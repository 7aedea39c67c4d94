/*
 * Activation functions, which map each element on its own: relu, relu6, gelu, sigmoid, silu,
 * hardswish, tanh, leaky_relu. The gradient needs dy and, whichever says more, the input or the
 * output.
 */
#include <math.h>

#include "graph/operators.h"

static yk_status gradient_with(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din, const yki_op *backward,
                               yk_value *kept)
{
    yk_value *in[] = {dout[0], kept};
    if (needs[0])
        din[0] = yki_append_like(graph, backward, &node->attrs, in, node->in[0]);
    return YK_OK;
}

/* The rules and the public function of one activation function; `kept` is what backward reads. */
#define DEFINE(name, kept)                                                                         \
    yk_status yki_infer_##name(const yki_node *node, yki_shape *out)                               \
    {                                                                                              \
        return yki_infer_same(node, out);                                                          \
    }                                                                                              \
    yk_status yki_gradient_##name(yk_graph *graph, const yki_node *node, yk_value *const *dout,    \
                                  const bool *needs, yk_value **din)                               \
    {                                                                                              \
        return gradient_with(graph, node, dout, needs, din, &yki_op_##name##_backward,             \
                             node->kept[0]);                                                       \
    }                                                                                              \
    yk_value *yk_##name(yk_value *x)                                                               \
    {                                                                                              \
        return yki_emit_one(x, &yki_op_##name, NULL);                                              \
    }

DEFINE(relu, out)
DEFINE(relu6, out)
DEFINE(gelu, in)
DEFINE(sigmoid, out)
DEFINE(silu, in)
DEFINE(hardswish, in)
DEFINE(tanh, out)

/* ---- leaky_relu: its result has the sign of x, since the slope is not negative --------------- */

yk_status yki_infer_leaky_relu(const yki_node *node, yki_shape *out)
{
    double slope = node->attrs.alpha;
    if (!(slope >= 0) || isinf(slope))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "negative_slope is %g, expected at least 0",
                         slope);
    return yki_infer_same(node, out);
}

yk_status yki_gradient_leaky_relu(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    return gradient_with(graph, node, dout, needs, din, &yki_op_leaky_relu_backward,
                         node->out[YKI_LEAKY_RELU_Y]);
}

yk_value *yk_leaky_relu(yk_value *x, double negative_slope)
{
    yki_attrs attrs = {.alpha = negative_slope};
    return yki_emit_one(x, &yki_op_leaky_relu, &attrs);
}
