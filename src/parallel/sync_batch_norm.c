/*
 * SyncBatchNorm: batch_norm over the joint batch of all ranks (torch.nn.SyncBatchNorm's meaning).
 * The kernels do the arithmetic (device/sync.h); here is the way between the ranks: one all-gather
 * of 2 C + 1 doubles a layer in forward (count, means, squared distances) and one in backward
 * (count, and the two sums that dx needs), on the thread that computes.
 *
 * It goes through the group's channel, not the group: see comm/group_internal.h. All ranks run the
 * same graph, so the channel sees the same exchanges in the same order everywhere, whatever the
 * group's own thread is at.
 *
 * Weight and bias gradients stay local sums; DDP adds them up like all others. Its weighting of the
 * loss by each rank's samples makes the sums over ranks those of the joint mean.
 */
#include <yoke/ddp.h>

#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "model/model_hooks.h"

typedef struct rank_sync {
    yki_sync base;
    yk_group *channel;
    double gathered[]; /* [world][2 C + 1] of the widest layer */
} rank_sync;

static yk_status gather(const yki_sync *sync, int64_t channels)
{
    const rank_sync *s = (const rank_sync *)sync;
    return yk_all_gather(s->channel, (void *)(uintptr_t)sync->all, sync->mine,
                         (size_t)yki_sync_length(channels), YK_F64, NULL);
}

yk_status yk_sync_batch_norm_convert(yk_model *model, yk_group *group)
{
    if (yki_model_is_replicated(model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "SyncBatchNorm: the model is under data parallel, whose replicas have a "
                         "batch_norm of their own each");
    int world = yk_group_size(group);
    int64_t channels = yki_model_norm_channels(model);
    if (world == 1 || channels == 0)
        return YK_OK;
    yk_group *channel;
    void *mine;
    size_t length = (size_t)yki_sync_length(channels);
    YK_TRY(yki_group_channel(&channel, group));
    YK_TRY(yk_group_alloc(channel, length * sizeof(double), &mine));
    size_t bytes = sizeof(rank_sync) + (size_t)world * length * sizeof(double);
    rank_sync *sync = yki_calloc(1, bytes);
    if (!sync)
        return yki_error_memory(bytes, "SyncBatchNorm");
    sync->base = (yki_sync){.world = world, .mine = mine, .all = sync->gathered, .gather = gather};
    sync->channel = channel;
    yki_model_set_sync(model, &sync->base);
    return YK_OK;
}
