/* Normalisation as nodes of ONNX, of which fused norms become their parts again. */
#include "onnx/operators.h"

#include <stdio.h>

/* The activation of a part of out, which makes out. */
static void write_fused(yki_onnx_graph *g, yki_fused activation, const yk_value *out,
                        const char *part)
{
    switch (activation) {
    case YKI_FUSED_NONE:
        return;
    case YKI_FUSED_RELU:
        yki_onnx_add_step(g, "Relu", out, "", part, NULL);
        return;
    case YKI_FUSED_RELU6:
        yki_onnx_add_clip(g, out, NULL, part, 0, 6);
        return;
    case YKI_FUSED_SILU:
        yki_onnx_add_step(g, "Sigmoid", out, ".gate", part, NULL);
        yki_onnx_add_step(g, "Mul", out, "", part, ".gate");
        return;
    case YKI_FUSED_HARDSWISH:
        yki_onnx_add_step(g, "HardSwish", out, "", part, NULL);
        return;
    }
}

void yki_onnx_write_batch_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_BATCH_NORM_Y];
    const yk_value *residual = node->in[YKI_BATCH_NORM_RESIDUAL];
    const char *sum = node->attrs.activation ? ".sum" : "", *norm = residual ? ".norm" : sum;
    size_t made = yki_onnx_begin_node(g, type, out, norm);
    for (int i = YKI_BATCH_NORM_X; i <= YKI_BATCH_NORM_RUNNING_VAR; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_float(g, "epsilon", node->attrs.eps);
    yki_onnx_end_node(g, made);
    if (residual) {
        made = yki_onnx_begin_node(g, "Add", out, sum);
        yki_onnx_add_part(g, out, norm);
        yki_onnx_add_operand(g, residual);
        yki_onnx_end_node(g, made);
    }
    write_fused(g, node->attrs.activation, out, sum);
}

void yki_onnx_write_layer_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_LAYER_NORM_INPUTS; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_add_int(g, "axis", -(int64_t)node->in[YKI_LAYER_NORM_WEIGHT]->ndim);
    yki_onnx_add_float(g, "epsilon", node->attrs.eps);
    yki_onnx_end_node(g, made);
}

/* ONNX has RMSNormalization from set 23 on, so here are its parts: weight x / sqrt(mean(x^2) +
 * eps). */
void yki_onnx_write_rms_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *x = node->in[YKI_RMS_NORM_X];
    int64_t axes[YK_MAX_DIMS];
    const int rows = node->in[YKI_RMS_NORM_WEIGHT]->ndim;
    for (int d = 0; d < rows; d++)
        axes[d] = d - rows;
    size_t made = yki_onnx_begin_node(g, "Mul", out, ".squares");
    yki_onnx_add_operand(g, x);
    yki_onnx_add_operand(g, x);
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, type, out, ".mean");
    yki_onnx_add_part(g, out, ".squares");
    yki_onnx_add_list(g, "axes", axes, rows);
    yki_onnx_end_node(g, made);
    yki_onnx_add_constant(g, out, ".eps", node->attrs.eps);
    yki_onnx_add_step(g, "Add", out, ".variance", ".mean", ".eps");
    yki_onnx_add_step(g, "Sqrt", out, ".rms", ".variance", NULL);
    made = yki_onnx_begin_node(g, "Div", out, ".normalised");
    yki_onnx_add_operand(g, x);
    yki_onnx_add_part(g, out, ".rms");
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, "Mul", out, "");
    yki_onnx_add_part(g, out, ".normalised");
    yki_onnx_add_operand(g, node->in[YKI_RMS_NORM_WEIGHT]);
    yki_onnx_end_node(g, made);
}

/* A weight or bias (C) that is broadcast to (N, C, ...) and applied to a part of value. */
static void write_of_channels(yki_onnx_graph *g, const char *type, const yk_value *out,
                              const char *suffix, const char *part, const yk_value *vector,
                              const char *name)
{
    char shape[32];
    int64_t sizes[YK_MAX_DIMS] = {vector->dims[0]};
    for (int d = 1; d < out->ndim - 1; d++)
        sizes[d] = 1;
    snprintf(shape, sizeof shape, "%s_shape", name);
    yki_onnx_add_sizes(g, out, shape, out->ndim - 1, sizes);
    size_t made = yki_onnx_begin_node(g, "Reshape", out, name);
    yki_onnx_add_operand(g, vector);
    yki_onnx_add_part(g, out, shape);
    yki_onnx_end_node(g, made);
    yki_onnx_add_step(g, type, out, suffix, part, name);
}

/* Set 17 has no GroupNormalization: a group is one channel of InstanceNormalization. */
void yki_onnx_write_group_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_GROUP_NORM_Y], *weight = node->in[YKI_GROUP_NORM_WEIGHT],
                   *bias = node->in[YKI_GROUP_NORM_BIAS];
    const int64_t groups = node->attrs.groups;
    const char *normal = weight || bias ? ".normal" : "", *scaled = bias ? ".scaled" : "";
    int64_t sizes[YK_MAX_DIMS] = {0};
    for (int d = 1; d < out->ndim; d++)
        sizes[d] = out->dims[d];
    yki_onnx_add_sizes(g, out, ".groups_shape", 3, (int64_t[]){0, groups, -1});
    size_t made = yki_onnx_begin_node(g, "Reshape", out, ".groups");
    yki_onnx_add_operand(g, node->in[YKI_GROUP_NORM_X]);
    yki_onnx_add_part(g, out, ".groups_shape");
    yki_onnx_end_node(g, made);
    yki_onnx_add_repeated(g, out, ".ones", groups, 1);
    yki_onnx_add_repeated(g, out, ".zeros", groups, 0);
    made = yki_onnx_begin_node(g, type, out, ".normal_groups");
    yki_onnx_add_part(g, out, ".groups");
    yki_onnx_add_part(g, out, ".ones");
    yki_onnx_add_part(g, out, ".zeros");
    yki_onnx_add_float(g, "epsilon", node->attrs.eps);
    yki_onnx_end_node(g, made);
    yki_onnx_add_sizes(g, out, ".shape", out->ndim, sizes);
    yki_onnx_add_step(g, "Reshape", out, normal, ".normal_groups", ".shape");
    if (weight)
        write_of_channels(g, "Mul", out, scaled, normal, weight, ".weight");
    if (bias)
        write_of_channels(g, "Add", out, "", weight ? scaled : normal, bias, ".bias");
}
