/*
 * What all_gather_batch exchanges: under yk_ddp, with the other ranks of its group, on the thread
 * that computes. As in SyncBatchNorm, it uses the group's channel instead of the group or, where
 * the group has one for the device, its plane (sync_batch_norm.c says why).
 *
 * Gradients need no weights: DDP weighs each rank's loss by its samples where backward begins, so
 * the sum over ranks is the gradient of the joint mean.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "comm/plane.h"
#include "parallel/ddp.h"

typedef struct rank_exchange {
    yki_exchange base;
    yk_group *group, *channel;
    yki_device *device;
    yki_plane *plane; /* NULL: through the host */
    char *room;       /* pinned, for what is sent and what is received; NULL on a host device */
    size_t bytes;     /* of each of them */
} rank_exchange;

static yk_status run_on_channel(const rank_exchange *e, const yk_descriptor *what, void *out,
                                const void *in)
{
    yk_dtype dtype = (yk_dtype)what->dtype;
    if (what->operation == YK_OPERATION_ALL_GATHER)
        return yk_all_gather(e->channel, out, in, what->count, dtype, NULL);
    return yk_reduce_scatter(e->channel, out, in, what->count, dtype, YK_REDUCE_SUM, NULL);
}

/* The copies are in order with the stream: when the host has the next ones, the last have gone. */
static yk_status run_staged(const rank_exchange *e, const yk_descriptor *what, void *out,
                            const void *in, yki_stream *stream)
{
    bool gathers = what->operation == YK_OPERATION_ALL_GATHER;
    size_t own = what->count * yk_dtype_size((yk_dtype)what->dtype);
    size_t all = own * (size_t)yk_group_size(e->group);
    char *sent = e->room, *received = e->room + e->bytes;
    YK_TRY(yki_device_copy(e->device, sent, in, gathers ? own : all, YKI_TO_HOST, stream));
    YK_TRY(yki_stream_wait(e->device, stream));
    YK_TRY(run_on_channel(e, what, received, sent));
    return yki_device_copy(e->device, out, received, gathers ? all : own, YKI_TO_DEVICE, stream);
}

static yk_status run(const yki_exchange *exchange, const yk_descriptor *what, void *out,
                     const void *in, yki_stream *stream)
{
    const rank_exchange *e = (const rank_exchange *)exchange;
    if (e->plane)
        return yki_plane_run(e->plane, what, in, out, stream);
    return e->room ? run_staged(e, what, out, in, stream) : run_on_channel(e, what, out, in);
}

static yk_status all_gather(const yki_exchange *exchange, void *out, const void *in, size_t count,
                            yk_dtype dtype, yki_stream *stream)
{
    const yk_descriptor what = {
        .operation = YK_OPERATION_ALL_GATHER, .dtype = (uint8_t)dtype, .count = count};
    return run(exchange, &what, out, in, stream);
}

static yk_status reduce_scatter(const yki_exchange *exchange, void *out, const void *in,
                                size_t count, yk_dtype dtype, yki_stream *stream)
{
    const yk_descriptor what = {.operation = YK_OPERATION_REDUCE_SCATTER,
                                .dtype = (uint8_t)dtype,
                                .reduce = YK_REDUCE_SUM,
                                .count = count};
    return run(exchange, &what, out, in, stream);
}

static yk_status refuse(const yki_exchange *exchange, size_t count, yk_dtype dtype,
                        yk_status status)
{
    const rank_exchange *e = (const rank_exchange *)exchange;
    const yk_descriptor what = {
        .operation = YK_OPERATION_ALL_GATHER, .dtype = (uint8_t)dtype, .count = count};
    yk_group *compares = e->plane ? e->group : e->channel;
    yki_call call = {.base = {.what = what, .compare_only = e->plane != NULL}};
    yk_status told = yki_group_submit(compares, &call, status, NULL);
    return told == YK_ERROR_INVALID_ARGUMENT ? status : told;
}

static void destroy(yki_exchange *exchange)
{
    rank_exchange *e = (rank_exchange *)exchange;
    yki_stream_wait(e->device, yki_device_stream(e->device));
    yki_device_free_pinned(e->device, e->room, 2 * e->bytes);
    yki_plane_close(e->plane);
    yki_group_release(e->group);
    free(e);
}

static yk_status open_way(rank_exchange *e)
{
    void *room = NULL;
    YK_TRY(yki_plane_open(&e->plane, e->group, e->device));
    if (e->plane)
        return YK_OK;
    YK_TRY(yki_group_channel(&e->channel, e->group));
    if (!yki_device_is_host(e->device))
        YK_TRY(yki_device_alloc_pinned(e->device, 2 * e->bytes, &room));
    e->room = room;
    return YK_OK;
}

static yk_status check(const yk_ddp *ddp, int ranks)
{
    int size = yk_group_size(ddp->group);
    if (ranks != size)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ddp: the model's all_gather_batch is of %d ranks, the group has %d",
                         ranks, size);
    if (ddp->options.virtual_ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ddp: the model has an all_gather_batch, and virtual ranks compute one "
                         "after the other");
    return YK_OK;
}

yk_status yki_exchange_create(yk_ddp *ddp)
{
    yki_gathering gathering = yki_model_gathering(ddp->model);
    if (gathering.ranks <= 1)
        return YK_OK;
    YK_TRY(check(ddp, gathering.ranks));
    rank_exchange *e = yki_calloc(1, sizeof *e);
    if (!e)
        return yki_error_memory(sizeof *e, "ddp");
    e->base = (yki_exchange){.all_gather = all_gather,
                             .reduce_scatter = reduce_scatter,
                             .refuse = refuse,
                             .destroy = destroy};
    e->group = ddp->group;
    yki_group_retain(e->group);
    e->device = yki_model_device(ddp->model);
    e->bytes = gathering.bytes;
    yk_status status = open_way(e);
    if (status != YK_OK)
        destroy(&e->base);
    else
        yki_model_set_exchange(ddp->model, &e->base);
    return status;
}
