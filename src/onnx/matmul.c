/* Linear layers and products of matrices as nodes of ONNX. */
#include "onnx/operators.h"

/* Gemm takes matrices only. */
static void write_linear_of_rows(yki_onnx_graph *g, const yki_node *node)
{
    const yk_value *out = node->out[YKI_LINEAR_Y], *bias = node->in[YKI_LINEAR_BIAS];
    size_t made = yki_onnx_begin_node(g, "Transpose", out, ".weight");
    yki_onnx_add_operand(g, node->in[YKI_LINEAR_WEIGHT]);
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, "MatMul", out, bias ? ".product" : "");
    yki_onnx_add_operand(g, node->in[YKI_LINEAR_X]);
    yki_onnx_add_part(g, out, ".weight");
    yki_onnx_end_node(g, made);
    if (!bias)
        return;
    made = yki_onnx_begin_node(g, "Add", out, "");
    yki_onnx_add_part(g, out, ".product");
    yki_onnx_add_operand(g, bias);
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_linear(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    if (node->out[YKI_LINEAR_Y]->ndim > 2) {
        write_linear_of_rows(g, node);
        return;
    }
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_LINEAR_INPUTS; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_int(g, "transB", 1);
    yki_onnx_end_node(g, made);
}

/* A side of matmul with its matrices apart and not transposed, which are made on the way to its
 * result; NULL where it is so already. */
static const char *write_matrices(yki_onnx_graph *g, const yki_node *node, int in, bool transposed,
                                  const char *const names[3])
{
    const yk_value *out = node->out[YKI_MATMUL_Y], *side = node->in[in];
    const int64_t heads = node->attrs.heads;
    const char *last = NULL;
    if (heads > 1) {
        yki_onnx_add_sizes(g, out, names[0], 4,
                           (int64_t[]){0, heads, side->dims[1] / heads, side->dims[2]});
        size_t made = yki_onnx_begin_node(g, "Reshape", out, names[1]);
        yki_onnx_add_operand(g, side);
        yki_onnx_add_part(g, out, names[0]);
        yki_onnx_end_node(g, made);
        last = names[1];
    }
    if (!transposed)
        return last;
    const int ndim = heads > 1 ? 4 : side->ndim;
    int64_t order[YK_MAX_DIMS] = {0, 1, 2, 3};
    order[ndim - 2] = ndim - 1;
    order[ndim - 1] = ndim - 2;
    size_t made = yki_onnx_begin_node(g, "Transpose", out, names[2]);
    if (last)
        yki_onnx_add_part(g, out, last);
    else
        yki_onnx_add_operand(g, side);
    yki_onnx_add_list(g, "perm", order, ndim);
    yki_onnx_end_node(g, made);
    return names[2];
}

void yki_onnx_write_matmul(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    static const char *const left[] = {".a_shape", ".a_heads", ".a_turned"};
    static const char *const right[] = {".b_shape", ".b_heads", ".b_turned"};
    const yk_value *out = node->out[YKI_MATMUL_Y];
    const char *a = write_matrices(g, node, YKI_MATMUL_A, node->attrs.transpose_a, left);
    const char *b = write_matrices(g, node, YKI_MATMUL_B, node->attrs.transpose_b, right);
    const bool apart = node->attrs.heads > 1;
    size_t made = yki_onnx_begin_node(g, type, out, apart ? ".products" : "");
    if (a)
        yki_onnx_add_part(g, out, a);
    else
        yki_onnx_add_operand(g, node->in[YKI_MATMUL_A]);
    if (b)
        yki_onnx_add_part(g, out, b);
    else
        yki_onnx_add_operand(g, node->in[YKI_MATMUL_B]);
    yki_onnx_end_node(g, made);
    if (!apart)
        return;
    yki_onnx_add_sizes(g, out, ".shape", 3, (int64_t[]){0, out->dims[1], out->dims[2]});
    yki_onnx_add_step(g, "Reshape", out, "", ".products", ".shape");
}
