/* What joins values along a dimension: concat, slice, which is its gradient, and pad, which is that
 * of slice. */
#include "graph/operators.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The operator's dimension is one of the first input's, and not the batch. */
static yk_status expect_dim(const yki_node *node)
{
    return yki_expect_dim(node->in[0], node->op->in[0].name, node->attrs.dim);
}

/* Whether two values differ in this dimension alone. */
static bool goes_with(const yk_value *a, const yk_value *b, int64_t dim)
{
    bool fits = a->ndim == b->ndim && a->dtype == b->dtype;
    for (int i = 0; fits && i < a->ndim; i++)
        fits = i == dim || a->dims[i] == b->dims[i];
    return fits;
}

yk_status yki_infer_concat(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[YKI_CONCAT_A];
    const int64_t dim = node->attrs.dim;
    char at[96], bt[96];
    YK_TRY(expect_dim(node));
    YK_TRY(yki_infer_same(node, out));
    for (int i = 1; i < node->in_count && node->in[i]; i++) {
        const yk_value *b = node->in[i];
        if (!goes_with(a, b, dim))
            return yki_error(
                YK_ERROR_INVALID_SHAPE, "%s %s and %s %s differ in more than dimension %lld",
                yki_shape_text(a, at, sizeof at), yk_dtype_name(a->dtype),
                yki_shape_text(b, bt, sizeof bt), yk_dtype_name(b->dtype), (long long)dim);
        YK_TRY(yki_expect_dim(b, node->op->in[i].name, dim));
        out[0].dims[dim] += b->dims[dim];
    }
    return YK_OK;
}

yk_status yki_gradient_concat(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    yki_attrs attrs = {.dim = node->attrs.dim};
    for (int i = 0; i < node->in_count && node->in[i]; i++) {
        attrs.count = node->in[i]->dims[attrs.dim];
        if (needs[i])
            din[i] = yki_append_like(graph, &yki_op_slice, &attrs, dout, node->in[i]);
        attrs.first += attrs.count;
    }
    return YK_OK;
}

static yk_value *refuse_null(yk_value *const *values, int count, int index)
{
    yk_value *other = NULL;
    for (int i = 0; !other && i < count; i++)
        other = values[i];
    yk_status status =
        yki_error(YK_ERROR_INVALID_ARGUMENT, "value %d of %d is NULL", index + 1, count);
    return yki_emit_error(other, "concat", status);
}

/* Joins groups of as many neighbours as one node takes, and then what they have become. */
static yk_value *join(yk_value **values, int count, const yki_attrs *attrs,
                      yk_value *(*make)(const yki_attrs *attrs, yk_value *const *in))
{
    while (count > 1) {
        int made = 0;
        for (int i = 0; i < count; i += YKI_CONCAT_INPUTS) {
            yk_value *in[YKI_CONCAT_INPUTS] = {NULL};
            int taken = count - i < YKI_CONCAT_INPUTS ? count - i : YKI_CONCAT_INPUTS;
            memcpy(in, values + i, (size_t)taken * sizeof *in);
            values[made] = taken == 1 ? in[0] : make(attrs, in);
            if (!values[made++])
                return NULL;
        }
        count = made;
    }
    return values[0];
}

static yk_value *emit(const yki_attrs *attrs, yk_value *const *in)
{
    return yki_emit(&yki_op_concat, attrs, in);
}

static yk_value *append(const yki_attrs *attrs, yk_value *const *in)
{
    yki_shape shape = yki_shape_of(in[0]);
    for (int i = 1; i < YKI_CONCAT_INPUTS && in[i]; i++)
        shape.dims[attrs->dim] += in[i]->dims[attrs->dim];
    yki_node *node = yki_append(in[0]->graph, &yki_op_concat, attrs, in, &shape);
    return node ? node->out[0] : NULL;
}

yk_value *yki_append_concat(yk_value **values, int count, int64_t dim)
{
    return join(values, count, &(yki_attrs){.dim = dim}, append);
}

yk_value *yk_concat(yk_value *const *values, int count, int64_t dim)
{
    if (!values || count < 1)
        return yki_no_operand("concat");
    for (int i = 0; i < count; i++)
        if (!values[i])
            return refuse_null(values, count, i);
    const int64_t at = yki_from_front(dim, values[0]->ndim);
    yk_status status = YK_OK;
    if (count == 1) { /* of which no node is made */
        if (values[0]->valid)
            status = yki_expect_dim(values[0], "input", at);
        return status == YK_OK ? values[0] : yki_emit_error(values[0], "concat", status);
    }
    yk_value **rest = yki_calloc((size_t)count, sizeof *rest);
    if (!rest) {
        status = yki_error_memory((size_t)count * sizeof *rest, "concat");
        return yki_emit_error(values[0], "concat", status);
    }
    memcpy(rest, values, (size_t)count * sizeof *rest);
    yk_value *joined = join(rest, count, &(yki_attrs){.dim = at}, emit);
    free(rest);
    return joined;
}

/* ---- slice and pad --------------------------------------------------------------------------- */

yk_status yki_infer_slice(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_SLICE_X];
    const int64_t dim = node->attrs.dim, first = node->attrs.first, count = node->attrs.count;
    char text[96];
    YK_TRY(expect_dim(node));
    YK_TRY(yki_infer_same(node, out));
    if (count < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "count is %lld, expected 1 or more",
                         (long long)count);
    if (first < 0 || first > x->dims[dim] - count)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "first %lld and count %lld are not within dimension %lld of the input %s",
                         (long long)first, (long long)count, (long long)dim,
                         yki_shape_text(x, text, sizeof text));
    out[YKI_SLICE_Y].dims[dim] = count;
    return YK_OK;
}

yk_status yki_gradient_slice(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                             const bool *needs, yk_value **din)
{
    const yk_value *x = node->in[YKI_SLICE_X];
    const int64_t dim = node->attrs.dim;
    yki_attrs attrs = {.dim = dim, .first = node->attrs.first, .count = x->dims[dim]};
    if (needs[YKI_SLICE_X])
        din[YKI_SLICE_X] = yki_append_like(graph, &yki_op_pad, &attrs, dout, x);
    return YK_OK;
}

yk_value *yk_slice(yk_value *x, int64_t dim, int64_t first, int64_t count)
{
    yki_attrs attrs = {
        .dim = x ? yki_from_front(dim, x->ndim) : dim, .first = first, .count = count};
    return yki_emit_one(x, &yki_op_slice, &attrs);
}

yk_status yki_infer_pad(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_dim(node));
    YK_TRY(yki_infer_same(node, out));
    out[YKI_PAD_Y].dims[node->attrs.dim] = node->attrs.count;
    return YK_OK;
}

yk_status yki_gradient_pad(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    const yk_value *x = node->in[YKI_PAD_X];
    const int64_t dim = node->attrs.dim;
    yki_attrs attrs = {.dim = dim, .first = node->attrs.first, .count = x->dims[dim]};
    if (needs[YKI_PAD_X])
        din[YKI_PAD_X] = yki_append_like(graph, &yki_op_slice, &attrs, dout, x);
    return YK_OK;
}

yk_value *yk_pad(yk_value *x, int64_t dim, int64_t before, int64_t after)
{
    const int64_t most = INT32_MAX;
    if (before < 0 || after < 0 || before > most || after > most) {
        yk_status status = yki_error(YK_ERROR_INVALID_ARGUMENT,
                                     "%lld before and %lld after the input: expected 0 to %lld",
                                     (long long)before, (long long)after, (long long)most);
        return yki_emit_error(x, "pad", status);
    }
    int64_t dims[YK_MAX_DIMS], at = x ? yki_from_front(dim, x->ndim) : dim;
    bool exists = at >= 0 && at < yk_value_shape(x, dims);
    yki_attrs attrs = {.dim = at, .first = before, .count = before + after};
    attrs.count += exists ? dims[at] : 0;
    return yki_emit_one(x, &yki_op_pad, &attrs);
}
