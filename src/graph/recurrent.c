/*
 * The cells of recurrent layers: what they do with their gates, element by element. LSTM after
 * Hochreiter and Schmidhuber 1997, with the forget gates of Gers et al. 1999; GRU after Cho et al.
 * 2014, in PyTorch's form, whose reset gate multiplies what the hidden state gives to the new one.
 * Gates are kept for backward as they are after their activations. And whole layers, of all steps.
 */
#include "graph/recurrent.h"

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

/* ---- all steps ------------------------------------------------------------------------------- */

/* The inputs that both layers have. */
enum {
    FROM_INPUT = YKI_LSTM_FROM_INPUT,
    WEIGHT = YKI_LSTM_WEIGHT,
    BIAS = YKI_LSTM_BIAS,
    LENGTHS = YKI_LSTM_LENGTHS,
    H0 = YKI_LSTM_H0
};
_Static_assert(FROM_INPUT == (int)YKI_GRU_FROM_INPUT && WEIGHT == (int)YKI_GRU_WEIGHT, "order");
_Static_assert(BIAS == (int)YKI_GRU_BIAS && LENGTHS == (int)YKI_GRU_LENGTHS, "order");
_Static_assert(H0 == (int)YKI_GRU_H0 && YKI_LSTM_C0 == (int)YKI_GRU_INPUTS, "order");

static yk_status refuse_operand(const yki_node *node, int input, const char *expected)
{
    char text[96], other[96];
    return yki_error(YK_ERROR_INVALID_SHAPE, "%s has shape %s, which does not fit %s %s",
                     node->op->in[input].name, yki_shape_text(node->in[input], text, sizeof text),
                     expected, yki_shape_text(node->in[FROM_INPUT], other, sizeof other));
}

/* A state, (N, size), or absent. */
static yk_status expect_state(const yki_node *node, int input, int64_t size)
{
    const yk_value *state = node->in[input];
    if (!state || (state->ndim == 2 && state->dims[0] == node->in[FROM_INPUT]->dims[0] &&
                   state->dims[1] == size))
        return YK_OK;
    return refuse_operand(node, input, "the samples and states of the gates");
}

static yk_status expect_layer(const yki_node *node, int64_t gates)
{
    const yk_value *from = node->in[FROM_INPUT], *weight = node->in[WEIGHT];
    const yk_value *lengths = node->in[LENGTHS];
    YK_TRY(yki_expect_float(node, node->in_count));
    YK_TRY(yki_expect_dims(node, FROM_INPUT, 3));
    YK_TRY(yki_expect_weight(node, WEIGHT, 2));
    const int64_t size = weight->dims[1];
    if (weight->dims[0] % gates != 0 || weight->dims[0] / gates != size ||
        from->dims[2] != weight->dims[0])
        return refuse_operand(node, WEIGHT, "gates");
    YK_TRY(yki_expect_vector(node, BIAS, weight->dims[0]));
    if (lengths && (lengths->ndim != 1 || lengths->dims[0] != from->dims[0]))
        return refuse_operand(node, LENGTHS, "the samples of the gates");
    for (int i = H0; i < node->in_count; i++)
        YK_TRY(expect_state(node, i, size));
    return YK_OK;
}

/* y, then so many states, then what is saved. */
static yk_status infer_layer(const yki_node *node, int64_t gates, int states, yki_shape *out)
{
    YK_TRY(expect_layer(node, gates));
    const yk_value *from = node->in[FROM_INPUT];
    const int64_t size = node->in[WEIGHT]->dims[1];
    out[0] = out[states + 1] = yki_shape_of(from);
    out[0].dims[2] = size;
    out[states + 1].dims[2] = (gates + 1) * size;
    for (int i = 1; i <= states; i++)
        out[i] = (yki_shape){.dtype = from->dtype, .ndim = 2, .dims = {out[0].dims[0], size}};
    return YK_OK;
}

yk_status yki_infer_lstm(const yki_node *node, yki_shape *out)
{
    return infer_layer(node, LSTM_GATES, 2, out);
}

yk_status yki_infer_gru(const yki_node *node, yki_shape *out)
{
    return infer_layer(node, GRU_GATES, 1, out);
}

/* The gradients of weight and bias: of one product of all steps. */
static yk_status append_weights(yk_graph *graph, const yki_node *node, yk_value *before,
                                yk_value *dgates, const bool *needs, yk_value **din)
{
    if (!needs[WEIGHT] && !needs[BIAS])
        return YK_OK;
    yki_shape shapes[YKI_LINEAR_BACKWARD_WEIGHT_OUTPUTS] = {
        [YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT] = yki_shape_of(node->in[WEIGHT]),
        [YKI_LINEAR_BACKWARD_WEIGHT_DBIAS] =
            needs[BIAS] ? yki_shape_of(node->in[BIAS]) : yki_shape_none()};
    yki_node *made = yki_append(graph, &yki_op_linear_backward_weight, NULL,
                                (yk_value *[]){before, dgates}, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    din[WEIGHT] = made->out[YKI_LINEAR_BACKWARD_WEIGHT_DWEIGHT];
    din[BIAS] = made->out[YKI_LINEAR_BACKWARD_WEIGHT_DBIAS];
    return YK_OK;
}

static yki_shape shape_if(bool wanted, const yk_value *like)
{
    return wanted ? yki_shape_of(like) : yki_shape_none();
}

yk_status yki_gradient_lstm(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                            const bool *needs, yk_value **din)
{
    yk_value *in[YKI_LSTM_BACKWARD_INPUTS] = {[YKI_LSTM_BACKWARD_SAVED] = node->out[YKI_LSTM_SAVED],
                                              [YKI_LSTM_BACKWARD_WEIGHT] = node->in[WEIGHT],
                                              [YKI_LSTM_BACKWARD_Y] = node->out[YKI_LSTM_Y],
                                              [YKI_LSTM_BACKWARD_LENGTHS] = node->in[LENGTHS],
                                              [YKI_LSTM_BACKWARD_H0] = node->in[H0],
                                              [YKI_LSTM_BACKWARD_DY] = dout[YKI_LSTM_Y],
                                              [YKI_LSTM_BACKWARD_DH_N] = dout[YKI_LSTM_H_N],
                                              [YKI_LSTM_BACKWARD_DC_N] = dout[YKI_LSTM_C_N]};
    yki_shape shapes[YKI_LSTM_BACKWARD_OUTPUTS] = {
        [YKI_LSTM_BACKWARD_DGATES] = yki_shape_of(node->in[FROM_INPUT]),
        [YKI_LSTM_BACKWARD_BEFORE] = shape_if(needs[WEIGHT] || needs[BIAS], node->out[YKI_LSTM_Y]),
        [YKI_LSTM_BACKWARD_DH0] = shape_if(needs[H0], node->in[H0]),
        [YKI_LSTM_BACKWARD_DC0] = shape_if(needs[YKI_LSTM_C0], node->in[YKI_LSTM_C0])};
    yki_node *made = yki_append(graph, &yki_op_lstm_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    din[FROM_INPUT] = made->out[YKI_LSTM_BACKWARD_DGATES];
    din[H0] = made->out[YKI_LSTM_BACKWARD_DH0];
    din[YKI_LSTM_C0] = made->out[YKI_LSTM_BACKWARD_DC0];
    return append_weights(graph, node, made->out[YKI_LSTM_BACKWARD_BEFORE], din[FROM_INPUT], needs,
                          din);
}

yk_status yki_gradient_gru(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                           const bool *needs, yk_value **din)
{
    yk_value *in[YKI_GRU_BACKWARD_INPUTS] = {[YKI_GRU_BACKWARD_SAVED] = node->out[YKI_GRU_SAVED],
                                             [YKI_GRU_BACKWARD_WEIGHT] = node->in[WEIGHT],
                                             [YKI_GRU_BACKWARD_Y] = node->out[YKI_GRU_Y],
                                             [YKI_GRU_BACKWARD_LENGTHS] = node->in[LENGTHS],
                                             [YKI_GRU_BACKWARD_H0] = node->in[H0],
                                             [YKI_GRU_BACKWARD_DY] = dout[YKI_GRU_Y],
                                             [YKI_GRU_BACKWARD_DH_N] = dout[YKI_GRU_H_N]};
    yki_shape shapes[YKI_GRU_BACKWARD_OUTPUTS] = {
        [YKI_GRU_BACKWARD_DGATES] = yki_shape_of(node->in[FROM_INPUT]),
        [YKI_GRU_BACKWARD_BEFORE] = shape_if(needs[WEIGHT] || needs[BIAS], node->out[YKI_GRU_Y]),
        [YKI_GRU_BACKWARD_DH0] = shape_if(needs[H0], node->in[H0]),
        [YKI_GRU_BACKWARD_DINPUT] = shape_if(needs[FROM_INPUT], node->in[FROM_INPUT])};
    yki_node *made = yki_append(graph, &yki_op_gru_backward, &node->attrs, in, shapes);
    if (!made)
        return YK_ERROR_OUT_OF_MEMORY;
    din[FROM_INPUT] = made->out[YKI_GRU_BACKWARD_DINPUT];
    din[H0] = made->out[YKI_GRU_BACKWARD_DH0];
    return append_weights(graph, node, made->out[YKI_GRU_BACKWARD_BEFORE],
                          made->out[YKI_GRU_BACKWARD_DGATES], needs, din);
}

static yk_value *result(yk_value *y, int output)
{
    return y->valid ? y->producer->out[output] : y;
}

yk_value *yki_lstm(const yki_recurrent_layer *layer, yk_value **h_n, yk_value **c_n)
{
    yk_value *in[YKI_LSTM_INPUTS] = {
        [FROM_INPUT] = layer->from_input, [WEIGHT] = layer->weight, [BIAS] = layer->bias,
        [LENGTHS] = layer->lengths,       [H0] = layer->h0,         [YKI_LSTM_C0] = layer->c0};
    yk_value *y = yki_emit(&yki_op_lstm, &(yki_attrs){.reverse = layer->reverse}, in);
    *h_n = result(y, YKI_LSTM_H_N);
    *c_n = result(y, YKI_LSTM_C_N);
    return y;
}

yk_value *yki_gru(const yki_recurrent_layer *layer, yk_value **h_n)
{
    yk_value *in[YKI_GRU_INPUTS] = {[FROM_INPUT] = layer->from_input,
                                    [WEIGHT] = layer->weight,
                                    [BIAS] = layer->bias,
                                    [LENGTHS] = layer->lengths,
                                    [H0] = layer->h0};
    yk_value *y = yki_emit(&yki_op_gru, &(yki_attrs){.reverse = layer->reverse}, in);
    *h_n = result(y, YKI_GRU_H_N);
    return y;
}
