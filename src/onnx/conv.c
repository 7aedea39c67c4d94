/* Convolutions as nodes of ONNX. */
#include "onnx/operators.h"

void yki_onnx_write_conv2d(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_CONV2D_INPUTS; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_list(g, "strides", node->attrs.stride, 2);
    yki_onnx_add_pads(g, node->attrs.padding);
    yki_onnx_add_list(g, "dilations", node->attrs.dilation, 2);
    yki_onnx_add_int(g, "group", node->attrs.groups);
    yki_onnx_end_node(g, made);
}

/* ONNX adds output_padding as yoke does, at the bottom and on the right. */
void yki_onnx_write_conv_transpose2d(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_CONV_TRANSPOSE2D_INPUTS; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_list(g, "strides", node->attrs.stride, 2);
    yki_onnx_add_pads(g, node->attrs.padding);
    yki_onnx_add_list(g, "output_padding", node->attrs.output_padding, 2);
    yki_onnx_add_list(g, "dilations", node->attrs.dilation, 2);
    yki_onnx_add_int(g, "group", node->attrs.groups);
    yki_onnx_end_node(g, made);
}
