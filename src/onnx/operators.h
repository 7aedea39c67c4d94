/*
 * How operators become nodes of ONNX, in a file for each kind. Each function writes what makes the
 * outputs of a node (write.h). type: ONNX's name of the operator, where it has several.
 */
#ifndef YKI_ONNX_OPERATORS_H
#define YKI_ONNX_OPERATORS_H

#include "onnx/write.h"

typedef void yki_onnx_translator(yki_onnx_graph *g, const yki_node *node, const char *type);

/* conv.c */
extern yki_onnx_translator yki_onnx_write_conv2d, yki_onnx_write_conv_transpose2d;
/* matmul.c */
extern yki_onnx_translator yki_onnx_write_linear, yki_onnx_write_matmul;
/* compare.c */
extern yki_onnx_translator yki_onnx_write_compare, yki_onnx_write_masked_fill;
/* norm.c */
extern yki_onnx_translator yki_onnx_write_batch_norm, yki_onnx_write_layer_norm,
    yki_onnx_write_rms_norm, yki_onnx_write_group_norm;
/* activation.c */
extern yki_onnx_translator yki_onnx_write_relu6, yki_onnx_write_clamp, yki_onnx_write_gelu,
    yki_onnx_write_silu, yki_onnx_write_alpha_attribute, yki_onnx_write_with_alpha,
    yki_onnx_write_softmax;
/* pool.c, images of another size, sums and extremes too */
extern yki_onnx_translator yki_onnx_write_pool, yki_onnx_write_adaptive_pool,
    yki_onnx_write_interpolate, yki_onnx_write_sum, yki_onnx_write_extreme;
/* attention.c */
extern yki_onnx_translator yki_onnx_write_attention, yki_onnx_write_rotary;
extern yki_onnx_translator yki_onnx_write_lstm_cell, yki_onnx_write_gru_cell,
    yki_onnx_write_recurrent;
/* Of lstm or gru, the linear layer before it, which becomes a part of ONNX's operator; NULL of
 * other nodes. */
const yki_node *yki_onnx_linear_of(const yki_onnx_graph *g, const yki_node *node);
/* shape.c, and rows that indices choose */
extern yki_onnx_translator yki_onnx_write_flatten, yki_onnx_write_reshape, yki_onnx_write_permute,
    yki_onnx_write_concat, yki_onnx_write_slice, yki_onnx_write_pad, yki_onnx_write_embedding,
    yki_onnx_write_take;

/* min(max(x, least), most), where x is an operand, or NULL for a part of out. */
void yki_onnx_add_clip(yki_onnx_graph *g, const yk_value *out, const yk_value *x, const char *part,
                       double least, double most);

#endif
