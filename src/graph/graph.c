/* Building and owning the graph; the sticky error. */
#define _GNU_SOURCE /* tdestroy */
#include "graph/graph.h"

#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/custom.h"
#include "graph/sequence.h"
#include "tensor/tensor.h"

/* Invalid values that belong to no graph: there was no memory for one, an operator was given NULL,
 * or the graph belongs to a model already. They are constants, whatever the type of a handle. */
static const yk_value no_memory, no_operand, no_more;

static yk_value *handle_of(const yk_value *constant)
{
    return (yk_value *)(uintptr_t)constant;
}

yk_graph *yk_graph_create(void)
{
    return yki_calloc(1, sizeof(yk_graph));
}

void yk_graph_destroy(yk_graph *graph)
{
    if (graph && graph->state != YKI_GRAPH_OWNED)
        yki_graph_free(graph);
}

static void leave(void *value)
{
    (void)value; /* the list of values frees it */
}

void yki_graph_free(yk_graph *graph)
{
    if (!graph)
        return;
    tdestroy(graph->named, leave);
    for (size_t i = 0; i < graph->owned_count; i++) {
        free(graph->owned[i]->scope);
        free(graph->owned[i]->attributes);
        free(graph->owned[i]);
    }
    for (size_t i = 0; i < graph->custom_op_count; i++)
        free(graph->custom_ops[i]);
    free(graph->custom_ops);
    for (size_t i = 0; i < graph->value_count; i++) {
        yki_free_const(graph->values[i]->name);
        free(graph->values[i]->given);
        free(graph->values[i]);
    }
    for (size_t i = 0; i < graph->version_count; i++)
        free(graph->versions[i].scope);
    free(graph->versions);
    free(graph->owned);
    free(graph->nodes);
    free(graph->values);
    free(graph);
}

yk_value *yki_graph_fail(yk_graph *graph, yk_status status, const char *format, ...)
{
    if (graph->state == YKI_GRAPH_OWNED) {
        yki_error(YK_ERROR_INVALID_ARGUMENT,
                  "a model was made of the graph: nothing can be added to it any more");
        return handle_of(&no_more);
    }
    if (graph->status == YK_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(graph->error, sizeof graph->error, format, arguments);
        va_end(arguments);
        graph->status = status;
    }
    yki_shape scalar = {.dtype = YK_F32, .ndim = 0};
    yk_value *value = yki_value_create(graph, YKI_ACTIVATION, &scalar);
    if (!value)
        return handle_of(&no_memory);
    value->valid = false;
    return value;
}

void yki_graph_out_of_memory(yk_graph *graph)
{
    yki_error(YK_ERROR_OUT_OF_MEMORY, "out of memory while building the graph");
    if (graph->status == YK_OK) {
        graph->status = YK_ERROR_OUT_OF_MEMORY;
        snprintf(graph->error, sizeof graph->error, "out of memory while building the graph");
    }
}

yk_value *yki_value_create(yk_graph *graph, yki_value_kind kind, const yki_shape *shape)
{
    yk_value *value = yki_calloc(1, sizeof *value);
    if (!value ||
        !yki_grow(&graph->values, graph->value_count, &graph->value_capacity, sizeof value)) {
        free(value);
        yki_graph_out_of_memory(graph);
        return NULL;
    }
    *value = (yk_value){.graph = graph,
                        .kind = kind,
                        .valid = true,
                        .dtype = shape->dtype,
                        .ndim = shape->ndim,
                        .id = (int)graph->value_count};
    memcpy(value->dims, shape->dims, sizeof value->dims);
    graph->values[graph->value_count++] = value;
    return value;
}

yki_shape yki_shape_of(const yk_value *value)
{
    yki_shape shape = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(shape.dims, value->dims, sizeof shape.dims);
    return shape;
}

yki_shape yki_shape_none(void)
{
    return (yki_shape){.ndim = -1};
}

const char *yki_shape_text(const yk_value *value, char *text, size_t size)
{
    return yki_dims_text(text, size, value->ndim, value->dims);
}

/* Gives a node its copy of a custom operator's attributes; false when memory is out. */
static bool copy_attributes(yki_node *node)
{
    size_t bytes = node->op->custom ? node->op->custom->declared.attributes : 0;
    if (bytes == 0)
        return true;
    node->attributes = yki_calloc(1, bytes);
    if (node->attributes)
        memcpy(node->attributes, node->attrs.custom, bytes);
    node->attrs.custom = node->attributes;
    return node->attributes != NULL;
}

/* Without appending it to the nodes that run; NULL when memory is out. */
static yki_node *create_node(yk_graph *graph, const yki_op *op, const yki_attrs *attrs,
                             yk_value *const *in, const yki_shape *out)
{
    yki_node *node = yki_calloc(1, sizeof *node);
    char *scope = yki_strdup(graph->scope);
    if (!node || !scope ||
        !yki_grow(&graph->owned, graph->owned_count, &graph->owned_capacity, sizeof node)) {
        free(node);
        free(scope);
        yki_graph_out_of_memory(graph);
        return NULL;
    }
    node->op = op;
    node->scope = scope;
    if (attrs)
        node->attrs = *attrs;
    node->in_count = op->in_count;
    memcpy(node->in, in, (size_t)op->in_count * sizeof *in);
    node->out_count = op->out_count;
    graph->owned[graph->owned_count++] = node;
    if (!copy_attributes(node)) {
        yki_graph_out_of_memory(graph);
        return NULL;
    }
    for (int i = 0; i < op->out_count; i++) {
        if (out[i].ndim < 0)
            continue;
        node->out[i] = yki_value_create(graph, YKI_ACTIVATION, &out[i]);
        if (!node->out[i])
            return NULL;
        node->out[i]->producer = node;
    }
    return node;
}

bool yki_graph_push(yk_graph *graph, yki_node *node)
{
    if (!yki_grow(&graph->nodes, graph->node_count, &graph->node_capacity, sizeof node)) {
        yki_graph_out_of_memory(graph);
        return false;
    }
    graph->nodes[graph->node_count++] = node;
    return true;
}

yki_node *yki_append(yk_graph *graph, const yki_op *op, const yki_attrs *attrs, yk_value *const *in,
                     const yki_shape *out)
{
    yki_node *node = create_node(graph, op, attrs, in, out);
    return node && yki_graph_push(graph, node) ? node : NULL;
}

bool yki_shape_is_countable(const yki_shape *shape)
{
    const int64_t most = (int64_t)1 << 40;
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++) {
        int64_t size = shape->dims[i] == YK_BATCH ? 1 : shape->dims[i];
        if (size > most / count)
            return false;
        count *= size;
    }
    return true;
}

yk_value *yki_emit_error(yk_value *x, const char *who, yk_status status)
{
    if (!x || !x->graph)
        return x ? x : yki_no_operand(who);
    return yki_graph_fail(x->graph, status, "%s%s: %s", x->graph->scope, who, yki_error_text());
}

static yk_graph *graph_of(int in_count, yk_value *const *in)
{
    for (int i = 0; i < in_count; i++)
        if (in[i] && in[i]->graph)
            return in[i]->graph;
    return NULL;
}

/* An invalid input, whose error counts. One without a graph is as good as NULL. */
static yk_value *invalid_input(int in_count, yk_value *const *in)
{
    for (int i = 0; i < in_count; i++)
        if (in[i] && !in[i]->valid && in[i] != &no_operand)
            return in[i];
    return NULL;
}

/* Whether a value can be an operand in this graph. */
static yk_status check_operand(const yk_graph *graph, const yki_op_input *operand,
                               const yk_value *value)
{
    if (value == &no_operand)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the value for the %s follows from a value or graph that was NULL",
                         operand->name);
    if (value && value->graph != graph)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the value for the %s belongs to another graph",
                         operand->name);
    if (!value && !operand->is_optional)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the value for the %s is NULL", operand->name);
    return YK_OK;
}

yk_value *yki_no_operand(const char *who)
{
    yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: the value for the input is NULL", who);
    return handle_of(&no_operand);
}

/* Infers into a node that is on the stack, so that an invalid one never enters the graph. */
static yk_value *emit(const yki_op *op, const yki_attrs *attrs, yk_value *const *in)
{
    yk_graph *graph = graph_of(op->in_count, in);
    yki_node draft = {.op = op, .attrs = *attrs, .in_count = op->in_count};
    yk_value *invalid = invalid_input(op->in_count, in);
    yk_status status = YK_OK;
    if (invalid)
        return invalid;
    if (!graph)
        return yki_no_operand(op->name);
    draft.attrs.evaluates = graph->eval_depth > 0;
    if (graph->state == YKI_GRAPH_OWNED)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s", op->name);
    for (int i = 0; i < op->in_count; i++) {
        draft.in[i] = in[i];
        status = status == YK_OK ? check_operand(graph, &op->in[i], in[i]) : status;
    }
    if (status == YK_OK && graph->in_gradient && !yki_custom_cast(graph, &draft))
        return handle_of(&no_memory);
    yki_shape out[YKI_MAX_OUT] = {{0}};
    status = status == YK_OK ? op->infer(&draft, out) : status;
    if (status != YK_OK)
        return yki_graph_fail(graph, status, "%s%s: %s", graph->scope, op->name, yki_error_text());
    for (int i = 0; i < op->out_count; i++)
        if (!yki_shape_is_countable(&out[i]))
            return yki_graph_fail(graph, YK_ERROR_INVALID_SHAPE, "%s%s: the result is too large",
                                  graph->scope, op->name);
    yki_node *node = yki_append(graph, op, &draft.attrs, draft.in, out);
    return node ? node->out[0] : handle_of(&no_memory);
}

yk_value *yki_emit(const yki_op *op, const yki_attrs *attrs, yk_value *const *in)
{
    yk_value *rows[YKI_MAX_IN];
    if (yki_rows_before(op, in, rows))
        return yki_of_row(emit(op, attrs, rows), rows[0]);
    return emit(op, attrs, in);
}

int yk_value_shape(const yk_value *value, int64_t dims[YK_MAX_DIMS])
{
    if (!value || !value->valid)
        return -1;
    if (dims)
        memcpy(dims, value->dims, (size_t)value->ndim * sizeof *dims);
    return value->ndim;
}

yk_dtype yk_value_dtype(const yk_value *value)
{
    return value ? value->dtype : YK_F32;
}

yk_graph *yk_value_graph(const yk_value *value)
{
    return value ? value->graph : NULL;
}

yk_status yki_value_check(const yk_value *value, const char *name)
{
    if (!value || value == &no_operand)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s is NULL, or follows from a value or graph that was NULL, or from the "
                         "concat or stack of no values",
                         name);
    if (value == &no_memory)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "out of memory while building the graph");
    if (value != &no_more && value->graph->state == YKI_GRAPH_TAKEN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "making a model of this graph has failed before: build the graph again");
    if (value == &no_more || value->graph->state != YKI_GRAPH_OPEN)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the graph belongs to another model already: each model is made of a "
                         "graph of its own");
    const yk_graph *graph = value->graph;
    return graph->status == YK_OK ? yki_scope_check_ended(graph)
                                  : yki_error(graph->status, "%s", graph->error);
}
