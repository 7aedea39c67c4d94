/*
 * SyncBatchNorm: batch_norm over the joint batch of all ranks, as torch.nn.SyncBatchNorm. The
 * kernels do the arithmetic (device/sync.h). This file does the communication: for each layer, one
 * all-gather of 2 C + 1 doubles in forward (count, means, squared distances) and one in backward
 * (count, and the two sums that dx needs), on the thread that computes.
 *
 * It uses the group's channel instead of the group: see comm/group_internal.h. All ranks run the
 * same graph, so the channel runs the same exchanges in the same order on every rank, whatever the
 * group's own thread is doing.
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
    yk_group *group, *channel;
    double gathered[]; /* [world][2 C + 1] of the widest layer */
} rank_sync;

static yk_status gather_statistics(const yki_sync *sync, int64_t channels)
{
    const rank_sync *s = (const rank_sync *)sync;
    return yk_all_gather(s->channel, (void *)(uintptr_t)sync->all, sync->mine,
                         (size_t)yki_sync_length(channels), YK_F64, NULL);
}

static void rank_sync_destroy(yki_sync *sync)
{
    rank_sync *s = (rank_sync *)sync;
    yk_group_free(s->channel, sync->mine);
    yki_group_release(s->group);
    free(s);
}

yk_status yk_sync_batch_norm_convert(yk_model *model, yk_group *group)
{
    YKI_NOT_NULL(model);
    YKI_NOT_NULL(group);
    if (yki_model_is_replicated(model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "SyncBatchNorm: cannot be combined with data parallel, whose replicas "
                         "normalise their batches separately");
    int world = yk_group_size(group);
    int64_t channels = yki_model_norm_channels(model);
    if (world == 1 || channels == 0)
        return YK_OK;
    size_t length = (size_t)yki_sync_length(channels);
    size_t bytes = sizeof(rank_sync) + (size_t)world * length * sizeof(double);
    rank_sync *sync = yki_calloc(1, bytes);
    if (!sync)
        return yki_error_memory(bytes, "SyncBatchNorm");
    void *mine;
    yk_status status = yki_group_channel(&sync->channel, group);
    if (status != YK_OK ||
        (status = yk_group_alloc(sync->channel, length * sizeof(double), &mine)) != YK_OK)
        goto out_sync;
    sync->base = (yki_sync){.world = world,
                            .mine = mine,
                            .all = sync->gathered,
                            .gather = gather_statistics,
                            .destroy = rank_sync_destroy};
    sync->group = group;
    yki_group_retain(group);
    yki_model_set_sync(model, &sync->base);
    return YK_OK;

out_sync:
    free(sync);
    return status;
}
