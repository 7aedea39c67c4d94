/*
 * Writes nodes of ONNX and what they read. A node is begun, given its operands and attributes in
 * any order, and ended; constants are written between nodes. What is made on the way to a value,
 * and constants for it, have its name with a suffix, such as ".scale". Memory that runs out is
 * reported once, by message.failed.
 */
#ifndef YKI_ONNX_WRITE_H
#define YKI_ONNX_WRITE_H

#include "compile/plan.h"
#include "io/protobuf.h"

typedef struct yki_onnx_graph {
    const yki_plan_source *source;
    const yk_value *logits; /* of the shape that the user knows */
    const yk_value **same;  /* by value id: the value that it equals in evaluation, or NULL */
    bool *read;             /* by value id: whether a node reads it */
    bool *needed;           /* by value id: whether the logits depend on it */
    int *numbers;           /* by value id: its number in its name, or 0 */
    int numbered;
    yki_protobuf message; /* the fields of the GraphProto but its weights */
} yki_onnx_graph;

/* Numbers of fields: the graph's initializers are TensorProtos, and what each ends with. */
enum { YKI_ONNX_GRAPH_INITIALIZER = 5, YKI_ONNX_TENSOR_RAW_DATA = 9 };

enum { YKI_ONNX_NAME = 512 /* characters of a name, at most */ };

/* ONNX's number of a dtype. */
int yki_onnx_dtype(yk_dtype dtype);

/* Writes the fields of a TensorProto that come before its elements. */
void yki_onnx_describe_tensor(yki_protobuf *message, const char *name, yk_dtype dtype, int ndim,
                              const int64_t *dims);

/* The value that this one equals in evaluation, or itself. */
const yk_value *yki_onnx_resolve(const yki_onnx_graph *g, const yk_value *value);

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Starts a node that makes this value, or with a suffix a part on the way to it; returns what
 * yki_onnx_end_node takes. */
size_t yki_onnx_begin_node(yki_onnx_graph *g, const char *type, const yk_value *value,
                           const char *suffix);
/* A further output of the node begun. */
void yki_onnx_add_output(yki_onnx_graph *g, const yk_value *value, const char *suffix);
void yki_onnx_end_node(yki_onnx_graph *g, size_t node);
/* Something that the node begun reads; an optional one that is absent is left out. */
void yki_onnx_add_operand(yki_onnx_graph *g, const yk_value *value);
/* An optional one that is absent, where others follow. */
void yki_onnx_skip_operand(yki_onnx_graph *g);
/* What was made on the way to value, or a constant that belongs to it. */
void yki_onnx_add_part(yki_onnx_graph *g, const yk_value *value, const char *suffix);
/* A whole node, of one or two parts of value. */
void yki_onnx_add_step(yki_onnx_graph *g, const char *type, const yk_value *value,
                       const char *suffix, const char *left, const char *right);
/* A whole node, which gives value a further name. */
void yki_onnx_add_alias(yki_onnx_graph *g, const yk_value *value, const char *name);

/* ---- attributes of the node begun ------------------------------------------------------------ */

void yki_onnx_add_float(yki_onnx_graph *g, const char *name, double value);
void yki_onnx_add_int(yki_onnx_graph *g, const char *name, int64_t value);
void yki_onnx_add_text(yki_onnx_graph *g, const char *name, const char *text);
void yki_onnx_add_list(yki_onnx_graph *g, const char *name, const int64_t *values, int count);
/* Of rows at the top and at the bottom, of columns on the left and on the right. */
void yki_onnx_add_pads(yki_onnx_graph *g, const int64_t padding[2]);

/* ---- constants ------------------------------------------------------------------------------- */

/* Numbers for a node that makes value, of its dtype. */
void yki_onnx_add_initializer(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                              int ndim, const int64_t *dims, const double *numbers);
/* Integers for a node that makes value. */
void yki_onnx_add_sizes(yki_onnx_graph *g, const yk_value *value, const char *suffix, int count,
                        const int64_t *sizes);
/* One number. */
void yki_onnx_add_constant(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           double number);
/* (count), the same number in each place. */
void yki_onnx_add_repeated(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           int64_t count, double number);

#endif
