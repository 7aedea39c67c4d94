/*
 * Reverse-mode differentiation, once, on the graph: walks the forward nodes backwards, lets each
 * operator append its gradient nodes, and adds up where a value was read more than once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/parts.h"
#include "compile/rewrite.h"

/* What is known while backward is appended; by the ids of forward's values. */
typedef struct backward {
    yk_graph *graph;
    bool *needs;      /* a gradient must reach it */
    yk_value **grad;  /* the sum so far, or NULL */
    yki_parts *parts; /* what comes to it as gradients of slices */
} backward;

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

static yk_status add_to_sum(backward *b, const yk_value *value, yk_value *more)
{
    yk_value **sum = &b->grad[value->id];
    if (more && *sum)
        more = yki_append_like(b->graph, &yki_op_add, NULL, (yk_value *[]){*sum, more}, value);
    *sum = more;
    return more ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
}

/* Adds what has come from slices. */
static yk_status add_parts(backward *b, const yk_value *value)
{
    yki_parts *parts = &b->parts[value->id];
    return parts->count > 0 ? add_to_sum(b, value, yki_parts_join(parts, b->graph, value)) : YK_OK;
}

/* Adds `more` to the gradient of `value`. */
static yk_status accumulate(backward *b, const yk_value *value, yk_value *more)
{
    YK_TRY(add_parts(b, value));
    return add_to_sum(b, value, more);
}

/* Likewise, for the slice's input. Sums keep their order, and what is whole does not wait. */
static yk_status accumulate_slice(backward *b, const yki_node *slice, yk_value *dy)
{
    const yk_value *x = slice->in[YKI_SLICE_X];
    yki_parts *parts = &b->parts[x->id];
    if (!yki_parts_have_room(parts, slice))
        YK_TRY(add_parts(b, x));
    YK_TRY(yki_parts_add(parts, slice, dy));
    return yki_parts_are_whole(parts, x) ? add_parts(b, x) : YK_OK;
}

static yk_status differentiate_node(backward *b, const yki_node *node)
{
    yk_graph *graph = b->graph;
    yk_value *dout[YKI_MAX_OUT] = {NULL}, *din[YKI_MAX_IN] = {NULL};
    bool wanted[YKI_MAX_IN] = {false}, any_out = false, any_in = false;
    for (int i = 0; i < node->out_count; i++) {
        if (!node->out[i])
            continue;
        YK_TRY(add_parts(b, node->out[i]));
        dout[i] = b->grad[node->out[i]->id];
        any_out |= dout[i] != NULL;
    }
    for (int i = 0; i < node->in_count; i++) {
        wanted[i] = is_needed(node, i, b->needs);
        any_in |= wanted[i];
    }
    if (!any_out || !any_in)
        return YK_OK;
    if (node->op == &yki_op_slice)
        return accumulate_slice(b, node, dout[YKI_SLICE_Y]);
    if (!node->op->gradient || (!dout[0] && !node->op->custom && !node->op->more_results))
        return yki_error(YK_ERROR_UNSUPPORTED, "%s%s has no gradient", node->scope, node->op->name);
    /* Its gradient is named as it is, in errors and on timelines. */
    snprintf(graph->scope, sizeof graph->scope, "%s", node->scope);
    yk_status status = node->op->gradient(graph, node, dout, wanted, din);
    graph->scope[0] = '\0';
    YK_TRY(status);
    if (graph->status != YK_OK) /* out of memory: a gradient may be missing for that reason */
        return yki_error(graph->status, "%s", graph->error);
    for (int i = 0; i < node->in_count; i++) {
        if (wanted[i] && !din[i])
            return yki_error(YK_ERROR_UNSUPPORTED, "%s%s: no gradient for the %s", node->scope,
                             node->op->name, node->op->in[i].name);
        if (wanted[i])
            YK_TRY(accumulate(b, node->in[i], din[i]));
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
    backward b = {.graph = graph,
                  .needs = yki_calloc(values, sizeof *b.needs),
                  .grad = yki_calloc(values, sizeof *b.grad),
                  .parts = yki_calloc(values, sizeof *b.parts)};
    yk_status status = YK_OK;
    if (!b.needs || !b.grad || !b.parts) {
        status = yki_error_memory(values * sizeof *b.parts, "autograd");
        goto out;
    }
    mark_needs(graph, b.needs);
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++)
        if (terms[kind])
            b.grad[terms[kind]->id] = starts[kind];
    for (size_t n = forward; n-- > 0 && status == YK_OK;)
        status = differentiate_node(&b, graph->nodes[n]);
    for (size_t i = 0; i < values && status == YK_OK; i++)
        status = add_parts(&b, graph->values[i]);
    if (status == YK_OK)
        status = separate_shared(graph, forward, values, b.grad);
    if (status != YK_OK)
        goto out;
    *gradients = (yki_gradients){.first_node = forward, .of = b.grad};
    memcpy(gradients->loss_gradient, starts, sizeof starts);
    b.grad = NULL;
out:
    for (size_t i = 0; b.parts && i < values; i++)
        free(b.parts[i].list);
    free(b.parts);
    free(b.needs);
    free(b.grad);
    return status;
}
