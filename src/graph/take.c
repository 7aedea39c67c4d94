/*
 * take_along_dim: places of a dimension, which an index names. Its gradient adds up what came for
 * each place.
 */
#include "graph/operators.h"
#include "tensor/element.h"

/* The index has x's sizes up to dimension dim, and then how many places are taken, or nothing. */
static yk_status expect_index(const yki_node *node)
{
    const yk_value *x = node->in[YKI_TAKE_ALONG_DIM_X];
    const yk_value *index = node->in[YKI_TAKE_ALONG_DIM_INDEX];
    const int64_t dim = node->attrs.dim;
    char here[96], there[96];
    if (!yki_is_index(index->dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "index is %s, expected int32 or int64",
                         yk_dtype_name(index->dtype));
    if (node->attrs.shared && index->ndim == 1 && index->dims[0] != YK_BATCH)
        return YK_OK;
    if (node->attrs.shared)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "index has shape %s, expected (K), without a batch",
                         yki_shape_text(index, here, sizeof here));
    bool fits = index->ndim == dim + 1 || (index->ndim == dim && dim > 0);
    for (int d = 0; fits && d < dim; d++)
        fits = index->dims[d] == x->dims[d];
    if (fits)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE,
                     "index has shape %s, expected the dimensions of input %s before dimension "
                     "%lld, and at most one more",
                     yki_shape_text(index, here, sizeof here),
                     yki_shape_text(x, there, sizeof there), (long long)dim);
}

yk_status yki_infer_take_along_dim(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_TAKE_ALONG_DIM_X];
    const yk_value *index = node->in[YKI_TAKE_ALONG_DIM_INDEX];
    const int64_t dim = node->attrs.dim;
    YK_TRY(yki_expect_float(node, 1));
    YK_TRY(yki_expect_dim(x, "input", dim));
    YK_TRY(expect_index(node));
    if (x->dims[dim] > INT32_MAX)
        return yki_error(
            YK_ERROR_INVALID_SHAPE,
            "dimension %lld of input has size %lld, more than int32 indices can number",
            (long long)dim, (long long)x->dims[dim]);
    YK_TRY(yki_expect_indices(index, x->dims[dim]));
    out[0] = (yki_shape){.dtype = x->dtype};
    for (int d = 0; d < x->ndim; d++)
        if (d != dim)
            out[0].dims[out[0].ndim++] = x->dims[d];
        else if (node->attrs.shared || index->ndim > dim)
            out[0].dims[out[0].ndim++] = index->dims[index->ndim - 1];
    return YK_OK;
}

yk_status yki_gradient_take_along_dim(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                      const bool *needs, yk_value **din)
{
    yk_value *in[] = {node->in[YKI_TAKE_ALONG_DIM_INDEX], dout[YKI_TAKE_ALONG_DIM_Y]};
    if (needs[YKI_TAKE_ALONG_DIM_X])
        din[YKI_TAKE_ALONG_DIM_X] =
            yki_append_like(graph, &yki_op_take_along_dim_backward, &node->attrs, in,
                            node->in[YKI_TAKE_ALONG_DIM_X]);
    return YK_OK;
}

static yk_value *take(yk_value *x, yk_value *index, int64_t dim, bool shared)
{
    const yki_attrs attrs = {.dim = yki_from_front(dim, yk_value_shape(x, NULL)), .shared = shared};
    return yki_emit(&yki_op_take_along_dim, &attrs, (yk_value *[]){x, index});
}

yk_value *yk_take_along_dim(yk_value *x, yk_value *index, int64_t dim)
{
    return take(x, index, dim, false);
}

yk_value *yk_index_select(yk_value *x, int64_t dim, yk_value *index)
{
    return take(x, index, dim, true);
}
