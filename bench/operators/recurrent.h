/* A recurrent layer, which is a graph of many nodes: a model that has nothing else. */
#ifndef YOKE_BENCH_RECURRENT_H
#define YOKE_BENCH_RECURRENT_H

#include "problem.h"

typedef struct recurrent {
    yk_model *model;
    yk_tensor input;
} recurrent;

/* Whether the problem is one: "lstm" or "gru", of x (N, T, I); other: the hidden size and the
 * number of layers. */
bool is_recurrent(const problem *p);

void recurrent_init(recurrent *r, const problem *p, int threads);
void recurrent_forward(const recurrent *r);
/* After a forward: the gradients of the parameters. */
void recurrent_backward(const recurrent *r);
void recurrent_fini(recurrent *r);

#endif
