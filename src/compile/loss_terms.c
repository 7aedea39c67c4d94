/*
 * Splits a loss into terms that are means over samples and terms that are sums over them.
 * Distributed training and micro-batches weigh the two differently (a part's mean by its samples, a
 * part's sum not at all), so each starts backward from a separate scalar.
 *
 * A loss that has both is followed through additions, subtractions, scalings and casts, which are
 * linear: mean + 0.1 (sum + mean) becomes (mean + 0.1 mean) and 0.1 sum. The loss itself stays as
 * it is, for its value. A number that is added to both goes to the mean. Where another operator
 * mixes the two, its result counts as a sum.
 *
 * What is added to a sum without being a loss counts as a mean, as it does alone: a program's own
 * loss that does not call itself a sum, or a penalty on weights. So does a sum that no sample takes
 * part in, because each part of the batch has all of it.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compile/rewrite.h"
#include "graph/custom.h"

enum { MEANS = 1 << YKI_LOSS_MEANS, SUMS = 1 << YKI_LOSS_SUMS };

typedef struct splitter {
    yk_graph *graph;
    unsigned char *kinds;            /* by value id: MEANS, SUMS, both, or 0 */
    bool *of_batch;                  /* by value id: whether it depends on an input */
    yk_value **part[YKI_LOSS_KINDS]; /* by value id, of values of both kinds */
} splitter;

static bool is_loss(const yki_op *op)
{
    return op == &yki_op_cross_entropy || op == &yki_op_mse_loss || op == &yki_op_smooth_l1_loss ||
           op == &yki_op_binary_cross_entropy_with_logits || op == &yki_op_reduce_loss;
}

/* MEANS or SUMS of a loss; 0 of another operator. */
static unsigned char kind_of(const yki_node *node, bool of_batch)
{
    bool ours = is_loss(node->op);
    bool is_sum = ours ? node->attrs.reduction == YK_LOSS_SUM : yki_custom_is_sum(node);
    if (is_sum && of_batch)
        return SUMS;
    return ours || is_sum ? MEANS : 0;
}

/* The part of a value that is of this kind, or NULL. What is no loss counts as a mean. */
static yk_value *part_of(const splitter *s, yk_value *value, yki_loss_kind kind)
{
    assert(value); /* the operators that are split have no optional inputs */
    unsigned char kinds = s->kinds[value->id];
    if (kinds == (MEANS | SUMS))
        return s->part[kind][value->id];
    return (kinds == SUMS ? YKI_LOSS_SUMS : YKI_LOSS_MEANS) == kind ? value : NULL;
}

static bool is_sum_of_two(const yki_op *op)
{
    return op == &yki_op_add || op == &yki_op_subtract;
}

/* Whether an operator passes its inputs on as they are, up to a factor, and adds them up. */
static bool is_linear(const yki_node *node)
{
    if (is_sum_of_two(node->op))
        return yki_same_dims(node->in[0], node->in[1]);
    return node->op == &yki_op_scale || node->op == &yki_op_cast || node->op == &yki_op_add_scalar;
}

/* The node's part, of those of its inputs that have one: the first, the second, or both. */
static yk_value *make_part(splitter *s, const yki_node *node, yki_loss_kind kind, yk_value **in)
{
    bool lacks_one = node->in_count == 2 && (!in[0] || !in[1]);
    if (lacks_one && !in[0] && node->op == &yki_op_subtract)
        return yki_append_like(s->graph, &yki_op_scale, &(yki_attrs){.alpha = -1}, &in[1],
                               node->out[0]);
    if (lacks_one)
        return in[0] ? in[0] : in[1];
    if (node->op == &yki_op_add_scalar && kind == YKI_LOSS_SUMS)
        return in[0];
    return yki_append_like(s->graph, node->op, &node->attrs, in, node->out[0]);
}

static yk_status split_node(splitter *s, const yki_node *node, yki_loss_kind kind)
{
    yk_value *out = node->out[0], *in[YKI_MAX_IN];
    assert(out);
    yk_value **part = &s->part[kind][out->id];
    bool any = false;
    if (!is_linear(node)) {
        *part = kind == YKI_LOSS_SUMS ? out : NULL;
        return YK_OK;
    }
    for (int i = 0; i < node->in_count; i++) {
        in[i] = part_of(s, node->in[i], kind);
        any |= in[i] != NULL;
    }
    if (!any)
        return YK_OK;
    *part = make_part(s, node, kind, in);
    return *part ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
}

/* Of the node's outputs, from those of its inputs. */
static unsigned char find_kinds(splitter *s, const yki_node *node)
{
    bool of_batch = false, adds_other = false;
    unsigned char kinds = 0;
    for (int i = 0; i < node->in_count; i++) {
        if (!node->in[i])
            continue;
        of_batch |= s->of_batch[node->in[i]->id];
        kinds |= s->kinds[node->in[i]->id];
        adds_other |= is_sum_of_two(node->op) && !s->kinds[node->in[i]->id];
    }
    kinds |= kind_of(node, of_batch);
    if (kinds == SUMS && adds_other)
        kinds |= MEANS;
    for (int i = 0; i < node->out_count; i++)
        if (node->out[i]) {
            s->of_batch[node->out[i]->id] = of_batch;
            s->kinds[node->out[i]->id] = kinds;
        }
    return kinds;
}

/* The kinds of every value, and the parts of those that are of both. */
static yk_status split_values(splitter *s)
{
    size_t nodes = s->graph->node_count; /* appended ones need no splitting */
    for (size_t i = 0; i < s->graph->value_count; i++)
        s->of_batch[i] = s->graph->values[i]->kind == YKI_INPUT;
    for (size_t n = 0; n < nodes; n++) {
        const yki_node *node = s->graph->nodes[n];
        unsigned char kinds = find_kinds(s, node);
        for (int kind = 0; kinds == (MEANS | SUMS) && kind < YKI_LOSS_KINDS; kind++)
            YK_TRY(split_node(s, node, (yki_loss_kind)kind));
    }
    return YK_OK;
}

yk_status yki_graph_split_loss(yk_graph *graph, yk_value *loss, yk_value **terms)
{
    size_t values = graph->value_count;
    splitter s = {.graph = graph,
                  .kinds = yki_calloc(values, sizeof *s.kinds),
                  .of_batch = yki_calloc(values, sizeof *s.of_batch)};
    bool allocated = s.kinds && s.of_batch;
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++) {
        s.part[kind] = yki_calloc(values, sizeof *s.part[kind]);
        allocated = allocated && s.part[kind];
    }
    yk_status status =
        allocated ? split_values(&s) : yki_error_memory(values * sizeof *s.part[0], "the loss");
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++) {
        terms[kind] = status == YK_OK ? part_of(&s, loss, (yki_loss_kind)kind) : NULL;
        free(s.part[kind]);
    }
    free(s.kinds);
    free(s.of_batch);
    return status;
}
