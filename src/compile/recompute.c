/*
 * Recomputing: values that are cheap to compute are not kept in memory from forward to backward,
 * but recomputed where backward first reads them. Element-wise operators and the second half of
 * batch_norm are cheap, since they cost one pass over memory.
 *
 * Not every such value is worth it. A value that is recomputed needs its operator's inputs at that
 * moment, which may have to live longer or be recomputed themselves: in a chain of residual
 * additions, all the way back. A value that is recomputed for such a chain can stay until backward
 * reads it itself, or pass: be dropped, and recomputed again.
 *
 * The choice is made by trial on the lifetimes of all values. It begins with all candidates, and
 * makes the change that lowers peak memory most for as long as there is one. Finally, what can be
 * kept in memory without raising the peak is kept, the largest values first.
 *
 * A trial visits all values, so that in very deep networks not every value is tried: there, a
 * change is looked for in one value out of several, and values are kept several at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "compile/rewrite.h"

enum { NEVER = -1 };

/* How many values the trials for one change may visit, how many trials there are at least, and the
 * most changes: in deep networks, later ones gain little. */
enum { VISITS = 2000000, LEAST_TRIALS = 64, MOST_CHANGES = 16 };

/* The life of a value, by numbers of nodes. */
typedef struct life {
    double bytes;          /* of a sample; 0 for what does not grow with the batch */
    int made, last;        /* where it is made, and read last; in forward alone if chosen */
    int again, last_again; /* if chosen: where backward makes it once more, and reads it last */
    bool chosen, passes;
} life;

typedef struct study {
    yk_graph *graph;
    int first;      /* of backward */
    life *lives;    /* by value id */
    double *change; /* by node: bytes that begin to live there less those that have ended */
    life **chosen;  /* room for all that are */
} study;

static life *life_of(const study *s, const yk_value *value)
{
    return &s->lives[value->id];
}

/* ---- candidates ------------------------------------------------------------------------------ */

static bool is_cheap(const yki_op *op)
{
    static const yki_op *const cheap[] = {
        &yki_op_batch_norm,  &yki_op_relu,      &yki_op_relu6,    &yki_op_gelu,
        &yki_op_sigmoid,     &yki_op_silu,      &yki_op_add,      &yki_op_scale,
        &yki_op_multiply,    &yki_op_hardswish, &yki_op_tanh,     &yki_op_leaky_relu,
        &yki_op_cast,        &yki_op_exp,       &yki_op_log,      &yki_op_abs,
        &yki_op_pow,         &yki_op_clamp,     &yki_op_subtract, &yki_op_divide,
        &yki_op_add_scalar,  &yki_op_maximum,   &yki_op_minimum,  &yki_op_compare,
        &yki_op_masked_fill, &yki_op_elu,       &yki_op_sin,      &yki_op_cos};
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

static bool is_output(const yki_outputs *outputs, const yk_value *value)
{
    bool is = false;
    for (size_t i = 0; i < outputs->count; i++)
        is |= outputs->list[i].read == value;
    return is;
}

static void find_candidates(study *s, const yki_outputs *outputs)
{
    for (int n = 0; n < s->first; n++) {
        const yki_node *node = s->graph->nodes[n];
        const yk_value *value = node->out[0];
        life *l = &s->lives[value->id];
        l->chosen = is_cheap(node->op) && !is_output(outputs, value) && l->bytes > 0;
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

static void count_life(const study *s, int from, int to, double bytes)
{
    s->change[from] += bytes;
    s->change[(to > from ? to : from) + 1] -= bytes;
}

/* Whether the value, recomputed for its readers in backward, is there when node runs. */
static bool is_there_again(const life *l, int node)
{
    return l->again != NEVER && l->again <= node && node <= l->last_again;
}

/* A value that is recomputed before node needs this one. */
static void require(const study *s, const yk_value *value, int node)
{
    life *l = life_of(s, value);
    if (!l->chosen || !l->passes) {
        add_reader(s, l, node);
        return;
    }
    if (is_there_again(l, node))
        return;
    count_life(s, node, node, l->bytes);
    for (int i = 0; i < value->producer->in_count; i++)
        if (value->producer->in[i])
            require(s, value->producer->in[i], node);
}

static void forget_lives(const study *s)
{
    memset(s->change, 0, (s->graph->node_count + 2) * sizeof *s->change);
    for (size_t i = 0; i < s->graph->value_count; i++) {
        life *l = &s->lives[i];
        l->made = l->last = l->again = l->last_again = NEVER;
    }
}

static void find_lives(const study *s)
{
    forget_lives(s);
    for (int n = 0; n < (int)s->graph->node_count; n++) {
        const yki_node *node = s->graph->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i])
                add_reader(s, life_of(s, node->in[i]), n);
        for (int i = 0; i < node->out_count; i++)
            if (node->out[i])
                life_of(s, node->out[i])->made = n;
    }
    /* Later values first, so that all readers of an earlier one are known when its turn comes. */
    for (int n = s->first; n-- > 0;) {
        const yki_node *node = s->graph->nodes[n];
        const life *l = life_of(s, node->out[0]);
        for (int i = 0; l->chosen && l->again != NEVER && i < node->in_count; i++)
            if (node->in[i])
                require(s, node->in[i], l->again);
    }
}

/* Whether the node writes its first output over an input, as most of its kernels do. */
static bool overwrites(const study *s, int n)
{
    const yki_node *node = s->graph->nodes[n];
    if (!node->out[0] || (!is_cheap(node->op) && node->op != &yki_op_batch_norm_backward &&
                          node->op != &yki_op_relu_backward))
        return false;
    for (int i = 0; i < node->in_count; i++) {
        const life *l = node->in[i] ? life_of(s, node->in[i]) : NULL;
        if (l && l->bytes == life_of(s, node->out[0])->bytes &&
            (l->last == n || l->last_again == n))
            return true;
    }
    return false;
}

/* The most bytes that live at the same time. */
static double find_peak(const study *s)
{
    find_lives(s);
    for (size_t i = 0; i < s->graph->value_count; i++) {
        const life *l = &s->lives[i];
        const yk_value *value = s->graph->values[i];
        if (l->bytes == 0 || l->made == NEVER)
            continue; /* nothing worth counting, or fusion has taken its node away */
        int late = value->producer->out[0] == value && overwrites(s, l->made) && l->last > l->made;
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

typedef struct decision {
    life *value;
    bool passes; /* or is kept */
    double peak;
} decision;

/* Compares the best decision so far with this one. */
static void try_decision(const study *s, decision *best, life *value, bool passes)
{
    life before = *value;
    value->chosen = passes;
    value->passes = passes;
    double peak = find_peak(s);
    value->chosen = before.chosen;
    value->passes = before.passes;
    bool larger = best->value && value->bytes > best->value->bytes;
    if (peak < best->peak || (peak == best->peak && larger))
        *best = (decision){value, passes, peak};
}

static void decide(const decision *best)
{
    best->value->chosen = best->value->passes = best->passes;
}

/* Lists the values that are chosen; returns their number. */
static size_t list_chosen(const study *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->graph->value_count; i++)
        if (s->lives[i].chosen)
            s->chosen[count++] = &s->lives[i];
    return count;
}

static size_t most_trials(const study *s)
{
    return LEAST_TRIALS + VISITS / (s->graph->value_count + 1);
}

/* The decision that lowers the peak most, or one whose value is NULL. Of `stride` values in a row,
 * a drawn one is tried: at equal distances they might all be of one kind. */
static decision find_better(const study *s, double peak)
{
    decision best = {.peak = peak};
    size_t count = list_chosen(s), stride = count / most_trials(s) + 1;
    for (size_t first = 0; first + stride <= count; first += stride) {
        life *l = s->chosen[first + yki_hash3(0, count, first) % stride];
        try_decision(s, &best, l, false);
        if (!l->passes)
            try_decision(s, &best, l, true);
    }
    return best;
}

static int by_falling_bytes(const void *a, const void *b)
{
    const life *x = *(life *const *)a, *y = *(life *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x > y) - (x < y);
}

static void set_chosen(life **values, size_t count, bool chosen)
{
    for (size_t i = 0; i < count; i++)
        values[i]->chosen = chosen;
}

/* Keeps the values if that does not raise the peak, or else those of each half for which this is
 * so, in about as many trials. */
static void keep_values(const study *s, life **values, size_t count, size_t trials, double peak)
{
    size_t half = count / 2;
    if (trials >= count) {
        for (size_t i = 0; i < count; i++) {
            values[i]->chosen = false;
            values[i]->chosen = find_peak(s) > peak;
        }
        return;
    }
    set_chosen(values, count, false);
    if (find_peak(s) <= peak)
        return;
    set_chosen(values, count, true);
    if (trials < 2)
        return;
    keep_values(s, values, half, trials / 2, peak);
    keep_values(s, values + half, count - half, trials / 2, peak);
}

/* Keeps what does not raise the peak. */
static void keep_the_rest(const study *s, double peak)
{
    size_t count = list_chosen(s);
    qsort(s->chosen, count, sizeof(life *), by_falling_bytes);
    keep_values(s, s->chosen, count, most_trials(s), peak);
}

static void choose_recomputed(const study *s)
{
    double peak = find_peak(s);
    for (int change = 0; change < MOST_CHANGES; change++) {
        decision best = find_better(s, peak);
        if (!best.value)
            break;
        decide(&best);
        peak = best.peak;
    }
    keep_the_rest(s, peak);
    find_lives(s);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* The values that have been made once more, by the id of what they repeat. Those that node n of
 * backward needs first are first_at[n] of forward's nodes, next[first_at[n]] and so on. */
typedef struct repeats {
    const study *study;
    yk_value **of;
    int *first_at, *next;
} repeats;

static yk_value *make_again(const repeats *r, const yk_value *value, int node);

/* The value as it is there when node of backward runs; NULL when memory is out. */
static yk_value *find_at(const repeats *r, yk_value *value, int node)
{
    const life *l = life_of(r->study, value);
    if (!l->chosen || node < r->study->first)
        return value;
    return is_there_again(l, node) ? r->of[value->id] : make_again(r, value, node);
}

/* Appends the node that makes the value once more, and what it needs for that. */
static yk_value *make_again(const repeats *r, const yk_value *value, int node)
{
    yk_graph *graph = r->study->graph;
    const yki_node *first = value->producer;
    yk_value *in[YKI_MAX_IN] = {NULL};
    for (int i = 0; i < first->in_count; i++)
        if (first->in[i] && !(in[i] = find_at(r, first->in[i], node)))
            return NULL;
    const yki_op *op = first->op;
    if (op == &yki_op_batch_norm) {
        op = &yki_op_batch_norm_apply;
        in[YKI_BATCH_NORM_APPLY_RESIDUAL] = in[YKI_BATCH_NORM_RESIDUAL];
        in[YKI_BATCH_NORM_APPLY_MEAN] = first->out[YKI_BATCH_NORM_MEAN];
        in[YKI_BATCH_NORM_APPLY_INVSTD] = first->out[YKI_BATCH_NORM_INVSTD];
    }
    snprintf(graph->scope, sizeof graph->scope, "%s", first->scope);
    yk_value *made = yki_append_like(graph, op, &first->attrs, in, value);
    graph->scope[0] = '\0';
    return made;
}

static void list_by_first_reader(const repeats *r)
{
    const study *s = r->study;
    for (size_t n = 0; n < s->graph->node_count; n++)
        r->first_at[n] = NEVER;
    for (int f = s->first; f-- > 0;) {
        const life *l = life_of(s, s->graph->nodes[f]->out[0]);
        if (!l->chosen || l->again == NEVER)
            continue;
        r->next[f] = r->first_at[l->again];
        r->first_at[l->again] = f;
    }
}

/* Appends what must run before node n of backward, and lets the node read it. */
static yk_status prepare_node(const repeats *r, int n)
{
    const study *s = r->study;
    for (int f = r->first_at[n]; f != NEVER; f = r->next[f]) {
        const yk_value *value = s->graph->nodes[f]->out[0];
        r->of[value->id] = make_again(r, value, n);
        if (!r->of[value->id])
            return YK_ERROR_OUT_OF_MEMORY;
    }
    yki_node *node = s->graph->nodes[n];
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] && life_of(s, node->in[i])->chosen)
            node->in[i] = r->of[node->in[i]->id];
    return YK_OK;
}

/* Puts the appended nodes, of which ahead[n] are for backward's node n and those before it, where
 * they belong. */
static void weave(yk_graph *graph, size_t first, size_t end, const size_t *ahead, yki_node **order)
{
    size_t appended = 0, count = 0;
    for (size_t n = first; n < end; n++) {
        while (appended < ahead[n])
            order[count++] = graph->nodes[end + appended++];
        order[count++] = graph->nodes[n];
    }
    memcpy(graph->nodes + first, order, count * sizeof(yki_node *));
}

static yk_status rewrite_backward(const study *s)
{
    yk_graph *graph = s->graph;
    size_t end = graph->node_count, first = (size_t)s->first;
    repeats r = {.study = s,
                 .of = yki_calloc(graph->value_count, sizeof *r.of),
                 .first_at = yki_calloc(end, sizeof *r.first_at),
                 .next = yki_calloc(end, sizeof *r.next)};
    size_t *ahead = yki_calloc(end, sizeof *ahead);
    yki_node **order = NULL;
    bool fits = r.of && r.first_at && r.next && ahead;
    yk_status status = fits ? YK_OK : yki_error_memory(end * sizeof *ahead, "recomputing");
    if (fits)
        list_by_first_reader(&r);
    for (size_t n = first; status == YK_OK && n < end; n++) {
        status = prepare_node(&r, (int)n);
        ahead[n] = graph->node_count - end;
    }
    if (status == YK_OK) {
        order = yki_calloc(graph->node_count, sizeof(yki_node *));
        status = order ? YK_OK : yki_error_memory(graph->node_count * sizeof *order, "recomputing");
    }
    if (status == YK_OK)
        weave(graph, first, end, ahead, order);
    free(r.of);
    free(r.first_at);
    free(r.next);
    free(ahead);
    free(order);
    return status;
}

yk_status yki_graph_recompute(yk_graph *graph, size_t first, const yki_outputs *outputs)
{
    if (first == graph->node_count) /* no backward, and of a loss that is an input no node at all */
        return YK_OK;
    study s = {.graph = graph,
               .first = (int)first,
               .lives = yki_calloc(graph->value_count, sizeof *s.lives),
               .change = yki_calloc(graph->node_count + 2, sizeof *s.change),
               .chosen = yki_calloc(graph->value_count, sizeof *s.chosen)};
    yk_status status = YK_OK;
    if (!s.lives || !s.change || !s.chosen) {
        status = yki_error_memory(graph->value_count * sizeof *s.lives, "recomputing");
        goto out;
    }
    for (size_t i = 0; i < graph->value_count; i++)
        s.lives[i].bytes = graph->values[i]->producer ? bytes_of_sample(graph->values[i]) : 0;
    find_candidates(&s, outputs);
    choose_recomputed(&s);
    status = rewrite_backward(&s);
out:
    free(s.lives);
    free(s.change);
    free(s.chosen);
    return status;
}
