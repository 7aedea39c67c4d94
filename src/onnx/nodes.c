/*
 * See nodes.h. Field numbers are those of onnx.proto (https://github.com/onnx/onnx), operators
 * those of set 17 (https://onnx.ai/onnx/operators).
 */
#include "onnx/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "onnx/operators.h"

typedef enum field {
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2
} field;

/* ---- operators ------------------------------------------------------------------------------- */

/* One operator of ONNX for one of ours. */
typedef struct translation {
    const yki_op *op;
    const char *type; /* ONNX's name of it */
    /* NULL: it changes nothing in evaluation and without mixed precision. */
    yki_onnx_translator *write;
} translation;

static void write_plain(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = yki_onnx_begin_node(g, type, node->out[0], "");
    for (int i = 0; i < node->in_count; i++)
        yki_onnx_add_operand(g, node->in[i]);
    yki_onnx_end_node(g, made);
}

static const translation translations[] = {
    {&yki_op_conv2d, "Conv", yki_onnx_write_conv2d},
    {&yki_op_conv_transpose2d, "ConvTranspose", yki_onnx_write_conv_transpose2d},
    {&yki_op_linear, "Gemm", yki_onnx_write_linear},
    {&yki_op_batch_norm, "BatchNormalization", yki_onnx_write_batch_norm},
    {&yki_op_relu, "Relu", write_plain},
    {&yki_op_relu6, "Clip", yki_onnx_write_relu6},
    {&yki_op_gelu, "Erf", yki_onnx_write_gelu},
    {&yki_op_sigmoid, "Sigmoid", write_plain},
    {&yki_op_silu, "Sigmoid", yki_onnx_write_silu},
    {&yki_op_hardswish, "HardSwish", write_plain},
    {&yki_op_tanh, "Tanh", write_plain},
    {&yki_op_leaky_relu, "LeakyRelu", yki_onnx_write_alpha_attribute},
    {&yki_op_elu, "Elu", yki_onnx_write_alpha_attribute},
    {&yki_op_exp, "Exp", write_plain},
    {&yki_op_sin, "Sin", write_plain},
    {&yki_op_cos, "Cos", write_plain},
    {&yki_op_log, "Log", write_plain},
    {&yki_op_abs, "Abs", write_plain},
    {&yki_op_pow, "Pow", yki_onnx_write_with_alpha},
    {&yki_op_clamp, "Clip", yki_onnx_write_clamp},
    {&yki_op_add, "Add", write_plain},
    {&yki_op_subtract, "Sub", write_plain},
    {&yki_op_multiply, "Mul", write_plain},
    {&yki_op_divide, "Div", write_plain},
    {&yki_op_maximum, "Max", write_plain},
    {&yki_op_minimum, "Min", write_plain},
    {&yki_op_compare, "Where", yki_onnx_write_compare},
    {&yki_op_masked_fill, "Where", yki_onnx_write_masked_fill},
    {&yki_op_scale, "Mul", yki_onnx_write_with_alpha},
    {&yki_op_add_scalar, "Add", yki_onnx_write_with_alpha},
    {&yki_op_randn_like, "RandomNormalLike", write_plain},
    {&yki_op_dropout, "Identity", NULL},
    {&yki_op_cast, "Identity", NULL},
    {&yki_op_max_pool2d, "MaxPool", yki_onnx_write_pool},
    {&yki_op_avg_pool2d, "AveragePool", yki_onnx_write_pool},
    {&yki_op_adaptive_avg_pool2d, "MatMul", yki_onnx_write_adaptive_pool},
    {&yki_op_interpolate, "Resize", yki_onnx_write_interpolate},
    {&yki_op_global_avg_pool2d, "GlobalAveragePool", write_plain},
    {&yki_op_sum, "ReduceSum", yki_onnx_write_sum},
    {&yki_op_amax, "ReduceMax", yki_onnx_write_extreme},
    {&yki_op_amin, "ReduceMin", yki_onnx_write_extreme},
    {&yki_op_flatten, "Flatten", yki_onnx_write_flatten},
    {&yki_op_reshape, "Reshape", yki_onnx_write_reshape},
    {&yki_op_softmax, "Softmax", yki_onnx_write_softmax},
    {&yki_op_log_softmax, "LogSoftmax", yki_onnx_write_softmax},
    {&yki_op_layer_norm, "LayerNormalization", yki_onnx_write_layer_norm},
    {&yki_op_rms_norm, "ReduceMean", yki_onnx_write_rms_norm},
    {&yki_op_matmul, "MatMul", yki_onnx_write_matmul},
    {&yki_op_group_norm, "InstanceNormalization", yki_onnx_write_group_norm},
    {&yki_op_scaled_dot_product_attention, "MatMul", yki_onnx_write_attention},
    {&yki_op_rotary_embedding, "Gather", yki_onnx_write_rotary},
    {&yki_op_lstm_cell, "Mul", yki_onnx_write_lstm_cell},
    {&yki_op_gru_cell, "Add", yki_onnx_write_gru_cell},
    {&yki_op_lstm, "LSTM", yki_onnx_write_recurrent},
    {&yki_op_gru, "GRU", yki_onnx_write_recurrent},
    {&yki_op_embedding, "Gather", yki_onnx_write_embedding},
    {&yki_op_take_along_dim, "GatherND", yki_onnx_write_take},
    {&yki_op_permute, "Transpose", yki_onnx_write_permute},
    {&yki_op_concat, "Concat", yki_onnx_write_concat},
    {&yki_op_slice, "Slice", yki_onnx_write_slice},
    {&yki_op_pad, "Pad", yki_onnx_write_pad},
};

static const translation *find_translation(const yki_op *op)
{
    for (size_t i = 0; i < sizeof translations / sizeof *translations; i++)
        if (translations[i].op == op)
            return &translations[i];
    return NULL;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The name, dtype and shape of an input or output. */
static void describe_value(yki_onnx_graph *g, int where, const char *name, const yk_value *value)
{
    yki_protobuf *m = &g->message;
    size_t info = yki_protobuf_begin(m, where);
    yki_protobuf_text(m, VALUE_NAME, name);
    size_t type = yki_protobuf_begin(m, VALUE_TYPE), tensor = yki_protobuf_begin(m, TYPE_TENSOR);
    yki_protobuf_int(m, TENSOR_TYPE_ELEMENT, yki_onnx_dtype(value->dtype));
    size_t shape = yki_protobuf_begin(m, TENSOR_TYPE_SHAPE);
    for (int d = 0; d < value->ndim; d++) {
        size_t dim = yki_protobuf_begin(m, SHAPE_DIM);
        if (value->dims[d] == YK_BATCH)
            yki_protobuf_text(m, DIM_PARAM, "batch");
        else
            yki_protobuf_int(m, DIM_VALUE, value->dims[d]);
        yki_protobuf_end(m, dim);
    }
    yki_protobuf_end(m, shape);
    yki_protobuf_end(m, tensor);
    yki_protobuf_end(m, type);
    yki_protobuf_end(m, info);
}

/* Whether the logits need this node. */
static bool is_exported(const yki_onnx_graph *g, const yki_node *node)
{
    return node->out[0] && g->needed[node->out[0]->id];
}

/* Finds which values equal others. */
static yk_status find_same(yki_onnx_graph *g)
{
    for (size_t n = 0; n < g->source->first_backward; n++) {
        const yki_node *node = g->source->graph->nodes[n];
        const translation *known = find_translation(node->op);
        if (!is_exported(g, node))
            continue;
        bool alone = known && known->write == yki_onnx_write_recurrent &&
                     !yki_onnx_linear_of(g, node); /* no layer that yk_nn_lstm() makes */
        if (!known || alone)
            return yki_error(YK_ERROR_UNSUPPORTED, "%s%s: ONNX has no such operator", node->scope,
                             node->op->name);
        if (!known->write)
            g->same[node->out[0]->id] = node->in[0];
    }
    return YK_OK;
}

/* A linear layer that is written as a part of an LSTM or GRU gets no node. */
static void leave_out_linears(yki_onnx_graph *g)
{
    for (size_t n = 0; n < g->source->first_backward; n++) {
        const yki_node *linear = yki_onnx_linear_of(g, g->source->graph->nodes[n]);
        if (linear)
            g->needed[linear->out[0]->id] = false;
    }
}

static void write_nodes(yki_onnx_graph *g)
{
    for (size_t n = 0; n < g->source->first_backward; n++) {
        const yki_node *node = g->source->graph->nodes[n];
        const translation *known = find_translation(node->op);
        if (is_exported(g, node) && known && known->write)
            known->write(g, node, known->type);
    }
    const yk_value *same = yki_onnx_resolve(g, g->logits);
    if (same->name) /* an input is the output */
        yki_onnx_add_alias(g, same, "logits");
}

/* The output's name is its own. */
static yk_status check_names(const yki_onnx_graph *g)
{
    const yk_graph *graph = g->source->graph;
    for (size_t i = 0; i < graph->value_count; i++) {
        const char *name = graph->values[i]->name;
        if (name && g->read[i] && strcmp(name, "logits") == 0)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "the name \"logits\" is that of the output, and no input, parameter "
                             "or buffer can have it");
    }
    return YK_OK;
}

static yk_status write_graph(yki_onnx_graph *g)
{
    const yk_graph *graph = g->source->graph;
    YK_TRY(find_same(g));
    leave_out_linears(g);
    write_nodes(g);
    YK_TRY(check_names(g));
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == YKI_INPUT && g->read[i])
            describe_value(g, GRAPH_INPUT, graph->values[i]->name, graph->values[i]);
    describe_value(g, GRAPH_OUTPUT, "logits", g->logits);
    return g->message.failed ? yki_error_memory(g->message.size, "an ONNX graph") : YK_OK;
}

yk_status yki_onnx_graph_create(yki_onnx_graph *graph, const yki_plan_source *source,
                                const yk_value *logits)
{
    size_t values = source->graph->value_count;
    *graph = (yki_onnx_graph){.source = source, .logits = logits};
    graph->same = yki_calloc(values, sizeof(yk_value *));
    graph->read = yki_calloc(values, sizeof *graph->read);
    graph->numbers = yki_calloc(values, sizeof *graph->numbers);
    graph->needed = yki_calloc(values, sizeof *graph->needed);
    if (!graph->same || !graph->read || !graph->numbers || !graph->needed)
        return yki_error_memory(values * sizeof *graph->same, "an ONNX graph");
    graph->needed[logits->id] = true;
    yki_graph_mark_needed(source->graph, source->first_backward, graph->needed);
    return write_graph(graph);
}

void yki_onnx_graph_fini(yki_onnx_graph *graph)
{
    free((void *)graph->same);
    free(graph->read);
    free(graph->numbers);
    free(graph->needed);
    yki_protobuf_fini(&graph->message);
}
