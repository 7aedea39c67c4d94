/* Pooling, images of another size, and sums over dimensions as nodes of ONNX. */
#include "onnx/operators.h"

#include <stdlib.h>

#include "base/memory.h"

/* A matrix for a node that makes value: its product with `cells` numbers, as rows or as columns, is
 * the means of `windows` adaptive windows of them. */
static void add_means(yki_onnx_graph *g, const yk_value *value, const char *suffix, int64_t cells,
                      int64_t windows, bool columns)
{
    const int64_t dims[] = {columns ? cells : windows, columns ? windows : cells};
    double *matrix = yki_calloc((size_t)(cells * windows), sizeof *matrix);
    g->message.failed |= !matrix;
    for (int64_t w = 0; matrix && w < windows; w++) {
        int64_t first = w * cells / windows, end = ((w + 1) * cells + windows - 1) / windows;
        for (int64_t c = first; c < end; c++)
            matrix[columns ? c * windows + w : w * cells + c] = 1 / (double)(end - first);
    }
    if (matrix)
        yki_onnx_add_initializer(g, value, suffix, 2, dims, matrix);
    free(matrix);
}

/* Makes the part ".padded": images with zeros around them. */
static void add_zeros_around(yki_onnx_graph *g, const yki_node *node)
{
    const int64_t *padding = node->attrs.padding;
    const int64_t pads[] = {0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]};
    yki_onnx_add_sizes(g, node->out[0], ".pads", 8, pads);
    size_t made = yki_onnx_begin_node(g, "Pad", node->out[0], ".padded");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, node->out[0], ".pads");
    yki_onnx_end_node(g, made);
}

/*
 * A window that reaches beyond the padding has more padding at the end, and ONNX's ceil_mode, which
 * not all runtimes understand alike, is not needed. Where a mean counts the padding but not what is
 * beyond it, the padding becomes part of the image.
 */
void yki_onnx_write_pool(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *in = node->in[0], *out = node->out[0];
    const yki_attrs *a = &node->attrs;
    int64_t pads[4];
    bool beyond = false;
    for (int d = 0; d < 2; d++) {
        const int64_t end = (out->dims[2 + d] - 1) * a->stride[d] + a->kernel[d];
        const int64_t after = end - a->padding[d] - in->dims[2 + d];
        beyond = beyond || after > a->padding[d];
        pads[d] = a->padding[d];
        pads[2 + d] = after > a->padding[d] ? after : a->padding[d];
    }
    const bool is_mean = node->op == &yki_op_avg_pool2d;
    const bool padded = is_mean && a->count_include_pad && beyond;
    for (int d = 0; padded && d < 4; d++)
        pads[d] -= a->padding[d % 2];
    if (padded)
        add_zeros_around(g, node);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    if (padded)
        yki_onnx_add_part(g, out, ".padded");
    else
        yki_onnx_add_operand(g, in);
    yki_onnx_add_list(g, "kernel_shape", a->kernel, 2);
    yki_onnx_add_list(g, "strides", a->stride, 2);
    yki_onnx_add_list(g, "pads", pads, 4);
    if (is_mean)
        yki_onnx_add_int(g, "count_include_pad", a->count_include_pad && !padded);
    yki_onnx_end_node(g, made);
}

/* ONNX pools windows of one size only. Means are linear, so these are rows x columns. */
void yki_onnx_write_adaptive_pool(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *in = node->in[0];
    add_means(g, out, ".rows", in->dims[2], out->dims[2], false);
    add_means(g, out, ".columns", in->dims[3], out->dims[3], true);
    size_t made = yki_onnx_begin_node(g, type, out, ".pooled");
    yki_onnx_add_part(g, out, ".rows");
    yki_onnx_add_operand(g, in);
    yki_onnx_end_node(g, made);
    yki_onnx_add_step(g, type, out, "", ".pooled", ".columns");
}

/* ONNX wants all four sizes, of which the batch's is known when it runs. */
void yki_onnx_write_interpolate(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const yki_attrs *a = &node->attrs;
    yki_onnx_add_sizes(g, out, ".size", 2, &out->dims[2]);
    size_t shape = yki_onnx_begin_node(g, "Shape", out, ".images");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_int(g, "end", 2);
    yki_onnx_end_node(g, shape);
    size_t sizes = yki_onnx_begin_node(g, "Concat", out, ".sizes");
    yki_onnx_add_part(g, out, ".images");
    yki_onnx_add_part(g, out, ".size");
    yki_onnx_add_int(g, "axis", 0);
    yki_onnx_end_node(g, sizes);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_skip_operand(g); /* the region of interest */
    yki_onnx_skip_operand(g); /* scales */
    yki_onnx_add_part(g, out, ".sizes");
    yki_onnx_add_text(g, "mode", a->bilinear ? "linear" : "nearest");
    yki_onnx_add_text(g, "nearest_mode", "floor");
    yki_onnx_add_text(g, "coordinate_transformation_mode",
                      a->align_corners ? "align_corners"
                      : a->bilinear    ? "half_pixel"
                                       : "asymmetric");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_sum(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    yki_onnx_add_sizes(g, out, ".axes", 1, &node->attrs.dim);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".axes");
    yki_onnx_end_node(g, made);
}

/* amax, amin, whose dimensions are an attribute until opset 18. */
void yki_onnx_write_extreme(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_list(g, "axes", &node->attrs.dim, 1);
    yki_onnx_end_node(g, made);
}
