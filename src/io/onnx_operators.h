/*
 * How operators become nodes of ONNX, by kinds in onnx_*.c: each writes what makes the outputs of a
 * node, with onnx_write.h. type: ONNX's name of the operator, where it has several.
 */
#ifndef YKI_ONNX_OPERATORS_H
#define YKI_ONNX_OPERATORS_H

#include "io/onnx_write.h"

typedef void yki_onnx_translator(yki_onnx_graph *g, const yki_node *node, const char *type);

/* onnx_conv.c */
extern yki_onnx_translator yki_onnx_write_conv2d, yki_onnx_write_conv_transpose2d;
/* onnx_matmul.c */
extern yki_onnx_translator yki_onnx_write_linear, yki_onnx_write_matmul;
/* onnx_norm.c */
extern yki_onnx_translator yki_onnx_write_batch_norm, yki_onnx_write_layer_norm,
    yki_onnx_write_rms_norm, yki_onnx_write_group_norm;
/* onnx_activation.c */
extern yki_onnx_translator yki_onnx_write_relu6, yki_onnx_write_clamp, yki_onnx_write_gelu,
    yki_onnx_write_silu, yki_onnx_write_leaky_relu, yki_onnx_write_with_alpha,
    yki_onnx_write_softmax;
/* onnx_pool.c, sums too */
extern yki_onnx_translator yki_onnx_write_pool, yki_onnx_write_adaptive_pool, yki_onnx_write_sum;
/* onnx_attention.c */
extern yki_onnx_translator yki_onnx_write_attention, yki_onnx_write_rotary;
/* onnx_shape.c, and rows that indices choose */
extern yki_onnx_translator yki_onnx_write_flatten, yki_onnx_write_reshape, yki_onnx_write_permute,
    yki_onnx_write_concat, yki_onnx_write_slice, yki_onnx_write_pad, yki_onnx_write_embedding;

/* min(max(x, least), most), where x is an operand, or NULL for a part of out. */
void yki_onnx_add_clip(yki_onnx_graph *g, const yk_value *out, const yk_value *x, const char *part,
                       double least, double most);

#endif
