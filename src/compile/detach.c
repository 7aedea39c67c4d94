/* Removes detach: whatever reads its result reads its input instead. */
#include "compile/rewrite.h"

static yk_value *origin_of(yk_value *value)
{
    while (value && value->producer && value->producer->op == &yki_op_detach)
        value = value->producer->in[0];
    return value;
}

void yki_graph_remove_detached(yk_graph *graph, yk_value **loss, yk_value **terms,
                               const yki_outputs *outputs, size_t *first_backward)
{
    size_t kept = 0, forward = *first_backward;
    for (size_t n = 0; n < graph->node_count; n++) {
        yki_node *node = graph->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            node->in[i] = origin_of(node->in[i]);
        if (node->op != &yki_op_detach)
            graph->nodes[kept++] = node;
        else if (n < forward)
            --*first_backward;
    }
    graph->node_count = kept;
    *loss = origin_of(*loss);
    for (int kind = 0; kind < YKI_LOSS_KINDS; kind++)
        terms[kind] = origin_of(terms[kind]);
    for (size_t i = 0; i < outputs->count; i++)
        outputs->list[i].read = origin_of(outputs->list[i].read);
}
