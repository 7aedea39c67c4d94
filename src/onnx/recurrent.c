/* The cells of recurrent layers as nodes of ONNX, whose own LSTM and GRU are whole layers. */
#include "onnx/operators.h"

/* A step of two parts, or of a part and an operand. */
static void add_with_operand(yki_onnx_graph *g, const char *type, const yk_value *out,
                             const char *suffix, const char *part, const yk_value *operand)
{
    size_t made = yki_onnx_begin_node(g, type, out, suffix);
    yki_onnx_add_operand(g, operand);
    yki_onnx_add_part(g, out, part);
    yki_onnx_end_node(g, made);
}

/* Divides `part`, or if that is NULL the operand, into gates with these suffixes. */
static void split(yki_onnx_graph *g, const yk_value *out, const char *part, const yk_value *operand,
                  const char *const *suffixes, int gates)
{
    size_t made = yki_onnx_begin_node(g, "Split", out, suffixes[0]);
    for (int i = 1; i < gates; i++)
        yki_onnx_add_output(g, out, suffixes[i]);
    if (part)
        yki_onnx_add_part(g, out, part);
    else
        yki_onnx_add_operand(g, operand);
    yki_onnx_add_part(g, out, ".sizes");
    yki_onnx_add_int(g, "axis", 1);
    yki_onnx_end_node(g, made);
}

void yki_onnx_write_lstm_cell(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    static const char *const gates[] = {".i", ".f", ".g", ".o"};
    const yk_value *out = node->out[YKI_LSTM_CELL_HIDDEN], *next = node->out[YKI_LSTM_CELL_NEXT];
    const yk_value *cell = node->in[YKI_LSTM_CELL_CELL];
    const int64_t size = cell->dims[1], sizes[] = {size, size, size, size};
    yki_onnx_add_sizes(g, out, ".sizes", 4, sizes);
    size_t made = yki_onnx_begin_node(g, "Add", out, ".sum");
    yki_onnx_add_operand(g, node->in[YKI_LSTM_CELL_FROM_INPUT]);
    yki_onnx_add_operand(g, node->in[YKI_LSTM_CELL_FROM_HIDDEN]);
    yki_onnx_end_node(g, made);
    split(g, out, ".sum", NULL, gates, 4);
    yki_onnx_add_step(g, "Sigmoid", out, ".input", ".i", NULL);
    yki_onnx_add_step(g, "Sigmoid", out, ".forget", ".f", NULL);
    yki_onnx_add_step(g, "Tanh", out, ".new", ".g", NULL);
    yki_onnx_add_step(g, "Sigmoid", out, ".output", ".o", NULL);
    add_with_operand(g, "Mul", out, ".kept", ".forget", cell);
    yki_onnx_add_step(g, "Mul", out, ".added", ".input", ".new");
    made = yki_onnx_begin_node(g, "Add", next, "");
    yki_onnx_add_part(g, out, ".kept");
    yki_onnx_add_part(g, out, ".added");
    yki_onnx_end_node(g, made);
    made = yki_onnx_begin_node(g, "Tanh", out, ".shown");
    yki_onnx_add_operand(g, next);
    yki_onnx_end_node(g, made);
    yki_onnx_add_step(g, type, out, "", ".output", ".shown");
}

void yki_onnx_write_gru_cell(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    static const char *const from_input[] = {".r", ".z", ".n"};
    static const char *const from_hidden[] = {".hidden_r", ".hidden_z", ".hidden_n"};
    const yk_value *out = node->out[YKI_GRU_CELL_NEXT], *hidden = node->in[YKI_GRU_CELL_HIDDEN];
    const int64_t size = hidden->dims[1], sizes[] = {size, size, size};
    yki_onnx_add_sizes(g, out, ".sizes", 3, sizes);
    split(g, out, NULL, node->in[YKI_GRU_CELL_FROM_INPUT], from_input, 3);
    split(g, out, NULL, node->in[YKI_GRU_CELL_FROM_HIDDEN], from_hidden, 3);
    yki_onnx_add_step(g, "Add", out, ".sum_r", ".r", ".hidden_r");
    yki_onnx_add_step(g, "Sigmoid", out, ".reset", ".sum_r", NULL);
    yki_onnx_add_step(g, "Add", out, ".sum_z", ".z", ".hidden_z");
    yki_onnx_add_step(g, "Sigmoid", out, ".update", ".sum_z", NULL);
    yki_onnx_add_step(g, "Mul", out, ".kept", ".reset", ".hidden_n");
    yki_onnx_add_step(g, "Add", out, ".sum_n", ".n", ".kept");
    yki_onnx_add_step(g, "Tanh", out, ".new", ".sum_n", NULL);
    add_with_operand(g, "Sub", out, ".back", ".new", hidden);
    yki_onnx_add_step(g, "Mul", out, ".moved", ".update", ".back");
    yki_onnx_add_step(g, type, out, "", ".new", ".moved");
}
