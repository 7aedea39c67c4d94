/* concat along channels, and slice, which is the gradient of each value. */
#include "graph/operators.h"

#include <string.h>

/* Whether two values differ in their channels alone. */
static bool goes_with(const yk_value *a, const yk_value *b)
{
    bool fits = a->ndim >= 2 && a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; fits && i < a->ndim; i++)
        fits = i == 1 || a->dims[i] == b->dims[i];
    return fits;
}

yk_status yki_infer_concat(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[YKI_CONCAT_A];
    char at[96], bt[96];
    YK_TRY(yki_infer_same(node, out));
    for (int i = 1; i < node->in_count && node->in[i]; i++) {
        const yk_value *b = node->in[i];
        if (!goes_with(a, b))
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "%s %s and %s %s differ in more than their channels",
                             yki_shape_text(a, at, sizeof at), yk_dtype_name(a->dtype),
                             yki_shape_text(b, bt, sizeof bt), yk_dtype_name(b->dtype));
        out[0].dims[1] += b->dims[1];
    }
    return YK_OK;
}

yk_status yki_gradient_concat(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yki_attrs attrs = {.first_channel = 0};
    for (int i = 0; i < node->in_count && node->in[i]; i++) {
        if (needs[i])
            din[i] = yki_append_like(graph, &yki_op_slice, &attrs, dout, node->in[i]);
        attrs.first_channel += node->in[i]->dims[1];
    }
    return YK_OK;
}

static yk_value *refuse_null(yk_value *const *values, int count, int index)
{
    yk_value *other = NULL;
    for (int i = 0; !other && i < count; i++)
        other = values[i];
    yki_error(YK_ERROR_INVALID_ARGUMENT, "value %d of %d is NULL", index + 1, count);
    return yki_emit_error(other, &yki_op_concat);
}

/* More values than one node takes are the first of them, joined, and the rest. */
yk_value *yk_concat(yk_value *const *values, int count)
{
    yk_value *in[YKI_CONCAT_INPUTS] = {NULL};
    if (!values || count < 1)
        return yki_no_operand("concat");
    for (int i = 0; i < count; i++)
        if (!values[i])
            return refuse_null(values, count, i);
    int taken = count < YKI_CONCAT_INPUTS ? count : YKI_CONCAT_INPUTS;
    memcpy(in, values, (size_t)taken * sizeof *in);
    yk_value *joined = count == 1 ? values[0] : yki_emit(&yki_op_concat, &(yki_attrs){0}, in);
    while (taken < count) {
        int more = count - taken < YKI_CONCAT_INPUTS - 1 ? count - taken : YKI_CONCAT_INPUTS - 1;
        memset(in, 0, sizeof in);
        in[0] = joined;
        memcpy(in + 1, values + taken, (size_t)more * sizeof *in);
        joined = yki_emit(&yki_op_concat, &(yki_attrs){0}, in);
        taken += more;
    }
    return joined;
}
