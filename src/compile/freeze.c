/*
 * Frozen norms: where neither weight nor bias is trained, the running statistics are part of what
 * shall not change, unless the norm says otherwise.
 */
#include "compile/rewrite.h"

void yki_graph_freeze_norms(yk_graph *graph)
{
    for (size_t n = 0; n < graph->node_count; n++) {
        yki_node *node = graph->nodes[n];
        if (node->op == &yki_op_batch_norm)
            node->attrs.evaluates |= !node->attrs.batch_statistics &&
                                     node->in[YKI_BATCH_NORM_WEIGHT]->frozen &&
                                     node->in[YKI_BATCH_NORM_BIAS]->frozen;
    }
}
