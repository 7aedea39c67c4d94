/*
 * What operators of two sides share that are broadcast as in NumPy and PyTorch: sizes are matched
 * from the last dimension on, and 1 fits all.
 */
#ifndef YKI_GRAPH_BROADCAST_H
#define YKI_GRAPH_BROADCAST_H

#include "graph/operators.h"

/* The shape rule: that of both, broadcast to each other. */
yk_status yki_infer_broadcast(const yki_node *node, yki_shape *out);
/* dy, summed over the dimensions in which the value was broadcast. NULL when memory is out. */
yk_value *yki_reduce_to(yk_graph *graph, yk_value *dy, const yk_value *value);
/* dy times factor, summed likewise. */
yk_value *yki_reduce_product(yk_graph *graph, yk_value *dy, yk_value *factor,
                             const yk_value *value);

#endif
