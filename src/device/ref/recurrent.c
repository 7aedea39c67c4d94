/* The cells of recurrent layers: see graph/recurrent.c. States are (N, S), gates (N, gates S). */
#include "device/ref/ref.h"

#include <math.h>

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"

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

enum { INPUT, FORGET, CELL, OUTPUT, LSTM_GATES };

static yk_status ref_lstm_cell(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor a = yki_ref_in(kernel, run, YKI_LSTM_CELL_FROM_INPUT);
    yk_tensor b = yki_ref_in(kernel, run, YKI_LSTM_CELL_FROM_HIDDEN);
    yk_tensor cell = yki_ref_in(kernel, run, YKI_LSTM_CELL_CELL);
    yk_tensor hidden = yki_ref_out(kernel, run, YKI_LSTM_CELL_HIDDEN);
    yk_tensor next = yki_ref_out(kernel, run, YKI_LSTM_CELL_NEXT);
    yk_tensor gates = yki_ref_out(kernel, run, YKI_LSTM_CELL_GATES);
    for (int64_t i = 0; i < yk_tensor_count(&cell); i++) {
        double value[LSTM_GATES];
        for (int g = 0; g < LSTM_GATES; g++) {
            const int64_t at = gate_of(&cell, i, LSTM_GATES, g);
            const double sum = yki_ref_get(&a, at) + yki_ref_get(&b, at);
            value[g] = g == CELL ? tanh_rule(sum) : sigmoid_rule(sum);
            set_if_wanted(&gates, at, value[g]);
        }
        const double now = value[FORGET] * yki_ref_get(&cell, i) + value[INPUT] * value[CELL];
        set_if_wanted(&next, i, now);
        set_if_wanted(&hidden, i, value[OUTPUT] * tanh_rule(now));
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
        const double t = tanh_rule(yki_ref_get(&next, i)), dh = get_or_zero(&dhidden, i);
        const double dc = get_or_zero(&dnext, i) + tanh_backward_rule(dh * y[OUTPUT], t);
        const double of_cell = dc * yki_ref_get(&cell, i);
        set_if_wanted(&dgates, at[INPUT], sigmoid_backward_rule(dc * y[CELL], y[INPUT]));
        set_if_wanted(&dgates, at[FORGET], sigmoid_backward_rule(of_cell, y[FORGET]));
        set_if_wanted(&dgates, at[CELL], tanh_backward_rule(dc * y[INPUT], y[CELL]));
        set_if_wanted(&dgates, at[OUTPUT], sigmoid_backward_rule(dh * t, y[OUTPUT]));
        set_if_wanted(&dcell, i, dc * y[FORGET]);
    }
    return YK_OK;
}

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

enum { RESET, UPDATE, NEW, GRU_GATES };

static yk_status ref_gru_cell(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor a = yki_ref_in(kernel, run, YKI_GRU_CELL_FROM_INPUT);
    yk_tensor b = yki_ref_in(kernel, run, YKI_GRU_CELL_FROM_HIDDEN);
    yk_tensor hidden = yki_ref_in(kernel, run, YKI_GRU_CELL_HIDDEN);
    yk_tensor next = yki_ref_out(kernel, run, YKI_GRU_CELL_NEXT);
    yk_tensor gates = yki_ref_out(kernel, run, YKI_GRU_CELL_GATES);
    for (int64_t i = 0; i < yk_tensor_count(&hidden); i++) {
        double y[GRU_GATES];
        for (int g = 0; g < GRU_GATES; g++) {
            const int64_t at = gate_of(&hidden, i, GRU_GATES, g);
            const double of_hidden = yki_ref_get(&b, at), factor = g == NEW ? y[RESET] : 1;
            const double sum = yki_ref_get(&a, at) + factor * of_hidden;
            y[g] = g == NEW ? tanh_rule(sum) : sigmoid_rule(sum);
            set_if_wanted(&gates, at, y[g]);
        }
        yki_ref_set(&next, i, y[NEW] + y[UPDATE] * (yki_ref_get(&hidden, i) - y[NEW]));
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
        const double dy = yki_ref_get(&dnext, i), h = yki_ref_get(&hidden, i);
        const double dnew = tanh_backward_rule(dy * (1 - y[UPDATE]), y[NEW]);
        const double slopes[] = {
            [RESET] = sigmoid_backward_rule(dnew * yki_ref_get(&from_hidden, at[NEW]), y[RESET]),
            [UPDATE] = sigmoid_backward_rule(dy * (h - y[NEW]), y[UPDATE]),
            [NEW] = dnew};
        for (int g = 0; g < GRU_GATES; g++) {
            set_if_wanted(&dinput, at[g], slopes[g]);
            set_if_wanted(&dgates, at[g], slopes[g] * (g == NEW ? y[RESET] : 1));
        }
        set_if_wanted(&dhidden, i, dy * y[UPDATE]);
    }
    return YK_OK;
}

YKI_REF_IMPL(lstm_cell, 0);
YKI_REF_IMPL(lstm_cell_backward, 0);
YKI_REF_IMPL(gru_cell, 0);
YKI_REF_IMPL(gru_cell_backward, 0);
