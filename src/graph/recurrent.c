/*
 * The cells of recurrent layers: what they do with their gates, element by element. LSTM after
 * Hochreiter and Schmidhuber 1997, with the forget gates of Gers et al. 1999; GRU after Cho et al.
 * 2014, in PyTorch's form, whose reset gate multiplies what the hidden state gives to the new one.
 * Gates are kept for backward as they are after their activations.
 */
#include "graph/operators.h"

enum { LSTM_GATES = 4, GRU_GATES = 3 };

/* Gates (N, gates S) from the input and from the hidden state, and a state (N, S). */
static yk_status expect_cell(const yki_node *node, int64_t gates)
{
    enum { FROM_INPUT, FROM_HIDDEN, STATE };
    char text[96], other[96];
    const yk_value *state = node->in[STATE];
    YK_TRY(yki_expect_float(node, STATE + 1));
    YK_TRY(yki_expect_dims(node, STATE, 2));
    for (int i = FROM_INPUT; i <= FROM_HIDDEN; i++) {
        const yk_value *of = node->in[i];
        YK_TRY(yki_expect_dims(node, i, 2));
        if (of->dims[0] != state->dims[0] || of->dims[1] % gates != 0 ||
            of->dims[1] / gates != state->dims[1])
            return yki_error(
                YK_ERROR_INVALID_SHAPE, "%s has shape %s, expected %lld gates of the %s, %s",
                node->op->in[i].name, yki_shape_text(of, text, sizeof text), (long long)gates,
                node->op->in[STATE].name, yki_shape_text(state, other, sizeof other));
    }
    return YK_OK;
}

/* ---- LSTM ------------------------------------------------------------------------------------ */

yk_status yki_infer_lstm_cell(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_cell(node, LSTM_GATES));
    out[YKI_LSTM_CELL_HIDDEN] = out[YKI_LSTM_CELL_NEXT] =
        yki_shape_of(node->in[YKI_LSTM_CELL_CELL]);
    out[YKI_LSTM_CELL_GATES] = yki_shape_of(node->in[YKI_LSTM_CELL_FROM_INPUT]);
    return YK_OK;
}

/* Both sides of the gates' sum have its gradient. */
yk_status yki_gradient_lstm_cell(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                 const bool *needs, yk_value **din)
{
    yk_value *gates = node->out[YKI_LSTM_CELL_GATES], *cell = node->in[YKI_LSTM_CELL_CELL];
    yk_value *in[YKI_LSTM_CELL_BACKWARD_INPUTS] = {
        [YKI_LSTM_CELL_BACKWARD_GATES] = gates,
        [YKI_LSTM_CELL_BACKWARD_CELL] = cell,
        [YKI_LSTM_CELL_BACKWARD_NEXT] = node->out[YKI_LSTM_CELL_NEXT],
        [YKI_LSTM_CELL_BACKWARD_DHIDDEN] = dout[YKI_LSTM_CELL_HIDDEN],
        [YKI_LSTM_CELL_BACKWARD_DNEXT] = dout[YKI_LSTM_CELL_NEXT]};
    yki_shape shapes[] = {yki_shape_of(gates), yki_shape_of(cell)};
    yki_node *made = yki_append(graph, &yki_op_lstm_cell_backward, NULL, in, shapes);
    (void)needs; /* one pass computes all gradients */
    din[YKI_LSTM_CELL_FROM_INPUT] = din[YKI_LSTM_CELL_FROM_HIDDEN] =
        made ? made->out[YKI_LSTM_CELL_BACKWARD_DGATES] : NULL;
    din[YKI_LSTM_CELL_CELL] = made ? made->out[YKI_LSTM_CELL_BACKWARD_DCELL] : NULL;
    return YK_OK;
}

yk_value *yk_lstm_cell(yk_value *from_input, yk_value *from_hidden, yk_value *cell, yk_value **next)
{
    yk_value *hidden =
        yki_emit(&yki_op_lstm_cell, &(yki_attrs){0}, (yk_value *[]){from_input, from_hidden, cell});
    if (next)
        *next = hidden && hidden->valid ? hidden->producer->out[YKI_LSTM_CELL_NEXT] : hidden;
    return hidden;
}

/* ---- GRU ------------------------------------------------------------------------------------- */

yk_status yki_infer_gru_cell(const yki_node *node, yki_shape *out)
{
    YK_TRY(expect_cell(node, GRU_GATES));
    out[YKI_GRU_CELL_NEXT] = yki_shape_of(node->in[YKI_GRU_CELL_HIDDEN]);
    out[YKI_GRU_CELL_GATES] = yki_shape_of(node->in[YKI_GRU_CELL_FROM_INPUT]);
    return YK_OK;
}

yk_status yki_gradient_gru_cell(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    yk_value *gates = node->out[YKI_GRU_CELL_GATES], *hidden = node->in[YKI_GRU_CELL_HIDDEN];
    yk_value *in[YKI_GRU_CELL_BACKWARD_INPUTS] = {
        [YKI_GRU_CELL_BACKWARD_GATES] = gates,
        [YKI_GRU_CELL_BACKWARD_FROM_HIDDEN] = node->in[YKI_GRU_CELL_FROM_HIDDEN],
        [YKI_GRU_CELL_BACKWARD_HIDDEN] = hidden,
        [YKI_GRU_CELL_BACKWARD_DNEXT] = dout[YKI_GRU_CELL_NEXT]};
    yki_shape shapes[] = {yki_shape_of(gates), yki_shape_of(gates), yki_shape_of(hidden)};
    yki_node *made = yki_append(graph, &yki_op_gru_cell_backward, NULL, in, shapes);
    (void)needs;
    din[YKI_GRU_CELL_FROM_INPUT] = made ? made->out[YKI_GRU_CELL_BACKWARD_DINPUT] : NULL;
    din[YKI_GRU_CELL_FROM_HIDDEN] = made ? made->out[YKI_GRU_CELL_BACKWARD_DGATES] : NULL;
    din[YKI_GRU_CELL_HIDDEN] = made ? made->out[YKI_GRU_CELL_BACKWARD_DHIDDEN] : NULL;
    return YK_OK;
}

yk_value *yk_gru_cell(yk_value *from_input, yk_value *from_hidden, yk_value *hidden)
{
    return yki_emit(&yki_op_gru_cell, &(yki_attrs){0},
                    (yk_value *[]){from_input, from_hidden, hidden});
}
