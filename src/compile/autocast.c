/* torch.autocast's idea as a rewrite of the graph, done once. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/rewrite.h"

typedef struct caster {
    yk_graph *graph;
    yk_value **casted; /* by value id: its value in the other dtype, made once */
    size_t count;
    yk_dtype low;
    const char *overrides;
} caster;

/* value in dtype: itself, an earlier cast, or a new one. NULL when memory is out. */
static yk_value *cast_to(caster *c, yk_value *value, yk_dtype dtype)
{
    if (value->dtype == dtype)
        return value;
    if ((size_t)value->id < c->count && c->casted[value->id])
        return c->casted[value->id];
    yki_shape shape = yki_shape_of(value);
    shape.dtype = dtype;
    yki_node *node = yki_append(c->graph, &yki_op_cast, NULL, &value, &shape);
    if (!node)
        return NULL;
    if ((size_t)value->id < c->count)
        c->casted[value->id] = node->out[0];
    return node->out[0];
}

static bool is_cast(const caster *c, const yk_value *value)
{
    return value && (value->dtype == YK_F32 || value->dtype == c->low);
}

static yk_dtype wanted_dtype(const caster *c, const yki_node *node)
{
    yki_autocast policy = yki_autocast_of(node->op, c->overrides);
    if (node->out[0]->ndim == 0)
        return YK_F32; /* a loss, or what is made of losses */
    if (policy == YKI_AUTOCAST_LOW)
        return c->low;
    if (policy == YKI_AUTOCAST_FULL)
        return YK_F32;
    /* Follow: low only where all inputs are, f32 where one is. A mask has no say. */
    for (int i = 0; i < node->in_count; i++) {
        bool decides = node->op->in[i].is_activation && !node->op->in[i].is_mask;
        if (decides && node->in[i] && node->in[i]->dtype != c->low)
            return node->in[i]->dtype;
    }
    return c->low;
}

/* The outputs of a program's operator, whose shape rule decides their dtypes. */
static yk_status infer_again(const yki_node *node)
{
    yki_shape out[YKI_MAX_OUT];
    yk_status status = node->op->infer(node, out);
    if (status != YK_OK)
        return yki_error_context(status, "%s%s under autocast", node->scope, node->op->name);
    for (int i = 0; i < node->out_count; i++)
        node->out[i]->dtype = out[i].dtype;
    return YK_OK;
}

static yk_status cast_node(caster *c, yki_node *node)
{
    yk_dtype wanted = wanted_dtype(c, node);
    /*
     * What is no activation stays f32, also a weight that something computes in 16 bit. (Fusion,
     * which gives batch_norm a residual, comes after autocast.)
     */
    for (int i = 0; i < node->in_count; i++) {
        if (!is_cast(c, node->in[i]) || node->op->in[i].is_widened)
            continue;
        node->in[i] = cast_to(c, node->in[i], node->op->in[i].is_activation ? wanted : YK_F32);
        if (!node->in[i])
            return YK_ERROR_OUT_OF_MEMORY;
    }
    if (node->op->custom)
        YK_TRY(infer_again(node));
    for (int i = 0; i < (node->op->one_dtype ? node->out_count : 1); i++)
        if (!node->op->custom && node->op->autocast != YKI_AUTOCAST_FULL &&
            is_cast(c, node->out[i]))
            node->out[i]->dtype = wanted;
    return yki_graph_push(c->graph, node) ? YK_OK : YK_ERROR_OUT_OF_MEMORY;
}

static yk_status cast_graph(caster *c, yki_node *const *nodes, size_t count,
                            const yki_outputs *outputs)
{
    for (size_t i = 0; i < count; i++)
        YK_TRY(cast_node(c, nodes[i]));
    for (size_t i = 0; i < outputs->count; i++) {
        yk_value **read = &outputs->list[i].read;
        if (!is_cast(c, *read))
            continue;
        *read = cast_to(c, *read, YK_F32);
        if (!*read)
            return YK_ERROR_OUT_OF_MEMORY;
    }
    return YK_OK;
}

yk_status yki_graph_autocast(yk_graph *graph, yk_dtype low, const char *overrides,
                             const yki_outputs *outputs)
{
    yki_node **nodes = graph->nodes;
    size_t count = graph->node_count;
    caster c = {.graph = graph, .count = graph->value_count, .low = low, .overrides = overrides};
    c.casted = yki_calloc(c.count, sizeof *c.casted);
    if (!c.casted)
        return yki_error_memory(c.count * sizeof *c.casted, "autocast");
    graph->nodes = NULL;
    graph->node_count = graph->node_capacity = 0;

    yk_status status = cast_graph(&c, nodes, count, outputs);
    free(nodes);
    free(c.casted);
    return graph->status == YK_OK ? status : yki_error(status, "%s", graph->error);
}
