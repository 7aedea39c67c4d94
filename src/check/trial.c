/* See trial.h. */
#include "check/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "check/operand.h"
#include "graph/custom.h"
#include "tensor/element.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* Uniform in [-1, 1). */
static double draw(yki_trial *trial)
{
    return (double)(yki_hash3(1 + trial->row->seed, 2, trial->draws++) >> 11) * 0x1p-52 - 1;
}

int64_t yki_value_elements(const yk_value *value)
{
    int64_t count = 1;
    for (int i = 0; i < value->ndim; i++)
        count *= value->dims[i];
    return count;
}

void yki_trial_round(const yk_value *value, double *numbers)
{
    double memory;
    for (int64_t i = 0; i < yki_value_elements(value); i++) {
        yki_element_set(value->dtype, &memory, 0, numbers[i]);
        numbers[i] = yki_element_get(value->dtype, &memory, 0);
    }
}

double *yki_trial_numbers(const yk_value *value)
{
    double *numbers = yki_calloc((size_t)yki_value_elements(value), sizeof *numbers);
    if (!numbers)
        yki_error_memory((size_t)yki_value_elements(value) * sizeof *numbers,
                         "the check of an operator");
    return numbers;
}

/* ---- building -------------------------------------------------------------------------------- */

/* The one input of a built-in operator that is neither an activation nor what a parameter is. */
static bool is_mask(const yki_node *node, int input)
{
    return node->op == &yki_op_scaled_dot_product_attention && input == YKI_ATTENTION_MASK;
}

/* Whether an operator computes in f32 and reads 16 bits: autocast changes nothing else about it. */
static bool widens(const yki_op *op)
{
    bool any = false;
    for (int i = 0; i < op->in_count; i++)
        any |= op->in[i].is_widened;
    return any;
}

/* What autocast does to a node: activations in 16 bit, parameters and statistics as they were. */
static yk_status demote(yki_node *node, yk_dtype low)
{
    bool custom = node->op->custom != NULL;
    if (widens(node->op)) {
        for (int i = 0; i < node->in_count; i++)
            if (node->op->in[i].is_widened)
                node->in[i]->dtype = low;
        return YK_OK;
    }
    for (int i = 0; i < node->in_count; i++) {
        yk_value *in = node->in[i];
        bool is_activation = custom || is_mask(node, i) ? node->op->in[i].is_activation : true;
        if (in && in->kind == YKI_INPUT && in->dtype == YK_F32 && is_activation)
            in->dtype = low;
    }
    if (!custom) {
        for (int i = 0; i < (node->op->one_dtype ? node->out_count : 1); i++)
            node->out[i]->dtype = low;
        if (node->op == &yki_op_conv2d && node->out[YKI_CONV2D_SUMS])
            node->out[YKI_CONV2D_SUMS]->dtype = yki_sums_dtype(low);
        return YK_OK;
    }
    yki_shape out[YKI_MAX_OUT];
    YK_TRY(node->op->infer(node, out));
    for (int i = 0; i < node->out_count; i++)
        node->out[i]->dtype = out[i].dtype;
    return YK_OK;
}

/* Makes the first dimension of the case's inputs the batch, and derives the outputs again. */
static yk_status make_symbolic(const yki_trial *trial, yki_node *node)
{
    int64_t samples = 0;
    yki_shape out[YKI_MAX_OUT];
    for (size_t i = 0; i < trial->graph->value_count; i++) {
        yk_value *value = trial->graph->values[i];
        if (value->kind != YKI_INPUT || value->ndim == 0)
            continue;
        samples = samples ? samples : value->dims[0];
        if (value->dims[0] == samples)
            value->dims[0] = YK_BATCH;
    }
    yk_status status = node->op->infer(node, out);
    if (status != YK_OK)
        return yki_error_context(status, "%s, whose inputs begin with YK_BATCH", node->op->name);
    for (int i = 0; i < node->out_count; i++) {
        if (!node->out[i] || out[i].ndim < 0)
            continue;
        node->out[i]->ndim = out[i].ndim;
        memcpy(node->out[i]->dims, out[i].dims, sizeof out[i].dims);
    }
    return YK_OK;
}

static void remove_samples(const yki_trial *trial)
{
    for (size_t i = 0; i < trial->graph->value_count; i++) {
        yk_value *value = trial->graph->values[i];
        if (value->ndim > 0 && value->dims[0] == YK_BATCH)
            value->dims[0] = 0;
    }
}

/* The gradients of all results, which of a custom operator are all its outputs. */
static yk_status append_gradient(yki_trial *trial, yki_node *node)
{
    bool needs[YKI_MAX_IN] = {false};
    for (int i = 0; i < node->out_count; i++) {
        bool is_result = i <= node->op->more_results || node->op->custom;
        if (!is_result || (i > 0 && !yki_dtype_is_float(node->out[i]->dtype)))
            continue;
        yki_shape shape = yki_shape_of(node->out[i]);
        trial->dout[i] = yki_value_create(trial->graph, YKI_INPUT, &shape);
        if (!trial->dout[i])
            return YK_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < node->in_count; i++)
        needs[i] = node->in[i] && yki_dtype_is_float(node->in[i]->dtype) &&
                   node->in[i]->kind != YKI_BUFFER;
    if (node->op->gradient)
        YK_TRY(node->op->gradient(trial->graph, node, trial->dout, needs, trial->din));
    trial->more_dy = trial->row->adjust ? trial->row->adjust(trial->graph, trial->row->data) : NULL;
    return YK_OK;
}

/* Variances, weights of losses, and what tests call so. */
static bool is_positive(const yk_value *value)
{
    static const char *const names[] = {"running_var", "pos_weight", "class_weight", "positive"};
    for (size_t i = 0; value->name && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->name, names[i]) == 0)
            return true;
    return false;
}

/* What tests call flags is true or false. */
static bool is_flag(const yk_value *value)
{
    return value->name && strcmp(value->name, "flags") == 0;
}

/* What tests call lengths are those of sequences: whole numbers, from 1 to `classes`. */
static bool is_length(const yk_value *value)
{
    return value->name && strcmp(value->name, "lengths") == 0;
}

/* Labels and indices; a buffer of int64 counts batches. */
static bool is_index(const yk_value *value)
{
    return value->dtype == YK_I32 || (value->dtype == YK_I64 && value->kind == YKI_INPUT);
}

static void fill_leaf(yki_trial *trial, const yk_value *value)
{
    double *numbers = trial->numbers[value->id], spread = trial->row->spread;
    for (int64_t i = 0; i < yki_value_elements(value); i++) {
        numbers[i] = spread * draw(trial);
        if (trial->row->ties)
            numbers[i] = floor(2 * numbers[i]) / 2;
        if (is_index(value))
            numbers[i] = (double)(yki_hash3(3 + trial->row->seed, 4, trial->draws++) %
                                  (uint64_t)trial->row->classes);
        else if (value->dtype == YK_I64)
            numbers[i] = 41;
        else if (is_positive(value))
            numbers[i] = 1.25 + numbers[i] / spread;
        else if (is_flag(value))
            numbers[i] = numbers[i] > 0;
        else if (is_length(value))
            numbers[i] = 1 + (double)(yki_hash3(5 + trial->row->seed, 6, trial->draws++) %
                                      (uint64_t)trial->row->classes);
    }
    yki_trial_round(value, numbers);
}

static yk_status fill(yki_trial *trial, const yki_node *node)
{
    size_t values = trial->graph->value_count;
    trial->numbers = yki_calloc(values, sizeof *trial->numbers);
    trial->plain = yki_calloc(values, sizeof *trial->plain);
    if (!trial->numbers || !trial->plain)
        return yki_error_memory(values * sizeof *trial->numbers, "the check of an operator");
    for (size_t i = 0; i < values; i++) {
        const yk_value *value = trial->graph->values[i];
        trial->numbers[i] = yki_trial_numbers(value);
        if (!trial->numbers[i])
            return YK_ERROR_OUT_OF_MEMORY;
        trial->plain[i] =
            value->kind == YKI_PARAMETER || value->kind == YKI_BUFFER ||
            (value->kind == YKI_INPUT && !yki_dtype_is_float(value->dtype)); /* such as labels */
        if (!value->producer)
            fill_leaf(trial, value);
    }
    for (int i = 0; i < node->in_count; i++)
        if (trial->din[i] && node->in[i]->kind == YKI_PARAMETER)
            trial->plain[trial->din[i]->id] = true;
    return YK_OK;
}

/* ---- the case -------------------------------------------------------------------------------- */

/* Memory and finite differences need sizes. */
static yk_status check_sizes(const yk_graph *graph)
{
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (value->kind == YKI_INPUT && value->ndim > 0 && value->dims[0] == YK_BATCH)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "the case's input %s begins with YK_BATCH, expected a number",
                             value->name);
    }
    return YK_OK;
}

static yk_status check_case(const yki_trial *trial, const yk_value *out)
{
    const yk_graph *graph = trial->graph;
    if (graph->status != YK_OK)
        return yki_error(graph->status, "%s", graph->error);
    if (!out || out->graph != graph || graph->node_count != 1 || graph->nodes[0]->out[0] != out)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the function that builds the case must apply one operator to the graph "
                         "that it is given, and return its first output");
    return check_sizes(graph);
}

/* ---- life ------------------------------------------------------------------------------------ */

yk_status yki_trial_init(yki_trial *trial, const yki_conformance_case *row, yk_dtype dtype,
                         const char *device, bool empty)
{
    *trial = (yki_trial){.row = row, .graph = yk_graph_create()};
    snprintf(trial->label, sizeof trial->label, "%s%s%s in %s", row->label ? row->label : "",
             row->label ? ", " : "", device, yk_dtype_name(dtype));
    if (!trial->graph)
        return yki_error_memory(sizeof *trial->graph, "the check of an operator");
    const yk_value *out =
        row->build(trial->graph, yki_dtype_is_16_bit(dtype) ? YK_F32 : dtype, row->data);
    YK_TRY(check_case(trial, out));
    yki_node *node = trial->graph->nodes[0];
    if (yki_dtype_is_16_bit(dtype))
        YK_TRY(demote(node, dtype));
    if (empty)
        YK_TRY(make_symbolic(trial, node));
    YK_TRY(append_gradient(trial, node));
    if (empty)
        remove_samples(trial);
    return fill(trial, node);
}

void yki_trial_fini(yki_trial *trial)
{
    for (size_t i = 0; trial->numbers && i < trial->graph->value_count; i++)
        free(trial->numbers[i]);
    free(trial->numbers);
    free(trial->plain);
    yk_graph_destroy(trial->graph);
}
