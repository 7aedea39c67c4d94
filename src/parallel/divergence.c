/*
 * Detects whether the ranks have diverged: each rank hashes its tensors where they lie, in one
 * sweep, and the hashes are compared. Tensors that differ in a single word never have the same
 * hash; others do with a probability of 2^-64.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_internal.h"
#include "parallel/ddp.h"

/* Returns a rank with the most common hash of the tensor; in a tie, the lowest such rank. */
static int find_reference(const uint64_t *hashes, size_t stride, int ranks)
{
    int reference = 0, most = 0;
    for (int candidate = 0; candidate < ranks; candidate++) {
        int holders = 0;
        for (int rank = 0; rank < ranks; rank++)
            holders += hashes[stride * (size_t)rank] == hashes[stride * (size_t)candidate];
        if (holders > most) {
            most = holders;
            reference = candidate;
        }
    }
    return reference;
}

/* Returns a rank whose hash of the tensor differs from the reference's, or -1. */
static int find_apart(const uint64_t *hashes, size_t stride, int ranks, int *reference)
{
    *reference = find_reference(hashes, stride, ranks);
    for (int rank = 0; rank < ranks; rank++)
        if (hashes[stride * (size_t)rank] != hashes[stride * (size_t)*reference])
            return rank;
    return -1;
}

/* hashes: (ranks, count). */
static yk_status compare_hashes(const yk_ddp *ddp, const uint64_t *hashes, size_t count)
{
    int ranks = yk_group_size(ddp->group), apart = -1, reference = 0;
    size_t first = 0, differing = 0;
    for (size_t i = 0; i < count; i++) {
        int other, rank = find_apart(hashes + i, count, ranks, &other);
        if (rank < 0)
            continue;
        if (differing++ == 0) {
            first = i;
            apart = rank;
            reference = other;
        }
    }
    if (differing == 0)
        return YK_OK;
    return yki_error(YK_ERROR_MISMATCH,
                     "ranks have diverged: %s of rank %d differs from rank %d's (%zu of %zu "
                     "tensors differ)",
                     yki_model_entry(ddp->model, first).name, yki_group_job_rank(ddp->group, apart),
                     yki_group_job_rank(ddp->group, reference), differing, count);
}

static size_t tensor_count(const yk_ddp *ddp)
{
    return ddp->options.broadcast_buffers ? yki_model_entry_count(ddp->model)
                                          : yk_model_parameter_count(ddp->model);
}

/* When the check first runs. */
static yk_status prepare_hashes(yk_ddp *ddp)
{
    size_t count = tensor_count(ddp), rows = (size_t)yk_group_size(ddp->group) + 1;
    yki_device *device = yki_model_device(ddp->model);
    if (!ddp->hashes)
        ddp->hashes = yki_calloc(rows * count, sizeof *ddp->hashes);
    yki_span *spans = yki_calloc(count, sizeof *spans);
    yk_status status = YK_OK;
    if (!ddp->hashes || !spans)
        status = yki_error_memory(rows * count * sizeof *ddp->hashes, "hashes");
    for (size_t i = 0; status == YK_OK && i < count; i++) {
        yk_tensor value = yki_model_entry(ddp->model, i).value;
        spans[i] = (yki_span){.dtype = value.dtype, .count = yk_tensor_count(&value)};
    }
    if (status == YK_OK && !ddp->hash_results)
        status = yki_device_alloc(device, count * sizeof *ddp->hashes, &ddp->hash_results);
    if (status == YK_OK)
        status = yki_sweep_create(&ddp->hash, device, spans, count);
    free(spans);
    return status;
}

void yki_divergence_destroy(yk_ddp *ddp)
{
    yki_sweep_destroy(ddp->hash);
    yki_device_free(yki_model_device(ddp->model), ddp->hash_results,
                    tensor_count(ddp) * sizeof *ddp->hashes);
    free(ddp->hashes);
}

/* This rank's hashes. */
static yk_status hash_tensors(yk_ddp *ddp, uint64_t *mine)
{
    yki_device *device = yki_model_device(ddp->model);
    yki_stream *stream = yki_device_stream(device);
    size_t count = tensor_count(ddp);
    for (size_t i = 0; i < count; i++)
        yki_sweep_move(ddp->hash, i, 0, yki_model_entry(ddp->model, i).value.data);
    YK_TRY(yki_sweep_run(ddp->hash, YKI_SWEEP_HASH, NULL, ddp->hash_results, stream));
    YK_TRY(yki_device_copy(device, mine, ddp->hash_results, count * sizeof *mine, YKI_TO_HOST,
                           stream));
    return yki_stream_wait(device, stream);
}

static yk_status check_divergence(yk_ddp *ddp)
{
    size_t count = tensor_count(ddp), ranks = (size_t)yk_group_size(ddp->group);
    if (!ddp->hash)
        YK_TRY(prepare_hashes(ddp));
    YK_TRY(yki_buffers_follow(ddp));
    uint64_t *mine = ddp->hashes + ranks * count;
    YK_TRY(hash_tensors(ddp, mine));
    YK_TRY(yk_all_gather(ddp->group, ddp->hashes, mine, count, YK_I64, NULL));
    return compare_hashes(ddp, ddp->hashes, count);
}

yk_status yk_ddp_check_divergence(yk_ddp *ddp)
{
    YKI_NOT_NULL(ddp);
    yki_joint joint = yki_joint_begin(ddp->group);
    return yki_joint_end(&joint, check_divergence(ddp));
}
