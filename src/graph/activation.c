/*
 * Functions of one number, which map each element on its own: activation functions (relu, relu6,
 * gelu, sigmoid, silu, hardswish, tanh, leaky_relu, elu), and exp, log, sin, cos, abs, pow, clamp.
 * The gradient needs dy and, whichever says more, the input or the output.
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

/* The gradient rule of a function: `backward` of dy and of what is kept, the input or output. */
#define GRADIENT(name, backward, kept)                                                             \
    yk_status yki_gradient_##name(yk_graph *graph, const yki_node *node, yk_value *const *dout,    \
                                  const bool *needs, yk_value **din)                               \
    {                                                                                              \
        return gradient_with(graph, node, dout, needs, din, &yki_op_##backward, node->kept[0]);    \
    }
/* The shape rule and the public function of a function without attributes. */
#define DEFINE_FUNCTION(name)                                                                      \
    yk_status yki_infer_##name(const yki_node *node, yki_shape *out)                               \
    {                                                                                              \
        return yki_infer_same(node, out);                                                          \
    }                                                                                              \
    yk_value *yk_##name(yk_value *x)                                                               \
    {                                                                                              \
        return yki_emit_one(x, &yki_op_##name, NULL);                                              \
    }
#define DEFINE_WITH(name, backward, kept)                                                          \
    DEFINE_FUNCTION(name)                                                                          \
    GRADIENT(name, backward, kept)
#define DEFINE(name, kept) DEFINE_WITH(name, name##_backward, kept)

DEFINE(relu, out)
DEFINE(relu6, out)
DEFINE(gelu, in)
DEFINE(sigmoid, out)
DEFINE(silu, in)
DEFINE(hardswish, in)
DEFINE(tanh, out)
DEFINE(abs, in)
DEFINE_WITH(exp, multiply, out)
DEFINE_WITH(log, divide, in)

/* ---- sin and cos: each is the other's slope -------------------------------------------------- */

DEFINE_FUNCTION(sin)
DEFINE_FUNCTION(cos)

yk_status yki_gradient_sin(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    yk_value *slope = yki_append_like(graph, &yki_op_cos, NULL, node->in, node->in[0]);
    return gradient_with(graph, node, dout, needs, din, &yki_op_multiply, slope);
}

yk_status yki_gradient_cos(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    yk_value *sine = yki_append_like(graph, &yki_op_sin, NULL, node->in, node->in[0]);
    yk_value *slope =
        yki_append_like(graph, &yki_op_scale, &(yki_attrs){.alpha = -1}, &sine, node->in[0]);
    return gradient_with(graph, node, dout, needs, din, &yki_op_multiply, slope);
}

/* ---- leaky_relu: its result has the sign of x, since the slope is not negative --------------- */

yk_status yki_infer_leaky_relu(const yki_node *node, yki_shape *out)
{
    double slope = node->attrs.alpha;
    if (!(slope >= 0) || isinf(slope))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "negative_slope is %g, expected at least 0",
                         slope);
    return yki_infer_same(node, out);
}

GRADIENT(leaky_relu, leaky_relu_backward, out)

yk_value *yk_leaky_relu(yk_value *x, double negative_slope)
{
    yki_attrs attrs = {.alpha = negative_slope};
    return yki_emit_one(x, &yki_op_leaky_relu, &attrs);
}

/* ---- elu ------------------------------------------------------------------------------------- */

yk_status yki_infer_elu(const yki_node *node, yki_shape *out)
{
    if (!isfinite(node->attrs.alpha))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "alpha is %g, expected a finite number",
                         node->attrs.alpha);
    return yki_infer_same(node, out);
}

GRADIENT(elu, elu_backward, in)

yk_value *yk_elu(yk_value *x, double alpha)
{
    return yki_emit_one(x, &yki_op_elu, &(yki_attrs){.alpha = alpha});
}

/* ---- pow: the exponent is a constant --------------------------------------------------------- */

yk_status yki_infer_pow(const yki_node *node, yki_shape *out)
{
    if (!isfinite(node->attrs.alpha))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "exponent is %g, expected a finite number",
                         node->attrs.alpha);
    return yki_infer_same(node, out);
}

GRADIENT(pow, pow_backward, in)

yk_value *yk_pow(yk_value *x, double exponent)
{
    return yki_emit_one(x, &yki_op_pow, &(yki_attrs){.alpha = exponent});
}

yk_value *yk_sqrt(yk_value *x)
{
    return yk_pow(x, 0.5);
}

/* ---- clamp ----------------------------------------------------------------------------------- */

yk_status yki_infer_clamp(const yki_node *node, yki_shape *out)
{
    double min = node->attrs.alpha, max = node->attrs.beta;
    if (!(min <= max))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "min is %g and max %g, expected min <= max",
                         min, max);
    return yki_infer_same(node, out);
}

GRADIENT(clamp, clamp_backward, in)

yk_value *yk_clamp(yk_value *x, double min, double max)
{
    return yki_emit_one(x, &yki_op_clamp, &(yki_attrs){.alpha = min, .beta = max});
}
