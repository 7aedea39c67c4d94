/*
 * Operators that choose: maximum, minimum, compare, masked_fill. Masks are numbers, 0 for false and
 * anything else for true, as comparisons make them.
 */
#include "graph/broadcast.h"

/* 1, alpha or 0 where a is above, equal to or below b, and beta where one of them is NaN. */
static yk_value *append_compare(yk_graph *graph, yk_value *a, yk_value *b, yki_attrs attrs,
                                const yk_value *like)
{
    return yki_append_like(graph, &yki_op_compare, &attrs, (yk_value *[]){a, b}, like);
}

/* ---- maximum, minimum: equal sides share the gradient, and NaN passes it to both, as in PyTorch
 */

/* The gradient of the side that the result is where it is above the other. */
static yk_value *gradient_of_larger(yk_graph *graph, yk_value *dy, yk_value *larger,
                                    yk_value *smaller, const yk_value *side)
{
    yk_value *share =
        append_compare(graph, larger, smaller, (yki_attrs){.alpha = 0.5, .beta = 1}, dy);
    return share ? yki_reduce_product(graph, dy, share, side) : NULL;
}

yk_status yki_infer_maximum(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_maximum(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_MAXIMUM_INPUTS; i++)
        if (needs[i])
            din[i] = gradient_of_larger(graph, dout[YKI_MAXIMUM_Y], node->in[i], node->in[1 - i],
                                        node->in[i]);
    return YK_OK;
}

yk_value *yk_maximum(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_maximum, &(yki_attrs){0}, (yk_value *[]){a, b});
}

yk_status yki_infer_minimum(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_minimum(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    for (int i = 0; i < YKI_MINIMUM_INPUTS; i++)
        if (needs[i])
            din[i] = gradient_of_larger(graph, dout[YKI_MINIMUM_Y], node->in[1 - i], node->in[i],
                                        node->in[i]);
    return YK_OK;
}

yk_value *yk_minimum(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_minimum, &(yki_attrs){0}, (yk_value *[]){a, b});
}

/* ---- compare: steps have no gradient --------------------------------------------------------- */

yk_status yki_infer_compare(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_compare(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    (void)graph, (void)node, (void)dout, (void)needs, (void)din;
    return YK_OK;
}

static yk_value *compare(yk_value *a, yk_value *b, double equal, double unordered)
{
    return yki_emit(&yki_op_compare, &(yki_attrs){.alpha = equal, .beta = unordered},
                    (yk_value *[]){a, b});
}

yk_value *yk_greater(yk_value *a, yk_value *b)
{
    return compare(a, b, 0, 0);
}

yk_value *yk_greater_equal(yk_value *a, yk_value *b)
{
    return compare(a, b, 1, 0);
}

yk_value *yk_less(yk_value *a, yk_value *b)
{
    return yk_greater(b, a);
}

yk_value *yk_less_equal(yk_value *a, yk_value *b)
{
    return yk_greater_equal(b, a);
}

yk_value *yk_equal(yk_value *a, yk_value *b)
{
    return yk_multiply(yk_greater_equal(a, b), yk_greater_equal(b, a));
}

/* A number is never above itself. */
yk_value *yk_full_like(yk_value *x, double value)
{
    return compare(x, x, value, value);
}

/* ---- masked_fill: the gradient passes where x does ------------------------------------------- */

yk_status yki_infer_masked_fill(const yki_node *node, yki_shape *out)
{
    return yki_infer_broadcast(node, out);
}

yk_status yki_gradient_masked_fill(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                   const bool *needs, yk_value **din)
{
    const yki_attrs attrs = {.alpha = 0, .beta = node->attrs.beta};
    yk_value *dy = dout[YKI_MASKED_FILL_Y], *x = node->in[YKI_MASKED_FILL_X];
    yk_value *in[] = {dy, node->in[YKI_MASKED_FILL_MASK]};
    if (!needs[YKI_MASKED_FILL_X])
        return YK_OK;
    yk_value *passed = yki_append_like(graph, &yki_op_masked_fill, &attrs, in, dy);
    din[YKI_MASKED_FILL_X] = passed ? yki_reduce_to(graph, passed, x) : NULL;
    return YK_OK;
}

/* x where the mask is what `kept` says, value elsewhere. */
static yk_value *fill(yk_value *x, yk_value *mask, double value, bool kept)
{
    return yki_emit(&yki_op_masked_fill, &(yki_attrs){.alpha = value, .beta = kept},
                    (yk_value *[]){x, mask});
}

yk_value *yk_masked_fill(yk_value *x, yk_value *mask, double value)
{
    return fill(x, mask, value, false);
}

yk_value *yk_where(yk_value *condition, yk_value *a, yk_value *b)
{
    return yk_add(fill(a, condition, 0, true), fill(b, condition, 0, false));
}
