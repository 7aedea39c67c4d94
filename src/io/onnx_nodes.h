/*
 * The part of an ONNX file that says what is computed: the nodes, inputs and outputs of its
 * GraphProto. The weights that the nodes read are written by onnx.c.
 */
#ifndef YKI_ONNX_NODES_H
#define YKI_ONNX_NODES_H

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

/* Writes the fields of a TensorProto that come before its elements. */
void yki_onnx_describe_tensor(yki_protobuf *message, const char *name, yk_dtype dtype, int ndim,
                              const int64_t *dims);

/* YK_ERROR_UNSUPPORTED, with the operator, where ONNX has none for it. */
yk_status yki_onnx_graph_create(yki_onnx_graph *graph, const yki_plan_source *source,
                                const yk_value *logits);
/* Also after a failure. */
void yki_onnx_graph_fini(yki_onnx_graph *graph);

#endif
