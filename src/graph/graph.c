/* Building and owning the graph; the sticky error. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/custom.h"
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

void yki_graph_free(yk_graph *graph)
{
    if (!graph)
        return;
    for (size_t i = 0; i < graph->owned_count; i++) {
        free(graph->owned[i]->scope);
        free(graph->owned[i]->attributes);
        free(graph->owned[i]);
    }
    for (size_t i = 0; i < graph->custom_op_count; i++)
        free(graph->custom_ops[i]);
    free(graph->custom_ops);
    for (size_t i = 0; i < graph->value_count; i++) {
        free(graph->values[i]->name);
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

/* Records the first building error; returns an invalid value. */
YKI_PRINTF(3, 4)
static yk_value *fail(yk_graph *graph, yk_status status, const char *format, ...)
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

void yk_scope_push(yk_graph *graph, const char *name)
{
    if (!graph)
        return;
    if (!name) {
        fail(graph, YK_ERROR_INVALID_ARGUMENT, "%sthe name of a scope is NULL", graph->scope);
        name = "";
    }
    const int deepest = (int)(sizeof graph->scope_begin / sizeof *graph->scope_begin);
    size_t length = strlen(graph->scope);
    if (length + strlen(name) + 2 > sizeof graph->scope) {
        fail(graph, YK_ERROR_INVALID_ARGUMENT,
             "the scope \"%.64s\" in \"%s\" makes a prefix of %zu characters; at most %zu are "
             "possible: does an earlier yk_scope_push lack its yk_scope_pop?",
             name, graph->scope, length + strlen(name) + 1, sizeof graph->scope - 1);
        return;
    }
    if (graph->scope_depth == deepest) {
        fail(graph, YK_ERROR_INVALID_ARGUMENT,
             "the scope \"%.64s\" in \"%s\" would be the %dth that has not ended; at most %d are "
             "possible: does an earlier yk_scope_push lack its yk_scope_pop?",
             name, graph->scope, deepest + 1, deepest);
        return;
    }
    graph->scope_begin[graph->scope_depth++] = (uint8_t)length;
    if (name[0]) /* otherwise the prefix stays */
        snprintf(graph->scope + length, sizeof graph->scope - length, "%s.", name);
}

void yk_scope_reuse(yk_graph *graph, const char *name)
{
    yk_scope_push(graph, name);
    if (graph && graph->reuse_depth == 0)
        graph->reuse_depth = graph->scope_depth;
}

void yk_scope_pop(yk_graph *graph)
{
    if (!graph)
        return;
    if (graph->scope_depth == 0) {
        fail(graph, YK_ERROR_INVALID_ARGUMENT, "yk_scope_pop without a yk_scope_push before it");
        return;
    }
    graph->scope[graph->scope_begin[--graph->scope_depth]] = '\0';
    if (graph->scope_depth < graph->reuse_depth)
        graph->reuse_depth = 0;
}

void yk_eval_push(yk_graph *graph)
{
    if (graph)
        graph->eval_depth++;
}

void yk_eval_pop(yk_graph *graph)
{
    if (!graph)
        return;
    if (graph->eval_depth == 0)
        fail(graph, YK_ERROR_INVALID_ARGUMENT, "yk_eval_pop without a yk_eval_push before it");
    else
        graph->eval_depth--;
}

/* The line too: the gradient rules pass the status on. */
static void out_of_memory(yk_graph *graph)
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
        out_of_memory(graph);
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
        out_of_memory(graph);
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
        out_of_memory(graph);
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
        out_of_memory(graph);
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

/* At most 2^40 elements, of a sample where the batch is symbolic: those of a batch still count. */
static bool is_countable(const yki_shape *shape)
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
    return fail(x->graph, status, "%s%s: %s", x->graph->scope, who, yki_error_text());
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
yk_value *yki_emit(const yki_op *op, const yki_attrs *attrs, yk_value *const *in)
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
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s", op->name);
    for (int i = 0; i < op->in_count; i++) {
        draft.in[i] = in[i];
        status = status == YK_OK ? check_operand(graph, &op->in[i], in[i]) : status;
    }
    if (status == YK_OK && graph->in_gradient && !yki_custom_cast(graph, &draft))
        return handle_of(&no_memory);
    yki_shape out[YKI_MAX_OUT] = {{0}};
    status = status == YK_OK ? op->infer(&draft, out) : status;
    if (status != YK_OK)
        return fail(graph, status, "%s%s: %s", graph->scope, op->name, yki_error_text());
    for (int i = 0; i < op->out_count; i++)
        if (!is_countable(&out[i]))
            return fail(graph, YK_ERROR_INVALID_SHAPE, "%s%s: the result is too large",
                        graph->scope, op->name);
    yki_node *node = yki_append(graph, op, &draft.attrs, draft.in, out);
    return node ? node->out[0] : handle_of(&no_memory);
}

static yk_value *find_named(const yk_graph *graph, const char *full)
{
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->name && strcmp(graph->values[i]->name, full) == 0)
            return graph->values[i];
    return NULL;
}

/* The parameter or buffer that has been declared before, in a scope that is used again. */
static yk_value *reused(yk_graph *graph, yki_value_kind kind, const char *full,
                        const yki_shape *shape)
{
    char text[96];
    yk_value *value = find_named(graph, full);
    if (!value)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "there is no %s that could be used again",
                    full);
    if (value->kind != kind || value->dtype != shape->dtype || value->ndim != shape->ndim ||
        memcmp(value->dims, shape->dims, (size_t)shape->ndim * sizeof *shape->dims) != 0)
        return fail(graph, YK_ERROR_INVALID_SHAPE,
                    "%s cannot be used again: it is a %s %s %s, and another is asked for", full,
                    value->kind == YKI_PARAMETER ? "parameter" : "buffer",
                    yki_shape_text(value, text, sizeof text), yk_dtype_name(value->dtype));
    return value;
}

/* An input, parameter or buffer: a named value without a producer. */
static yk_value *named(yk_graph *graph, yki_value_kind kind, const char *name, yk_dtype dtype,
                       int ndim, const int64_t *dims, yk_init init, int64_t fan)
{
    if (!graph)
        return yki_no_operand(name ? name : "an input, parameter or buffer");
    if (!name)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%sthe name of a value is NULL",
                    graph->scope);
    if (ndim < 0 || ndim > YK_MAX_DIMS)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: expected 0 to %d dimensions, not %d",
                    graph->scope, name, YK_MAX_DIMS, ndim);
    if (!yk_dtype_size(dtype))
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: there is no dtype %d", graph->scope,
                    name, (int)dtype);
    if (ndim > 0 && !dims)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: dims is NULL", graph->scope, name);
    if (graph->state == YKI_GRAPH_OWNED)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s", name);
    if (graph->in_gradient)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT,
                    "%s: a gradient cannot declare an input, parameter or buffer", name);
    yki_shape shape = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        bool symbolic = i == 0 && kind == YKI_INPUT && dims[i] == YK_BATCH;
        if (dims[i] <= 0 && !symbolic)
            return fail(graph, YK_ERROR_INVALID_SHAPE,
                        "%s%s: dimension %d is %lld, expected 1 or more", graph->scope, name, i,
                        (long long)dims[i]);
        shape.dims[i] = dims[i];
    }
    if (!is_countable(&shape))
        return fail(graph, YK_ERROR_INVALID_SHAPE, "%s%s is too large", graph->scope, name);
    char full[sizeof graph->scope + 64];
    int length = snprintf(full, sizeof full, "%s%s", kind == YKI_INPUT ? "" : graph->scope, name);
    if (length >= (int)sizeof full)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "name %s is too long", name);
    if (graph->reuse_depth > 0 && kind != YKI_INPUT)
        return reused(graph, kind, full, &shape);
    if (find_named(graph, full))
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "the name %s is taken%s", full,
                    kind == YKI_INPUT ? "" : "; yk_scope_reuse uses it again");
    yk_value *value = yki_value_create(graph, kind, &shape);
    if (!value)
        return handle_of(&no_memory);
    value->init = init;
    value->fan = fan;
    value->name = yki_strdup(full);
    if (!value->name) {
        out_of_memory(graph);
        value->valid = false;
    }
    return value;
}

yk_value *yk_input(yk_graph *graph, const char *name, yk_dtype dtype, int ndim, const int64_t *dims)
{
    return named(graph, YKI_INPUT, name, dtype, ndim, dims, YK_INIT_ZEROS, 0);
}

yk_value *yk_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                       const int64_t *dims, yk_init init, int64_t fan)
{
    return named(graph, YKI_PARAMETER, name, dtype, ndim, dims, init, fan);
}

yk_value *yk_buffer(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                    const int64_t *dims, yk_init init)
{
    return named(graph, YKI_BUFFER, name, dtype, ndim, dims, init, 0);
}

static yki_scope_version *find_version(const yk_graph *graph, const char *scope, size_t length)
{
    for (size_t i = 0; i < graph->version_count; i++)
        if (strncmp(graph->versions[i].scope, scope, length) == 0 &&
            graph->versions[i].scope[length] == '\0')
            return &graph->versions[i];
    return NULL;
}

int yki_scope_version_of(const yk_graph *graph, const char *scope, size_t length)
{
    const yki_scope_version *said = find_version(graph, scope, length);
    return said ? said->version : 1;
}

void yk_scope_version(yk_graph *graph, int version)
{
    if (!graph)
        return;
    if (version < 1 || graph->state == YKI_GRAPH_OWNED) {
        fail(graph, YK_ERROR_INVALID_ARGUMENT, "%syk_scope_version: expected 1 or more, not %d",
             graph->scope, version);
        return;
    }
    yki_scope_version *said = find_version(graph, graph->scope, strlen(graph->scope));
    if (said) {
        said->version = version;
        return;
    }
    char *scope = yki_strdup(graph->scope);
    if (!scope || !yki_reserve(&graph->versions, graph->version_count + 1, &graph->version_capacity,
                               sizeof *graph->versions)) {
        free(scope);
        out_of_memory(graph);
        return;
    }
    graph->versions[graph->version_count++] = (yki_scope_version){scope, version};
}

/* ---- buffers of given numbers ---------------------------------------------------------------- */

static yk_status check_given(const yk_tensor *tensor)
{
    if (!tensor)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the tensor is NULL");
    if (tensor->device || tensor->parts)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the tensor is in the memory of a device: copy it with yk_tensor_read");
    if (!tensor->data)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the tensor has no data: NULL");
    return YK_OK;
}

/* The buffer again, with the numbers of the first time, which the tensor must have. */
static yk_value *given_again(yk_value *buffer, const yk_tensor *tensor, bool persistent)
{
    if (!buffer->given || buffer->transient == persistent ||
        memcmp(buffer->given, tensor->data, yk_tensor_bytes(tensor)) != 0)
        return fail(buffer->graph, YK_ERROR_INVALID_ARGUMENT,
                    "%s cannot be used again: it starts with other numbers, or only one of the two "
                    "is persistent",
                    buffer->name);
    return buffer;
}

/* `buffer` has just been declared with the tensor's shape. */
static void give(yk_value *buffer, const yk_tensor *tensor, bool persistent)
{
    size_t bytes = yk_tensor_bytes(tensor);
    buffer->transient = !persistent;
    buffer->given = yki_calloc(1, bytes);
    if (buffer->given) {
        memcpy(buffer->given, tensor->data, bytes);
        return;
    }
    out_of_memory(buffer->graph);
    buffer->valid = false;
}

yk_value *yk_register_buffer(yk_graph *graph, const char *name, const yk_tensor *tensor,
                             bool persistent)
{
    if (!graph)
        return yki_no_operand(name ? name : "a buffer");
    if (check_given(tensor) != YK_OK)
        return fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: %s", graph->scope, name ? name : "",
                    yki_error_text());
    const size_t values = graph->value_count;
    yk_value *buffer =
        named(graph, YKI_BUFFER, name, tensor->dtype, tensor->ndim, tensor->dims, YK_INIT_ZEROS, 0);
    if (!buffer->valid)
        return buffer;
    if (graph->value_count == values)
        return given_again(buffer, tensor, persistent);
    give(buffer, tensor, persistent);
    return buffer;
}

yk_value *yk_constant(yk_graph *graph, const yk_tensor *tensor)
{
    char name[40];
    if (!graph)
        return yki_no_operand("a constant");
    const int reuse_depth = graph->reuse_depth;
    snprintf(name, sizeof name, "_tensor_constant%d", graph->constants++);
    graph->reuse_depth = 0;
    yk_value *constant = yk_register_buffer(graph, name, tensor, false);
    graph->reuse_depth = reuse_depth;
    return constant;
}

/* ---- values --------------------------------------------------------------------------------- */

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

/* Every push has its pop, as names of parameters and modes of layers would be wrong otherwise. */
static yk_status check_pops(const yk_graph *graph)
{
    if (graph->scope_depth > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the scope \"%.*s\" has not ended: its yk_scope_push lacks a yk_scope_pop",
                         (int)strlen(graph->scope) - (graph->scope[0] != '\0'), graph->scope);
    if (graph->eval_depth > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a yk_eval_push lacks its yk_eval_pop");
    return YK_OK;
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
    return graph->status == YK_OK ? check_pops(graph)
                                  : yki_error(graph->status, "%s", graph->error);
}
