/* What the gates of recurrent layers and of their cells do with one element of a state. */
#ifndef YKI_REF_GATES_H
#define YKI_REF_GATES_H

#include <math.h>

#define YKI_REAL       double
#define YKI_RULE(name) name##_rule
#include "device/activation_rules.h"

enum { INPUT, FORGET, CELL, OUTPUT, LSTM_GATES };
enum { RESET, UPDATE, NEW, GRU_GATES };

/* From the sums of the gates to the gates, and from the cell to the next one; returns the hidden
 * state. */
static inline double yki_ref_lstm_gates(double y[LSTM_GATES], double *cell)
{
    for (int g = 0; g < LSTM_GATES; g++)
        y[g] = g == CELL ? tanh_rule(y[g]) : sigmoid_rule(y[g]);
    *cell = y[FORGET] * *cell + y[INPUT] * y[CELL];
    return y[OUTPUT] * tanh_rule(*cell);
}

/* From the gates to the gradients of their sums, and from that of the next cell to that of the one
 * before. */
static inline void yki_ref_lstm_slopes(double y[LSTM_GATES], double cell, double next, double dh,
                                       double *dcell)
{
    const double shown = tanh_rule(next), in = y[INPUT], forget = y[FORGET];
    const double dc = *dcell + tanh_backward_rule(dh * y[OUTPUT], shown);
    y[INPUT] = sigmoid_backward_rule(dc * y[CELL], in);
    y[FORGET] = sigmoid_backward_rule(dc * cell, forget);
    y[CELL] = tanh_backward_rule(dc * in, y[CELL]);
    y[OUTPUT] = sigmoid_backward_rule(dh * shown, y[OUTPUT]);
    *dcell = dc * forget;
}

/* From the sums of the gates, the last without what the hidden state gives to it, to the gates;
 * returns the next hidden state. */
static inline double yki_ref_gru_gates(double y[GRU_GATES], double of_hidden, double hidden)
{
    y[RESET] = sigmoid_rule(y[RESET]);
    y[UPDATE] = sigmoid_rule(y[UPDATE]);
    y[NEW] = tanh_rule(y[NEW] + y[RESET] * of_hidden);
    return y[NEW] + y[UPDATE] * (hidden - y[NEW]);
}

/* From the gates to the gradients of their sums; *of_hidden becomes that of itself, and *dy what
 * the hidden state gets of it past the gates. */
static inline void yki_ref_gru_slopes(double y[GRU_GATES], double hidden, double *of_hidden,
                                      double *dy)
{
    const double reset = y[RESET], update = y[UPDATE];
    const double dnew = tanh_backward_rule(*dy * (1 - update), y[NEW]);
    y[RESET] = sigmoid_backward_rule(dnew * *of_hidden, reset);
    y[UPDATE] = sigmoid_backward_rule(*dy * (hidden - y[NEW]), update);
    y[NEW] = dnew;
    *of_hidden = dnew * reset;
    *dy *= update;
}

#endif
