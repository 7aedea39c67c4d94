/*
 * group_norm (Wu and He 2018). Statistics are those of one sample, so there is nothing that ranks
 * would have to exchange, and nothing to keep for evaluation.
 */
#include "graph/operators.h"

#include <math.h>

static yk_status expect_groups(const yki_node *node)
{
    char text[96];
    const yk_value *x = node->in[YKI_GROUP_NORM_X];
    const int64_t groups = node->attrs.groups;
    if (x->ndim < 2)
        return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, expected (N, C, ...)",
                         yki_shape_text(x, text, sizeof text));
    if (groups < 1 || x->dims[1] % groups)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "num_groups is %lld, expected a divisor of the %lld channels of the input "
                         "%s",
                         (long long)groups, (long long)x->dims[1],
                         yki_shape_text(x, text, sizeof text));
    return YK_OK;
}

yk_status yki_infer_group_norm(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_GROUP_NORM_X];
    YK_TRY(yki_expect_float(node, YKI_GROUP_NORM_INPUTS));
    YK_TRY(expect_groups(node));
    YK_TRY(yki_expect_vector(node, YKI_GROUP_NORM_WEIGHT, x->dims[1]));
    YK_TRY(yki_expect_vector(node, YKI_GROUP_NORM_BIAS, x->dims[1]));
    if (!(node->attrs.eps > 0 && isfinite(node->attrs.eps)))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "eps is %g, expected a finite number above 0",
                         node->attrs.eps);
    out[YKI_GROUP_NORM_Y] = yki_shape_of(x);
    out[YKI_GROUP_NORM_MEAN] = out[YKI_GROUP_NORM_INVSTD] =
        (yki_shape){.dtype = yki_accumulate_dtype(x->dtype),
                    .ndim = 2,
                    .dims = {x->dims[0], node->attrs.groups}};
    return YK_OK;
}

/* The shape of the gradient of a weight or bias, if that is wanted. */
static yki_shape vector_like(const yki_node *node, int operand, const bool *needs)
{
    bool is_wanted = node->in[operand] && needs[operand];
    return is_wanted ? yki_shape_of(node->in[operand]) : yki_shape_none();
}

yk_status yki_gradient_group_norm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                  const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_GROUP_NORM_X];
    yk_value *in[YKI_GROUP_NORM_BACKWARD_INPUTS] = {
        [YKI_GROUP_NORM_BACKWARD_X] = x,
        [YKI_GROUP_NORM_BACKWARD_DY] = dout[YKI_GROUP_NORM_Y],
        [YKI_GROUP_NORM_BACKWARD_WEIGHT] = node->in[YKI_GROUP_NORM_WEIGHT],
        [YKI_GROUP_NORM_BACKWARD_MEAN] = node->out[YKI_GROUP_NORM_MEAN],
        [YKI_GROUP_NORM_BACKWARD_INVSTD] = node->out[YKI_GROUP_NORM_INVSTD]};
    yki_shape shapes[] = {yki_shape_of(x), vector_like(node, YKI_GROUP_NORM_WEIGHT, needs),
                          vector_like(node, YKI_GROUP_NORM_BIAS, needs)};
    const yki_node *made = yki_append(graph, &yki_op_group_norm_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < YKI_GROUP_NORM_INPUTS; i++) /* dx, dweight, dbias, in the same order */
        din[i] = needs[i] ? made->out[i] : NULL;
    return YK_OK;
}

yk_value *yk_group_norm(yk_value *x, int64_t num_groups, yk_value *weight, yk_value *bias,
                        double eps)
{
    return yki_emit(&yki_op_group_norm, &(yki_attrs){.groups = num_groups, .eps = eps},
                    (yk_value *[]){x, weight, bias});
}
