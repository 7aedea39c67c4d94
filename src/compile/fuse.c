/*
 * Fusions that save a pass over memory: in ResNets, conv -> batch_norm -> (+ residual) -> relu
 * becomes conv -> batch_norm, and likewise with other activations. An operator is taken in only
 * when nothing else reads what lay between. A convolution may also measure its result for the
 * batch_norm that reads it.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/rewrite.h"

/* How often each value is read, by id; the loss and outputs count as read from outside. */
static int *count_uses(const yk_graph *graph, const yk_value *loss, const yki_outputs *outputs)
{
    int *uses = yki_calloc(graph->value_count, sizeof *uses);
    if (!uses)
        return NULL;
    for (size_t n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n]->in_count; i++)
            if (graph->nodes[n]->in[i])
                uses[graph->nodes[n]->in[i]->id]++;
    if (loss)
        uses[loss->id]++;
    for (size_t i = 0; outputs && i < outputs->count; i++)
        if (outputs->list[i].read)
            uses[outputs->list[i].read->id]++;
    return uses;
}

static void redirect(yk_graph *graph, const yki_outputs *outputs, const yk_value *from,
                     yk_value *to)
{
    for (size_t n = 0; n < graph->node_count; n++)
        for (int i = 0; graph->nodes[n] && i < graph->nodes[n]->in_count; i++)
            if (graph->nodes[n]->in[i] == from)
                graph->nodes[n]->in[i] = to;
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->list[i].read == from)
            outputs->list[i].read = to;
}

/* Takes out the slots that a rewrite has set to NULL. */
static void compact(yk_graph *graph, size_t first)
{
    size_t kept = first;
    for (size_t n = first; n < graph->node_count; n++)
        if (graph->nodes[n])
            graph->nodes[kept++] = graph->nodes[n];
    graph->node_count = kept;
}

static size_t position(const yk_graph *graph, const yki_node *node)
{
    size_t n = 0;
    while (graph->nodes[n] != node)
        n++;
    return n;
}

/* The batch_norm that makes value, if it can take in what follows. */
static yki_node *fusible_norm(const yk_value *value, const int *uses)
{
    yki_node *node = value->producer;
    bool fits = node && node->op == &yki_op_batch_norm && node->out[0] == value &&
                uses[value->id] == 1 && !node->attrs.activation;
    return fits ? node : NULL;
}

/* Whether a norm may run as late as node `to`: nothing between reads or moves its statistics. */
static bool may_move(const yk_graph *graph, size_t from, size_t to)
{
    yk_value *const *moved = graph->nodes[from]->in;
    for (size_t n = from + 1; n < to; n++)
        for (int i = 0; i < graph->nodes[n]->in_count; i++) {
            const yk_value *in = graph->nodes[n]->in[i];
            if (in && (in == moved[YKI_BATCH_NORM_RUNNING_MEAN] ||
                       in == moved[YKI_BATCH_NORM_RUNNING_VAR]))
                return false;
        }
    return true;
}

/* Whether no side of an addition is broadcast. */
static bool is_plain_add(const yki_node *node)
{
    return node->op == &yki_op_add && yki_same_dims(node->in[YKI_ADD_A], node->in[YKI_ADD_B]);
}

/* add(batch_norm, other): the norm moves to the add's place, where `other` is known too. */
static yki_node *fuse_add(yk_graph *graph, size_t at, const int *uses)
{
    yki_node *add = graph->nodes[at], *best = NULL;
    size_t best_position = 0;
    int side = 0;
    for (int i = 0; i < 2; i++) {
        yki_node *norm = fusible_norm(add->in[i], uses);
        if (!norm || norm->in[YKI_BATCH_NORM_RESIDUAL])
            continue;
        size_t where = position(graph, norm);
        if (may_move(graph, where, at) && (!best || where > best_position)) {
            best = norm;
            best_position = where;
            side = i;
        }
    }
    if (!best)
        return NULL;
    best->in[YKI_BATCH_NORM_RESIDUAL] = add->in[1 - side];
    graph->nodes[best_position] = NULL;
    graph->nodes[at] = best;
    return best;
}

static yki_fused fused_form(const yki_op *op)
{
    return op == &yki_op_relu        ? YKI_FUSED_RELU
           : op == &yki_op_relu6     ? YKI_FUSED_RELU6
           : op == &yki_op_silu      ? YKI_FUSED_SILU
           : op == &yki_op_hardswish ? YKI_FUSED_HARDSWISH
                                     : YKI_FUSED_NONE;
}

static yki_node *fuse_activation(yk_graph *graph, size_t at, const int *uses)
{
    yki_node *norm = fusible_norm(graph->nodes[at]->in[0], uses);
    const yki_fused form = fused_form(graph->nodes[at]->op);
    if (!norm || (norm->in[YKI_BATCH_NORM_RESIDUAL] && !yki_fused_clamps(form)))
        return NULL;
    norm->attrs.activation = form;
    graph->nodes[at] = NULL;
    return norm;
}

yk_status yki_graph_fuse_forward(yk_graph *graph, const yk_value *loss, const yki_outputs *outputs)
{
    int *uses = count_uses(graph, loss, outputs);
    if (!uses)
        return yki_error_memory(graph->value_count * sizeof *uses, "fusion");
    for (size_t n = 0; n < graph->node_count; n++) {
        yki_node *node = graph->nodes[n], *norm = NULL;
        if (is_plain_add(node))
            norm = fuse_add(graph, n, uses);
        else if (fused_form(node->op))
            norm = fuse_activation(graph, n, uses);
        if (!norm)
            continue;
        yk_value *gone = node->out[0], *instead = norm->out[0];
        redirect(graph, outputs, gone, instead);
        uses[instead->id] = uses[gone->id];
        compact(graph, 0);
        n = position(graph, norm);
    }
    free(uses);
    return YK_OK;
}

yk_status yki_graph_fuse_backward(yk_graph *graph, size_t first)
{
    int *uses = count_uses(graph, NULL, NULL);
    if (!uses)
        return yki_error_memory(graph->value_count * sizeof *uses, "fusion");
    for (size_t n = first; n < graph->node_count; n++) {
        yki_node *node = graph->nodes[n];
        if (!node || node->op != &yki_op_batch_norm_backward)
            continue;
        yki_node *add = node->in[YKI_BATCH_NORM_BACKWARD_DY]->producer;
        if (!add || !is_plain_add(add) || uses[node->in[YKI_BATCH_NORM_BACKWARD_DY]->id] != 1)
            continue;
        size_t where = first;
        while (where < n && graph->nodes[where] != add)
            where++;
        if (where == n)
            continue; /* an add of the forward pass */
        graph->nodes[where] = NULL;
        node->in[YKI_BATCH_NORM_BACKWARD_DY2] = add->in[1];
        node->in[YKI_BATCH_NORM_BACKWARD_DY] = add->in[0];
    }
    free(uses);
    compact(graph, first);
    return YK_OK;
}

/* The sums of what a convolution makes; NULL when memory is out. */
static yk_value *sums_of(yk_graph *graph, yki_node *conv)
{
    const yk_value *y = conv->out[YKI_CONV2D_Y];
    yki_shape shape = {.dtype = yki_sums_dtype(y->dtype), .ndim = 2, .dims = {2, y->dims[1]}};
    yk_value **sums = &conv->out[YKI_CONV2D_SUMS];
    if (!*sums)
        *sums = yki_value_create(graph, YKI_ACTIVATION, &shape);
    if (*sums)
        (*sums)->producer = conv;
    return *sums;
}

yk_status yki_graph_fuse_sums(yk_graph *graph, size_t end)
{
    for (size_t n = 0; n < end; n++) {
        yki_node *norm = graph->nodes[n];
        if (norm->op != &yki_op_batch_norm || norm->attrs.evaluates)
            continue;
        yki_node *conv = norm->in[YKI_BATCH_NORM_X]->producer;
        if (!conv || conv->op != &yki_op_conv2d)
            continue;
        norm->in[YKI_BATCH_NORM_SUMS] = sums_of(graph, conv);
        if (!norm->in[YKI_BATCH_NORM_SUMS])
            return yki_error_memory(sizeof(yk_value), "fusion");
    }
    return YK_OK;
}

void yki_graph_mark_needed(const yk_graph *graph, size_t end, bool *needed)
{
    for (size_t n = end; n-- > 0;) {
        const yki_node *node = graph->nodes[n];
        bool any = false;
        for (int i = 0; i < node->out_count; i++)
            any |= node->out[i] && needed[node->out[i]->id];
        for (int i = 0; any && i < node->in_count; i++)
            if (node->in[i])
                needed[node->in[i]->id] = true;
        if (node->out[0]) /* by which a node is asked */
            needed[node->out[0]->id] |= any;
    }
}

yk_status yki_graph_prune(yk_graph *graph, const yk_value *loss, const yki_outputs *outputs)
{
    bool *needed = yki_calloc(graph->value_count, sizeof *needed);
    if (!needed)
        return yki_error_memory(graph->value_count, "pruning");
    if (loss)
        needed[loss->id] = true;
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->list[i].read)
            needed[outputs->list[i].read->id] = true;
    yki_graph_mark_needed(graph, graph->node_count, needed);
    for (size_t n = 0; n < graph->node_count; n++)
        if (!needed[graph->nodes[n]->out[0]->id])
            graph->nodes[n] = NULL;
    free(needed);
    compact(graph, 0);
    return YK_OK;
}
