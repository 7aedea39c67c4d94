/*
 * SyncBatchNorm: batch_norm over the joint batch of all ranks, as torch.nn.SyncBatchNorm. The
 * kernels do the arithmetic (device/sync.h). This file does the communication: for each layer, one
 * all-gather of 2 C + 1 doubles in forward (count, means, squared distances) and one in backward
 * (count, and the two sums that dx needs), on the thread that computes.
 *
 * It uses the group's channel instead of the group: see comm/group_internal.h. All ranks run the
 * same graph, so the channel runs the same exchanges in the same order on every rank, whatever the
 * group's own thread is doing. Where the group has a plane for the device, the gathers are entered
 * there, after the buckets that have been entered before, and the host does not wait.
 *
 * Weight and bias gradients stay local sums; DDP adds them up like all others. Its weighting of the
 * loss by each rank's samples makes the sums over ranks those of the joint mean.
 */
#include <yoke/ddp.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "comm/plane.h"
#include "model/model_hooks.h"
#include "parallel/same_text.h"

typedef struct rank_sync {
    yki_sync base;
    yk_group *group, *channel;
    yki_device *device;
    size_t bytes; /* of a vector of the widest layer */
    /* What the ranks exchange, one vector and those of all; on a host device also base.mine and
     * base.all. */
    double *sent, *gathered;
    yki_event *returned; /* the device has read `gathered` */
    yki_plane *plane;    /* NULL: the vectors are exchanged through the host */
} rank_sync;

static size_t all_bytes(const rank_sync *s)
{
    return (size_t)s->base.world * s->bytes;
}

/* Brings the device's vector to the host, once it has been written. */
static yk_status fetch_vector(const rank_sync *s, size_t bytes, yki_stream *stream)
{
    if (yki_device_is_host(s->device))
        return YK_OK;
    YK_TRY(yki_event_wait(s->device, s->returned));
    YK_TRY(yki_device_copy(s->device, s->sent, s->base.mine, bytes, YKI_TO_HOST, stream));
    return yki_stream_wait(s->device, stream);
}

static yk_status return_vectors(const rank_sync *s, size_t bytes, yki_stream *stream)
{
    if (yki_device_is_host(s->device))
        return YK_OK;
    YK_TRY(yki_device_copy(s->device, (void *)(uintptr_t)s->base.all, s->gathered, bytes,
                           YKI_TO_DEVICE, stream));
    return yki_event_mark(s->device, s->returned, stream);
}

static yk_status gather_statistics(const yki_sync *sync, int64_t channels, yki_stream *stream)
{
    const rank_sync *s = (const rank_sync *)sync;
    size_t length = (size_t)yki_sync_length(channels), bytes = length * sizeof(double);
    yk_descriptor what = {.operation = YK_OPERATION_ALL_GATHER, .dtype = YK_F64, .count = length};
    if (s->plane)
        return yki_plane_run(s->plane, &what, sync->mine, (void *)(uintptr_t)sync->all, stream);
    YK_TRY(fetch_vector(s, bytes, stream));
    YK_TRY(yk_all_gather(s->channel, s->gathered, s->sent, length, YK_F64, NULL));
    return return_vectors(s, (size_t)sync->world * bytes, stream);
}

static void rank_sync_destroy(yki_sync *sync)
{
    rank_sync *s = (rank_sync *)sync;
    yki_device *device = s->device;
    yki_stream_wait(device, yki_device_stream(device));
    if (!yki_device_is_host(device)) {
        yki_device_free(device, s->base.mine, s->bytes);
        yki_device_free(device, (void *)(uintptr_t)s->base.all, all_bytes(s));
    }
    yki_event_destroy(device, s->returned);
    yki_plane_close(s->plane);
    if (s->sent)
        yk_group_free(s->channel, s->sent);
    free(s->gathered);
    yki_group_release(s->group);
    free(s);
}

static yk_status create_device_side(rank_sync *s)
{
    void *mine = s->sent, *all = s->gathered;
    yk_status status = YK_OK;
    if (!yki_device_is_host(s->device)) {
        status = yki_device_alloc(s->device, s->bytes, &mine);
        if (status != YK_OK)
            all = NULL;
        else
            status = yki_device_alloc(s->device, all_bytes(s), &all);
    }
    s->base.mine = mine;
    s->base.all = all;
    return status == YK_OK ? yki_event_create(s->device, &s->returned) : status;
}

static yk_status create_host_side(rank_sync *s)
{
    void *sent;
    YK_TRY(yki_group_channel(&s->channel, s->group));
    YK_TRY(yk_group_alloc(s->channel, s->bytes, &sent));
    s->sent = sent;
    s->gathered = yki_calloc(1, all_bytes(s));
    return s->gathered ? YK_OK : yki_error_memory(all_bytes(s), "SyncBatchNorm");
}

/* A model without batch_norm needs no communication, and has to be one on all ranks. */
static yk_status compare_norms(yk_group *group, int64_t channels)
{
    char text[64];
    snprintf(text, sizeof text, "batch_norm of up to %lld channels\n", (long long)channels);
    return yki_compare_texts(group, "SyncBatchNorm: models", text);
}

/* On failure *sync may be there, to be destroyed. It remains NULL where there is no batch_norm. */
static yk_status make_sync(rank_sync **sync, const yk_model *model, yk_group *group)
{
    if (yki_model_is_replicated(model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "SyncBatchNorm: cannot be combined with data parallel, whose replicas "
                         "normalise their batches separately");
    int world = yk_group_size(group);
    int64_t channels = yki_model_norm_channels(model);
    YK_TRY(compare_norms(group, channels));
    if (world == 1 || channels == 0)
        return YK_OK;
    rank_sync *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "SyncBatchNorm");
    made->base =
        (yki_sync){.world = world, .gather = gather_statistics, .destroy = rank_sync_destroy};
    made->group = group;
    yki_group_retain(group);
    made->device = yki_model_device(model);
    made->bytes = (size_t)yki_sync_length(channels) * sizeof(double);
    *sync = made;
    YK_TRY(yki_plane_open(&made->plane, group, made->device));
    if (!made->plane)
        YK_TRY(create_host_side(made));
    return create_device_side(made);
}

yk_status yk_sync_batch_norm_convert(yk_model *model, yk_group *group)
{
    rank_sync *made = NULL;
    YKI_NOT_NULL(group);
    yki_joint joint = yki_joint_begin(group);
    yk_status status = YKI_CHECK_NOT_NULL(model);
    if (status == YK_OK)
        status = make_sync(&made, model, group);
    status = yki_joint_end(&joint, status);
    if (status == YK_OK && made)
        yki_model_set_sync(model, &made->base);
    else if (made)
        rank_sync_destroy(&made->base);
    return status;
}
