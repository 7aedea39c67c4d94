/*
 * See onnx_nodes.h. Field numbers are those of onnx.proto (https://github.com/onnx/onnx), operators
 * those of set 17 (https://onnx.ai/onnx/operators). Values of the graph are named after the node
 * that makes them; fused norms become their parts again.
 */
#include "io/onnx_nodes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/rotary.h"

enum { NAME = 512 };

typedef enum field {
    GRAPH_NODE = 1,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2
} field;

typedef enum attribute_type { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 } attribute_type;

/* ONNX's number of a dtype. */
static int number_of_dtype(yk_dtype dtype)
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
    yki_protobuf_int(message, TENSOR_DATA_TYPE, number_of_dtype(dtype));
    yki_protobuf_text(message, TENSOR_NAME, name);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const yk_value *resolve(const yki_onnx_graph *g, const yk_value *value)
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
    char text[NAME];
    int *number = &g->numbers[value->id];
    while (*number == 0) {
        snprintf(text, NAME, "%s%s_%d", value->producer->scope, value->producer->op->name,
                 ++g->numbered);
        *number = is_taken(g, text) ? 0 : g->numbered;
    }
    return *number;
}

/* The name of a value, with a suffix for one that is made on the way to it. */
static const char *name_of(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                           char text[NAME])
{
    value = resolve(g, value);
    if (value->name)
        snprintf(text, NAME, "%s%s", value->name, suffix);
    else if (value == resolve(g, g->logits) && !*suffix)
        snprintf(text, NAME, "logits");
    else
        snprintf(text, NAME, "%s%s_%d%s", value->producer->scope, value->producer->op->name,
                 number_of(g, value), suffix);
    return text;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Starts a node that makes this value; returns what end_node takes. */
static size_t begin_node(yki_onnx_graph *g, const char *type, const yk_value *value,
                         const char *suffix)
{
    char name[NAME];
    size_t node = yki_protobuf_begin(&g->message, GRAPH_NODE);
    name_of(g, value, suffix, name);
    yki_protobuf_text(&g->message, NODE_OP_TYPE, type);
    yki_protobuf_text(&g->message, NODE_NAME, name);
    yki_protobuf_text(&g->message, NODE_OUTPUT, name);
    return node;
}

/* A further output of the node begun. */
static void add_output(yki_onnx_graph *g, const yk_value *value, const char *suffix)
{
    char name[NAME];
    yki_protobuf_text(&g->message, NODE_OUTPUT, name_of(g, value, suffix, name));
}

static void end_node(yki_onnx_graph *g, size_t node)
{
    yki_protobuf_end(&g->message, node);
}

/* Something that the node begun reads; an optional one that is absent is left out. */
static void add_operand(yki_onnx_graph *g, const yk_value *value)
{
    char name[NAME];
    if (!value)
        return;
    g->read[resolve(g, value)->id] = true;
    yki_protobuf_text(&g->message, NODE_INPUT, name_of(g, value, "", name));
}

/* What was made on the way to value, or a constant that belongs to it. */
static void add_part(yki_onnx_graph *g, const yk_value *value, const char *suffix)
{
    char name[NAME];
    yki_protobuf_text(&g->message, NODE_INPUT, name_of(g, value, suffix, name));
}

static size_t begin_attribute(yki_onnx_graph *g, const char *name, attribute_type type)
{
    size_t attribute = yki_protobuf_begin(&g->message, NODE_ATTRIBUTE);
    yki_protobuf_text(&g->message, ATTRIBUTE_NAME, name);
    yki_protobuf_int(&g->message, ATTRIBUTE_TYPE, type);
    return attribute;
}

static void add_float(yki_onnx_graph *g, const char *name, double value)
{
    size_t attribute = begin_attribute(g, name, TYPE_FLOAT);
    yki_protobuf_float(&g->message, ATTRIBUTE_F, (float)value);
    yki_protobuf_end(&g->message, attribute);
}

static void add_int(yki_onnx_graph *g, const char *name, int64_t value)
{
    size_t attribute = begin_attribute(g, name, TYPE_INT);
    yki_protobuf_int(&g->message, ATTRIBUTE_I, value);
    yki_protobuf_end(&g->message, attribute);
}

static void add_list(yki_onnx_graph *g, const char *name, const int64_t *values, int count)
{
    size_t attribute = begin_attribute(g, name, TYPE_INTS);
    for (int i = 0; i < count; i++)
        yki_protobuf_int(&g->message, ATTRIBUTE_INTS, values[i]);
    yki_protobuf_end(&g->message, attribute);
}

/* The same number for each of `count` entries, at most 4. */
static void add_ints(yki_onnx_graph *g, const char *name, int64_t value, int count)
{
    add_list(g, name, (int64_t[]){value, value, value, value}, count);
}

/* Numbers for a node that makes value, of its dtype. */
static void add_initializer(yki_onnx_graph *g, const yk_value *value, const char *suffix, int ndim,
                            const int64_t *dims, const double *numbers)
{
    char name[NAME];
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

/* Integers for a node that makes value. */
static void add_sizes(yki_onnx_graph *g, const yk_value *value, const char *suffix, int count,
                      const int64_t *sizes)
{
    char name[NAME];
    const int64_t dims[] = {count};
    size_t tensor = yki_protobuf_begin(&g->message, YKI_ONNX_GRAPH_INITIALIZER);
    yki_onnx_describe_tensor(&g->message, name_of(g, value, suffix, name), YK_I64, 1, dims);
    yki_protobuf_bytes(&g->message, YKI_ONNX_TENSOR_RAW_DATA, sizes, (size_t)count * sizeof *sizes);
    yki_protobuf_end(&g->message, tensor);
}

static void add_constant(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                         double number)
{
    add_initializer(g, value, suffix, 0, NULL, &number);
}

/* (count), the same number in each place. */
static void add_repeated(yki_onnx_graph *g, const yk_value *value, const char *suffix,
                         int64_t count, double number)
{
    double *numbers = yki_calloc((size_t)count, sizeof *numbers);
    g->message.failed |= !numbers;
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = number;
    if (numbers)
        add_initializer(g, value, suffix, 1, &count, numbers);
    free(numbers);
}

/* A matrix for a node that makes value: its product with `cells` numbers, as rows or as columns, is
 * the means of `windows` adaptive windows of them. */
static void add_means(yki_onnx_graph *g, const yk_value *value, const char *suffix, int64_t cells,
                      int64_t windows, bool columns)
{
    const int64_t dims[] = {columns ? cells : windows, columns ? windows : cells};
    double *matrix = yki_calloc((size_t)(cells * windows), sizeof *matrix);
    g->message.failed |= !matrix;
    for (int64_t w = 0; matrix && w < windows; w++) {
        int64_t first = w * cells / windows, end = ((w + 1) * cells + windows - 1) / windows;
        for (int64_t c = first; c < end; c++)
            matrix[columns ? c * windows + w : w * cells + c] = 1 / (double)(end - first);
    }
    if (matrix)
        add_initializer(g, value, suffix, 2, dims, matrix);
    free(matrix);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* One operator of ONNX for one of ours. */
typedef struct translation {
    const yki_op *op;
    const char *type; /* ONNX's name of it */
    /* NULL: it changes nothing in evaluation and without mixed precision. */
    void (*write)(yki_onnx_graph *g, const yki_node *node, const char *type);
} translation;

static void write_plain(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < node->in_count; i++)
        add_operand(g, node->in[i]);
    end_node(g, made);
}

static void write_conv2d(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_CONV2D_INPUTS; i++)
        add_operand(g, node->in[i]);
    add_ints(g, "strides", node->attrs.stride, 2);
    add_ints(g, "pads", node->attrs.padding, 4);
    add_ints(g, "dilations", node->attrs.dilation, 2);
    add_int(g, "group", node->attrs.groups);
    end_node(g, made);
}

/* ONNX adds output_padding as yoke does, at the bottom and on the right. */
static void write_conv_transpose2d(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_CONV_TRANSPOSE2D_INPUTS; i++)
        add_operand(g, node->in[i]);
    add_ints(g, "strides", node->attrs.stride, 2);
    add_ints(g, "pads", node->attrs.padding, 4);
    add_ints(g, "output_padding", node->attrs.output_padding, 2);
    add_ints(g, "dilations", node->attrs.dilation, 2);
    add_int(g, "group", node->attrs.groups);
    end_node(g, made);
}

/* Gemm takes matrices only. */
static void write_linear_of_rows(yki_onnx_graph *g, const yki_node *node)
{
    const yk_value *out = node->out[YKI_LINEAR_Y], *bias = node->in[YKI_LINEAR_BIAS];
    size_t made = begin_node(g, "Transpose", out, ".weight");
    add_operand(g, node->in[YKI_LINEAR_WEIGHT]);
    end_node(g, made);
    made = begin_node(g, "MatMul", out, bias ? ".product" : "");
    add_operand(g, node->in[YKI_LINEAR_X]);
    add_part(g, out, ".weight");
    end_node(g, made);
    if (!bias)
        return;
    made = begin_node(g, "Add", out, "");
    add_part(g, out, ".product");
    add_operand(g, bias);
    end_node(g, made);
}

static void write_linear(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    if (node->out[YKI_LINEAR_Y]->ndim > 2) {
        write_linear_of_rows(g, node);
        return;
    }
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_LINEAR_INPUTS; i++)
        add_operand(g, node->in[i]);
    add_int(g, "transB", 1);
    end_node(g, made);
}

/* min(max(x, least), most), where x is an operand or a part. */
static void write_clip(yki_onnx_graph *g, const yk_value *out, const yk_value *x, const char *part,
                       double least, double most)
{
    add_constant(g, out, ".least", least);
    add_constant(g, out, ".most", most);
    size_t made = begin_node(g, "Clip", out, "");
    if (x)
        add_operand(g, x);
    else
        add_part(g, out, part);
    add_part(g, out, ".least");
    add_part(g, out, ".most");
    end_node(g, made);
}

static void write_relu6(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    (void)type;
    write_clip(g, node->out[0], node->in[0], "", 0, 6);
}

static void write_clamp(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    (void)type;
    write_clip(g, node->out[0], node->in[0], "", node->attrs.alpha, node->attrs.beta);
}

static void write_batch_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_BATCH_NORM_Y];
    const yk_value *residual = node->in[YKI_BATCH_NORM_RESIDUAL];
    const char *sum = node->attrs.relu ? ".sum" : "", *norm = residual ? ".norm" : sum;
    size_t made = begin_node(g, type, out, norm);
    for (int i = YKI_BATCH_NORM_X; i <= YKI_BATCH_NORM_RUNNING_VAR; i++)
        add_operand(g, node->in[i]);
    add_float(g, "epsilon", node->attrs.eps);
    end_node(g, made);
    if (residual) {
        made = begin_node(g, "Add", out, sum);
        add_part(g, out, norm);
        add_operand(g, residual);
        end_node(g, made);
    }
    if (node->attrs.relu && node->attrs.relu6) {
        write_clip(g, out, NULL, sum, 0, 6);
    } else if (node->attrs.relu) {
        made = begin_node(g, "Relu", out, "");
        add_part(g, out, sum);
        end_node(g, made);
    }
}

/* A node of one or two parts of value. */
static void write_step(yki_onnx_graph *g, const char *type, const yk_value *value,
                       const char *suffix, const char *left, const char *right)
{
    size_t made = begin_node(g, type, value, suffix);
    add_part(g, value, left);
    if (right)
        add_part(g, value, right);
    end_node(g, made);
}

/* x (1 + erf(x / sqrt(2))) / 2 */
static void write_gelu(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    add_constant(g, out, ".root", sqrt(2));
    add_constant(g, out, ".one", 1);
    add_constant(g, out, ".half", 0.5);
    size_t made = begin_node(g, "Div", out, ".scaled");
    add_operand(g, node->in[0]);
    add_part(g, out, ".root");
    end_node(g, made);
    write_step(g, type, out, ".erf", ".scaled", NULL);
    write_step(g, "Add", out, ".sum", ".erf", ".one");
    write_step(g, "Mul", out, ".share", ".sum", ".half");
    made = begin_node(g, "Mul", out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".share");
    end_node(g, made);
}

static void write_silu(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    size_t made = begin_node(g, type, out, ".gate");
    add_operand(g, node->in[0]);
    end_node(g, made);
    made = begin_node(g, "Mul", out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".gate");
    end_node(g, made);
}

static void write_leaky_relu(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[0]);
    add_float(g, "alpha", node->attrs.alpha);
    end_node(g, made);
}

/* scale, add_scalar, pow: an operator of x and a constant. */
static void write_with_alpha(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    add_constant(g, out, ".alpha", node->attrs.alpha);
    size_t made = begin_node(g, type, out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".alpha");
    end_node(g, made);
}

static void write_pool(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[0]);
    add_ints(g, "kernel_shape", node->attrs.kernel, 2);
    add_ints(g, "strides", node->attrs.stride, 2);
    add_ints(g, "pads", node->attrs.padding, 4);
    if (node->op == &yki_op_avg_pool2d)
        add_int(g, "count_include_pad", 1);
    end_node(g, made);
}

/* ONNX pools windows of one size only. Means are linear, so these are rows x columns. */
static void write_adaptive_pool(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *in = node->in[0];
    add_means(g, out, ".rows", in->dims[2], out->dims[2], false);
    add_means(g, out, ".columns", in->dims[3], out->dims[3], true);
    size_t made = begin_node(g, type, out, ".pooled");
    add_part(g, out, ".rows");
    add_operand(g, in);
    end_node(g, made);
    write_step(g, type, out, "", ".pooled", ".columns");
}

static void write_sum(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    add_sizes(g, out, ".axes", 1, &node->attrs.dim);
    size_t made = begin_node(g, type, out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".axes");
    end_node(g, made);
}

static void write_flatten(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[0]);
    add_int(g, "axis", 1);
    end_node(g, made);
}

/* A size of 0 is the input's. */
static void write_reshape(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    int64_t sizes[YK_MAX_DIMS] = {0};
    for (int d = 1; d < out->ndim; d++)
        sizes[d] = out->dims[d];
    add_sizes(g, out, ".shape", out->ndim, sizes);
    size_t made = begin_node(g, type, out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".shape");
    end_node(g, made);
}

static void write_softmax(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[0]);
    add_int(g, "axis", -1);
    end_node(g, made);
}

static void write_layer_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < YKI_LAYER_NORM_INPUTS; i++)
        add_operand(g, node->in[i]);
    add_int(g, "axis", -(int64_t)node->in[YKI_LAYER_NORM_WEIGHT]->ndim);
    add_float(g, "epsilon", node->attrs.eps);
    end_node(g, made);
}

/* ONNX has RMSNormalization from set 23 on, so here are its parts: weight x / sqrt(mean(x^2) +
 * eps). */
static void write_rms_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *x = node->in[YKI_RMS_NORM_X];
    int64_t axes[YK_MAX_DIMS];
    const int rows = node->in[YKI_RMS_NORM_WEIGHT]->ndim;
    for (int d = 0; d < rows; d++)
        axes[d] = d - rows;
    size_t made = begin_node(g, "Mul", out, ".squares");
    add_operand(g, x);
    add_operand(g, x);
    end_node(g, made);
    made = begin_node(g, type, out, ".mean");
    add_part(g, out, ".squares");
    add_list(g, "axes", axes, rows);
    end_node(g, made);
    add_constant(g, out, ".eps", node->attrs.eps);
    write_step(g, "Add", out, ".variance", ".mean", ".eps");
    write_step(g, "Sqrt", out, ".rms", ".variance", NULL);
    made = begin_node(g, "Div", out, ".normalised");
    add_operand(g, x);
    add_part(g, out, ".rms");
    end_node(g, made);
    made = begin_node(g, "Mul", out, "");
    add_part(g, out, ".normalised");
    add_operand(g, node->in[YKI_RMS_NORM_WEIGHT]);
    end_node(g, made);
}

/* A side of matmul with its matrices apart and not transposed, which are made on the way to its
 * result; NULL where it is so already. */
static const char *write_matrices(yki_onnx_graph *g, const yki_node *node, int in, bool transposed,
                                  const char *const names[3])
{
    const yk_value *out = node->out[YKI_MATMUL_Y], *side = node->in[in];
    const int64_t heads = node->attrs.heads;
    const char *last = NULL;
    if (heads > 1) {
        add_sizes(g, out, names[0], 4, (int64_t[]){0, heads, side->dims[1] / heads, side->dims[2]});
        size_t made = begin_node(g, "Reshape", out, names[1]);
        add_operand(g, side);
        add_part(g, out, names[0]);
        end_node(g, made);
        last = names[1];
    }
    if (!transposed)
        return last;
    const int ndim = heads > 1 ? 4 : side->ndim;
    int64_t order[YK_MAX_DIMS] = {0, 1, 2, 3};
    order[ndim - 2] = ndim - 1;
    order[ndim - 1] = ndim - 2;
    size_t made = begin_node(g, "Transpose", out, names[2]);
    if (last)
        add_part(g, out, last);
    else
        add_operand(g, side);
    add_list(g, "perm", order, ndim);
    end_node(g, made);
    return names[2];
}

static void write_matmul(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    static const char *const left[] = {".a_shape", ".a_heads", ".a_turned"};
    static const char *const right[] = {".b_shape", ".b_heads", ".b_turned"};
    const yk_value *out = node->out[YKI_MATMUL_Y];
    const char *a = write_matrices(g, node, YKI_MATMUL_A, node->attrs.transpose_a, left);
    const char *b = write_matrices(g, node, YKI_MATMUL_B, node->attrs.transpose_b, right);
    const bool apart = node->attrs.heads > 1;
    size_t made = begin_node(g, type, out, apart ? ".products" : "");
    if (a)
        add_part(g, out, a);
    else
        add_operand(g, node->in[YKI_MATMUL_A]);
    if (b)
        add_part(g, out, b);
    else
        add_operand(g, node->in[YKI_MATMUL_B]);
    end_node(g, made);
    if (!apart)
        return;
    add_sizes(g, out, ".shape", 3, (int64_t[]){0, out->dims[1], out->dims[2]});
    write_step(g, "Reshape", out, "", ".products", ".shape");
}

/* A weight or bias (C) that is broadcast to (N, C, ...) and applied to a part of value. */
static void write_of_channels(yki_onnx_graph *g, const char *type, const yk_value *out,
                              const char *suffix, const char *part, const yk_value *vector,
                              const char *name)
{
    char shape[32];
    int64_t sizes[YK_MAX_DIMS] = {vector->dims[0], 1, 1, 1};
    snprintf(shape, sizeof shape, "%s_shape", name);
    add_sizes(g, out, shape, out->ndim - 1, sizes);
    size_t made = begin_node(g, "Reshape", out, name);
    add_operand(g, vector);
    add_part(g, out, shape);
    end_node(g, made);
    write_step(g, type, out, suffix, part, name);
}

/* Set 17 has no GroupNormalization: a group is one channel of InstanceNormalization. */
static void write_group_norm(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_GROUP_NORM_Y], *weight = node->in[YKI_GROUP_NORM_WEIGHT],
                   *bias = node->in[YKI_GROUP_NORM_BIAS];
    const int64_t groups = node->attrs.groups;
    const char *normal = weight || bias ? ".normal" : "", *scaled = bias ? ".scaled" : "";
    int64_t sizes[YK_MAX_DIMS] = {0};
    for (int d = 1; d < out->ndim; d++)
        sizes[d] = out->dims[d];
    add_sizes(g, out, ".groups_shape", 3, (int64_t[]){0, groups, -1});
    size_t made = begin_node(g, "Reshape", out, ".groups");
    add_operand(g, node->in[YKI_GROUP_NORM_X]);
    add_part(g, out, ".groups_shape");
    end_node(g, made);
    add_repeated(g, out, ".ones", groups, 1);
    add_repeated(g, out, ".zeros", groups, 0);
    made = begin_node(g, type, out, ".normal_groups");
    add_part(g, out, ".groups");
    add_part(g, out, ".ones");
    add_part(g, out, ".zeros");
    add_float(g, "epsilon", node->attrs.eps);
    end_node(g, made);
    add_sizes(g, out, ".shape", out->ndim, sizes);
    write_step(g, "Reshape", out, normal, ".normal_groups", ".shape");
    if (weight)
        write_of_channels(g, "Mul", out, scaled, normal, weight, ".weight");
    if (bias)
        write_of_channels(g, "Add", out, "", weight ? scaled : normal, bias, ".bias");
}

/* q, k or v: the value whose rows have its heads, or NULL where they are a part of q's. */
typedef struct attention_rows {
    const char *name;
    const yk_value *value;
    int64_t heads, width;
    bool is_keys;
} attention_rows;

/* Another part of the attention, which is named after these rows. */
static const char *part_of(const attention_rows *rows, const char *suffix, char text[NAME])
{
    snprintf(text, NAME, "%s%s", rows->name, suffix);
    return text;
}

/* The rows in dimensions of these sizes. */
static void write_rows_as(yki_onnx_graph *g, const yk_value *out, const attention_rows *rows,
                          const char *made, int count, const int64_t *sizes)
{
    char shape[NAME];
    snprintf(shape, NAME, "%s_shape", made);
    add_sizes(g, out, shape, count, sizes);
    size_t node = begin_node(g, "Reshape", out, made);
    if (rows->value)
        add_operand(g, rows->value);
    else
        add_part(g, out, rows->name);
    add_part(g, out, shape);
    end_node(g, node);
}

/* (N, T, heads, width) of rows with fewer heads, each of which is repeated. */
static void write_repeated(yki_onnx_graph *g, const yk_value *out, const attention_rows *rows,
                           int64_t heads, const char *made)
{
    char shared[NAME], repeated[NAME], times[NAME], shape[NAME];
    part_of(rows, "_shared", shared);
    part_of(rows, "_repeated", repeated);
    part_of(rows, "_times", times);
    part_of(rows, "_shape", shape);
    write_rows_as(g, out, rows, shared, 5, (int64_t[]){0, 0, rows->heads, 1, rows->width});
    add_sizes(g, out, times, 5, (int64_t[]){1, 1, 1, heads / rows->heads, 1});
    write_step(g, "Expand", out, repeated, shared, times);
    add_sizes(g, out, shape, 4, (int64_t[]){0, 0, heads, rows->width});
    write_step(g, "Reshape", out, made, repeated, shape);
}

/* Of rows (N, T, heads width): (N, heads of queries, T, width), or for keys (N, heads of queries,
 * width, T). */
static void write_heads(yki_onnx_graph *g, const yki_node *node, const attention_rows *rows)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y];
    const int64_t heads = node->attrs.heads;
    char apart[NAME], text[NAME];
    part_of(rows, "_apart", apart);
    if (rows->heads == heads)
        write_rows_as(g, out, rows, apart, 4, (int64_t[]){0, 0, heads, rows->width});
    else
        write_repeated(g, out, rows, heads, apart);
    size_t made = begin_node(g, "Transpose", out, part_of(rows, "_heads", text));
    add_part(g, out, apart);
    add_list(g, "perm", rows->is_keys ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3}, 4);
    end_node(g, made);
}

/* q, k and v of a value that has all three. */
static void write_split(yki_onnx_graph *g, const yki_node *node, int64_t width)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y];
    const int64_t columns = node->attrs.heads * width, of_keys = node->attrs.kv_heads * width;
    add_sizes(g, out, ".columns", 3, (int64_t[]){columns, of_keys, of_keys});
    size_t made = begin_node(g, "Split", out, ".q");
    add_output(g, out, ".k");
    add_output(g, out, ".v");
    add_operand(g, node->in[YKI_ATTENTION_Q]);
    add_part(g, out, ".columns");
    add_int(g, "axis", 2);
    end_node(g, made);
}

/* What is added to scores: nothing, or where the causal mask hides a key `hidden`. */
static void write_mask(yki_onnx_graph *g, const yk_value *out, int64_t queries, int64_t keys,
                       double hidden)
{
    double *mask = yki_calloc((size_t)(queries * keys), sizeof *mask);
    g->message.failed |= !mask;
    for (int64_t i = 0; mask && i < queries * keys; i++)
        mask[i] = i % keys > i / keys ? hidden : 0;
    if (mask)
        add_initializer(g, out, ".mask", 2, (int64_t[]){queries, keys}, mask);
    free(mask);
}

/* The softmax of the scores with the mask. Where all keys are hidden from a query, it is NaN, which
 * becomes 0. */
static void write_shares(yki_onnx_graph *g, const yk_value *out, const char *scores,
                         const yk_value *mask)
{
    if (mask) {
        size_t sum = begin_node(g, "Add", out, ".masked_scores");
        add_part(g, out, scores);
        add_operand(g, mask);
        end_node(g, sum);
        scores = ".masked_scores";
    }
    size_t softmax = begin_node(g, "Softmax", out, mask ? ".all_shares" : ".shares");
    add_part(g, out, scores);
    add_int(g, "axis", -1);
    end_node(g, softmax);
    if (!mask)
        return;
    write_step(g, "IsNaN", out, ".hidden", ".all_shares", NULL);
    add_constant(g, out, ".none", 0);
    size_t made = begin_node(g, "Where", out, ".shares");
    add_part(g, out, ".hidden");
    add_part(g, out, ".none");
    add_part(g, out, ".all_shares");
    end_node(g, made);
}

static void write_attention(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[YKI_ATTENTION_Y], *q = node->in[YKI_ATTENTION_Q];
    const yk_value *k = node->in[YKI_ATTENTION_K], *v = node->in[YKI_ATTENTION_V];
    const int64_t heads = node->attrs.heads, kv_heads = node->attrs.kv_heads;
    const int64_t width = q->dims[2] / (k ? heads : heads + 2 * kv_heads);
    const attention_rows queries = {".q", k ? q : NULL, heads, width, false};
    const attention_rows keys = {".k", k, kv_heads, width, true};
    const attention_rows values = {".v", v, kv_heads, out->dims[2] / heads, false};
    const yk_value *mask = node->in[YKI_ATTENTION_MASK];
    const char *scores = ".all_scores";
    if (!k)
        write_split(g, node, width);
    write_heads(g, node, &queries);
    write_heads(g, node, &keys);
    write_heads(g, node, &values);
    write_step(g, type, out, ".products", ".q_heads", ".k_heads");
    add_constant(g, out, ".scale", node->attrs.alpha);
    write_step(g, "Mul", out, scores, ".products", ".scale");
    if (node->attrs.causal) {
        write_mask(g, out, q->dims[1], (k ? k : q)->dims[1], mask ? -INFINITY : -FLT_MAX);
        write_step(g, "Add", out, ".causal_scores", scores, ".mask");
        scores = ".causal_scores";
    }
    write_shares(g, out, scores, mask);
    write_step(g, type, out, ".y_heads", ".shares", ".v_heads");
    size_t made = begin_node(g, "Transpose", out, ".y_apart");
    add_part(g, out, ".y_heads");
    add_list(g, "perm", (int64_t[]){0, 2, 1, 3}, 4);
    end_node(g, made);
    add_sizes(g, out, ".shape", 3, (int64_t[]){0, 0, out->dims[2]});
    write_step(g, "Reshape", out, "", ".y_apart", ".shape");
}

/* The cosines and sines of all positions, (T, 1, width), with which a head x becomes
 * x cosines + partners sines, and the partner of each column. Columns that are not turned have the
 * angle 0. */
static void write_rotary_tables(yki_onnx_graph *g, const yki_node *node, int64_t width)
{
    const yk_value *out = node->out[0];
    const yki_attrs *a = &node->attrs;
    const int64_t tokens = out->dims[1], distance = yki_rotary_distance(a->rotary, a->interleaved);
    const size_t count = (size_t)(tokens * width);
    double *cosines = yki_calloc(count, sizeof *cosines), *sines = yki_calloc(count, sizeof *sines);
    int64_t *partners = yki_calloc((size_t)width, sizeof *partners);
    const bool good = cosines && sines && partners;
    g->message.failed |= !good;
    for (int64_t i = 0; good && i < width; i++)
        partners[i] = i;
    for (size_t i = 0; good && i < count; i++)
        cosines[i] = 1;
    for (int64_t pair = 0; good && pair < a->rotary / 2; pair++) {
        const float frequency = yki_rotary_frequency(a->alpha, pair, a->rotary);
        const int64_t i = yki_rotary_column(pair, a->interleaved), j = i + distance;
        partners[i] = j;
        partners[j] = i;
        for (int64_t t = 0; t < tokens; t++) {
            const double angle = yki_rotary_angle(a->first + t, frequency);
            cosines[t * width + i] = cosines[t * width + j] = cos(angle);
            sines[t * width + j] = a->inverse ? -sin(angle) : sin(angle);
            sines[t * width + i] = -sines[t * width + j];
        }
    }
    if (good) {
        add_initializer(g, out, ".cosines", 3, (int64_t[]){tokens, 1, width}, cosines);
        add_initializer(g, out, ".sines", 3, (int64_t[]){tokens, 1, width}, sines);
        add_sizes(g, out, ".pairs", (int)width, partners);
    }
    free(cosines);
    free(sines);
    free(partners);
}

/* ONNX has RotaryEmbedding from set 23 on. */
static void write_rotary(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const int64_t width = out->dims[2] / node->attrs.heads;
    write_rotary_tables(g, node, width);
    add_sizes(g, out, ".apart", 4, (int64_t[]){0, 0, node->attrs.heads, width});
    size_t made = begin_node(g, "Reshape", out, ".heads");
    add_operand(g, node->in[0]);
    add_part(g, out, ".apart");
    end_node(g, made);
    made = begin_node(g, type, out, ".partners");
    add_part(g, out, ".heads");
    add_part(g, out, ".pairs");
    add_int(g, "axis", 3);
    end_node(g, made);
    write_step(g, "Mul", out, ".own", ".heads", ".cosines");
    write_step(g, "Mul", out, ".others", ".partners", ".sines");
    write_step(g, "Add", out, ".turned", ".own", ".others");
    add_sizes(g, out, ".shape", 3, (int64_t[]){0, 0, out->dims[2]});
    write_step(g, "Reshape", out, "", ".turned", ".shape");
}

static void write_embedding(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[YKI_EMBEDDING_WEIGHT]);
    add_operand(g, node->in[YKI_EMBEDDING_INDICES]);
    end_node(g, made);
}

static void write_permute(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    add_operand(g, node->in[0]);
    add_list(g, "perm", node->attrs.dims, node->attrs.ndim);
    end_node(g, made);
}

static void write_concat(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    size_t made = begin_node(g, type, node->out[0], "");
    for (int i = 0; i < node->in_count && node->in[i]; i++)
        add_operand(g, node->in[i]);
    add_int(g, "axis", node->attrs.dim);
    end_node(g, made);
}

static void write_slice(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0];
    const yki_attrs *attrs = &node->attrs;
    add_sizes(g, out, ".starts", 1, &attrs->first);
    add_sizes(g, out, ".ends", 1, (int64_t[]){attrs->first + attrs->count});
    add_sizes(g, out, ".axes", 1, &attrs->dim);
    size_t made = begin_node(g, type, out, "");
    add_operand(g, node->in[0]);
    add_part(g, out, ".starts");
    add_part(g, out, ".ends");
    add_part(g, out, ".axes");
    end_node(g, made);
}

/* ONNX wants how much is added before each dimension, and then after each. */
static void write_pad(yki_onnx_graph *g, const yki_node *node, const char *type)
{
    const yk_value *out = node->out[0], *in = node->in[0];
    const yki_attrs *attrs = &node->attrs;
    int64_t sizes[2 * YK_MAX_DIMS] = {0};
    sizes[attrs->dim] = attrs->first;
    sizes[in->ndim + attrs->dim] = attrs->count - attrs->first - in->dims[attrs->dim];
    add_sizes(g, out, ".pads", 2 * in->ndim, sizes);
    size_t made = begin_node(g, type, out, "");
    add_operand(g, in);
    add_part(g, out, ".pads");
    end_node(g, made);
}

static const translation translations[] = {
    {&yki_op_conv2d, "Conv", write_conv2d},
    {&yki_op_conv_transpose2d, "ConvTranspose", write_conv_transpose2d},
    {&yki_op_linear, "Gemm", write_linear},
    {&yki_op_batch_norm, "BatchNormalization", write_batch_norm},
    {&yki_op_relu, "Relu", write_plain},
    {&yki_op_relu6, "Clip", write_relu6},
    {&yki_op_gelu, "Erf", write_gelu},
    {&yki_op_sigmoid, "Sigmoid", write_plain},
    {&yki_op_silu, "Sigmoid", write_silu},
    {&yki_op_hardswish, "HardSwish", write_plain},
    {&yki_op_tanh, "Tanh", write_plain},
    {&yki_op_leaky_relu, "LeakyRelu", write_leaky_relu},
    {&yki_op_exp, "Exp", write_plain},
    {&yki_op_log, "Log", write_plain},
    {&yki_op_abs, "Abs", write_plain},
    {&yki_op_pow, "Pow", write_with_alpha},
    {&yki_op_clamp, "Clip", write_clamp},
    {&yki_op_add, "Add", write_plain},
    {&yki_op_subtract, "Sub", write_plain},
    {&yki_op_multiply, "Mul", write_plain},
    {&yki_op_divide, "Div", write_plain},
    {&yki_op_scale, "Mul", write_with_alpha},
    {&yki_op_add_scalar, "Add", write_with_alpha},
    {&yki_op_randn_like, "RandomNormalLike", write_plain},
    {&yki_op_dropout, "Identity", NULL},
    {&yki_op_cast, "Identity", NULL},
    {&yki_op_max_pool2d, "MaxPool", write_pool},
    {&yki_op_avg_pool2d, "AveragePool", write_pool},
    {&yki_op_adaptive_avg_pool2d, "MatMul", write_adaptive_pool},
    {&yki_op_global_avg_pool2d, "GlobalAveragePool", write_plain},
    {&yki_op_sum, "ReduceSum", write_sum},
    {&yki_op_flatten, "Flatten", write_flatten},
    {&yki_op_reshape, "Reshape", write_reshape},
    {&yki_op_softmax, "Softmax", write_softmax},
    {&yki_op_layer_norm, "LayerNormalization", write_layer_norm},
    {&yki_op_rms_norm, "ReduceMean", write_rms_norm},
    {&yki_op_matmul, "MatMul", write_matmul},
    {&yki_op_group_norm, "InstanceNormalization", write_group_norm},
    {&yki_op_scaled_dot_product_attention, "MatMul", write_attention},
    {&yki_op_rotary_embedding, "Gather", write_rotary},
    {&yki_op_embedding, "Gather", write_embedding},
    {&yki_op_permute, "Transpose", write_permute},
    {&yki_op_concat, "Concat", write_concat},
    {&yki_op_slice, "Slice", write_slice},
    {&yki_op_pad, "Pad", write_pad},
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
    yki_protobuf_int(m, TENSOR_TYPE_ELEMENT, number_of_dtype(value->dtype));
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
        if (!known)
            return yki_error(YK_ERROR_UNSUPPORTED, "%s%s: ONNX has no such operator", node->scope,
                             node->op->name);
        if (!known->write)
            g->same[node->out[0]->id] = node->in[0];
    }
    return YK_OK;
}

static void write_nodes(yki_onnx_graph *g)
{
    for (size_t n = 0; n < g->source->first_backward; n++) {
        const yki_node *node = g->source->graph->nodes[n];
        const translation *known = find_translation(node->op);
        if (is_exported(g, node) && known && known->write)
            known->write(g, node, known->type);
    }
    const yk_value *same = resolve(g, g->logits);
    if (!same->name)
        return;
    size_t made = yki_protobuf_begin(&g->message, GRAPH_NODE); /* an input is the output */
    yki_protobuf_text(&g->message, NODE_OP_TYPE, "Identity");
    yki_protobuf_text(&g->message, NODE_OUTPUT, "logits");
    add_operand(g, same);
    end_node(g, made);
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
