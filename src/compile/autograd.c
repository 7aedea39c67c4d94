/*
 * Reverse-mode differentiation, once, on the graph: walks the forward nodes backwards, lets each
 * operator append its gradient nodes, and adds up where a value was read more than once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/rewrite.h"

/* Whether the gradient must reach the node's i-th input. */
static bool is_needed(const yki_node *node, int i, const bool *needs)
{
    return node->in[i] && needs[node->in[i]->id] && !node->op->in[i].is_constant;
}

/* Which values a gradient must reach: trained parameters, and what is made of them; by id. */
static void mark_needs(const yk_graph *graph, bool *needs)
{
    for (size_t i = 0; i < graph->value_count; i++)
        needs[i] = graph->values[i]->kind == YKI_PARAMETER && !graph->values[i]->frozen;
    for (size_t n = 0; n < graph->node_count; n++) {
        const yki_node *node = graph->nodes[n];
        bool any = false;
        for (int i = 0; i < node->in_count; i++)
            any |= is_needed(node, i, needs);
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i])
                needs[node->out[i]->id] = any;
    }
}

/* Adds `more` to the gradient of `value`. */
static yk_status accumulate(yk_graph *graph, yk_value **grad, const yk_value *value, yk_value *more)
{
    yk_value **sum = &grad[value->id];
    if (!*sum) {
        *sum = more;
        return YK_OK;
    }
    *sum = yki_append_like(graph, &yki_op_add, NULL, (yk_value *[]){*sum, more}, value);
    return *sum ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
}

static yk_status differentiate_node(yk_graph *graph, const yki_node *node, const bool *needs,
                                    yk_value **grad)
{
    yk_value *dout[YKI_MAX_OUT] = {NULL}, *din[YKI_MAX_IN] = {NULL};
    bool wanted[YKI_MAX_IN] = {false}, any_out = false, any_in = false;
    for (int i = 0; i < node->out_count; i++) {
        dout[i] = node->out[i] ? grad[node->out[i]->id] : NULL;
        any_out |= dout[i] != NULL;
    }
    for (int i = 0; i < node->in_count; i++) {
        wanted[i] = is_needed(node, i, needs);
        any_in |= wanted[i];
    }
    if (!any_out || !any_in)
        return YK_OK;
    if (!node->op->gradient || (!dout[0] && !node->op->custom))
        return yki_error(YK_ERROR_UNSUPPORTED, "%s%s has no gradient", node->scope, node->op->name);
    /* Its gradient is named as it is, in errors and on timelines. */
    snprintf(graph->scope, sizeof graph->scope, "%s", node->scope);
    yk_status status = node->op->gradient(graph, node, dout, wanted, din);
    graph->scope[0] = '\0';
    YK_TRY(status);
    for (int i = 0; i < node->in_count; i++) {
        if (wanted[i] && !din[i])
            return yki_error(YK_ERROR_UNSUPPORTED, "%s%s: no gradient for the %s", node->scope,
                             node->op->name, node->op->in[i].name);
        if (wanted[i])
            YK_TRY(accumulate(graph, grad, node->in[i], din[i]));
    }
    return YK_OK;
}

/*
 * Each parameter's gradient has separate memory, where distributed training reduces it as soon as
 * it is written: no node and no other parameter may read it there. A gradient that is shared is
 * copied, and so is one that backward does not make, which has its own place: that of the loss, or
 * a value of forward that a program's gradient rule has passed on. The first `values` are older
 * than backward.
 */
static yk_status separate_shared(yk_graph *graph, size_t forward, size_t values, yk_value **grad)
{
    int *readers = yki_calloc(graph->value_count, sizeof *readers);
    if (!readers)
        return yki_error_memory(graph->value_count * sizeof *readers, "autograd");
    for (size_t n = forward; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n]->in_count; i++)
            if (graph->nodes[n]->in[i])
                readers[graph->nodes[n]->in[i]->id]++;
    for (size_t i = 0; i < values; i++)
        if (grad[i] && graph->values[i]->kind == YKI_PARAMETER)
            readers[grad[i]->id]++;
    yk_status status = YK_OK;
    for (size_t i = 0; i < values && status == YK_OK; i++) {
        const yk_value *from = graph->values[i]->kind == YKI_PARAMETER ? grad[i] : NULL;
        if (!from || (readers[from->id] == 1 && (size_t)from->id >= values))
            continue;
        grad[i] = yki_append_like(graph, &yki_op_scale, &(yki_attrs){.alpha = 1}, &grad[i], from);
        status = grad[i] ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
    }
    free(readers);
    return status;
}

/* A scalar for each kind of term, from which its gradient starts. */
static yk_status create_starts(yk_graph *graph, yk_value *const *terms, yk_value **starts)
{
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++) {
        if (!terms[kind])
            continue;
        yki_shape scalar = yki_shape_of(terms[kind]);
        starts[kind] = yki_value_create(graph, YKI_LOSS_GRADIENT, &scalar);
        if (!starts[kind])
            return yki_error_memory(sizeof *starts[kind], "autograd");
    }
    return YK_OK;
}

yk_status yki_graph_differentiate(yk_graph *graph, yk_value *const *terms, yki_gradients *gradients)
{
    yk_value *starts[YKI_LOSS_KINDS] = {NULL};
    YK_TRY(create_starts(graph, terms, starts));
    size_t values = graph->value_count, forward = graph->node_count;
    bool *needs = yki_calloc(values, sizeof *needs);
    yk_value **grad = yki_calloc(values, sizeof *grad);
    yk_status status = YK_OK;
    if (!needs || !grad) {
        status = yki_error_memory(values * sizeof *grad, "autograd");
        goto out;
    }
    mark_needs(graph, needs);
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++)
        if (terms[kind])
            grad[terms[kind]->id] = starts[kind];
    for (size_t n = forward; n-- > 0;) {
        status = differentiate_node(graph, graph->nodes[n], needs, grad);
        if (status != YK_OK)
            goto out;
    }
    status = separate_shared(graph, forward, values, grad);
    if (status != YK_OK)
        goto out;
    *gradients = (yki_gradients){.first_node = forward, .of = grad};
    memcpy(gradients->loss_gradient, starts, sizeof starts);
    grad = NULL;
out:
    free(needs);
    free(grad);
    return status;
}
