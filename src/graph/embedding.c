/* embedding: rows of a weight, one for each index. Its gradient adds up what came for each row. */
#include "graph/operators.h"
#include "tensor/element.h"

static yk_status expect_indices(const yki_node *node)
{
    const yk_value *indices = node->in[YKI_EMBEDDING_INDICES];
    if (indices->ndim != 2)
        YK_TRY(yki_expect_dims(node, YKI_EMBEDDING_INDICES, 1));
    if (!yki_is_index(indices->dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "indices are %s, expected int32 or int64",
                         yk_dtype_name(indices->dtype));
    return YK_OK;
}

yk_status yki_expect_indices(const yk_value *indices, int64_t rows)
{
    if (!indices->given)
        return YK_OK;
    int64_t count = 1;
    for (int d = 0; d < indices->ndim; d++)
        count *= indices->dims[d];
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = yki_index_at(indices->dtype, indices->given, i);
        if (row < 0 || row >= rows)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "index %lld, element %lld of %s, is outside 0..%lld", (long long)row,
                             (long long)i, indices->name, (long long)rows - 1);
    }
    return YK_OK;
}

yk_status yki_infer_embedding(const yki_node *node, yki_shape *out)
{
    const yk_value *indices = node->in[YKI_EMBEDDING_INDICES];
    const yk_value *weight = node->in[YKI_EMBEDDING_WEIGHT];
    YK_TRY(expect_indices(node));
    YK_TRY(yki_expect_weight(node, YKI_EMBEDDING_WEIGHT, 2));
    if (weight->dtype != YK_F32 && weight->dtype != YK_F64)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "weight is %s, expected float32 or float64",
                         yk_dtype_name(weight->dtype));
    if (weight->dims[0] > INT32_MAX)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "weight has %lld rows, more than int32 indices can number",
                         (long long)weight->dims[0]);
    YK_TRY(yki_expect_indices(indices, weight->dims[0]));
    out[0] = yki_shape_of(indices);
    out[0].dtype = weight->dtype;
    out[0].dims[out[0].ndim++] = weight->dims[1];
    return YK_OK;
}

yk_status yki_gradient_embedding(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                 const bool *needs, yk_value **din)
{
    yk_value *weight = node->in[YKI_EMBEDDING_WEIGHT];
    yk_value *in[] = {node->in[YKI_EMBEDDING_INDICES], dout[YKI_EMBEDDING_Y]};
    if (needs[YKI_EMBEDDING_WEIGHT])
        din[YKI_EMBEDDING_WEIGHT] =
            yki_append_like(graph, &yki_op_embedding_backward, NULL, in, weight);
    return YK_OK;
}

yk_value *yk_embedding(yk_value *indices, yk_value *weight)
{
    return yki_emit(&yki_op_embedding, &(yki_attrs){0}, (yk_value *[]){indices, weight});
}
