/* Recurrent layers, a step at a time, and their cells: see graph/recurrent.c. A thread has W
 * elements of a state, and all gates of each. */
#include "device/time_steps.h"
#include "kernel.cuh"

#define YKI_REAL       float
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"
#undef YKI_REAL
#define YKI_REAL double
#include "device/activation_rules.h"

/* Where this thread's elements are in a state, and in the first gate. */
struct cell_place {
    int64_t state, gate;
    bool exists;
};

template <int W> DEVICE cell_place cell_place_of(const yki_cuda_cell_args &args, int gates)
{
    const int64_t i = thread_number() * W, sample = i / args.size;
    return {i, i + (gates - 1) * sample * args.size, sample < args.samples};
}

template <typename T, int W, typename R>
DEVICE void load_if_there(const void *from, int64_t at, R (&to)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] = 0;
    if (from)
        load((const T *)from + at, to);
}

template <typename T, int W, typename R>
DEVICE void store_if_wanted(void *to, int64_t at, const R (&from)[W])
{
    if (to)
        store((T *)to + at, from);
}

/* ---- LSTM: the input, forget, cell and output gate ------------------------------------------- */

/* From the sums of the gates to the gates, the next cell and the hidden state. */
template <typename R, int W> DEVICE void lstm_gates(R (&gates)[4][W], R (&cell)[W], R (&hidden)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        gates[0][i] = sigmoid_rule(gates[0][i]);
        gates[1][i] = sigmoid_rule(gates[1][i]);
        gates[2][i] = tanh_rule(gates[2][i]);
        gates[3][i] = sigmoid_rule(gates[3][i]);
        cell[i] = gates[1][i] * cell[i] + gates[0][i] * gates[2][i];
        hidden[i] = gates[3][i] * tanh_rule(cell[i]);
    }
}

/* From the gates to the gradients of their sums, and from the next cell's to that of the cell. */
template <typename R, int W>
DEVICE void lstm_slopes(R (&gates)[4][W], const R (&cell)[W], const R (&next)[W], const R (&dh)[W],
                        R (&dc)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        const R in = gates[0][i], forget = gates[1][i], fresh = gates[2][i], out = gates[3][i];
        const R t = tanh_rule(next[i]);
        dc[i] += tanh_backward_rule(dh[i] * out, t);
        gates[0][i] = sigmoid_backward_rule(dc[i] * fresh, in);
        gates[1][i] = sigmoid_backward_rule(dc[i] * cell[i], forget);
        gates[2][i] = tanh_backward_rule(dc[i] * in, fresh);
        gates[3][i] = sigmoid_backward_rule(dh[i] * t, out);
        dc[i] *= forget;
    }
}

template <typename T, int W> DEVICE void lstm_cell(const yki_cuda_cell_args &args)
{
    typedef real_of<T> real;
    const cell_place at = cell_place_of<W>(args, 4);
    if (!at.exists)
        return;
    real gates[4][W], other[W], cell[W], hidden[W];
    load((const T *)args.state + at.state, cell);
#pragma unroll
    for (int g = 0; g < 4; g++) {
        load((const T *)args.from_input + at.gate + g * args.size, gates[g]);
        load((const T *)args.from_hidden + at.gate + g * args.size, other);
#pragma unroll
        for (int i = 0; i < W; i++)
            gates[g][i] += other[i];
    }
    lstm_gates(gates, cell, hidden);
#pragma unroll
    for (int g = 0; g < 4; g++)
        store_if_wanted<T>(args.gates, at.gate + g * args.size, gates[g]);
    store_if_wanted<T>(args.next, at.state, cell);
    store_if_wanted<T>(args.hidden, at.state, hidden);
}
KERNELS(lstm_cell, yki_cuda_cell_args, lstm_cell)

template <typename T, int W> DEVICE void lstm_cell_backward(const yki_cuda_cell_slopes_args &args)
{
    typedef real_of<T> real;
    const cell_place at = cell_place_of<W>(args.of, 4);
    if (!at.exists)
        return;
    const int64_t size = args.of.size;
    real gates[4][W], cell[W], next[W], dh[W], dc[W];
    load((const T *)args.of.state + at.state, cell);
    load((const T *)args.of.next + at.state, next);
    load_if_there<T>(args.dhidden, at.state, dh);
    load_if_there<T>(args.dnext, at.state, dc);
#pragma unroll
    for (int g = 0; g < 4; g++)
        load((const T *)args.of.gates + at.gate + g * size, gates[g]);
    lstm_slopes(gates, cell, next, dh, dc);
#pragma unroll
    for (int g = 0; g < 4; g++)
        store_if_wanted<T>(args.dgates, at.gate + g * size, gates[g]);
    store_if_wanted<T>(args.dstate, at.state, dc);
}
KERNELS(lstm_cell_backward, yki_cuda_cell_slopes_args, lstm_cell_backward)

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

/* From the gates' sums, the last without what the hidden state gives to it, to the gates and the
 * next hidden state. */
template <typename R, int W>
DEVICE void gru_gates(R (&gates)[3][W], const R (&of_hidden)[W], R (&hidden)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        gates[0][i] = sigmoid_rule(gates[0][i]);
        gates[1][i] = sigmoid_rule(gates[1][i]);
        gates[2][i] = tanh_rule(gates[2][i] + gates[0][i] * of_hidden[i]);
        hidden[i] = gates[2][i] + gates[1][i] * (hidden[i] - gates[2][i]);
    }
}

/* From the gates to the gradients of their sums; of_hidden becomes that of itself, and dy what the
 * hidden state has of it past the gates. */
template <typename R, int W>
DEVICE void gru_slopes(R (&gates)[3][W], const R (&hidden)[W], R (&of_hidden)[W], R (&dy)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        const R reset = gates[0][i], update = gates[1][i], fresh = gates[2][i];
        const R dnew = tanh_backward_rule(dy[i] * (1 - update), fresh);
        gates[0][i] = sigmoid_backward_rule(dnew * of_hidden[i], reset);
        gates[1][i] = sigmoid_backward_rule(dy[i] * (hidden[i] - fresh), update);
        gates[2][i] = dnew;
        of_hidden[i] = dnew * reset;
        dy[i] *= update;
    }
}

template <typename T, int W> DEVICE void gru_cell(const yki_cuda_cell_args &args)
{
    typedef real_of<T> real;
    const cell_place at = cell_place_of<W>(args, 3);
    if (!at.exists)
        return;
    real gates[3][W], other[W], hidden[W];
    load((const T *)args.state + at.state, hidden);
#pragma unroll
    for (int g = 0; g < 3; g++) {
        load((const T *)args.from_input + at.gate + g * args.size, gates[g]);
        load((const T *)args.from_hidden + at.gate + g * args.size, other);
#pragma unroll
        for (int i = 0; g < 2 && i < W; i++)
            gates[g][i] += other[i];
    }
    gru_gates(gates, other, hidden);
#pragma unroll
    for (int g = 0; g < 3; g++)
        store_if_wanted<T>(args.gates, at.gate + g * args.size, gates[g]);
    store_if_wanted<T>(args.hidden, at.state, hidden);
}
KERNELS(gru_cell, yki_cuda_cell_args, gru_cell)

template <typename T, int W> DEVICE void gru_cell_backward(const yki_cuda_cell_slopes_args &args)
{
    typedef real_of<T> real;
    const cell_place at = cell_place_of<W>(args.of, 3);
    if (!at.exists)
        return;
    const int64_t size = args.of.size;
    real gates[3][W], hidden[W], of_hidden[W], dy[W];
    load((const T *)args.of.state + at.state, hidden);
    load((const T *)args.of.from_hidden + at.gate + 2 * size, of_hidden);
    load((const T *)args.dhidden + at.state, dy);
#pragma unroll
    for (int g = 0; g < 3; g++)
        load((const T *)args.of.gates + at.gate + g * size, gates[g]);
    gru_slopes(gates, hidden, of_hidden, dy);
#pragma unroll
    for (int g = 0; g < 3; g++)
        store_if_wanted<T>(args.dinput, at.gate + g * size, gates[g]);
#pragma unroll
    for (int g = 0; g < 2; g++)
        store_if_wanted<T>(args.dgates, at.gate + g * size, gates[g]);
    store_if_wanted<T>(args.dgates, at.gate + 2 * size, of_hidden);
    store_if_wanted<T>(args.dstate, at.state, dy);
}
KERNELS(gru_cell_backward, yki_cuda_cell_slopes_args, gru_cell_backward)

/* ---- layers ---------------------------------------------------------------------------------- */

/* Where this thread's elements are: in a state, in the first gate of the step's own, and at the
 * step's time in y, in operands of all gates and in what is saved. */
struct layer_place {
    int64_t state, gate, y, gates, saved, element, t;
    bool exists, runs; /* runs: the sequence has this step */
    bool last;         /* it is the last one */
};

template <typename R, int W>
DEVICE layer_place layer_place_of(const yki_cuda_layer_args &args, int gates)
{
    const int64_t i = thread_number() * W, sample = i / args.size, s = i % args.size;
    layer_place at = {};
    if (sample >= args.samples)
        return at;
    const R *lengths = (const R *)args.lengths;
    const int64_t count =
        lengths ? yki_steps_of_length((double)lengths[sample], args.steps) : args.steps;
    at.exists = true;
    at.runs = args.step < count;
    at.last = args.step == count - 1;
    at.t = at.runs ? yki_time_of_step(args.step, count, args.reverse) : args.step;
    const int64_t row = sample * args.steps + at.t;
    at.state = i;
    at.element = s;
    at.gate = sample * gates * args.size + s;
    at.y = row * args.size + s;
    at.gates = row * gates * args.size + s;
    at.saved = row * (gates + 1) * args.size + s;
    return at;
}

/* Zeros to so many groups of states. */
template <typename T, int W>
DEVICE void clear_groups(void *to, int64_t at, int groups, int64_t size)
{
    const real_of<T> zeros[W] = {};
    for (int g = 0; g < groups; g++)
        store_if_wanted<T>(to, at + g * size, zeros);
}

/* The state before the step. */
template <typename T, int W, typename R>
DEVICE void load_state(const yki_cuda_layer_args &args, const layer_place &at, const void *first,
                       const void *state, R (&to)[W])
{
    load_if_there<T>(args.step == 0 ? first : state, at.state, to);
}

/* Of a sequence that has ended: zeros, and without any step the states from before. */
template <typename T, int W>
DEVICE void skip_step(const yki_cuda_layer_args &args, const layer_place &at, int gates)
{
    real_of<T> state[W];
    clear_groups<T, W>(args.y, at.y, 1, args.size);
    clear_groups<T, W>(args.saved, at.saved, gates + 1, args.size);
    if (args.step > 0)
        return;
    load_if_there<T>(args.h0, at.state, state);
    store_if_wanted<T>(args.hidden, at.state, state);
    load_if_there<T>(args.c0, at.state, state);
    store_if_wanted<T>(args.cell, at.state, state);
}

/* What the hidden state gives to a gate. */
template <typename T, int W, typename R>
DEVICE void load_from_hidden(const yki_cuda_layer_args &args, const layer_place &at, int gate,
                             R (&to)[W])
{
    load_if_there<T>(args.from_hidden, at.gate + gate * args.size, to);
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] += ((const R *)args.bias)[gate * args.size + at.element + i];
}

template <typename T, int W> DEVICE void lstm_layer(const yki_cuda_layer_args &args)
{
    typedef real_of<T> real;
    const layer_place at = layer_place_of<real, W>(args, 4);
    if (!at.exists)
        return;
    if (!at.runs) {
        skip_step<T, W>(args, at, 4);
        return;
    }
    real gates[4][W], other[W], cell[W], hidden[W];
    load_state<T>(args, at, args.c0, args.cell, cell);
    store_if_wanted<T>(args.saved, at.saved + 4 * args.size, cell);
#pragma unroll
    for (int g = 0; g < 4; g++) {
        load((const T *)args.from_input + at.gates + g * args.size, gates[g]);
        load_from_hidden<T>(args, at, g, other);
#pragma unroll
        for (int i = 0; i < W; i++)
            gates[g][i] += other[i];
    }
    lstm_gates(gates, cell, hidden);
#pragma unroll
    for (int g = 0; g < 4; g++)
        store_if_wanted<T>(args.saved, at.saved + g * args.size, gates[g]);
    store((T *)args.cell + at.state, cell);
    store((T *)args.hidden + at.state, hidden);
    store_if_wanted<T>(args.y, at.y, hidden);
}
KERNELS(lstm, yki_cuda_layer_args, lstm_layer)

template <typename T, int W> DEVICE void gru_layer(const yki_cuda_layer_args &args)
{
    typedef real_of<T> real;
    const layer_place at = layer_place_of<real, W>(args, 3);
    if (!at.exists)
        return;
    if (!at.runs) {
        skip_step<T, W>(args, at, 3);
        return;
    }
    real gates[3][W], other[W], hidden[W];
    load_state<T>(args, at, args.h0, args.hidden, hidden);
#pragma unroll
    for (int g = 0; g < 3; g++) {
        load((const T *)args.from_input + at.gates + g * args.size, gates[g]);
        load_from_hidden<T>(args, at, g, other);
#pragma unroll
        for (int i = 0; g < 2 && i < W; i++)
            gates[g][i] += other[i];
    }
    store_if_wanted<T>(args.saved, at.saved + 3 * args.size, other);
    gru_gates(gates, other, hidden);
#pragma unroll
    for (int g = 0; g < 3; g++)
        store_if_wanted<T>(args.saved, at.saved + g * args.size, gates[g]);
    store((T *)args.hidden + at.state, hidden);
    store_if_wanted<T>(args.y, at.y, hidden);
}
KERNELS(gru, yki_cuda_layer_args, gru_layer)

/* The hidden state before the step. */
template <typename T, int W, typename R>
DEVICE void load_before(const yki_cuda_layer_args &args, const layer_place &at, R (&to)[W])
{
    const int64_t back = args.reverse ? args.size : -args.size; /* to the step before */
    if (args.step == 0)
        load_if_there<T>(args.h0, at.state, to);
    else
        load((const T *)args.y + at.y + back, to);
}

/* The gradient of the hidden state after the step, without dy; carried may be NULL. */
template <typename T, int W, typename R>
DEVICE void load_slopes(const yki_cuda_layer_slopes_args &args, const layer_place &at, bool first,
                        const void *carried, R (&to)[W])
{
    R other[W];
    load_if_there<T>(first ? args.dh_n : args.from_after, at.state, to);
    load_if_there<R>(first ? NULL : carried, at.state, other);
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] += other[i];
}

template <typename T, int W, typename R>
DEVICE void add_slopes(const void *dy, int64_t at, R (&to)[W])
{
    R other[W];
    load_if_there<T>(dy, at, other);
#pragma unroll
    for (int i = 0; i < W; i++)
        to[i] += other[i];
}

/* A step that the sequence does not have. */
template <typename T, int W>
DEVICE void skip_slopes(const yki_cuda_layer_slopes_args &args, const layer_place &at, int gates)
{
    const int64_t size = args.of.size;
    clear_groups<T, W>(args.dgates, at.gates, gates, size);
    clear_groups<T, W>(args.dinput, at.gates, gates, size);
    clear_groups<T, W>(args.operand, at.gate, gates, size);
    clear_groups<T, W>(args.before, at.y, 1, size);
}

template <typename T, int W> DEVICE void lstm_layer_backward(const yki_cuda_layer_slopes_args &args)
{
    typedef real_of<T> real;
    const layer_place at = layer_place_of<real, W>(args.of, 4);
    if (!at.exists)
        return;
    if (!at.runs) {
        skip_slopes<T, W>(args, at, 4);
        return;
    }
    const int64_t size = args.of.size;
    real gates[4][W], cell[W], next[W], dh[W], dc[W];
    load_slopes<T>(args, at, at.last, NULL, dh);
    if (at.last)
        load_if_there<T>(args.dc_n, at.state, dc);
    else
        load((const real *)args.dcell + at.state, dc);
    if (args.of.step < 0) {
        store_if_wanted<T>(args.dh0, at.state, dh);
        store_if_wanted<T>(args.dc0, at.state, dc);
        return;
    }
    add_slopes<T>(args.dy, at.y, dh);
#pragma unroll
    for (int g = 0; g < 4; g++)
        load((const T *)args.of.saved + at.saved + g * size, gates[g]);
    load((const T *)args.of.saved + at.saved + 4 * size, cell);
#pragma unroll
    for (int i = 0; i < W; i++)
        next[i] = gates[1][i] * cell[i] + gates[0][i] * gates[2][i];
    lstm_slopes(gates, cell, next, dh, dc);
#pragma unroll
    for (int g = 0; g < 4; g++) {
        store((T *)args.dgates + at.gates + g * size, gates[g]);
        store((T *)args.operand + at.gate + g * size, gates[g]);
    }
    store((real *)args.dcell + at.state, dc);
    load_before<T>(args.of, at, cell);
    store_if_wanted<T>(args.before, at.y, cell);
}
KERNELS(lstm_backward, yki_cuda_layer_slopes_args, lstm_layer_backward)

template <typename T, int W> DEVICE void gru_layer_backward(const yki_cuda_layer_slopes_args &args)
{
    typedef real_of<T> real;
    const layer_place at = layer_place_of<real, W>(args.of, 3);
    if (!at.exists)
        return;
    if (!at.runs) {
        skip_slopes<T, W>(args, at, 3);
        return;
    }
    const int64_t size = args.of.size;
    real gates[3][W], hidden[W], of_hidden[W], dy[W];
    load_slopes<T>(args, at, at.last, args.carried, dy);
    if (args.of.step < 0) {
        store_if_wanted<T>(args.dh0, at.state, dy);
        return;
    }
    add_slopes<T>(args.dy, at.y, dy);
    load_before<T>(args.of, at, hidden);
    store_if_wanted<T>(args.before, at.y, hidden);
#pragma unroll
    for (int g = 0; g < 3; g++)
        load((const T *)args.of.saved + at.saved + g * size, gates[g]);
    load((const T *)args.of.saved + at.saved + 3 * size, of_hidden);
    gru_slopes(gates, hidden, of_hidden, dy);
#pragma unroll
    for (int g = 0; g < 3; g++)
        store_if_wanted<T>(args.dinput, at.gates + g * size, gates[g]);
#pragma unroll
    for (int g = 0; g < 3; g++) {
        store((T *)args.dgates + at.gates + g * size, g == 2 ? of_hidden : gates[g]);
        store((T *)args.operand + at.gate + g * size, g == 2 ? of_hidden : gates[g]);
    }
    store((real *)args.carried + at.state, dy);
}
KERNELS(gru_backward, yki_cuda_layer_slopes_args, gru_layer_backward)
