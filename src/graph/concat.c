/* What takes channels of values (N, C, ...): concat, slice, which is its gradient, and pad, which
 * is that of slice. */
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
        attrs.channels = node->in[i]->dims[1];
        if (needs[i])
            din[i] = yki_append_like(graph, &yki_op_slice, &attrs, dout, node->in[i]);
        attrs.first_channel += attrs.channels;
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

/* ---- slice and pad --------------------------------------------------------------------------- */

static yk_status expect_channels(const yki_node *node)
{
    const yk_value *x = node->in[0];
    char text[96];
    if (x->ndim >= 2)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_SHAPE, "input has shape %s, which has no channels",
                     yki_shape_text(x, text, sizeof text));
}

yk_status yki_infer_slice(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_SLICE_X];
    const int64_t first = node->attrs.first_channel, channels = node->attrs.channels;
    char text[96];
    YK_TRY(expect_channels(node));
    YK_TRY(yki_infer_same(node, out));
    if (first < 0 || channels < 1 || first > x->dims[1] - channels)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%lld channels from %lld on are not among those of the input, %s",
                         (long long)channels, (long long)first,
                         yki_shape_text(x, text, sizeof text));
    out[YKI_SLICE_Y].dims[1] = channels;
    return YK_OK;
}

yk_status yki_gradient_slice(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                             const bool *needs, yk_value **din)
{
    const yk_value *x = node->in[YKI_SLICE_X];
    yki_attrs attrs = {.first_channel = node->attrs.first_channel, .channels = x->dims[1]};
    if (needs[YKI_SLICE_X])
        din[YKI_SLICE_X] = yki_append_like(graph, &yki_op_pad, &attrs, dout, x);
    return YK_OK;
}

yk_value *yk_slice(yk_value *x, int64_t first, int64_t count)
{
    yki_attrs attrs = {.first_channel = first, .channels = count};
    return yki_emit_one(x, &yki_op_slice, &attrs);
}

yk_status yki_infer_pad(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_channels(node));
    YK_TRY(yki_infer_same(node, out));
    out[YKI_PAD_Y].dims[1] = node->attrs.channels;
    return YK_OK;
}

yk_status yki_gradient_pad(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    const yk_value *x = node->in[YKI_PAD_X];
    yki_attrs attrs = {.first_channel = node->attrs.first_channel, .channels = x->dims[1]};
    if (needs[YKI_PAD_X])
        din[YKI_PAD_X] = yki_append_like(graph, &yki_op_slice, &attrs, dout, x);
    return YK_OK;
}

yk_value *yk_pad(yk_value *x, int64_t before, int64_t after)
{
    int64_t dims[YK_MAX_DIMS];
    const int64_t most = INT32_MAX;
    if (before < 0 || after < 0 || before > most || after > most) {
        yki_error(YK_ERROR_INVALID_ARGUMENT,
                  "%lld channels before and %lld after the input: expected 0 to %lld",
                  (long long)before, (long long)after, (long long)most);
        return yki_emit_error(x, &yki_op_pad);
    }
    const int64_t channels = yk_value_shape(x, dims) >= 2 ? dims[1] : 0;
    yki_attrs attrs = {.first_channel = before, .channels = before + channels + after};
    return yki_emit_one(x, &yki_op_pad, &attrs);
}
