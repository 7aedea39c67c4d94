/*
 * Operators that work element by element without a curve: add, subtract, multiply, divide, scale,
 * add_scalar, cast, dropout, randn_like.
 */
#include "graph/broadcast.h"

static yk_value *negated(yk_graph *graph, yk_value *x)
{
    return yki_append_like(graph, &yki_op_scale, &(yki_attrs){.alpha = -1}, &x, x);
}

/* ---- add: the gradient passes to both sides as it is ----------------------------------------- */

yk_status yki_infer_add(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_add(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_ADD_INPUTS; i++)
        din[i] = needs[i] ? yki_reduce_to(graph, dout[YKI_ADD_Y], node->in[i]) : NULL;
    return YK_OK;
}

yk_value *yk_add(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_add, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- subtract: the gradient of the right side is negated ------------------------------------- */

yk_status yki_infer_subtract(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_subtract(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_SUBTRACT_INPUTS; i++)
        din[i] = needs[i] ? yki_reduce_to(graph, dout[YKI_SUBTRACT_Y], node->in[i]) : NULL;
    if (din[YKI_SUBTRACT_B])
        din[YKI_SUBTRACT_B] = negated(graph, din[YKI_SUBTRACT_B]);
    return YK_OK;
}

yk_value *yk_subtract(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_subtract, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- multiply: the gradient of each side is dy times the other ------------------------------- */

yk_status yki_infer_multiply(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_multiply(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_MULTIPLY_INPUTS; i++)
        if (needs[i])
            din[i] = yki_reduce_product(graph, dout[YKI_MULTIPLY_Y], node->in[1 - i], node->in[i]);
    return YK_OK;
}

yk_value *yk_multiply(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_multiply, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- divide: dy / b and -dy y / b; where b was broadcast, dy y is summed before the division - */

yk_status yki_infer_divide(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

static yk_value *gradient_of_divisor(yk_graph *graph, const yki_node *node, yk_value *dy)
{
    yk_value *b = node->in[YKI_DIVIDE_B];
    yk_value *sum = yki_reduce_product(graph, dy, node->out[YKI_DIVIDE_Y], b);
    yk_value *quotient =
        sum ? yki_append_like(graph, &yki_op_divide, NULL, (yk_value *[]){sum, b}, b) : NULL;
    return quotient ? negated(graph, quotient) : NULL;
}

yk_status yki_gradient_divide(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yk_value *dy = dout[YKI_DIVIDE_Y], *in[] = {dy, node->in[YKI_DIVIDE_B]};
    if (needs[YKI_DIVIDE_A]) {
        yk_value *quotient = yki_append_like(graph, &yki_op_divide, NULL, in, dy);
        din[YKI_DIVIDE_A] =
            quotient ? yki_reduce_to(graph, quotient, node->in[YKI_DIVIDE_A]) : NULL;
    }
    if (needs[YKI_DIVIDE_B])
        din[YKI_DIVIDE_B] = gradient_of_divisor(graph, node, dy);
    return YK_OK;
}

yk_value *yk_divide(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_divide, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- add_scalar: the gradient is passed on unchanged ----------------------------------------- */

yk_status yki_infer_add_scalar(const yki_node *node, yki_shape *out)
{
    return yki_infer_same(node, out);
}

yk_status yki_gradient_add_scalar(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    (void)graph, (void)node;
    din[YKI_ADD_SCALAR_X] = needs[YKI_ADD_SCALAR_X] ? dout[YKI_ADD_SCALAR_Y] : NULL;
    return YK_OK;
}

yk_value *yk_add_scalar(yk_value *x, double value)
{
    return yki_emit_one(x, &yki_op_add_scalar, &(yki_attrs){.alpha = value});
}

/* ---- scale, cast ----------------------------------------------------------------------------- */

yk_status yki_infer_scale(const yki_node *node, yki_shape *out)
{
    return yki_infer_same(node, out);
}

yk_status yki_gradient_scale(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                             const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_SCALE_X];
    if (needs[YKI_SCALE_X])
        din[YKI_SCALE_X] = yki_append_like(graph, &yki_op_scale, &node->attrs, dout, x);
    return YK_OK;
}

yk_status yki_gradient_cast(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                            const bool *needs, yk_value **din)
{
    if (needs[YKI_CAST_X])
        din[YKI_CAST_X] = yki_append_like(graph, &yki_op_cast, NULL, dout, node->in[YKI_CAST_X]);
    return YK_OK;
}

yk_value *yk_scale(yk_value *x, double alpha)
{
    return yki_emit_one(x, &yki_op_scale, &(yki_attrs){.alpha = alpha});
}

/* ---- dropout: the mask is a function of (seed, step, salt, element), so none is kept --------- */

yk_status yki_infer_dropout(const yki_node *node, yki_shape *out)
{
    if (!(node->attrs.p >= 0 && node->attrs.p < 1))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", node->attrs.p);
    return yki_infer_same(node, out);
}

yk_status yki_gradient_dropout(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_DROPOUT_X];
    if (needs[YKI_DROPOUT_X])
        din[YKI_DROPOUT_X] =
            yki_append_like(graph, &yki_op_dropout_backward, &node->attrs, dout, x);
    return YK_OK;
}

/* Tells the draws of a node that is appended to x's graph from those of the others. */
static uint64_t salt_of(const yk_value *x)
{
    return x && x->valid ? (uint64_t)x->graph->node_count : 0;
}

yk_value *yk_dropout(yk_value *x, double p)
{
    return yki_emit_one(x, &yki_op_dropout, &(yki_attrs){.p = p, .salt = salt_of(x)});
}

/* ---- randn_like: x is a constant to the gradient, so there is none --------------------------- */

yk_status yki_infer_randn_like(const yki_node *node, yki_shape *out)
{
    return yki_infer_same(node, out);
}

yk_status yki_gradient_randn_like(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    (void)graph, (void)node, (void)dout, (void)needs, (void)din;
    return YK_OK;
}

yk_value *yk_randn_like(yk_value *x)
{
    return yki_emit_one(x, &yki_op_randn_like, &(yki_attrs){.salt = salt_of(x)});
}
