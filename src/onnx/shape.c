/* What moves elements, and embeddings, whose rows are gathered, as nodes of ONNX. */
#include "onnx/operators.h"

void yki_onnx_write_flatten(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_int(g, "axis", 1);
    yki_onnx_end_node(g, made);
}

/* A size of 0 is the input's. */
void yki_onnx_write_reshape(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    int64_t sizes[YK_MAX_DIMS] = {0};
    for (int d = out->dims[0] == node->in[0]->dims[0]; d < out->ndim; d++)
        sizes[d] = out->dims[d];
    yki_onnx_add_sizes(g, out, ".shape", out->ndim, sizes);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".shape");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_permute(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_list(g, "perm", node->attrs.dims, node->attrs.ndim);
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_concat(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < node->in_count && node->in[i]; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_int(g, "axis", node->attrs.dim);
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_slice(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const yki_attrs *attrs = &node->attrs;
    yki_onnx_add_sizes(g, out, ".starts", 1, &attrs->first);
    yki_onnx_add_sizes(g, out, ".ends", 1, (int64_t[]){attrs->first + attrs->count});
    yki_onnx_add_sizes(g, out, ".axes", 1, &attrs->dim);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".starts");
    yki_onnx_add_part(g, out, ".ends");
    yki_onnx_add_part(g, out, ".axes");
    yki_onnx_end_node(g, made);
}

/* ONNX wants how much is added before each dimension, and then after each. */
void yki_onnx_write_pad(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *in = node->in[0];
    const yki_attrs *attrs = &node->attrs;
    int64_t sizes[2 * YK_MAX_DIMS] = {0};
    sizes[attrs->dim] = attrs->first;
    sizes[in->ndim + attrs->dim] = attrs->count - attrs->first - in->dims[attrs->dim];
    yki_onnx_add_sizes(g, out, ".pads", 2 * in->ndim, sizes);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, in);
    yki_onnx_add_part(g, out, ".pads");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_embedding(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[YKI_EMBEDDING_WEIGHT]);
    yki_onnx_add_operand(g, node->in[YKI_EMBEDDING_INDICES]);
    yki_onnx_end_node(g, made);
}

/* One index for all rows is Gather's; others are points of GatherND, in int64 and with one
 * coordinate each. */
void yki_onnx_write_take(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *index = node->in[YKI_TAKE_ALONG_DIM_INDEX];
    const bool shared = node->attrs.shared;
    if (!shared) {
        size_t made = yki_onnx_begin_node(g, "Cast", out, ".index");
        yki_onnx_add_operand(g, index);
        yki_onnx_add_int(g, "to", yki_onnx_dtype(YK_I64));
        yki_onnx_end_node(g, made);
        yki_onnx_add_sizes(g, out, ".last", 1, (int64_t[]){-1});
        yki_onnx_add_step(g, "Unsqueeze", out, ".points", ".index", ".last");
    }
    size_t made = yki_onnx_begin_node(g, shared ? "Gather" : type, out, "");
    yki_onnx_add_operand(g, node->in[YKI_TAKE_ALONG_DIM_X]);
    if (shared)
        yki_onnx_add_operand(g, index);
    else
        yki_onnx_add_part(g, out, ".points");
    yki_onnx_add_int(g, shared ? "axis" : "batch_dims", node->attrs.dim);
    yki_onnx_end_node(g, made);
}
