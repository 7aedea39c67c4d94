/* permute: the dimensions of a value in another order. */
#include "graph/operators.h"

#include <string.h>

static yk_status expect_order(const yki_node *node)
{
    const yk_value *x = node->in[YKI_PERMUTE_X];
    char text[96];
    bool seen[YK_MAX_DIMS] = {false}, good = node->attrs.ndim == x->ndim && x->ndim > 0;
    for (int d = 0; good && d < x->ndim; d++) {
        int64_t from = node->attrs.dims[d];
        good = from >= 0 && from < x->ndim && !seen[from];
        if (good)
            seen[from] = true;
    }
    if (!good)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "input has shape %s: expected each of its %d dimensions once",
                         yki_shape_text(x, text, sizeof text), x->ndim);
    if (x->dims[0] == YK_BATCH && node->attrs.dims[0] != 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "input has shape %s: the batch stays first",
                         yki_shape_text(x, text, sizeof text));
    return YK_OK;
}

yk_status yki_infer_permute(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_PERMUTE_X];
    YK_TRY(expect_order(node));
    YK_TRY(yki_infer_same(node, out));
    for (int d = 0; d < x->ndim; d++)
        out[0].dims[d] = x->dims[node->attrs.dims[d]];
    return YK_OK;
}

/* The order that brings everything back. */
yk_status yki_gradient_permute(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yki_attrs back = {.ndim = node->attrs.ndim};
    for (int d = 0; d < back.ndim; d++)
        back.dims[node->attrs.dims[d]] = d;
    if (needs[YKI_PERMUTE_X])
        din[YKI_PERMUTE_X] =
            yki_append_like(graph, &yki_op_permute, &back, dout, node->in[YKI_PERMUTE_X]);
    return YK_OK;
}

yk_value *yk_permute(yk_value *x, int ndim, const int64_t *dims)
{
    yki_attrs attrs = {.ndim = dims ? ndim : 0};
    if (dims && ndim > 0 && ndim <= YK_MAX_DIMS)
        memcpy(attrs.dims, dims, (size_t)ndim * sizeof *dims);
    return yki_emit_one(x, &yki_op_permute, &attrs);
}
