/* See conv_plan.h. */
#include "conv_plan.h"

/* Of one kernel: what a plan needs beyond its operands, while it runs. */
static const size_t most_workspace = (size_t)512 << 20;

/* The first proposal that can be made. */
static bool first_plan(yki_cudnn_proposals *proposals, yki_cudnn_plan *plan)
{
    for (int i = 0; i < proposals->count; i++)
        if (yki_cudnn_plan_make(proposals, i, most_workspace, plan))
            return true;
    return false;
}

yk_status yki_cuda_conv_plan(yki_cuda_device *device, const yki_cudnn *cudnn,
                             const yki_cudnn_conv *conv, yki_cudnn_plan *plan, bool *found)
{
    (void)device;
    yki_cudnn_graph graph;
    yki_cudnn_proposals proposals = {0};
    *found = false;
    yk_status status = yki_cudnn_conv_graph(&graph, cudnn, conv);
    if (status == YK_OK) {
        yki_cudnn_propose(&graph, &proposals);
        *found = first_plan(&proposals, plan);
        yki_cudnn_proposals_fini(&proposals);
    }
    yki_cudnn_graph_fini(&graph);
    return status;
}
