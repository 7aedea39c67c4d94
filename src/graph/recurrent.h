/* A direction of a recurrent layer over all steps, as nn/recurrent.c builds it: see lstm and gru in
 * operators.def. */
#ifndef YKI_GRAPH_RECURRENT_H
#define YKI_GRAPH_RECURRENT_H

#include "graph/operators.h"

typedef struct yki_recurrent_layer {
    yk_value *from_input; /* (N, T, gates S): what the inputs give to the gates */
    yk_value *weight;     /* (gates S, S) */
    yk_value *bias;       /* (gates S) */
    yk_value *lengths;    /* (N), or NULL: all steps count */
    yk_value *h0, *c0;    /* (N, S), or NULL: zeros; the cell is the LSTM's alone */
    bool reverse;         /* from the last step to the first */
} yki_recurrent_layer;

/* The outputs of all steps (N, T, S), and the states after the last one (N, S). */
yk_value *yki_lstm(const yki_recurrent_layer *layer, yk_value **h_n, yk_value **c_n);
yk_value *yki_gru(const yki_recurrent_layer *layer, yk_value **h_n);

#endif
