/*
 * The passes over a graph between building and planning, in this order: pruning, freezing,
 * autocast, forward fusion, gradient, backward fusion, removing detach, recomputing, fusion of
 * sums. Each leaves the node array in a runnable order.
 */
#ifndef YKI_REWRITE_H
#define YKI_REWRITE_H

#include "graph/operators.h"

/* A value that can be read when a model has run. */
typedef struct yki_output {
    const yk_value *made; /* as the program has made it, with its shape ... */
    yk_value *read;       /* ... and what stands for it in the rewritten graph */
} yki_output;

/* The logits, which come first and are NULL if there are none, and the further outputs. */
typedef struct yki_outputs {
    yki_output *list;
    size_t count;
} yki_outputs;

/* Marks, by value id, those on which marked ones depend, by nodes before `end`. */
void yki_graph_mark_needed(const yk_graph *graph, size_t end, bool *needed);

/* Says, by value id, which are images, for which devices have a layout of their own. The graph is
 * rewritten. */
yk_status yki_graph_find_images(const yk_graph *graph, bool **images);

/*
 * Autocast: operators that gain run in `low`, losses in f32, the others follow their inputs, except
 * as `overrides` (see yk_autocast_check) says; casts are inserted between. Parameters stay as they
 * are: kernels pack them. Outputs are read in f32.
 */
yk_status yki_graph_autocast(yk_graph *graph, yk_dtype low, const char *overrides,
                             const yki_outputs *outputs);
/* The policy of an operator under overrides that yk_autocast_check has accepted. */
yki_autocast yki_autocast_of(const yki_op *op, const char *overrides);

/* Removes nodes that neither the loss, which may be NULL, nor an output needs. */
yk_status yki_graph_prune(yk_graph *graph, const yk_value *loss, const yki_outputs *outputs);

/* Marks the batch_norms whose weight and bias are frozen, but for those with batch_statistics. */
void yki_graph_freeze_norms(yk_graph *graph);

/* Fuses batch_norm with the add and the activation after it. Outputs may be redirected. */
yk_status yki_graph_fuse_forward(yk_graph *graph, const yk_value *loss, const yki_outputs *outputs);
/* batch_norm_backward takes in the add that makes its dy. Nodes from `first` on. */
yk_status yki_graph_fuse_backward(yk_graph *graph, size_t first);

/*
 * Lets the convolutions of forward, the nodes before `end`, give the sums of their results to the
 * batch_norms that read these. In a plan, a kernel may still leave them out. Comes last: sums have
 * no gradient.
 */
yk_status yki_graph_fuse_sums(yk_graph *graph, size_t end);

/* What a loss consists of. */
typedef enum yki_loss_kind { YKI_LOSS_MEANS, YKI_LOSS_SUMS, YKI_LOSS_KINDS } yki_loss_kind;

/* terms[kind] becomes the part of the loss that is a mean over samples, or a sum over them; NULL
 * where it has no such part. A loss of one kind is its own part; others see loss_terms.c. */
yk_status yki_graph_split_loss(yk_graph *graph, yk_value *loss, yk_value **terms);

typedef struct yki_gradients {
    size_t first_node;                       /* of backward */
    yk_value *loss_gradient[YKI_LOSS_KINDS]; /* scalars it starts from; NULL without such terms */
    yk_value **of; /* by value id: a parameter's gradient, else undefined; free() it */
} yki_gradients;

/* Appends backward for the sum of the loss's terms to the graph. */
yk_status yki_graph_differentiate(yk_graph *graph, yk_value *const *terms,
                                  yki_gradients *gradients);

/* Removes what only ends gradients, once these are there. The loss and terms may be redirected, as
 * outputs may, and backward begins earlier. */
void yki_graph_remove_detached(yk_graph *graph, yk_value **loss, yk_value **terms,
                               const yki_outputs *outputs, size_t *first_backward);

/*
 * Lets backward, from node `first` on, compute cheap values of forward once more instead of keeping
 * them in memory, where that lowers the peak. Outputs are kept.
 */
yk_status yki_graph_recompute(yk_graph *graph, size_t first, const yki_outputs *outputs);

#endif
