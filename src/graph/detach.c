/*
 * detach: its input is a constant to the gradient. It is not in the list of operators, because no
 * kernel computes it: compile/detach.c removes it once the gradient is there.
 */
#include "graph/operators.h"

static yk_status infer(const yki_node *node, yki_shape *out)
{
    out[0] = yki_shape_of(node->in[0]);
    return YK_OK;
}

const yki_op yki_op_detach = {.name = "detach",
                              .autocast = YKI_AUTOCAST_FOLLOW,
                              .in_count = 1,
                              .out_count = 1,
                              .in = {{.name = "input", .is_activation = true, .is_constant = true}},
                              .infer = infer};

/* In a program's gradient rule, nothing will be differentiated any more. */
yk_value *yk_detach(yk_value *x)
{
    bool in_gradient = x && x->graph && x->graph->in_gradient;
    return in_gradient ? x : yki_emit_one(x, &yki_op_detach, NULL);
}
