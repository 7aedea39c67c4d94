/*
 * See write.h. Field numbers are those of onnx.proto (https://github.com/onnx/onnx). Values of
 * the graph are named after the node that makes them.
 */
#include "onnx/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef enum field {
    GRAPH_NODE = 1,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8
} field;

typedef enum attribute_type {
    TYPE_FLOAT = 1,
    TYPE_INT = 2,
    TYPE_STRING = 3,
    TYPE_INTS = 7
} attribute_type;

int yki_onnx_dtype(yk_dtype dtype)
{
    static const int numbers[YK_DTYPE_COUNT] = {
        [YK_F32] = 1, [YK_F64] = 11, [YK_F16] = 10, [YK_BF16] = 16,
        [YK_I32] = 6, [YK_I64] = 7,  [YK_U8] = 2};
    return numbers[dtype];
}

void yki_onnx_describe_tensor(yki_protobuf *message, const char *name, yk_dtype dtype, int ndim,
                              const int64_t *dims)
{
    for (int d = 0; d < ndim; d++)
        yki_protobuf_int(message, TENSOR_DIMS, dims[d]);
    yki_protobuf_int(message, TENSOR_DATA_TYPE, yki_onnx_dtype(dtype));
    yki_protobuf_text(message, TENSOR_NAME, name);
}

/* ---- names ----------------------------------------------------------------------------------- */

const yk_value *yki_onnx_resolve(const yki_onnx_graph *g, const yk_value *value)
{
    while (g->same[value->id])
        value = g->same[value->id];
    return value;
}

/* Whether an input, parameter or buffer has this name, or this name with a suffix. */
static bool is_taken(const yki_onnx_graph *g, const char *name)
{
    const yk_graph *graph = g->source->graph;
    size_t length = strlen(name);
    for (size_t i = 0; i < graph->value_count; i++) {
        const char *other = graph->values[i]->name;
        if (other && strncmp(other, name, length) == 0 &&
            (other[length] == '\0' || other[length] == '.'))
            return true;
    }
    return false;
}

/* Numbers a value that has no name, so that no other value has the name that is made of it. */
static int number_of(yki_onnx_graph *g, const yk_value *value)
{
    char text[YKI_ONNX_NAME];
    int *number = &g->numbers[value->id];
    while (*number == 0) {
        snprintf(text, YKI_ONNX_NAME, "%s%s_%d", value->producer->scope, value->producer->op->name,
                 ++g->numbered);
        *number = is_taken(g, text) ? 0 : g->numbered;
    }
    return *number;
}

/* The name of a value, with a suffix for one that is made on the way to it. */
static const char *name_of(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           char text[YKI_ONNX_NAME])
{
    value = yki_onnx_resolve(g, value);
    if (value->name)
        snprintf(text, YKI_ONNX_NAME, "%s%s", value->name, suffix);
    else if (value == yki_onnx_resolve(g, g->logits) && !*suffix)
        snprintf(text, YKI_ONNX_NAME, "logits");
    else
        snprintf(text, YKI_ONNX_NAME, "%s%s_%d%s", value->producer->scope,
                 value->producer->op->name, number_of(g, value), suffix);
    return text;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

size_t yki_onnx_begin_node(yki_onnx_graph *g, const char *type, const yk_value *value,
                           const char *suffix)
{
    char name[YKI_ONNX_NAME];
    size_t node = yki_protobuf_begin(&g->message, GRAPH_NODE);
    name_of(g, value, suffix, name);
    yki_protobuf_text(&g->message, NODE_OP_TYPE, type);
    yki_protobuf_text(&g->message, NODE_NAME, name);
    yki_protobuf_text(&g->message, NODE_OUTPUT, name);
    return node;
}

void yki_onnx_add_output(yki_onnx_graph *g, const yk_value *value, const char *suffix)
{
    char name[YKI_ONNX_NAME];
    yki_protobuf_text(&g->message, NODE_OUTPUT, name_of(g, value, suffix, name));
}

void yki_onnx_end_node(yki_onnx_graph *g, size_t node)
{
    yki_protobuf_end(&g->message, node);
}

void yki_onnx_add_operand(yki_onnx_graph *g, const yk_value *value)
{
    char name[YKI_ONNX_NAME];
    if (!value)
        return;
    g->read[yki_onnx_resolve(g, value)->id] = true;
    yki_protobuf_text(&g->message, NODE_INPUT, name_of(g, value, "", name));
}

void yki_onnx_skip_operand(yki_onnx_graph *g)
{
    yki_protobuf_text(&g->message, NODE_INPUT, "");
}

void yki_onnx_add_part(yki_onnx_graph *g, const yk_value *value, const char *suffix)
{
    char name[YKI_ONNX_NAME];
    yki_protobuf_text(&g->message, NODE_INPUT, name_of(g, value, suffix, name));
}

void yki_onnx_add_step(yki_onnx_graph *g, const char *type, const yk_value *value,
                       const char *suffix, const char *left, const char *right)
{
    size_t made = yki_onnx_begin_node(g, type, value, suffix);
    yki_onnx_add_part(g, value, left);
    if (right)
        yki_onnx_add_part(g, value, right);
    yki_onnx_end_node(g, made);
}

void yki_onnx_add_alias(yki_onnx_graph *g, const yk_value *value, const char *name)
{
    size_t made = yki_protobuf_begin(&g->message, GRAPH_NODE);
    yki_protobuf_text(&g->message, NODE_OP_TYPE, "Identity");
    yki_protobuf_text(&g->message, NODE_OUTPUT, name);
    yki_onnx_add_operand(g, value);
    yki_onnx_end_node(g, made);
}

static size_t begin_attribute(yki_onnx_graph *g, const char *name, attribute_type type)
{
    size_t attribute = yki_protobuf_begin(&g->message, NODE_ATTRIBUTE);
    yki_protobuf_text(&g->message, ATTRIBUTE_NAME, name);
    yki_protobuf_int(&g->message, ATTRIBUTE_TYPE, type);
    return attribute;
}

void yki_onnx_add_float(yki_onnx_graph *g, const char *name, double value)
{
    size_t attribute = begin_attribute(g, name, TYPE_FLOAT);
    yki_protobuf_float(&g->message, ATTRIBUTE_F, (float)value);
    yki_protobuf_end(&g->message, attribute);
}

void yki_onnx_add_int(yki_onnx_graph *g, const char *name, int64_t value)
{
    size_t attribute = begin_attribute(g, name, TYPE_INT);
    yki_protobuf_int(&g->message, ATTRIBUTE_I, value);
    yki_protobuf_end(&g->message, attribute);
}

void yki_onnx_add_text(yki_onnx_graph *g, const char *name, const char *text)
{
    size_t attribute = begin_attribute(g, name, TYPE_STRING);
    yki_protobuf_text(&g->message, ATTRIBUTE_S, text);
    yki_protobuf_end(&g->message, attribute);
}

void yki_onnx_add_list(yki_onnx_graph *g, const char *name, const int64_t *values, int count)
{
    size_t attribute = begin_attribute(g, name, TYPE_INTS);
    for (int i = 0; i < count; i++)
        yki_protobuf_int(&g->message, ATTRIBUTE_INTS, values[i]);
    yki_protobuf_end(&g->message, attribute);
}

void yki_onnx_add_pads(yki_onnx_graph *g, const int64_t padding[2])
{
    yki_onnx_add_list(g, "pads", (int64_t[]){padding[0], padding[1], padding[0], padding[1]}, 4);
}

/* ---- constants ------------------------------------------------------------------------------- */

void yki_onnx_add_initializer(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                              int ndim, const int64_t *dims, const double *numbers)
{
    char name[YKI_ONNX_NAME];
    yk_dtype dtype = value->dtype == YK_F64 ? YK_F64 : YK_F32;
    size_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= (size_t)dims[d];
    size_t bytes = count * yk_dtype_size(dtype);
    void *elements = yki_calloc(bytes, 1);
    for (size_t i = 0; elements && i < count; i++)
        if (dtype == YK_F64)
            ((double *)elements)[i] = numbers[i];
        else
            ((float *)elements)[i] = (float)numbers[i];
    g->message.failed |= !elements;
    size_t tensor = yki_protobuf_begin(&g->message, YKI_ONNX_GRAPH_INITIALIZER);
    yki_onnx_describe_tensor(&g->message, name_of(g, value, suffix, name), dtype, ndim, dims);
    if (elements)
        yki_protobuf_bytes(&g->message, YKI_ONNX_TENSOR_RAW_DATA, elements, bytes);
    yki_protobuf_end(&g->message, tensor);
    free(elements);
}

void yki_onnx_add_sizes(yki_onnx_graph *g, const yk_value *value, const char *suffix, int count,
                        const int64_t *sizes)
{
    char name[YKI_ONNX_NAME];
    const int64_t dims[] = {count};
    size_t tensor = yki_protobuf_begin(&g->message, YKI_ONNX_GRAPH_INITIALIZER);
    yki_onnx_describe_tensor(&g->message, name_of(g, value, suffix, name), YK_I64, 1, dims);
    yki_protobuf_bytes(&g->message, YKI_ONNX_TENSOR_RAW_DATA, sizes, (size_t)count * sizeof *sizes);
    yki_protobuf_end(&g->message, tensor);
}

void yki_onnx_add_constant(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           double number)
{
    yki_onnx_add_initializer(g, value, suffix, 0, NULL, &number);
}

void yki_onnx_add_repeated(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           int64_t count, double number)
{
    double *numbers = yki_calloc((size_t)count, sizeof *numbers);
    g->message.failed |= !numbers;
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = number;
    if (numbers)
        yki_onnx_add_initializer(g, value, suffix, 1, &count, numbers);
    free(numbers);
}
