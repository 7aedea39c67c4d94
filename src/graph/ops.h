/*
 * Operators: what each computes on shapes, how it is differentiated, what autocast does with it.
 * No arithmetic here; kernels live in device/. One file a family.
 */
#ifndef YKI_OPS_H
#define YKI_OPS_H

#include "graph/graph.h"

/* Forward operators, inputs -> outputs. Optional inputs in brackets. */
extern const yki_op yki_op_conv2d; /* x, weight, [bias] -> y */
extern const yki_op yki_op_linear; /* x, weight, [bias] -> y */
/* x, weight, bias, running_mean, running_var, [num_batches_tracked], [residual]
 * -> y = act(bn(x) + residual), mean (C), invstd (C); act is relu if attrs.relu */
extern const yki_op yki_op_batch_norm;
extern const yki_op yki_op_relu;       /* x -> y */
extern const yki_op yki_op_gelu;       /* x -> y */
extern const yki_op yki_op_add;        /* a, b -> a + b */
extern const yki_op yki_op_scale;      /* x -> alpha x */
extern const yki_op yki_op_cast;       /* x -> x in the output's dtype */
extern const yki_op yki_op_max_pool2d; /* x -> y, index (i32, same shape: offset in the window) */
extern const yki_op yki_op_avg_pool2d; /* x -> y */
extern const yki_op yki_op_global_avg_pool2d; /* x -> (N, C, 1, 1) */
extern const yki_op yki_op_flatten;           /* x -> (N, product) */
extern const yki_op yki_op_dropout;           /* x -> y; the mask is drawn anew in backward */
/* logits, labels -> loss, probabilities (N, C) */
extern const yki_op yki_op_cross_entropy;
extern const yki_op yki_op_mse_loss; /* x, target -> loss */

/* Operators of backward. */
extern const yki_op yki_op_conv2d_backward_data;   /* dy, weight -> dx */
extern const yki_op yki_op_conv2d_backward_weight; /* x, dy -> dweight, [dbias] */
extern const yki_op yki_op_linear_backward_data;   /* dy, weight -> dx */
extern const yki_op yki_op_linear_backward_weight; /* x, dy -> dweight, [dbias] */
/* x, dy, weight, bias, mean, invstd, [y: with a residual and relu], [dy2: added to dy]
 * -> dx, dweight, dbias, [dresidual]. In evaluation mean and invstd are constants. */
extern const yki_op yki_op_batch_norm_backward;
extern const yki_op yki_op_relu_backward;              /* dy, y -> dx */
extern const yki_op yki_op_gelu_backward;              /* dy, x -> dx */
extern const yki_op yki_op_max_pool2d_backward;        /* dy, index -> dx */
extern const yki_op yki_op_avg_pool2d_backward;        /* dy -> dx */
extern const yki_op yki_op_global_avg_pool2d_backward; /* dy -> dx */
extern const yki_op yki_op_unflatten;                  /* dy (N, product) -> dx (N, ...) */
extern const yki_op yki_op_dropout_backward;           /* dy -> dx */
extern const yki_op yki_op_cross_entropy_backward;     /* probabilities, labels, dloss -> dlogits */
extern const yki_op yki_op_mse_loss_backward;          /* x, target, dloss -> dx */

/* Between layouts of one value; the planner's own. */
extern const yki_op yki_op_reorder;

/* ---- for the operators' own files --------------------------------------------------------- */

/* Appends a backward node with one output shaped like `like`; returns that output or NULL. */
yk_value *yki_append_like(yk_graph *graph, const yki_op *op, const yki_attrs *attrs, int in_count,
                          yk_value *const *in, const yk_value *like);
/* Wrong rank of a tensor: "conv2d: x has shape (N, 3), expected 4 dimensions". */
yk_status yki_expect_dims(const yki_node *node, int input, const char *name, int ndim);
/* Whether an option is at least so large, and no larger than shapes can be computed with. */
bool yki_in_range(int64_t option, int64_t least);
/* Input 1 is a weight of so many dimensions, none of which is the batch. */
yk_status yki_expect_weight(const yki_node *node, int ndim);
/* A vector (bias, statistics) must have this length; absent is fine. */
yk_status yki_expect_vector(const yki_node *node, int input, const char *name, int64_t length);
/*
 * The first `count` inputs (absent is fine behind the first) must be all f32 or all f64: 16 bit
 * comes from autocast alone.
 */
yk_status yki_expect_float(const yki_node *node, int count);
/* dtype of statistics and reductions over values of dtype: f64 for f64, else f32. */
yk_dtype yki_accumulate_dtype(yk_dtype dtype);
/* Emits an operator of one input; attrs may be NULL. */
yk_value *yki_emit_one(yk_value *x, const yki_op *op, const yki_attrs *attrs);
/* The shape rule "like the input". */
yk_status yki_infer_same(const yki_node *node, yki_shape *out);

#endif
