/*
 * Recomputing: values that are cheap to make are not kept in memory from forward to backward, but
 * made once more where backward first reads them. Element-wise operators and the second half of
 * batch_norm are cheap, since they cost one pass over memory.
 *
 * Not every such value is worth it. A value that is made once more needs its operator's inputs at
 * that moment, which may have to live longer or be made once more themselves: in a chain of
 * residual additions, all the way back. So the choice is made by trial on the lifetimes of all
 * values: it begins with all candidates, and as long as the peak of memory does not rise, the
 * candidate that lowers it most, or the largest, is kept in memory after all.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compile/rewrite.h"

enum { NEVER = -1 };

/* The life of a value, by numbers of nodes. */
typedef struct life {
    double bytes;          /* of a sample; 0 for what does not grow with the batch */
    int made, last;        /* where it is made, and read last; in forward alone if chosen */
    int again, last_again; /* if chosen: where backward makes it once more, and reads it last */
    bool chosen;
} life;

typedef struct study {
    yk_graph *graph;
    int first;      /* of backward */
    life *lives;    /* by value id */
    double *change; /* by node: bytes that begin to live there less those that have ended */
} study;

/* ---- candidates ------------------------------------------------------------------------------ */

static bool is_cheap(const yki_op *op)
{
    static const yki_op *const cheap[] = {&yki_op_batch_norm, &yki_op_relu,    &yki_op_relu6,
                                          &yki_op_gelu,       &yki_op_sigmoid, &yki_op_silu,
                                          &yki_op_add,        &yki_op_scale,   &yki_op_multiply,
                                          &yki_op_hardswish,  &yki_op_cast};
    for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++)
        if (op == cheap[i])
            return true;
    return false;
}

static double bytes_of_sample(const yk_value *value)
{
    double bytes = (double)yk_dtype_size(value->dtype);
    if (value->kind != YKI_ACTIVATION || value->ndim == 0 || value->dims[0] != YK_BATCH)
        return 0;
    for (int d = 1; d < value->ndim; d++)
        bytes *= (double)value->dims[d];
    return bytes;
}

static void find_candidates(study *s, const yk_value *logits)
{
    for (int n = 0; n < s->first; n++) {
        const yki_node *node = s->graph->nodes[n];
        const yk_value *value = node->out[0];
        life *l = &s->lives[value->id];
        l->chosen = is_cheap(node->op) && value != logits && l->bytes > 0;
    }
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static void add_reader(const study *s, life *l, int node)
{
    if (!l->chosen || node < s->first) {
        l->last = node > l->last ? node : l->last;
        return;
    }
    l->again = l->again == NEVER || node < l->again ? node : l->again;
    l->last_again = node > l->last_again ? node : l->last_again;
}

/* What is made once more needs the inputs of its operator there. Later values come first, so that
 * all readers of an earlier one are known when its turn comes. */
static void add_readers_again(const study *s)
{
    for (int n = s->first; n-- > 0;) {
        const yki_node *node = s->graph->nodes[n];
        const life *l = &s->lives[node->out[0]->id];
        for (int i = 0; l->chosen && l->again != NEVER && i < node->in_count; i++)
            if (node->in[i])
                add_reader(s, &s->lives[node->in[i]->id], l->again);
    }
}

static void find_lives(const study *s)
{
    for (size_t i = 0; i < s->graph->value_count; i++) {
        life *l = &s->lives[i];
        l->made = l->last = l->again = l->last_again = NEVER;
    }
    for (int n = 0; n < (int)s->graph->node_count; n++) {
        const yki_node *node = s->graph->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i])
                add_reader(s, &s->lives[node->in[i]->id], n);
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i])
                s->lives[node->out[i]->id].made = n;
    }
    add_readers_again(s);
}

/* Whether the node writes its first output over an input, as most of its kernels do. */
static bool overwrites(const study *s, int n)
{
    const yki_node *node = s->graph->nodes[n];
    if (!node->out[0] || (!is_cheap(node->op) && node->op != &yki_op_batch_norm_backward &&
                          node->op != &yki_op_relu_backward))
        return false;
    for (int i = 0; i < node->in_count; i++) {
        const life *l = node->in[i] ? &s->lives[node->in[i]->id] : NULL;
        if (l && l->bytes == s->lives[node->out[0]->id].bytes &&
            (l->last == n || l->last_again == n))
            return true;
    }
    return false;
}

static void count_life(const study *s, int from, int to, double bytes)
{
    s->change[from] += bytes;
    s->change[(to > from ? to : from) + 1] -= bytes;
}

/* The most bytes that live at the same time. */
static double find_peak(const study *s)
{
    find_lives(s);
    memset(s->change, 0, (s->graph->node_count + 2) * sizeof *s->change);
    for (size_t i = 0; i < s->graph->value_count; i++) {
        const life *l = &s->lives[i];
        if (l->bytes == 0 || l->made == NEVER)
            continue; /* nothing worth counting, or fusion has taken its node away */
        int late = s->graph->values[i]->producer->out[0] == s->graph->values[i] &&
                   overwrites(s, l->made) && l->last > l->made;
        count_life(s, l->made + late, l->last, l->bytes);
        if (l->again != NEVER)
            count_life(s, l->again, l->last_again, l->bytes);
    }
    double now = 0, peak = 0;
    for (size_t n = 0; n < s->graph->node_count; n++) {
        now += s->change[n];
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The candidate that is best kept after all, if the peak then is at most *peak, which becomes that
 * peak; or NULL. */
static life *find_needless(const study *s, double *peak)
{
    life *best = NULL;
    for (size_t i = 0; i < s->graph->value_count; i++) {
        life *l = &s->lives[i];
        if (!l->chosen)
            continue;
        l->chosen = false;
        double without = find_peak(s);
        l->chosen = true;
        if (without < *peak || (without == *peak && (!best || l->bytes > best->bytes))) {
            best = l;
            *peak = without;
        }
    }
    return best;
}

static void choose_recomputed(const study *s)
{
    double peak = find_peak(s);
    for (life *l; (l = find_needless(s, &peak));)
        l->chosen = false;
    find_lives(s);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* The node that makes the output of `node` once more, at the end of the graph. */
static yki_node *append_again(yk_graph *graph, const yki_node *node, yk_value *const *again)
{
    yk_value *in[YKI_MAX_IN] = {NULL};
    for (int i = 0; i < node->in_count; i++)
        in[i] = node->in[i] && again[node->in[i]->id] ? again[node->in[i]->id] : node->in[i];
    yki_shape shape = yki_shape_of(node->out[0]);
    const yki_op *op = node->op;
    if (op == &yki_op_batch_norm) {
        op = &yki_op_batch_norm_apply;
        in[YKI_BATCH_NORM_APPLY_RESIDUAL] = in[YKI_BATCH_NORM_RESIDUAL];
        in[YKI_BATCH_NORM_APPLY_MEAN] = node->out[YKI_BATCH_NORM_MEAN];
        in[YKI_BATCH_NORM_APPLY_INVSTD] = node->out[YKI_BATCH_NORM_INVSTD];
    }
    snprintf(graph->scope, sizeof graph->scope, "%s", node->scope);
    yki_node *made = yki_append(graph, op, &node->attrs, in, &shape);
    graph->scope[0] = '\0';
    return made;
}

/* Appends the nodes that run once more, in the order of forward; by value id, what they make. */
static yk_status append_all_again(const study *s, yk_value **again)
{
    for (int n = 0; n < s->first; n++) {
        const yki_node *node = s->graph->nodes[n];
        int id = node->out[0]->id;
        if (!s->lives[id].chosen || s->lives[id].again == NEVER)
            continue;
        const yki_node *made = append_again(s->graph, node, again);
        if (!made)
            return YK_ERROR_OUT_OF_MEMORY;
        again[id] = made->out[0];
    }
    return YK_OK;
}

/* Puts each of the appended nodes, from `end` on, where its value is first read in backward. */
static void weave(const study *s, size_t end, yk_value *const *again, yki_node **order)
{
    const yk_graph *graph = s->graph;
    size_t count = 0;
    for (size_t n = (size_t)s->first; n < end; n++) {
        for (int f = 0; f < s->first; f++) {
            int id = graph->nodes[f]->out[0]->id;
            if (again[id] && s->lives[id].again == (int)n)
                order[count++] = again[id]->producer;
        }
        yki_node *node = graph->nodes[n];
        order[count++] = node;
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] && again[node->in[i]->id])
                node->in[i] = again[node->in[i]->id];
    }
    memcpy(graph->nodes + s->first, order, count * sizeof *order);
}

static yk_status rewrite_backward(const study *s)
{
    size_t end = s->graph->node_count, values = s->graph->value_count;
    yk_value **again = yki_calloc(values + (size_t)s->first, sizeof *again);
    yki_node **order = yki_calloc(end + (size_t)s->first, sizeof *order);
    yk_status status =
        again && order ? YK_OK : yki_error_memory(end * sizeof *order, "recomputing");
    if (status == YK_OK)
        status = append_all_again(s, again);
    if (status == YK_OK)
        weave(s, end, again, order);
    free(again);
    free(order);
    return status;
}

yk_status yki_graph_recompute(yk_graph *graph, size_t first, const yk_value *logits)
{
    study s = {.graph = graph,
               .first = (int)first,
               .lives = yki_calloc(graph->value_count, sizeof *s.lives),
               .change = yki_calloc(graph->node_count + 2, sizeof *s.change)};
    yk_status status = YK_OK;
    if (!s.lives || !s.change) {
        status = yki_error_memory(graph->value_count * sizeof *s.lives, "recomputing");
        goto out;
    }
    for (size_t i = 0; i < graph->value_count; i++)
        s.lives[i].bytes = graph->values[i]->producer ? bytes_of_sample(graph->values[i]) : 0;
    find_candidates(&s, logits);
    choose_recomputed(&s);
    status = rewrite_backward(&s);
out:
    free(s.lives);
    free(s.change);
    return status;
}
