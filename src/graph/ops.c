/* What the operators' files share. */
#include "graph/ops.h"

yk_value *yki_append_like(yk_graph *graph, const yki_op *op, const yki_attrs *attrs, int in_count,
                          yk_value *const *in, const yk_value *like)
{
    yki_shape shape = yki_shape_of(like);
    yki_node *node = yki_append(graph, op, attrs, in_count, in, 1, &shape);
    return node ? node->out[0] : NULL;
}

yk_status yki_expect_dims(const yki_node *node, int input, const char *name, int ndim)
{
    char text[96];
    const yk_value *value = node->in[input];
    if (value->ndim == ndim)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected %d dimension%s", name,
                     yki_shape_text(value, text, sizeof text), ndim, ndim == 1 ? "" : "s");
}

bool yki_in_range(int64_t option, int64_t least)
{
    return option >= least && option <= INT32_MAX;
}

yk_status yki_expect_weight(const yki_node *node, int ndim)
{
    char text[96];
    const yk_value *weight = node->in[1];
    YK_TRY(yki_expect_dims(node, 1, "weight", ndim));
    if (weight->dims[0] == YK_BATCH)
        return yki_error(YK_ERROR_INVALID_SHAPE, "weight has shape %s, which depends on the batch",
                         yki_shape_text(weight, text, sizeof text));
    return YK_OK;
}

yk_status yki_expect_vector(const yki_node *node, int input, const char *name, int64_t length)
{
    char text[96];
    const yk_value *value = node->in[input];
    if (!value || (value->ndim == 1 && value->dims[0] == length))
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected (%lld)", name,
                     yki_shape_text(value, text, sizeof text), (long long)length);
}

static bool is_float(yk_dtype dtype)
{
    return dtype == YK_F32 || dtype == YK_F64;
}

yk_status yki_expect_float(const yki_node *node, int count)
{
    yk_dtype dtype = node->in[0]->dtype;
    if (!is_float(dtype))
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "input is %s, expected float32 or float64",
                         yk_dtype_name(dtype));
    for (int i = 1; i < count; i++) {
        const yk_value *other = node->in[i];
        if (other && other->dtype != dtype)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %s, expected %s like the input",
                             other->name ? other->name : "an operand", yk_dtype_name(other->dtype),
                             yk_dtype_name(dtype));
    }
    return YK_OK;
}

yk_dtype yki_accumulate_dtype(yk_dtype dtype)
{
    return dtype == YK_F64 ? YK_F64 : YK_F32;
}

yk_value *yki_emit_one(yk_value *x, const yki_op *op, const yki_attrs *attrs)
{
    static const yki_attrs none;
    return yki_emit(op, attrs ? attrs : &none, 1, &x);
}

yk_status yki_infer_same(const yki_node *node, yki_shape *out)
{
    YK_TRY(yki_expect_float(node, node->in_count));
    out[0] = yki_shape_of(node->in[0]);
    return YK_OK;
}
