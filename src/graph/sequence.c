/*
 * Sequences (N, C, L), which convolutions, pools and batch norm take as images of one row,
 * (N, C, 1, L). An element-wise operator between two of these takes the images, too: otherwise
 * they would leave the layout of images for it, and come back.
 */
#include "graph/sequence.h"

yk_value *yki_as_row(yk_value *x)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) != 3)
        return NULL;
    return yk_reshape(x, 4, (int64_t[]){dims[0], dims[1], 1, dims[2]});
}

yk_value *yki_of_row(yk_value *y, const yk_value *row)
{
    int64_t dims[YK_MAX_DIMS];
    if (!row || yk_value_shape(y, dims) != 4)
        return y;
    return yk_reshape(y, 3, (int64_t[]){dims[0], dims[1], dims[3]});
}

/* The image that yki_of_row() has made a sequence of, or NULL. */
static yk_value *row_before(const yk_value *x)
{
    const yki_node *reshape = x && x->valid && x->ndim == 3 ? x->producer : NULL;
    if (!reshape || reshape->op != &yki_op_reshape)
        return NULL;
    const yki_node *flatten = reshape->in[YKI_RESHAPE_X]->producer;
    if (!flatten || flatten->op != &yki_op_flatten)
        return NULL;
    yk_value *row = flatten->in[YKI_FLATTEN_X];
    const bool is_row = row->ndim == 4 && row->dims[2] == 1 && row->dims[1] == x->dims[1];
    return is_row ? row : NULL;
}

/* Operators that images and sequences have in common. */
static bool is_elementwise(const yki_op *op)
{
    static const yki_op *const all[] = {
        &yki_op_relu,     &yki_op_relu6,     &yki_op_gelu,  &yki_op_sigmoid,    &yki_op_silu,
        &yki_op_tanh,     &yki_op_hardswish, &yki_op_scale, &yki_op_leaky_relu, &yki_op_elu,
        &yki_op_multiply, &yki_op_dropout,   &yki_op_add,   &yki_op_add_scalar};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == op)
            return true;
    return false;
}

bool yki_rows_before(const yki_op *op, yk_value *const *in, yk_value **rows)
{
    yk_value *any = NULL;
    if (!is_elementwise(op))
        return false;
    for (int i = 0; i < op->in_count; i++) {
        rows[i] = row_before(in[i]);
        any = rows[i] ? in[i] : any;
    }
    for (int i = 0; any && i < op->in_count; i++)
        if (!in[i] || !in[i]->valid || in[i]->graph != any->graph || !yki_same_dims(in[i], any))
            any = NULL; /* broadcast, or an error */
    for (int i = 0; any && i < op->in_count; i++)
        rows[i] = rows[i] ? rows[i] : yki_as_row(in[i]);
    return any != NULL;
}
