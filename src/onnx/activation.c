/* Activations, softmax and what else is done to each element, as nodes of ONNX. */
#include "onnx/operators.h"

#include <math.h>

void yki_onnx_add_clip(yki_onnx_graph *g, const yk_value *out, const yk_value *x, const char *part,
                       double least, double most)
{
    yki_onnx_add_constant(g, out, ".least", least);
    yki_onnx_add_constant(g, out, ".most", most);
    size_t made = yki_onnx_begin_node(g, "Clip", out, "");
    if (x)
        yki_onnx_add_operand(g, x);
    else
        yki_onnx_add_part(g, out, part);
    yki_onnx_add_part(g, out, ".least");
    yki_onnx_add_part(g, out, ".most");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_relu6(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    (void)type;
    yki_onnx_add_clip(g, node->out[0], node->in[0], "", 0, 6);
}

void yki_onnx_write_clamp(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    (void)type;
    yki_onnx_add_clip(g, node->out[0], node->in[0], "", node->attrs.alpha, node->attrs.beta);
}

/* x (1 + erf(x / sqrt(2))) / 2 */
void yki_onnx_write_gelu(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    yki_onnx_add_constant(g, out, ".root", sqrt(2));
    yki_onnx_add_constant(g, out, ".one", 1);
    yki_onnx_add_constant(g, out, ".half", 0.5);
    size_t made = yki_onnx_begin_node(g, "Div", out, ".scaled");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".root");
    yki_onnx_end_node(g, made);
    yki_onnx_add_step(g, type, out, ".erf", ".scaled", NULL);
    yki_onnx_add_step(g, "Add", out, ".sum", ".erf", ".one");
    yki_onnx_add_step(g, "Mul", out, ".share", ".sum", ".half");
    made = yki_onnx_begin_node(g, "Mul", out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".share");
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_silu(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    size_t made = yki_onnx_begin_node(g, type, out, ".gate");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, "Mul", out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".gate");
    yki_onnx_end_node(g, made);
}

/* leaky_relu, elu */
void yki_onnx_write_alpha_attribute(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_float(g, "alpha", node->attrs.alpha);
    yki_onnx_end_node(g, made);
}

/* scale, add_scalar, pow: an operator of x and a constant. */
void yki_onnx_write_with_alpha(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    yki_onnx_add_constant(g, out, ".alpha", node->attrs.alpha);
    size_t made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_part(g, out, ".alpha");
    yki_onnx_end_node(g, made);
}

/* log_softmax, too */
void yki_onnx_write_softmax(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    yki_onnx_add_operand(g, node->in[0]);
    yki_onnx_add_int(g, "axis", -1);
    yki_onnx_end_node(g, made);
}
