/*
 * The part of an ONNX file that says what is computed: the nodes, inputs and outputs of its
 * GraphProto. The weights that the nodes read are written by onnx.c.
 */
#ifndef YKI_ONNX_NODES_H
#define YKI_ONNX_NODES_H

#include "onnx/write.h"

/* YK_ERROR_UNSUPPORTED, with the operator, where ONNX has none for it. */
yk_status yki_onnx_graph_create(yki_onnx_graph *graph, const yki_plan_source *source,
                                const yk_value *logits);
/* Also after a failure. */
void yki_onnx_graph_fini(yki_onnx_graph *graph);

#endif
