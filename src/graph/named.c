/* Values that have names and no producer: inputs, parameters, buffers. */
#include "graph/graph.h"

#include <search.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/tensor.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const yk_value *)a)->name, ((const yk_value *)b)->name);
}

static yk_value *find_named(const yk_graph *graph, const char *full)
{
    const yk_value key = {.name = full};
    yk_value *const *found = tfind(&key, &graph->named, compare_names);
    return found ? *found : NULL;
}

/* The parameter or buffer that has been declared before, in a scope that is used again. */
static yk_value *reused(yk_graph *graph, yki_value_kind kind, const char *full,
                        const yki_shape *shape)
{
    char text[96];
    yk_value *value = find_named(graph, full);
    if (!value)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                              "there is no %s that could be used again", full);
    if (value->kind != kind || value->dtype != shape->dtype || value->ndim != shape->ndim ||
        memcmp(value->dims, shape->dims, (size_t)shape->ndim * sizeof *shape->dims) != 0)
        return yki_graph_fail(graph, YK_ERROR_INVALID_SHAPE,
                              "%s cannot be used again: it is a %s %s %s, and another is asked for",
                              full, value->kind == YKI_PARAMETER ? "parameter" : "buffer",
                              yki_shape_text(value, text, sizeof text),
                              yk_dtype_name(value->dtype));
    return value;
}

/* An input, parameter or buffer: a named value without a producer. */
static yk_value *named(yk_graph *graph, yki_value_kind kind, const char *name, yk_dtype dtype,
                       int ndim, const int64_t *dims, yk_init init, int64_t fan)
{
    if (!graph)
        return yki_no_operand(name ? name : "an input, parameter or buffer");
    if (!name)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%sthe name of a value is NULL",
                              graph->scope);
    if (ndim < 0 || ndim > YK_MAX_DIMS)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                              "%s%s: expected 0 to %d dimensions, not %d", graph->scope, name,
                              YK_MAX_DIMS, ndim);
    if (!yk_dtype_size(dtype))
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: there is no dtype %d",
                              graph->scope, name, (int)dtype);
    if (ndim > 0 && !dims)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: dims is NULL", graph->scope,
                              name);
    if (graph->state == YKI_GRAPH_OWNED)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s", name);
    if (graph->in_gradient)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT,
                              "%s: a gradient cannot declare an input, parameter or buffer", name);
    yki_shape shape = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        bool symbolic = i == 0 && kind == YKI_INPUT && dims[i] == YK_BATCH;
        if (dims[i] <= 0 && !symbolic)
            return yki_graph_fail(graph, YK_ERROR_INVALID_SHAPE,
                                  "%s%s: dimension %d is %lld, expected 1 or more", graph->scope,
                                  name, i, (long long)dims[i]);
        shape.dims[i] = dims[i];
    }
    if (!yki_shape_is_countable(&shape))
        return yki_graph_fail(graph, YK_ERROR_INVALID_SHAPE, "%s%s is too large", graph->scope,
                              name);
    char full[sizeof graph->scope + 64];
    int length = snprintf(full, sizeof full, "%s%s", kind == YKI_INPUT ? "" : graph->scope, name);
    if (length >= (int)sizeof full)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "name %s is too long", name);
    if (graph->reuse_depth > 0 && kind != YKI_INPUT)
        return reused(graph, kind, full, &shape);
    if (find_named(graph, full))
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "the name %s is taken%s", full,
                              kind == YKI_INPUT ? "" : "; yk_scope_reuse uses it again");
    yk_value *value = yki_value_create(graph, kind, &shape);
    if (!value)
        return yki_graph_fail(graph, YK_ERROR_OUT_OF_MEMORY, "%s", full);
    value->init = init;
    value->fan = fan;
    value->name = yki_strdup(full);
    if (!value->name || !tsearch(value, &graph->named, compare_names)) {
        yki_graph_out_of_memory(graph);
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
        return yki_graph_fail(
            buffer->graph, YK_ERROR_INVALID_ARGUMENT,
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
    yki_graph_out_of_memory(buffer->graph);
    buffer->valid = false;
}

yk_value *yk_register_buffer(yk_graph *graph, const char *name, const yk_tensor *tensor,
                             bool persistent)
{
    if (!graph)
        return yki_no_operand(name ? name : "a buffer");
    if (check_given(tensor) != YK_OK)
        return yki_graph_fail(graph, YK_ERROR_INVALID_ARGUMENT, "%s%s: %s", graph->scope,
                              name ? name : "", yki_error_text());
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
