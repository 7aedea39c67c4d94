/* The cells of recurrent layers: see graph/recurrent.c. A thread has W elements of a state, and all
 * gates of each. */
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
        for (int i = 0; i < W; i++) {
            const real sum = gates[g][i] + other[i];
            gates[g][i] = g == 2 ? tanh_rule(sum) : sigmoid_rule(sum);
        }
        store_if_wanted<T>(args.gates, at.gate + g * args.size, gates[g]);
    }
#pragma unroll
    for (int i = 0; i < W; i++) {
        cell[i] = gates[1][i] * cell[i] + gates[0][i] * gates[2][i];
        hidden[i] = gates[3][i] * tanh_rule(cell[i]);
    }
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
#pragma unroll
    for (int i = 0; i < W; i++) {
        const real in = gates[0][i], forget = gates[1][i], fresh = gates[2][i], out = gates[3][i];
        const real t = tanh_rule(next[i]);
        dc[i] += tanh_backward_rule(dh[i] * out, t);
        gates[0][i] = sigmoid_backward_rule(dc[i] * fresh, in);
        gates[1][i] = sigmoid_backward_rule(dc[i] * cell[i], forget);
        gates[2][i] = tanh_backward_rule(dc[i] * in, fresh);
        gates[3][i] = sigmoid_backward_rule(dh[i] * t, out);
        dc[i] *= forget;
    }
#pragma unroll
    for (int g = 0; g < 4; g++)
        store_if_wanted<T>(args.dgates, at.gate + g * size, gates[g]);
    store_if_wanted<T>(args.dstate, at.state, dc);
}
KERNELS(lstm_cell_backward, yki_cuda_cell_slopes_args, lstm_cell_backward)

/* ---- GRU: the reset and update gate, and the new state --------------------------------------- */

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
        for (int i = 0; i < W; i++)
            gates[g][i] = g == 2 ? tanh_rule(gates[2][i] + gates[0][i] * other[i])
                                 : sigmoid_rule(gates[g][i] + other[i]);
        store_if_wanted<T>(args.gates, at.gate + g * args.size, gates[g]);
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        hidden[i] = gates[2][i] + gates[1][i] * (hidden[i] - gates[2][i]);
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
#pragma unroll
    for (int i = 0; i < W; i++) {
        const real reset = gates[0][i], update = gates[1][i], fresh = gates[2][i];
        const real dnew = tanh_backward_rule(dy[i] * (1 - update), fresh);
        gates[0][i] = sigmoid_backward_rule(dnew * of_hidden[i], reset);
        gates[1][i] = sigmoid_backward_rule(dy[i] * (hidden[i] - fresh), update);
        gates[2][i] = dnew;
        of_hidden[i] = dnew * reset;
        dy[i] *= update;
    }
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
