/*
 * flatten and reshape: the same elements in other dimensions. Those that undo each other are left
 * out where the graph is built.
 */
#include "graph/operators.h"

#include <string.h>

/* ---- flatten --------------------------------------------------------------------------------- */

yk_status yki_infer_flatten(const yki_node *node, yki_shape *out)
{
    const yk_value *x = node->in[YKI_FLATTEN_X];
    if (x->ndim < 2)
        return yki_expect_dims(node, YKI_FLATTEN_X, 2);
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = 2, .dims = {x->dims[0], 1}};
    for (int i = 1; i < x->ndim; i++)
        out[0].dims[1] *= x->dims[i];
    return YK_OK;
}

yk_status yki_gradient_flatten(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_FLATTEN_X];
    if (needs[YKI_FLATTEN_X])
        din[YKI_FLATTEN_X] = yki_append_like(graph, &yki_op_reshape, NULL, dout, x);
    return YK_OK;
}

/* What a reshape has made of rows is those rows. */
yk_value *yk_flatten(yk_value *x)
{
    const yki_node *made_by = x && x->valid ? x->producer : NULL;
    if (made_by && made_by->op == &yki_op_reshape && made_by->in[YKI_RESHAPE_X]->ndim == 2 &&
        made_by->in[YKI_RESHAPE_X]->dims[0] == x->dims[0])
        return made_by->in[YKI_RESHAPE_X];
    return yki_emit_one(x, &yki_op_flatten, NULL);
}

/* ---- reshape: as a node, of rows; other values are flattened before -------------------------- */

/* The first dimension of the result whose size is to be found out: 1 where the first stays, as a
 * batch does. Of a value without a batch, -1 is what the others leave, or, if another is -1, that
 * the first stays. */
static int first_divided(const yk_value *x, const yki_attrs *a)
{
    bool stays = x->dims[0] == YK_BATCH || a->dims[0] == x->dims[0];
    for (int i = 1; i < a->ndim; i++)
        stays = stays || (a->dims[0] == -1 && a->dims[i] == -1);
    return stays;
}

static yk_status check_sizes(const yki_attrs *a, int first)
{
    int open = 0;
    for (int i = first; i < a->ndim; i++) {
        if (a->dims[i] < 1 && a->dims[i] != -1)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "dimension %d of the result is %lld, expected 1 or more, or -1", i,
                             (long long)a->dims[i]);
        open += a->dims[i] == -1;
    }
    if (open > 1)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "%d dimensions of the result are -1, expected at most one", open);
    return YK_OK;
}

/* Of the dimensions from `first` on, -1 being what the others leave. */
static yk_status divide_elements(const yk_value *x, const yki_attrs *a, int first, yki_shape *out)
{
    char text[96];
    int64_t elements = 1, known = 1;
    int open = -1;
    for (int i = first; i < x->ndim; i++)
        elements *= x->dims[i];
    bool fits = true;
    for (int i = first; i < a->ndim; i++) {
        out->dims[i] = a->dims[i];
        open = a->dims[i] == -1 ? i : open;
        int64_t size = a->dims[i] == -1 ? 1 : a->dims[i];
        fits = fits && size <= elements / known;
        known *= fits ? size : 1;
    }
    if (!fits || elements % known || (open < 0 && known != elements))
        return yki_error(
            YK_ERROR_INVALID_SHAPE, "input %s has %lld elements%s, which do not fit the result",
            yki_shape_text(x, text, sizeof text), (long long)elements, first ? " in a sample" : "");
    if (open >= 0)
        out->dims[open] = elements / known;
    return YK_OK;
}

yk_status yki_infer_reshape(const yki_node *node, yki_shape *out)
{
    const yki_attrs *a = &node->attrs;
    const yk_value *x = node->in[YKI_RESHAPE_X];
    char text[96];
    if (x->ndim < 1)
        return yki_expect_dims(node, YKI_RESHAPE_X, 1);
    if (a->ndim < 1 || a->ndim > YK_MAX_DIMS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "expected 1 to %d dimensions, not %d",
                         YK_MAX_DIMS, a->ndim);
    if (a->dims[0] != -1 && x->dims[0] == YK_BATCH)
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "the batch of input %s stays first: the first dimension cannot be %lld",
                         yki_shape_text(x, text, sizeof text), (long long)a->dims[0]);
    const int first = first_divided(x, a);
    YK_TRY(check_sizes(a, first));
    out[0] = (yki_shape){.dtype = x->dtype, .ndim = a->ndim, .dims = {x->dims[0]}};
    return divide_elements(x, a, first, &out[0]);
}

yk_status yki_gradient_reshape(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                               const bool *needs, yk_value **din)
{
    yk_value *x = node->in[YKI_RESHAPE_X], *dy = dout[YKI_RESHAPE_Y];
    if (!needs[YKI_RESHAPE_X])
        return YK_OK;
    const bool is_flat = x->ndim == 2 && x->dims[0] == dy->dims[0];
    const yki_op *op = is_flat ? &yki_op_flatten : &yki_op_reshape;
    din[YKI_RESHAPE_X] = yki_append_like(graph, op, NULL, &dy, x);
    return YK_OK;
}

static bool has_dims(const yk_value *x, const yki_shape *shape)
{
    return x->ndim == shape->ndim &&
           memcmp(shape->dims, x->dims, (size_t)x->ndim * sizeof *x->dims) == 0;
}

/* What was flattened, where that has the shape again: it need not be moved twice. */
static yk_value *before_flatten(yk_value *x, const yki_shape *shape)
{
    const yki_node *made_by = x->producer;
    const bool is_flat = made_by && made_by->op == &yki_op_flatten;
    return is_flat && has_dims(made_by->in[YKI_FLATTEN_X], shape) ? made_by->in[YKI_FLATTEN_X] : x;
}

yk_value *yk_reshape(yk_value *x, int ndim, const int64_t *dims)
{
    yki_attrs attrs = {.ndim = dims ? ndim : 0};
    if (dims && ndim > 0 && ndim <= YK_MAX_DIMS)
        memcpy(attrs.dims, dims, (size_t)ndim * sizeof *dims);
    const yki_node draft = {.op = &yki_op_reshape, .attrs = attrs, .in_count = 1, .in = {x}};
    yki_shape shape = {.ndim = 0};
    bool fits = x && x->valid && yki_infer_reshape(&draft, &shape) == YK_OK;
    if (fits && x->ndim > 2 && !has_dims(x, &shape))
        x = yk_flatten(x);
    if (fits)
        x = before_flatten(x, &shape);
    return fits && has_dims(x, &shape) ? x : yki_emit_one(x, &yki_op_reshape, &attrs);
}
