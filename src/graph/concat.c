/* concat along channels, and slice, which is the gradient of each side. */
#include "graph/operators.h"

yk_status yki_infer_concat(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[YKI_CONCAT_A], *b = node->in[YKI_CONCAT_B];
    bool fits = a->ndim >= 2 && a->ndim == b->ndim && a->dtype == b->dtype;
    char at[96], bt[96];
    for (int i = 0; fits && i < a->ndim; i++)
        fits = i == 1 || a->dims[i] == b->dims[i];
    if (!fits)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "%s %s and %s %s differ in more than their channels",
                         yki_shape_text(a, at, sizeof at), yk_dtype_name(a->dtype),
                         yki_shape_text(b, bt, sizeof bt), yk_dtype_name(b->dtype));
    YK_TRY(yki_infer_same(node, out));
    out[0].dims[1] += b->dims[1];
    return YK_OK;
}

yk_status yki_gradient_concat(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yki_attrs attrs = {.first_channel = 0};
    for (int i = 0; i < YKI_CONCAT_INPUTS; i++) {
        if (needs[i])
            din[i] = yki_append_like(graph, &yki_op_slice, &attrs, dout, node->in[i]);
        attrs.first_channel += node->in[i]->dims[1];
    }
    return YK_OK;
}

yk_value *yk_concat(yk_value *a, yk_value *b)
{
    return yki_emit(&yki_op_concat, &(yki_attrs){0}, (yk_value *[]){a, b});
}
