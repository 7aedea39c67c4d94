/*
 * Operators, made from the list in operators.def: operand numbers, the operators themselves, and
 * their rules, which say what each does to shapes and how it is differentiated. There is no
 * arithmetic here; kernels live in device/. One file a family of rules.
 */
#ifndef YKI_OPERATORS_H
#define YKI_OPERATORS_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

/* YKI_BATCH_NORM_X, ..., and how many there are: YKI_BATCH_NORM_INPUTS, YKI_BATCH_NORM_OUTPUTS. */
#define ACTIVATION(number, operand, name) YKI_##number##_##operand,
#define WIDENED(number, operand, name)    YKI_##number##_##operand,
#define OPERAND(number, operand, name)    YKI_##number##_##operand,
#define OPTIONAL(number, operand, name)   YKI_##number##_##operand,
#define FURTHER(number, operand, name)    YKI_##number##_##operand,
#define CONSTANT(number, operand, name)   YKI_##number##_##operand,
#define GIVEN(number, operand, name)      YKI_##number##_##operand,
#define COMPARED(number, operand, name)   YKI_##number##_##operand,
#define MASK(number, operand, name)       YKI_##number##_##operand,
#define OUTPUT(number, operand)           YKI_##number##_##operand,
#define FORWARD(number, name, policy, inputs, outputs, attributes)                                 \
    enum { inputs YKI_##number##_INPUTS };                                                         \
    enum { outputs YKI_##number##_OUTPUTS };
#define INSERTED(number, name, inputs, outputs, attributes)                                        \
    enum { inputs YKI_##number##_INPUTS };                                                         \
    enum { outputs YKI_##number##_OUTPUTS };
#define BACKWARD(number, name, inputs, outputs, attributes)                                        \
    enum { inputs YKI_##number##_INPUTS };                                                         \
    enum { outputs YKI_##number##_OUTPUTS };
#include "graph/operators.def"

/* yki_op_batch_norm, ... */
#define EACH(number, name) extern const yki_op yki_op_##name;
#include "graph/operators.def"

/* Not in the list: see graph/detach.c. */
extern const yki_op yki_op_detach;

/* The rules (see yki_op): yki_infer_batch_norm and yki_gradient_batch_norm, ... */
#define FORWARD(number, name, policy, inputs, outputs, attributes)                                 \
    yk_status yki_infer_##name(const yki_node *node, yki_shape *out);                              \
    yk_status yki_gradient_##name(yk_graph *graph, const yki_node *node, yk_value *const *dout,    \
                                  const bool *needs, yk_value **din);
#define INSERTED(number, name, inputs, outputs, attributes)                                        \
    yk_status yki_gradient_##name(yk_graph *graph, const yki_node *node, yk_value *const *dout,    \
                                  const bool *needs, yk_value **din);
#include "graph/operators.def"

#define EACH(number, name) +1
enum {
    YKI_OPERATORS = 0
#include "graph/operators.def"
};

/* All of them, in the order of the list. */
extern const yki_op *const yki_operators[YKI_OPERATORS];

/* ---- for the rules -------------------------------------------------------------------------- */

/* Appends a node with one output, shaped like `like`; returns that output, or NULL when memory is
 * out. */
yk_value *yki_append_like(yk_graph *graph, const yki_op *op, const yki_attrs *attrs,
                          yk_value *const *in, const yk_value *like);
/* Appends concat of values in dimension dim, or of groups of them where one node does not take so
 * many, and overwrites the array; NULL when memory is out. */
yk_value *yki_append_concat(yk_value **values, int count, int64_t dim);
/* Indices that a buffer starts with, which are known already, are below `rows`. Kernels check all,
 * as a file may change them. */
yk_status yki_expect_indices(const yk_value *indices, int64_t rows);
/* A sequence (N, C, L) as an image of one row, (N, C, 1, L); NULL for any other value. */
yk_value *yki_as_row(yk_value *x);
/* What an operator has made of that image, as a sequence; y itself where row is NULL. */
yk_value *yki_of_row(yk_value *y, const yk_value *row);
/* The input has so many dimensions: "input has shape (N, 3), expected 4 dimensions". */
yk_status yki_expect_dims(const yki_node *node, int input, int ndim);
/* Counts a negative dimension from the end. A dimension that does not exist is returned unchanged,
 * so that errors can name it. */
static inline int64_t yki_from_front(int64_t dim, int ndim)
{
    return dim < 0 && dim >= -ndim ? dim + ndim : dim;
}
/* The dimension, counted from the front, is one of x's, and not the batch; errors call x `name`. */
yk_status yki_expect_dim(const yk_value *x, const char *name, int64_t dim);
/* Whether a sum, mean or maximum over this dimension is over the first one of a value without a
 * batch, ... */
bool yki_reduces_first(const yk_value *x, int64_t dim);
/* ... and that sum or mean: over the last one, as which the first is brought there. */
yk_value *yki_reduce_first(yk_value *x, yk_loss_reduction reduction);
/* An option for columns: -1 means that of rows. */
static inline int64_t yki_columns(int64_t columns, int64_t rows)
{
    return columns == -1 ? rows : columns;
}
/* Whether an option is at least so large, and small enough to compute shapes with. */
bool yki_in_range(int64_t option, int64_t least);
/* The input is a weight of so many dimensions, none of which is the batch. */
yk_status yki_expect_weight(const yki_node *node, int input, int ndim);
/* The input is a vector (bias, statistics) of this length, or absent. */
yk_status yki_expect_vector(const yki_node *node, int input, int64_t length);
/*
 * The first `count` inputs, as far as they are there, are all f32 or all f64: only autocast brings
 * in 16 bit, which operators meet in gradient rules of programs (see custom.c).
 */
yk_status yki_expect_float(const yki_node *node, int count);
/* The reduction of a loss is one that there is. */
yk_status yki_expect_reduction(const yki_node *node);
/* The dtype of statistics and sums over values of dtype: f64 for f64, else f32. */
yk_dtype yki_accumulate_dtype(yk_dtype dtype);
/*
 * The dtype of sums of values of dtype and of their squares. A variance is a small difference of
 * such sums, so they have more digits than the values: f32 for 16 bits, else f64.
 */
yk_dtype yki_sums_dtype(yk_dtype dtype);
/* The dtype of max_pool2d's index, the place of each maximum in its window (row * columns of the
 * kernel + column): a byte, if all places of a window fit. */
yk_dtype yki_max_pool2d_index_dtype(const int64_t kernel[2]);
/* Emits an operator of one input; attrs may be NULL. */
yk_value *yki_emit_one(yk_value *x, const yki_op *op, const yki_attrs *attrs);
/*
 * For an operator with the operands of linear (input, weight, bias): appends the node that computes
 * the gradients of weight and bias, dbias only where it is needed.
 */
yk_status yki_append_weight_gradient(yk_graph *graph, const yki_op *op, const yki_node *node,
                                     yk_value *dy, const bool *needs, yk_value **din);
/* The number of classes of a cross_entropy. */
int64_t yki_cross_entropy_classes(const yki_node *node);
/* Whether two values have the same sizes. */
bool yki_same_dims(const yk_value *a, const yk_value *b);
/* The shape rule "like the input". */
yk_status yki_infer_same(const yki_node *node, yki_shape *out);

#pragma GCC visibility pop

#endif
