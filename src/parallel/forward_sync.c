/*
 * The exchanges before a forward: rank 0's buffers are broadcast, and the ranks exchange the sizes
 * of their batches (under Join also whether they have data, see join.c). The sizes are exchanged
 * while forward computes, and waited for when backward begins.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_internal.h"
#include "comm/queue.h"
#include "device/norm_rules.h"
#include "parallel/ddp.h"
#include "tensor/tensor.h"

/* Prepares the sweeps that pack the buffers into the flat block, each padded, and unpack them. */
static yk_status prepare_packing(yk_ddp *ddp)
{
    size_t count = yk_model_buffer_count(ddp->model);
    yki_device *device = yki_model_device(ddp->model);
    yki_span *spans = yki_calloc(count, sizeof *spans);
    char *at = ddp->flat.memory;
    if (!spans)
        return yki_error_memory(count * sizeof *spans, "buffers");
    for (size_t i = 0; i < count; i++) {
        yk_tensor buffer = yk_model_buffer(ddp->model, i).value;
        spans[i] = (yki_span){
            .at = {at, buffer.data}, .count = yk_tensor_count(&buffer), .dtype = buffer.dtype};
        at += yki_tensor_padded_bytes(&buffer);
    }
    yk_status status = yki_sweep_create(&ddp->pack, device, spans, count);
    for (size_t i = 0; i < count; i++) {
        void *packed = spans[i].at[0];
        spans[i].at[0] = spans[i].at[1];
        spans[i].at[1] = packed;
    }
    if (status == YK_OK)
        status = yki_sweep_create(&ddp->unpack, device, spans, count);
    free(spans);
    return status;
}

yk_status yki_forward_sync_create(yk_ddp *ddp)
{
    void *memory;
    size_t bytes = 0;
    YK_TRY(yk_group_alloc(ddp->group, (size_t)yk_group_size(ddp->group) * sizeof(yki_rank_samples),
                          &memory));
    ddp->all_samples = memory;
    for (size_t i = 0; i < yk_model_buffer_count(ddp->model); i++) {
        yk_tensor buffer = yk_model_buffer(ddp->model, i).value;
        bytes += yki_tensor_padded_bytes(&buffer);
    }
    if (bytes == 0)
        return YK_OK;
    YK_TRY(yki_staging_create(&ddp->flat, ddp->group, yki_model_device(ddp->model), bytes));
    return prepare_packing(ddp);
}

void yki_forward_sync_destroy(yk_ddp *ddp)
{
    yk_group_free(ddp->group, ddp->all_samples);
    yki_staging_destroy(&ddp->flat);
    yki_sweep_destroy(ddp->pack);
    yki_sweep_destroy(ddp->unpack);
}

/* ---- buffers --------------------------------------------------------------------------------- */

yk_status yki_buffers_copy(yk_ddp *ddp, bool pack)
{
    yki_stream *stream = yki_device_stream(yki_model_device(ddp->model));
    if (ddp->flat.bytes == 0)
        return YK_OK;
    return yki_sweep_run(pack ? ddp->pack : ddp->unpack, YKI_SWEEP_COPY, NULL, NULL, stream);
}

yk_status yki_buffers_follow(yk_ddp *ddp)
{
    if (!ddp->buffers_moved || ddp->flat.bytes == 0 || !ddp->options.broadcast_buffers)
        return YK_OK;
    int leader = ddp->join.leader;
    bool root = yk_group_rank(ddp->group) == leader;
    if (root)
        YK_TRY(yki_buffers_copy(ddp, true));
    double start = yki_now();
    YK_TRY(yki_staging_broadcast(&ddp->flat, leader));
    ddp->waited_s += yki_group_waited(ddp->group, start);
    if (!root)
        YK_TRY(yki_buffers_copy(ddp, false));
    ddp->buffers_moved = false;
    return YK_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

yk_status yki_samples_finish(yk_ddp *ddp)
{
    yk_work *work = ddp->samples_work;
    yki_work_times times;
    double start = yki_now();
    if (!work)
        return YK_OK;
    ddp->samples_work = NULL;
    YK_TRY(yki_work_wait_timed(work, &times));
    ddp->waited_s += yki_work_waited(&times, start);
    return YK_OK;
}

yk_status yki_samples_start(yk_ddp *ddp, int64_t samples)
{
    ddp->samples = (yki_rank_samples){.samples = (double)samples, .kept = ddp->kept};
    return yk_all_gather(ddp->group, ddp->all_samples, &ddp->samples,
                         sizeof ddp->samples / sizeof(double), YK_F64, &ddp->samples_work);
}

yk_status yki_forward_sync_check(const yk_ddp *ddp)
{
    if (!ddp->options.virtual_ranks)
        return YK_OK;
    if (ddp->no_sync)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "virtual ranks already accumulate gradients and cannot be combined with no_sync");
    if (yki_model_is_synced(ddp->model))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "virtual ranks cannot be combined with SyncBatchNorm, which needs all "
                         "ranks at the same time");
    return YK_OK;
}

/*
 * SyncBatchNorm needs two values of each channel on all ranks. Where this rank has none or one, it
 * waits for the sizes of the others' batches. If that is all there is, all ranks do, and come to
 * the same answer; kernels of a device with streams would tell it late, and could not name their
 * layer.
 */
static yk_status check_variance(yk_ddp *ddp, int64_t samples)
{
    double all = 0;
    if (samples > 1 || !yki_model_is_synced(ddp->model))
        return YK_OK;
    const yki_node *norm = yki_model_flat_norm(ddp->model);
    if (!norm)
        return YK_OK;
    YK_TRY(yki_samples_finish(ddp));
    ddp->samples_known = true;
    for (int rank = 0; rank < yk_group_size(ddp->group); rank++)
        all += ddp->all_samples[rank].samples;
    if (all >= 2)
        return YK_OK;
    return yki_error_context(yki_too_few_values((int64_t)all), "%s%s", norm->scope, norm->op->name);
}

yk_status yki_forward_sync_forward_begin(void *context, int64_t samples)
{
    yk_ddp *ddp = context;
    YK_TRY(yki_forward_sync_check(ddp));
    yki_group_note_batches(ddp->group);
    YK_TRY(yki_samples_finish(ddp)); /* of a forward whose backward never came */
    ddp->samples_known = false;
    if (ddp->join.on && !ddp->join.shadowing)
        YK_TRY(yki_join_meet(ddp, ddp->no_sync ? YKI_UNSYNCED : YKI_SYNCED));
    if (!ddp->no_sync)
        YK_TRY(yki_buffers_follow(ddp));
    ddp->buffers_moved = true;
    if (ddp->no_sync)
        return YK_OK;
    YK_TRY(yki_samples_start(ddp, samples));
    return check_variance(ddp, samples);
}
