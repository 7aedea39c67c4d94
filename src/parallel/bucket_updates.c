/*
 * See bucket_updates.h. The ranks agree on whether to update by an all-reduce that overlaps with
 * backward.
 */
#include "parallel/bucket_updates.h"

#include "base/trace.h"
#include "optim/optimizer.h"
#include "optim/step.h"
#include "parallel/ddp.h"

bool yki_ddp_can_update(const yk_ddp *ddp, const yk_optimizer *optimizer)
{
    return yki_optimizer_model(optimizer) == ddp->model && yk_group_size(ddp->group) > 1 &&
           ddp->bucket_count > 1 && yki_device_is_host(yki_model_device(ddp->model));
}

yk_status yki_ddp_partition_step(const yk_ddp *ddp, yk_optimizer *optimizer)
{
    return yki_optimizer_partition(optimizer, ddp->bucket_of, ddp->bucket_count);
}

void yki_ddp_update_in_backward(yk_ddp *ddp, yk_optimizer *optimizer, bool wanted)
{
    ddp->updates = (yki_bucket_updates){.optimizer = optimizer, .refused = !wanted};
}

yk_status yki_bucket_updates_begin(yk_ddp *ddp)
{
    yki_bucket_updates *updates = &ddp->updates;
    if (!updates->optimizer || !ddp->exchanging)
        return YK_OK;
    return yk_all_reduce(ddp->group, &updates->refused, 1, YK_F64, YK_REDUCE_MAX,
                         &updates->agreement);
}

bool yki_bucket_updates_agreed(const yk_ddp *ddp)
{
    return ddp->updates.optimizer && ddp->exchanging && ddp->updates.refused == 0;
}

yk_status yki_bucket_updates_run(const yk_ddp *ddp, size_t bucket)
{
    double begin = yki_trace_begin();
    yk_status status = yki_optimizer_update_part(ddp->updates.optimizer, bucket);
    YKI_TRACE_END(begin, YKI_NO_ARGS, "update of bucket %zu", bucket);
    return status;
}

void yki_bucket_updates_end(const yk_ddp *ddp, bool failed)
{
    yk_model_parameters_changed(ddp->model);
    if (failed)
        yki_optimizer_break_step(ddp->updates.optimizer);
}
