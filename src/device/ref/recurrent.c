/* The cells of recurrent layers: see graph/recurrent.c. States are (N, S), gates (N, gates S). */
#include "device/ref/gates.h"
#include "device/ref/ref.h"

/* Gate `gate` of element (n, s) of a state. */
static int64_t gate_of(const yk_tensor *state, int64_t i, int64_t gates, int64_t gate)
{
    const int64_t size = state->dims[1];
    return (i / size * gates + gate) * size + i % size;
}

/* Zero where the operand is absent. */
static double get_or_zero(const yk_tensor *tensor, int64_t i)
{
    return tensor->data ? yki_ref_get(tensor, i) : 0;
}

/* Does nothing where the operand is absent. */
static void set_if_wanted(const yk_tensor *tensor, int64_t i, double value)
{
    if (tensor->data)
        yki_ref_set(tensor, i, value);
}

/* The gates of element i of a state, and where they are. */
static void read_gates(const yk_tensor *gates, const yk_tensor *state, int64_t i, int count,
                       int64_t *at, double *y)
{
    for (int g = 0; g < count; g++) {
        at[g] = gate_of(state, i, count, g);
        y[g] = yki_ref_get(gates, at[g]);
    }
}

/* ---- LSTM: the input, forget, cell and output gate ------------------------------------------- */

static yk_status ref_lstm_cell(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor a = yki_ref_in(kernel, run, YKI_LSTM_CELL_FROM_INPUT);
    yk_tensor b = yki_ref_in(kernel, run, YKI_LSTM_CELL_FROM_HIDDEN);
    yk_tensor cell = yki_ref_in(kernel, run, YKI_LSTM_CELL_CELL);
    yk_tensor hidden = yki_ref_out(kernel, run, YKI_LSTM_CELL_HIDDEN);
    yk_tensor next = yki_ref_out(kernel, run, YKI_LSTM_CELL_NEXT);
    yk_tensor gates = yki_ref_out(kernel, run, YKI_LSTM_CELL_GATES);
    for (int64_t i = 0; i < yk_tensor_count(&cell); i++) {
        double y[LSTM_GATES], now = yki_ref_get(&cell, i);
        for (int g = 0; g < LSTM_GATES; g++) {
            const int64_t at = gate_of(&cell, i, LSTM_GATES, g);
            y[g] = yki_ref_get(&a, at) + yki_ref_get(&b, at);
        }
        set_if_wanted(&hidden, i, yki_ref_lstm_gates(y, &now));
        set_if_wanted(&next, i, now);
        for (int g = 0; g < LSTM_GATES; g++)
            set_if_wanted(&gates, gate_of(&cell, i, LSTM_GATES, g), y[g]);
    }
    return YK_OK;
}

static yk_status ref_lstm_cell_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor gates = yki_ref_in(kernel, run, YKI_LSTM_CELL_BACKWARD_GATES);
    yk_tensor cell = yki_ref_in(kernel, run, YKI_LSTM_CELL_BACKWARD_CELL);
    yk_tensor next = yki_ref_in(kernel, run, YKI_LSTM_CELL_BACKWARD_NEXT);
    yk_tensor dhidden = yki_ref_in(kernel, run, YKI_LSTM_CELL_BACKWARD_DHIDDEN);
    yk_tensor dnext = yki_ref_in(kernel, run, YKI_LSTM_CELL_BACKWARD_DNEXT);
    yk_tensor dgates = yki_ref_out(kernel, run, YKI_LSTM_CELL_BACKWARD_DGATES);
    yk_tensor dcell = yki_ref_out(kernel, run, YKI_LSTM_CELL_BACKWARD_DCELL);
    for (int64_t i = 0; i < yk_tensor_count(&cell); i++) {
        int64_t at[LSTM_GATES];
        double y[LSTM_GATES];
        read_gates(&gates, &cell, i, LSTM_GATES, at, y);
        double dc = get_or_zero(&dnext, i);
        yki_ref_lstm_slopes(y, yki_ref_get(&cell, i), yki_ref_get(&next, i),
                            get_or_zero(&dhidden, i), &dc);
        for (int g = 0; g < LSTM_GATES; g++)
            set_if_wanted(&dgates, at[g], y[g]);
        set_if_wanted(&dcell, i, dc);
    }
    return YK_OK;
}

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

static yk_status ref_gru_cell(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor a = yki_ref_in(kernel, run, YKI_GRU_CELL_FROM_INPUT);
    yk_tensor b = yki_ref_in(kernel, run, YKI_GRU_CELL_FROM_HIDDEN);
    yk_tensor hidden = yki_ref_in(kernel, run, YKI_GRU_CELL_HIDDEN);
    yk_tensor next = yki_ref_out(kernel, run, YKI_GRU_CELL_NEXT);
    yk_tensor gates = yki_ref_out(kernel, run, YKI_GRU_CELL_GATES);
    for (int64_t i = 0; i < yk_tensor_count(&hidden); i++) {
        double y[GRU_GATES], of_hidden = 0;
        for (int g = 0; g < GRU_GATES; g++) {
            const int64_t at = gate_of(&hidden, i, GRU_GATES, g);
            of_hidden = yki_ref_get(&b, at); /* in the end, of the new state */
            y[g] = yki_ref_get(&a, at) + (g == NEW ? 0 : of_hidden);
        }
        yki_ref_set(&next, i, yki_ref_gru_gates(y, of_hidden, yki_ref_get(&hidden, i)));
        for (int g = 0; g < GRU_GATES; g++)
            set_if_wanted(&gates, gate_of(&hidden, i, GRU_GATES, g), y[g]);
    }
    return YK_OK;
}

static yk_status ref_gru_cell_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor gates = yki_ref_in(kernel, run, YKI_GRU_CELL_BACKWARD_GATES);
    yk_tensor from_hidden = yki_ref_in(kernel, run, YKI_GRU_CELL_BACKWARD_FROM_HIDDEN);
    yk_tensor hidden = yki_ref_in(kernel, run, YKI_GRU_CELL_BACKWARD_HIDDEN);
    yk_tensor dnext = yki_ref_in(kernel, run, YKI_GRU_CELL_BACKWARD_DNEXT);
    yk_tensor dinput = yki_ref_out(kernel, run, YKI_GRU_CELL_BACKWARD_DINPUT);
    yk_tensor dgates = yki_ref_out(kernel, run, YKI_GRU_CELL_BACKWARD_DGATES);
    yk_tensor dhidden = yki_ref_out(kernel, run, YKI_GRU_CELL_BACKWARD_DHIDDEN);
    for (int64_t i = 0; i < yk_tensor_count(&hidden); i++) {
        int64_t at[GRU_GATES];
        double y[GRU_GATES];
        read_gates(&gates, &hidden, i, GRU_GATES, at, y);
        double dy = yki_ref_get(&dnext, i), of_hidden = yki_ref_get(&from_hidden, at[NEW]);
        yki_ref_gru_slopes(y, yki_ref_get(&hidden, i), &of_hidden, &dy);
        for (int g = 0; g < GRU_GATES; g++) {
            set_if_wanted(&dinput, at[g], y[g]);
            set_if_wanted(&dgates, at[g], g == NEW ? of_hidden : y[g]);
        }
        set_if_wanted(&dhidden, i, dy);
    }
    return YK_OK;
}

YKI_REF_IMPL(lstm_cell, 0);
YKI_REF_IMPL(lstm_cell_backward, 0);
YKI_REF_IMPL(gru_cell, 0);
YKI_REF_IMPL(gru_cell_backward, 0);
