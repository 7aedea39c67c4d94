/* Operators that choose, as nodes of ONNX, whose conditions are booleans. */
#include "onnx/operators.h"

enum { BOOL = 9 /* in TensorProto.DataType */ };

/* A comparison of both operands. */
static void write_condition(yki_onnx_graph *g, const yki_node *node, const char *type,
                            const char *part)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], part);
    yki_onnx_add_operand(g, node->in[YKI_COMPARE_A]);
    yki_onnx_add_operand(g, node->in[YKI_COMPARE_B]);
    yki_onnx_end_node(g, made);
}

/* condition ? yes : no, of parts of the result. */
static void write_where(yki_onnx_graph *g, const yk_value *out, const char *part,
                        const char *condition, const char *yes, const char *no)
{
    size_t made = yki_onnx_begin_node(g, "Where", out, part);
    yki_onnx_add_part(g, out, condition);
    yki_onnx_add_part(g, out, yes);
    yki_onnx_add_part(g, out, no);
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_compare(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    (void)type;
    const yk_value *out = node->out[0];
    const double equal = node->attrs.alpha, unordered = node->attrs.beta;
    if (unordered == 0 && (equal == 0 || equal == 1)) {
        write_condition(g, node, equal != 0 ? "GreaterOrEqual" : "Greater", ".condition");
        size_t made = yki_onnx_begin_node(g, "Cast", out, "");
        yki_onnx_add_part(g, out, ".condition");
        yki_onnx_add_int(g, "to", yki_onnx_dtype(out->dtype));
        yki_onnx_end_node(g, made);
        return;
    }
    yki_onnx_add_constant(g, out, ".one", 1);
    yki_onnx_add_constant(g, out, ".zero", 0);
    yki_onnx_add_constant(g, out, ".equal", equal);
    yki_onnx_add_constant(g, out, ".unordered", unordered);
    write_condition(g, node, "Greater", ".above");
    write_condition(g, node, "Less", ".below");
    write_condition(g, node, "Equal", ".same");
    write_where(g, out, ".level", ".same", ".equal", ".unordered");
    write_where(g, out, ".rest", ".below", ".zero", ".level");
    write_where(g, out, "", ".above", ".one", ".rest");
}

void yki_onnx_write_masked_fill(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *x = node->in[YKI_MASKED_FILL_X];
    const bool fills_true = node->attrs.beta == 0;
    yki_onnx_add_constant(g, out, ".value", node->attrs.alpha);
    size_t made = yki_onnx_begin_node(g, "Cast", out, ".mask");
    yki_onnx_add_operand(g, node->in[YKI_MASKED_FILL_MASK]);
    yki_onnx_add_int(g, "to", BOOL);
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, type, out, "");
    yki_onnx_add_part(g, out, ".mask");
    if (!fills_true)
        yki_onnx_add_operand(g, x);
    yki_onnx_add_part(g, out, ".value");
    if (fills_true)
        yki_onnx_add_operand(g, x);
    yki_onnx_end_node(g, made);
}
