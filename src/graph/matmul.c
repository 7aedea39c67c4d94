/*
 * matmul: products of the matrices of two values. Both gradients are products, too, in which one
 * side is transposed, so the operator takes either side transposed.
 */
#include "graph/operators.h"

/* Of one matrix of a side, as the product takes it. */
typedef struct matrix {
    int64_t rows, columns;
} matrix;

static matrix matrix_of(const yk_value *value, int64_t heads, bool is_transposed)
{
    const int64_t rows = value->dims[value->ndim - 2] / heads,
                  columns = value->dims[value->ndim - 1];
    return is_transposed ? (matrix){columns, rows} : (matrix){rows, columns};
}

/* Whether both sides have matrices, and as many of them. */
static bool are_alike(const yk_value *a, const yk_value *b)
{
    bool alike = a->ndim == b->ndim && a->ndim >= 2;
    for (int i = 0; alike && i < a->ndim - 2; i++)
        alike = a->dims[i] == b->dims[i];
    return alike && a->dims[a->ndim - 2] != YK_BATCH && b->dims[b->ndim - 2] != YK_BATCH;
}

static yk_status refuse(const yk_value *a, const yk_value *b, const char *why)
{
    char left[96], right[96];
    return yki_error(YK_ERROR_INVALID_SHAPE, "left side %s does not fit right side %s%s",
                     yki_shape_text(a, left, sizeof left), yki_shape_text(b, right, sizeof right),
                     why);
}

yk_status yki_infer_matmul(const yki_node *node, yki_shape *out)
{
    const yk_value *a = node->in[YKI_MATMUL_A], *b = node->in[YKI_MATMUL_B];
    const yki_attrs *attrs = &node->attrs;
    YK_TRY(yki_expect_float(node, YKI_MATMUL_INPUTS));
    if (!are_alike(a, b))
        return refuse(a, b,
                      ", expected (N, ..., M, K) and (N, ..., K, P); the product with a weight, "
                      "which has no batch, is yk_linear");
    const matrix left = matrix_of(a, attrs->heads, attrs->transpose_a),
                 right = matrix_of(b, attrs->heads, attrs->transpose_b);
    if (left.columns != right.rows)
        return refuse(a, b, ", expected (..., M, K) and (..., K, P)");
    out[0] = yki_shape_of(a);
    out[0].dims[a->ndim - 2] = left.rows * attrs->heads;
    out[0].dims[a->ndim - 1] = right.columns;
    return YK_OK;
}

/* A side of a product. */
typedef struct side {
    yk_value *value;
    bool is_transposed;
} side;

static yk_value *append_product(yk_graph *graph, const yki_node *node, side a, side b,
                                const yk_value *like)
{
    const yki_attrs attrs = {
        .heads = node->attrs.heads, .transpose_a = a.is_transposed, .transpose_b = b.is_transposed};
    return yki_append_like(graph, &yki_op_matmul, &attrs, (yk_value *[]){a.value, b.value}, like);
}

/* da = dy b^T and db = a^T dy; of a side that is transposed in memory, the transpose of that. */
yk_status yki_gradient_matmul(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                              const bool *needs, yk_value **din)
{
    const side a = {node->in[YKI_MATMUL_A], node->attrs.transpose_a};
    const side b = {node->in[YKI_MATMUL_B], node->attrs.transpose_b};
    const side dy = {dout[YKI_MATMUL_Y], false}, dy_t = {dout[YKI_MATMUL_Y], true};
    const side a_t = {a.value, !a.is_transposed}, b_t = {b.value, !b.is_transposed};
    if (needs[YKI_MATMUL_A])
        din[YKI_MATMUL_A] = a.is_transposed ? append_product(graph, node, b, dy_t, a.value)
                                            : append_product(graph, node, dy, b_t, a.value);
    if (needs[YKI_MATMUL_B])
        din[YKI_MATMUL_B] = b.is_transposed ? append_product(graph, node, dy_t, a, b.value)
                                            : append_product(graph, node, a_t, dy, b.value);
    return YK_OK;
}

/* ---- building -------------------------------------------------------------------------------- */

/* What it was before its last two dimensions were exchanged, if that is how it was made. The
 * permute has no readers then, and is not computed. */
static side untransposed(yk_value *value)
{
    const yki_node *made_by = value->producer;
    const int last = value->ndim - 1;
    if (!made_by || made_by->op != &yki_op_permute)
        return (side){value, false};
    const int64_t *order = made_by->attrs.dims;
    bool is_transpose = order[last] == last - 1 && order[last - 1] == last;
    for (int i = 0; is_transpose && i < last - 1; i++)
        is_transpose = order[i] == i;
    return is_transpose ? (side){made_by->in[YKI_PERMUTE_X], true} : (side){value, false};
}

/* How many matrices a sample of (N, ..., R, C) has. */
static int64_t matrices_of(const yk_value *x)
{
    int64_t count = 1;
    for (int i = 1; i < x->ndim - 2; i++)
        count *= x->dims[i];
    return count;
}

/* (N, ..., R, C) -> (N, ... R, C), as the operator has it. */
static yk_value *as_rows(yk_value *x)
{
    const int64_t rows = matrices_of(x) * x->dims[x->ndim - 2];
    return yk_reshape(x, 3, (int64_t[]){x->dims[0], rows, x->dims[x->ndim - 1]});
}

/* Sides that do not fit are emitted as they are, for their error. */
yk_value *yk_matmul(yk_value *a, yk_value *b)
{
    yki_attrs attrs = {.heads = 1};
    bool fits = a && b && a->valid && b->valid && a->graph == b->graph && are_alike(a, b) &&
                a->dims[a->ndim - 1] == b->dims[b->ndim - 2];
    if (!fits)
        return yki_emit(&yki_op_matmul, &attrs, (yk_value *[]){a, b});
    yki_shape shape = yki_shape_of(a);
    shape.dims[a->ndim - 1] = b->dims[b->ndim - 1];
    const side left = untransposed(a), right = untransposed(b);
    attrs.transpose_a = left.is_transposed;
    attrs.transpose_b = right.is_transposed;
    if (a->ndim < 4)
        return yki_emit(&yki_op_matmul, &attrs, (yk_value *[]){left.value, right.value});
    attrs.heads = matrices_of(a);
    yk_value *sides[] = {as_rows(left.value), as_rows(right.value)};
    return yk_reshape(yki_emit(&yki_op_matmul, &attrs, sides), shape.ndim, shape.dims);
}
