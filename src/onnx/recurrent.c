/* Recurrent layers as ONNX's LSTM and GRU, which have their steps first and compute what the inputs
 * give to the gates themselves; and their cells, for which ONNX has no operators. */
#include "onnx/operators.h"

#include <stdio.h>

/* A step of two parts, or of a part and an operand. */
static void add_with_operand(yki_onnx_graph *g, const char *type, const yk_value *out,
                             const char *suffix, const char *part, const yk_value *operand)
{
    size_t made = yki_onnx_begin_node(g, type, out, suffix);
    yki_onnx_add_operand(g, operand);
    yki_onnx_add_part(g, out, part);
    yki_onnx_end_node(g, made);
}

/* Divides `part`, or if that is NULL the operand, into gates with these suffixes, along an axis. */
static void split(yki_onnx_graph *g, const yk_value *out, const char *part, const yk_value *operand,
                  const char *const *suffixes, int gates, int axis)
{
    size_t made = yki_onnx_begin_node(g, "Split", out, suffixes[0]);
    for (int i = 1; i < gates; i++)
        yki_onnx_add_output(g, out, suffixes[i]);
    if (part)
        yki_onnx_add_part(g, out, part);
    else
        yki_onnx_add_operand(g, operand);
    yki_onnx_add_part(g, out, ".sizes");
    yki_onnx_add_int(g, "axis", axis);
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
    split(g, out, ".sum", NULL, gates, 4, 1);
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
    split(g, out, NULL, node->in[YKI_GRU_CELL_FROM_INPUT], from_input, 3, 1);
    split(g, out, NULL, node->in[YKI_GRU_CELL_FROM_HIDDEN], from_hidden, 3, 1);
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

/* ---- all steps ------------------------------------------------------------------------------- */

/* The order of ONNX's gates, by numbers of ours. */
static const int lstm_order[] = {0, 3, 1, 2}, gru_order[] = {1, 0, 2};

static const int *order_of(const yki_node *node)
{
    return node->op == &yki_op_lstm ? lstm_order : gru_order;
}

static int gates_of(const yki_node *node)
{
    return node->op == &yki_op_lstm ? 4 : 3;
}

/* A whole node that adds or removes the axis of a constant; `part` or the operand is what it does
 * so to. */
static void change_axis(yki_onnx_graph *g, const char *type, const yk_value *made,
                        const char *suffix, const yk_value *out, const char *part,
                        const yk_value *operand, const char *axis)
{
    size_t node = yki_onnx_begin_node(g, type, made, suffix);
    if (operand)
        yki_onnx_add_operand(g, operand);
    else
        yki_onnx_add_part(g, out, part);
    yki_onnx_add_part(g, out, axis);
    yki_onnx_end_node(g, node);
}

/* Weights (gates S, I), or two biases (gates S), as ONNX has them: (1, gates S, I), or (1, 2 gates
 * S). `to` is one letter after a point. */
static void write_weights(yki_onnx_graph *g, const yki_node *node, const char *to,
                          const yk_value *const *values, int count)
{
    const yk_value *out = node->out[0];
    const int gates = gates_of(node), *order = order_of(node);
    char names[2][4][16], joined[16];
    snprintf(joined, sizeof joined, "%s_joined", to);
    for (int v = 0; v < count; v++) {
        const char *parts[4];
        for (int i = 0; i < gates; i++) {
            snprintf(names[v][i], sizeof names[v][i], "%s%d_%d", to, v, i);
            parts[i] = names[v][i];
        }
        split(g, out, NULL, values[v], parts, gates, 0);
    }
    size_t made = yki_onnx_begin_node(g, "Concat", out, joined);
    for (int v = 0; v < count; v++)
        for (int i = 0; i < gates; i++)
            yki_onnx_add_part(g, out, names[v][order[i]]);
    yki_onnx_add_int(g, "axis", 0);
    yki_onnx_end_node(g, made);
    change_axis(g, "Unsqueeze", out, to, out, joined, NULL, ".first");
}

/* (N, T, ...) and (T, N, ...) are each other, turned. */
static size_t begin_turn(yki_onnx_graph *g, const yk_value *out, const char *suffix)
{
    size_t made = yki_onnx_begin_node(g, "Transpose", out, suffix);
    yki_onnx_add_list(g, "perm", (int64_t[]){1, 0, 2}, 3);
    return made;
}

/* Lengths as int32, and states (N, S) as (1, N, S). */
static void write_operands(yki_onnx_graph *g, const yki_node *node)
{
    const yk_value *out = node->out[0], *lengths = node->in[YKI_LSTM_LENGTHS];
    static const char *const states[] = {".h0", ".c0"};
    if (lengths) {
        size_t made = yki_onnx_begin_node(g, "Cast", out, ".lengths");
        yki_onnx_add_operand(g, lengths);
        yki_onnx_add_int(g, "to", yki_onnx_dtype(YK_I32));
        yki_onnx_end_node(g, made);
    }
    for (int i = YKI_LSTM_H0; i <= YKI_LSTM_C0 && i < node->in_count; i++)
        if (node->in[i])
            change_axis(g, "Unsqueeze", out, states[i - YKI_LSTM_H0], out, NULL, node->in[i],
                        ".first");
}

static void add_part_if(yki_onnx_graph *g, const yk_value *out, const char *suffix,
                        const yk_value *operand)
{
    if (operand)
        yki_onnx_add_part(g, out, suffix);
    else
        yki_onnx_skip_operand(g);
}

static void write_steps(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const bool is_lstm = node->op == &yki_op_lstm;
    size_t made = yki_onnx_begin_node(g, type, out, ".steps");
    yki_onnx_add_output(g, out, ".h_n");
    if (is_lstm)
        yki_onnx_add_output(g, out, ".c_n");
    yki_onnx_add_part(g, out, ".x");
    yki_onnx_add_part(g, out, ".w");
    yki_onnx_add_part(g, out, ".r");
    yki_onnx_add_part(g, out, ".b");
    add_part_if(g, out, ".lengths", node->in[YKI_LSTM_LENGTHS]);
    add_part_if(g, out, ".h0", node->in[YKI_LSTM_H0]);
    if (is_lstm)
        add_part_if(g, out, ".c0", node->in[YKI_LSTM_C0]);
    yki_onnx_add_int(g, "hidden_size", node->in[YKI_LSTM_WEIGHT]->dims[1]);
    yki_onnx_add_text(g, "direction", node->attrs.reverse ? "reverse" : "forward");
    if (!is_lstm)
        yki_onnx_add_int(g, "linear_before_reset", 1);
    yki_onnx_end_node(g, made);
}

const yki_node *yki_onnx_linear_of(const yki_onnx_graph *g, const yki_node *node)
{
    if (node->op != &yki_op_lstm && node->op != &yki_op_gru)
        return NULL;
    const yki_node *before = yki_onnx_resolve(g, node->in[YKI_LSTM_FROM_INPUT])->producer;
    bool fits = before && before->op == &yki_op_linear && before->in[YKI_LINEAR_BIAS];
    return fits ? before : NULL;
}

void yki_onnx_write_recurrent(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yki_node *linear = yki_onnx_linear_of(g, node);
    const yk_value *out = node->out[0];
    const int64_t size = node->in[YKI_LSTM_WEIGHT]->dims[1], sizes[] = {size, size, size, size};
    const yk_value *const biases[] = {linear->in[YKI_LINEAR_BIAS], node->in[YKI_LSTM_BIAS]};
    yki_onnx_add_sizes(g, out, ".sizes", gates_of(node), sizes);
    yki_onnx_add_sizes(g, out, ".first", 1, (int64_t[]){0});
    yki_onnx_add_sizes(g, out, ".second", 1, (int64_t[]){1});
    write_weights(g, node, ".w", (const yk_value *[]){linear->in[YKI_LINEAR_WEIGHT]}, 1);
    write_weights(g, node, ".r", (const yk_value *[]){node->in[YKI_LSTM_WEIGHT]}, 1);
    write_weights(g, node, ".b", biases, 2);
    size_t made = begin_turn(g, out, ".x");
    yki_onnx_add_operand(g, linear->in[YKI_LINEAR_X]);
    yki_onnx_end_node(g, made);
    write_operands(g, node);
    write_steps(g, node, type);
    change_axis(g, "Squeeze", out, ".rows", out, ".steps", NULL, ".second");
    made = begin_turn(g, out, "");
    yki_onnx_add_part(g, out, ".rows");
    yki_onnx_end_node(g, made);
    change_axis(g, "Squeeze", node->out[YKI_LSTM_H_N], "", out, ".h_n", NULL, ".first");
    if (node->op == &yki_op_lstm)
        change_axis(g, "Squeeze", node->out[YKI_LSTM_C_N], "", out, ".c_n", NULL, ".first");
}
