/* Recurrent layers, of all steps: see lstm and gru in graph/operators.def. */
#include "device/recurrent.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/ref/gates.h"
#include "device/ref/ref.h"

/* A sample on its way through the steps, in either direction. */
typedef struct walk {
    yki_recurrent r;
    int64_t sample, count; /* the steps that the sequence has */
    yk_tensor weight;
    double *hidden, *cell; /* (S): states or, in backward, their gradients */
    double *gates;         /* (gates, S): sums or, in backward, gradients */
} walk;

static yk_status begin(walk *w, const yki_kernel *kernel, const yki_kernel_args *run)
{
    const yki_recurrent r =
        yki_recurrent_of(&((const yki_ref_kernel *)kernel)->desc, yki_ref_attrs(kernel));
    const size_t numbers = (size_t)((r.gates + 2) * r.size);
    *w = (walk){.r = r, .weight = yki_ref_in(kernel, run, YKI_LSTM_WEIGHT)};
    w->hidden = yki_calloc(numbers, sizeof *w->hidden);
    if (!w->hidden)
        return yki_error_memory(numbers * sizeof *w->hidden, "a recurrent layer");
    w->cell = w->hidden + r.size;
    w->gates = w->cell + r.size;
    return YK_OK;
}

static void enter(walk *w, int64_t sample, const yk_tensor *lengths)
{
    const int64_t steps = w->r.steps;
    w->sample = sample;
    w->count = lengths->data ? yki_steps_of_length(yki_ref_get(lengths, sample), steps) : steps;
}

/* (N, S) from or to a state of the walk; zeros if the tensor is absent. */
static void read_state(const walk *w, const yk_tensor *tensor, double *state)
{
    for (int64_t s = 0; s < w->r.size; s++)
        state[s] = tensor->data ? yki_ref_get(tensor, w->sample * w->r.size + s) : 0;
}

static void write_state(const walk *w, const yk_tensor *tensor, const double *state)
{
    for (int64_t s = 0; tensor->data && s < w->r.size; s++)
        yki_ref_set(tensor, w->sample * w->r.size + s, state[s]);
}

/* Where number s of group `group` of `groups` of S at time t is. */
static int64_t at(const walk *w, int64_t t, int64_t groups, int64_t group, int64_t s)
{
    return ((w->sample * w->r.steps + t) * groups + group) * w->r.size + s;
}

/* Does nothing where the operand is absent. */
static void set_if_wanted(const yk_tensor *tensor, int64_t i, double value)
{
    if (tensor->data)
        yki_ref_set(tensor, i, value);
}

static void clear_ended(const walk *w, const yk_tensor *tensor, int64_t groups)
{
    const int64_t begin = at(w, w->count, groups, 0, 0), end = at(w, w->r.steps, groups, 0, 0);
    for (int64_t i = begin; i < end; i++)
        set_if_wanted(tensor, i, 0);
}

/* gates = weight hidden + bias */
static void multiply(const walk *w, const yk_tensor *bias)
{
    const int64_t size = w->r.size;
    for (int64_t row = 0; row < w->r.gates * size; row++) {
        w->gates[row] = yki_ref_get(bias, row);
        for (int64_t k = 0; k < size; k++)
            w->gates[row] += yki_ref_get(&w->weight, row * size + k) * w->hidden[k];
    }
}

/* hidden += weight^T gates */
static void multiply_back(const walk *w)
{
    const int64_t size = w->r.size;
    for (int64_t row = 0; row < w->r.gates * size; row++)
        for (int64_t k = 0; k < size; k++)
            w->hidden[k] += yki_ref_get(&w->weight, row * size + k) * w->gates[row];
}

/* ---- LSTM: the input, forget, cell and output gate ------------------------------------------- */

static void lstm_step(walk *w, int64_t t, const yk_tensor *from_input, const yk_tensor *y,
                      const yk_tensor *saved)
{
    const int64_t size = w->r.size;
    for (int64_t s = 0; s < size; s++) {
        double value[LSTM_GATES];
        for (int g = 0; g < LSTM_GATES; g++)
            value[g] = yki_ref_get(from_input, at(w, t, 4, g, s)) + w->gates[g * size + s];
        set_if_wanted(saved, at(w, t, 5, 4, s), w->cell[s]);
        w->hidden[s] = yki_ref_lstm_gates(value, &w->cell[s]);
        for (int g = 0; g < LSTM_GATES; g++)
            set_if_wanted(saved, at(w, t, 5, g, s), value[g]);
        set_if_wanted(y, at(w, t, 1, 0, s), w->hidden[s]);
    }
}

static yk_status ref_lstm(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor from_input = yki_ref_in(kernel, run, YKI_LSTM_FROM_INPUT);
    yk_tensor bias = yki_ref_in(kernel, run, YKI_LSTM_BIAS);
    yk_tensor lengths = yki_ref_in(kernel, run, YKI_LSTM_LENGTHS);
    yk_tensor h0 = yki_ref_in(kernel, run, YKI_LSTM_H0), c0 = yki_ref_in(kernel, run, YKI_LSTM_C0);
    yk_tensor y = yki_ref_out(kernel, run, YKI_LSTM_Y);
    yk_tensor h_n = yki_ref_out(kernel, run, YKI_LSTM_H_N);
    yk_tensor c_n = yki_ref_out(kernel, run, YKI_LSTM_C_N);
    yk_tensor saved = yki_ref_out(kernel, run, YKI_LSTM_SAVED);
    walk w;
    YK_TRY(begin(&w, kernel, run));
    for (int64_t n = 0; n < w.r.samples; n++) {
        enter(&w, n, &lengths);
        read_state(&w, &h0, w.hidden);
        read_state(&w, &c0, w.cell);
        for (int64_t i = 0; i < w.count; i++) {
            multiply(&w, &bias);
            lstm_step(&w, yki_time_of_step(i, w.count, w.r.reverse), &from_input, &y, &saved);
        }
        write_state(&w, &h_n, w.hidden);
        write_state(&w, &c_n, w.cell);
        clear_ended(&w, &y, 1);
        clear_ended(&w, &saved, 5);
    }
    free(w.hidden);
    return YK_OK;
}

/* From the gradients of the states after a step to those of the gates and of the cell before. */
static void lstm_slopes(walk *w, int64_t t, const yk_tensor *saved, const yk_tensor *dgates)
{
    const int64_t size = w->r.size;
    for (int64_t s = 0; s < size; s++) {
        double y[LSTM_GATES];
        for (int g = 0; g < LSTM_GATES; g++)
            y[g] = yki_ref_get(saved, at(w, t, 5, g, s));
        const double before = yki_ref_get(saved, at(w, t, 5, 4, s));
        const double next = y[FORGET] * before + y[INPUT] * y[CELL];
        yki_ref_lstm_slopes(y, before, next, w->hidden[s], &w->cell[s]);
        for (int g = 0; g < LSTM_GATES; g++) {
            w->gates[g * size + s] = y[g];
            set_if_wanted(dgates, at(w, t, 4, g, s), y[g]);
        }
        w->hidden[s] = 0;
    }
}

/* The hidden state before step i, to an output if it is wanted; returns number s of it. */
static double before_step(const walk *w, int64_t i, int64_t s, const yk_tensor *h0,
                          const yk_tensor *y, const yk_tensor *before)
{
    const int64_t last = yki_time_of_step(i - 1, w->count, w->r.reverse);
    double value = 0;
    if (i > 0)
        value = yki_ref_get(y, at(w, last, 1, 0, s));
    else if (h0->data)
        value = yki_ref_get(h0, w->sample * w->r.size + s);
    set_if_wanted(before, at(w, yki_time_of_step(i, w->count, w->r.reverse), 1, 0, s), value);
    return value;
}

static void add_slopes(const walk *w, int64_t t, const yk_tensor *dy)
{
    for (int64_t s = 0; dy->data && s < w->r.size; s++)
        w->hidden[s] += yki_ref_get(dy, at(w, t, 1, 0, s));
}

static yk_status ref_lstm_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor saved = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_SAVED);
    yk_tensor y = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_Y);
    yk_tensor lengths = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_LENGTHS);
    yk_tensor h0 = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_H0);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_DY);
    yk_tensor dh_n = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_DH_N);
    yk_tensor dc_n = yki_ref_in(kernel, run, YKI_LSTM_BACKWARD_DC_N);
    yk_tensor dgates = yki_ref_out(kernel, run, YKI_LSTM_BACKWARD_DGATES);
    yk_tensor before = yki_ref_out(kernel, run, YKI_LSTM_BACKWARD_BEFORE);
    yk_tensor dh0 = yki_ref_out(kernel, run, YKI_LSTM_BACKWARD_DH0);
    yk_tensor dc0 = yki_ref_out(kernel, run, YKI_LSTM_BACKWARD_DC0);
    walk w;
    YK_TRY(begin(&w, kernel, run));
    for (int64_t n = 0; n < w.r.samples; n++) {
        enter(&w, n, &lengths);
        read_state(&w, &dh_n, w.hidden);
        read_state(&w, &dc_n, w.cell);
        for (int64_t i = w.count - 1; i >= 0; i--) {
            const int64_t t = yki_time_of_step(i, w.count, w.r.reverse);
            add_slopes(&w, t, &dy);
            lstm_slopes(&w, t, &saved, &dgates);
            multiply_back(&w);
            for (int64_t s = 0; s < w.r.size; s++)
                before_step(&w, i, s, &h0, &y, &before);
        }
        write_state(&w, &dh0, w.hidden);
        write_state(&w, &dc0, w.cell);
        clear_ended(&w, &dgates, 4);
        clear_ended(&w, &before, 1);
    }
    free(w.hidden);
    return YK_OK;
}

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

static void gru_step(walk *w, int64_t t, const yk_tensor *from_input, const yk_tensor *y,
                     const yk_tensor *saved)
{
    const int64_t size = w->r.size;
    for (int64_t s = 0; s < size; s++) {
        double value[GRU_GATES];
        const double of_hidden = w->gates[NEW * size + s];
        for (int g = 0; g < GRU_GATES; g++)
            value[g] = yki_ref_get(from_input, at(w, t, 3, g, s)) +
                       (g == NEW ? 0 : w->gates[g * size + s]);
        w->hidden[s] = yki_ref_gru_gates(value, of_hidden, w->hidden[s]);
        for (int g = 0; g < GRU_GATES; g++)
            set_if_wanted(saved, at(w, t, 4, g, s), value[g]);
        set_if_wanted(saved, at(w, t, 4, 3, s), of_hidden);
        set_if_wanted(y, at(w, t, 1, 0, s), w->hidden[s]);
    }
}

static yk_status ref_gru(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor from_input = yki_ref_in(kernel, run, YKI_GRU_FROM_INPUT);
    yk_tensor bias = yki_ref_in(kernel, run, YKI_GRU_BIAS);
    yk_tensor lengths = yki_ref_in(kernel, run, YKI_GRU_LENGTHS);
    yk_tensor h0 = yki_ref_in(kernel, run, YKI_GRU_H0), y = yki_ref_out(kernel, run, YKI_GRU_Y);
    yk_tensor h_n = yki_ref_out(kernel, run, YKI_GRU_H_N);
    yk_tensor saved = yki_ref_out(kernel, run, YKI_GRU_SAVED);
    walk w;
    YK_TRY(begin(&w, kernel, run));
    for (int64_t n = 0; n < w.r.samples; n++) {
        enter(&w, n, &lengths);
        read_state(&w, &h0, w.hidden);
        for (int64_t i = 0; i < w.count; i++) {
            multiply(&w, &bias);
            gru_step(&w, yki_time_of_step(i, w.count, w.r.reverse), &from_input, &y, &saved);
        }
        write_state(&w, &h_n, w.hidden);
        clear_ended(&w, &y, 1);
        clear_ended(&w, &saved, 4);
    }
    free(w.hidden);
    return YK_OK;
}

/* Leaves in the hidden state's gradient what does not pass through the weight. The hidden state
 * before the step takes the place of a cell. */
static void gru_slopes(walk *w, int64_t i, const yk_tensor *saved, const yk_tensor *dinput,
                       const yk_tensor *dgates)
{
    const int64_t size = w->r.size, t = yki_time_of_step(i, w->count, w->r.reverse);
    for (int64_t s = 0; s < size; s++) {
        double y[GRU_GATES], of_hidden = yki_ref_get(saved, at(w, t, 4, 3, s));
        for (int g = 0; g < GRU_GATES; g++)
            y[g] = yki_ref_get(saved, at(w, t, 4, g, s));
        yki_ref_gru_slopes(y, w->cell[s], &of_hidden, &w->hidden[s]);
        for (int g = 0; g < GRU_GATES; g++) {
            w->gates[g * size + s] = g == NEW ? of_hidden : y[g];
            set_if_wanted(dinput, at(w, t, 3, g, s), y[g]);
            set_if_wanted(dgates, at(w, t, 3, g, s), w->gates[g * size + s]);
        }
    }
}

static yk_status ref_gru_backward(const yki_kernel *kernel, const yki_kernel_args *run)
{
    yk_tensor saved = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_SAVED);
    yk_tensor y = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_Y);
    yk_tensor lengths = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_LENGTHS);
    yk_tensor h0 = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_H0);
    yk_tensor dy = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_DY);
    yk_tensor dh_n = yki_ref_in(kernel, run, YKI_GRU_BACKWARD_DH_N);
    yk_tensor dgates = yki_ref_out(kernel, run, YKI_GRU_BACKWARD_DGATES);
    yk_tensor before = yki_ref_out(kernel, run, YKI_GRU_BACKWARD_BEFORE);
    yk_tensor dh0 = yki_ref_out(kernel, run, YKI_GRU_BACKWARD_DH0);
    yk_tensor dinput = yki_ref_out(kernel, run, YKI_GRU_BACKWARD_DINPUT);
    walk w;
    YK_TRY(begin(&w, kernel, run));
    for (int64_t n = 0; n < w.r.samples; n++) {
        enter(&w, n, &lengths);
        read_state(&w, &dh_n, w.hidden);
        for (int64_t i = w.count - 1; i >= 0; i--) {
            add_slopes(&w, yki_time_of_step(i, w.count, w.r.reverse), &dy);
            for (int64_t s = 0; s < w.r.size; s++)
                w.cell[s] = before_step(&w, i, s, &h0, &y, &before);
            gru_slopes(&w, i, &saved, &dinput, &dgates);
            multiply_back(&w);
        }
        write_state(&w, &dh0, w.hidden);
        clear_ended(&w, &dgates, 3);
        clear_ended(&w, &dinput, 3);
        clear_ended(&w, &before, 1);
    }
    free(w.hidden);
    return YK_OK;
}

YKI_REF_IMPL(lstm, 0);
YKI_REF_IMPL(lstm_backward, 0);
YKI_REF_IMPL(gru, 0);
YKI_REF_IMPL(gru_backward, 0);
