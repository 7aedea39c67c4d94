/* See broadcast.h. */
#include "graph/broadcast.h"

/* The size of dimension d of the result, of which the value may have fewer: 1 there. */
static int64_t size_from_end(const yk_value *value, int ndim, int d)
{
    int own = d - (ndim - value->ndim);
    return own < 0 ? 1 : value->dims[own];
}

/* The sizes of the result; false where the two cannot be broadcast to each other. */
static bool broadcast(const yk_value *a, const yk_value *b, int64_t dims[YK_MAX_DIMS], int *ndim)
{
    *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int d = 0; d < *ndim; d++) {
        int64_t of_a = size_from_end(a, *ndim, d), of_b = size_from_end(b, *ndim, d);
        dims[d] = of_a == 1 ? of_b : of_a;
        bool fits = of_a == 1 || of_b == 1 || of_a == of_b;
        if (!fits || (d > 0 && dims[d] == YK_BATCH))
            return false;
    }
    return true;
}

yk_status yki_infer_broadcast(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[0], *b = node->in[1];
    int64_t dims[YK_MAX_DIMS];
    int ndim;
    char at[96], bt[96];
    YK_TRY(yki_infer_same(node, out));
    if (!broadcast(a, b, dims, &ndim))
        return yki_error(YK_ERROR_INVALID_SHAPE,
                         "%s and %s differ, and cannot be broadcast to each other",
                         yki_shape_text(a, at, sizeof at), yki_shape_text(b, bt, sizeof bt));
    out[0].ndim = ndim;
    for (int d = 0; d < ndim; d++)
        out[0].dims[d] = dims[d];
    return YK_OK;
}

yk_value *yki_reduce_to(yk_graph *graph, yk_value *dy, const yk_value *value)
{
    if (yki_same_dims(dy, value))
        return dy;
    return yki_append_like(graph, &yki_op_reduce, NULL, (yk_value *[]){dy, NULL}, value);
}

yk_value *yki_reduce_product(yk_graph *graph, yk_value *dy, yk_value *factor, const yk_value *value)
{
    yk_value *in[] = {dy, factor};
    if (!yki_same_dims(dy, value) && yki_same_dims(dy, factor))
        return yki_append_like(graph, &yki_op_reduce, NULL, in, value);
    yk_value *product = yki_append_like(graph, &yki_op_multiply, NULL, in, dy);
    return product ? yki_reduce_to(graph, product, value) : NULL;
}
