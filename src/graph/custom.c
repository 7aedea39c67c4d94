/*
 * Operators of programs. A table is checked and copied when a graph meets it first; its rules are
 * called through the node that they are about.
 *
 * Gradient rules of programs are made of operators that check their inputs as those that a user
 * builds. They come after autocast, so that their values may be 16 bit: while such a rule runs
 * (graph->in_gradient) operators accept that and cast where their policy asks for it.
 */
#include "graph/custom.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyz0123456789_";
    return name && *name && strlen(name) < 64 && name[strspn(name, allowed)] == '\0';
}

static bool is_built_in(const char *name)
{
    for (size_t i = 0; i < YKI_OPERATORS; i++)
        if (strcmp(yki_operators[i]->name, name) == 0)
            return true;
    return false;
}

static yk_status check_declared(const yk_operator *op)
{
    if (!is_name(op->name))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "an operator is named \"%s\": a name consists of lower-case letters, "
                         "digits and _",
                         op->name ? op->name : "");
    if (is_built_in(op->name))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "operator %s: there is a built-in operator of that name", op->name);
    if (op->input_count < 1 || op->input_count > YK_OPERATOR_INPUTS || op->output_count < 1 ||
        op->output_count > YK_OPERATOR_OUTPUTS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "operator %s has %d inputs and %d outputs, expected 1 to %d and 1 to %d",
                         op->name, op->input_count, op->output_count, YK_OPERATOR_INPUTS,
                         YK_OPERATOR_OUTPUTS);
    if ((unsigned)op->autocast > YK_AUTOCAST_FULL)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "operator %s: there is no autocast policy %d",
                         op->name, (int)op->autocast);
    if (!op->ref)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "operator %s has no kernel for ref", op->name);
    return YK_OK;
}

static yk_status read_kernel(yk_operator_kernel *kernel, const yk_operator_kernel *given,
                             const char *name, const char *device)
{
    if (!given)
        return YK_OK;
    yk_status status = yki_options_read(kernel, sizeof *kernel, given, "yk_operator_kernel",
                                        "size = sizeof(yk_operator_kernel)");
    if (status != YK_OK)
        return yki_error_context(status, "operator %s", name);
    if (!kernel->run)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "operator %s: its kernel for %s has no run()",
                         name, device);
    return YK_OK;
}

static yk_status infer(const yki_node *node, yki_shape *out);
static yk_status gradient(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                          const bool *needs, yk_value **din);

static yk_status read_table(yki_custom_op *custom, const yk_operator *table)
{
    yk_operator *op = &custom->declared;
    custom->table = table;
    YK_TRY(yki_options_read(op, sizeof *op, table, "yk_operator", "size = sizeof(yk_operator)"));
    YK_TRY(check_declared(op));
    YK_TRY(read_kernel(&custom->ref, op->ref, op->name, "ref"));
    YK_TRY(read_kernel(&custom->cpu, op->cpu, op->name, "cpu"));
    custom->op = (yki_op){.name = op->name,
                          .custom = custom,
                          .autocast = (yki_autocast)op->autocast,
                          .in_count = op->input_count,
                          .out_count = op->output_count,
                          .infer = infer,
                          .gradient = op->gradient ? gradient : NULL};
    for (int i = 0; i < op->input_count; i++)
        custom->op.in[i] = (yki_op_input){.name = op->inputs[i].name ? op->inputs[i].name : "input",
                                          .is_activation = op->inputs[i].is_activation,
                                          .is_optional = op->inputs[i].is_optional};
    return YK_OK;
}

/* The graph's operator for a table, made where it is new. */
static yk_status find_or_make(yk_graph *graph, const yk_operator *table, const yki_op **op)
{
    for (size_t i = 0; i < graph->custom_op_count; i++)
        if (graph->custom_ops[i]->table == table) {
            *op = &graph->custom_ops[i]->op;
            return YK_OK;
        }
    yki_custom_op *made = yki_calloc(1, sizeof *made);
    if (!made || !yki_grow(&graph->custom_ops, graph->custom_op_count, &graph->custom_op_capacity,
                           sizeof made)) {
        free(made);
        return yki_error_memory(sizeof *made, "an operator");
    }
    yk_status status = read_table(made, table);
    for (size_t i = 0; status == YK_OK && i < graph->custom_op_count; i++)
        if (strcmp(graph->custom_ops[i]->op.name, made->op.name) == 0)
            status = yki_error(YK_ERROR_INVALID_ARGUMENT,
                               "operator %s: the graph has another operator of that name",
                               made->op.name);
    if (status != YK_OK) {
        free(made);
        return status;
    }
    graph->custom_ops[graph->custom_op_count++] = made;
    *op = &made->op;
    return YK_OK;
}

/* ---- the rules ------------------------------------------------------------------------------- */

static yk_operator_node view_of(const yki_node *node, bool outputs)
{
    return (yk_operator_node){.attributes = node->attrs.custom,
                              .inputs = node->in,
                              .outputs = outputs ? node->out : NULL};
}

/* What the program's rule says an output will be. */
static yk_status check_output(const yk_tensor *output, int index)
{
    bool good = output->ndim >= 0 && output->ndim <= YK_MAX_DIMS && yk_dtype_size(output->dtype);
    for (int d = 0; good && d < output->ndim; d++)
        good = output->dims[d] > 0 || (d == 0 && output->dims[d] == YK_BATCH);
    return good ? YK_OK
                : yki_error(YK_ERROR_INVALID_SHAPE,
                            "the shape rule gives output %d no valid shape and dtype", index);
}

/* All activations have one dtype, so that kernels need not mix them. */
static yk_status check_activations(const yki_node *node)
{
    const yk_value *first = NULL;
    for (int i = 0; i < node->in_count; i++) {
        const yk_value *in = node->op->in[i].is_activation ? node->in[i] : NULL;
        if (in && first && in->dtype != first->dtype)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s is %s, but another activation is %s",
                             node->op->in[i].name, yk_dtype_name(in->dtype),
                             yk_dtype_name(first->dtype));
        first = in ? in : first;
    }
    return YK_OK;
}

static yk_status call_shape(const yk_operator *op, const yk_operator_node *node, yk_tensor *outputs)
{
    char line[YKI_ERROR_LINE];
    if (!op->shape)
        return YK_OK;
    yki_error_begin(line);
    yk_status status = op->shape(node, outputs);
    return yki_error_end(status, line, "the program's shape()");
}

static yk_status infer(const yki_node *node, yki_shape *out)
{
    const yk_operator *op = &node->op->custom->declared;
    yk_tensor outputs[YK_OPERATOR_OUTPUTS];
    yk_operator_node view = view_of(node, false);
    const yk_value *first = node->in[0];
    for (int i = 0; first == NULL && i < node->in_count; i++)
        first = node->in[i];
    yki_shape shape = yki_shape_of(first);
    YK_TRY(check_activations(node));
    for (int i = 0; i < YK_OPERATOR_OUTPUTS; i++) {
        outputs[i] = (yk_tensor){.dtype = shape.dtype, .ndim = shape.ndim};
        memcpy(outputs[i].dims, shape.dims, sizeof shape.dims);
    }
    YK_TRY(call_shape(op, &view, outputs));
    for (int i = 0; i < node->op->out_count; i++) {
        YK_TRY(check_output(&outputs[i], i));
        out[i] = (yki_shape){.dtype = outputs[i].dtype, .ndim = outputs[i].ndim};
        memcpy(out[i].dims, outputs[i].dims, sizeof out[i].dims);
    }
    return YK_OK;
}

static yk_value *cast_to(yk_graph *graph, yk_value *value, yk_dtype dtype)
{
    yki_shape shape = yki_shape_of(value);
    shape.dtype = dtype;
    if (value->dtype == dtype)
        return value;
    const yki_node *node = yki_append(graph, &yki_op_cast, NULL, &value, &shape);
    return node ? node->out[0] : NULL;
}

/* A gradient has its input's shape; its dtype is made the input's. */
static yk_status check_gradient(yk_graph *graph, const yki_node *node, int i,
                                yk_value **gradient_of)
{
    const yk_value *in = node->in[i], *found = *gradient_of;
    char expected[96], got[96];
    bool same = found->valid && found->graph == graph && found->ndim == in->ndim;
    for (int d = 0; same && d < in->ndim; d++)
        same = found->dims[d] == in->dims[d];
    if (!same)
        return yki_error(YK_ERROR_INVALID_SHAPE, "the gradient of %s has shape %s, expected %s",
                         node->op->in[i].name, yki_shape_text(found, got, sizeof got),
                         yki_shape_text(in, expected, sizeof expected));
    *gradient_of = cast_to(graph, *gradient_of, in->dtype);
    return *gradient_of ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
}

static yk_status build_gradient(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                                const bool *needs, yk_value **din)
{
    char line[YKI_ERROR_LINE];
    yk_operator_node view = view_of(node, true);
    yki_error_begin(line);
    yk_status status = node->op->custom->declared.gradient(&view, dout, needs, din);
    YK_TRY(yki_error_end(status, line, "the program's function"));
    if (graph->status != YK_OK)
        return yki_error(graph->status, "%s", graph->error);
    for (int i = 0; i < node->in_count; i++)
        if (needs[i] && din[i])
            YK_TRY(check_gradient(graph, node, i, &din[i]));
    return YK_OK;
}

static yk_status gradient(yk_graph *graph, const yki_node *node, yk_value *const *dout,
                          const bool *needs, yk_value **din)
{
    int eval_depth = graph->eval_depth;
    graph->eval_depth = node->attrs.evaluates;
    graph->in_gradient = true;
    yk_status status = build_gradient(graph, node, dout, needs, din);
    graph->in_gradient = false;
    graph->eval_depth = eval_depth;
    return status == YK_OK
               ? YK_OK
               : yki_error_context(status, "%s%s: gradient", node->scope, node->op->name);
}

static bool is_low(const yk_value *value)
{
    return value && (value->dtype == YK_BF16 || value->dtype == YK_F16);
}

/* The dtype of the activations that are in 16 bit or f32. */
static yk_dtype wanted_dtype(const yki_node *draft)
{
    yk_dtype low = YK_F32;
    bool all_low = true;
    for (int i = 0; i < draft->in_count; i++) {
        const yk_value *in = draft->op->in[i].is_activation ? draft->in[i] : NULL;
        low = is_low(in) ? in->dtype : low;
        all_low = all_low && (!in || is_low(in));
    }
    bool wants_low = draft->op->autocast == YKI_AUTOCAST_LOW ||
                     (draft->op->autocast == YKI_AUTOCAST_FOLLOW && all_low);
    return wants_low ? low : YK_F32;
}

/* As cast_node in compile/autocast.c: what is no activation is f32, also a computed weight. */
bool yki_custom_cast(yk_graph *graph, yki_node *draft)
{
    yk_dtype wanted = wanted_dtype(draft);
    for (int i = 0; i < draft->in_count; i++) {
        yk_value *in = draft->in[i];
        if (!in || (!is_low(in) && in->dtype != YK_F32))
            continue;
        draft->in[i] = cast_to(graph, in, draft->op->in[i].is_activation ? wanted : YK_F32);
        if (!draft->in[i])
            return false;
    }
    return true;
}

bool yki_custom_is_sum(const yki_node *node)
{
    bool (*is_sum)(const void *) = node->op->custom ? node->op->custom->declared.is_sum : NULL;
    return is_sum && is_sum(node->attrs.custom);
}

/* ---- building -------------------------------------------------------------------------------- */

static yk_value *first_input(const yk_operator *op, yk_value *const *inputs)
{
    for (int i = 0; i < op->input_count && i < YK_OPERATOR_INPUTS; i++)
        if (inputs[i])
            return inputs[i];
    return NULL;
}

/* An invalid value for each output, for the reason in this thread's error line. */
static yk_value *refuse(yk_value *x, const yk_operator *table, yk_status status, yk_value **outputs)
{
    const char *name = table && is_name(table->name) ? table->name : "yk_operator_apply";
    yk_value *invalid = yki_emit_error(x, name, status);
    for (int i = 0; outputs && i < table->output_count && i < YK_OPERATOR_OUTPUTS; i++)
        outputs[i] = invalid;
    return invalid;
}

yk_value *yk_operator_apply(const yk_operator *op, const void *attributes, yk_value *const *inputs,
                            yk_value **outputs)
{
    if (!op || !inputs)
        return yki_no_operand("yk_operator_apply");
    yk_value *x = first_input(op, inputs);
    if (!x || !x->graph || !x->valid || x->graph->state == YKI_GRAPH_OWNED)
        return refuse(x, op, YK_ERROR_INVALID_ARGUMENT, outputs);
    const yki_op *made = NULL;
    yk_status status = find_or_make(x->graph, op, &made);
    if (status != YK_OK)
        return refuse(x, op, status, outputs);
    size_t bytes = made->custom->declared.attributes;
    if ((bytes > 0) != (attributes != NULL)) {
        status = yki_error(YK_ERROR_INVALID_ARGUMENT,
                           bytes ? "the attributes are NULL"
                                 : "it has no attributes, but was given some");
        return refuse(x, op, status, outputs);
    }
    yk_value *y = yki_emit(made, &(yki_attrs){.custom = attributes}, inputs);
    for (int i = 0; outputs && i < made->out_count; i++)
        outputs[i] = y->valid ? y->producer->out[i] : y;
    return y;
}
