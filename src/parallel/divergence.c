/*
 * Detects whether the ranks have diverged: each rank hashes its tensors, and the hashes are
 * compared.
 *
 * The hash has eight lanes, which take the words in turn: lane = (lane ^ word) * an odd number.
 * This maps lanes one to one, so tensors that differ in a single word never have the same hash;
 * others do with a probability of 2^-64. Eight lanes are enough to hash at the speed of memory.
 */
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parallel/ddp.h"

enum { LANES = 8 };

static uint64_t hash_tensor(const yk_tensor *tensor)
{
    uint64_t lane[LANES], word[LANES], hash = 0;
    const char *at = tensor->data;
    size_t bytes = yk_tensor_bytes(tensor);
    for (int i = 0; i < LANES; i++)
        lane[i] = yki_mix64((uint64_t)i + 1);
    for (; bytes > 0; at += sizeof word) {
        size_t take = bytes < sizeof word ? bytes : sizeof word;
        if (take < sizeof word)
            memset(word, 0, sizeof word);
        memcpy(word, at, take);
        for (int i = 0; i < LANES; i++)
            lane[i] = (lane[i] ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
        bytes -= take;
    }
    for (int i = 0; i < LANES; i++)
        hash = yki_mix64(hash ^ lane[i]);
    return hash;
}

/* Parameters first, then buffers. */
static yk_parameter_view tensor_at(const yk_ddp *ddp, size_t index)
{
    size_t parameters = yk_model_parameter_count(ddp->model);
    return index < parameters ? yk_model_parameter(ddp->model, index)
                              : yk_model_buffer(ddp->model, index - parameters);
}

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
                     tensor_at(ddp, first).name, apart, reference, differing, count);
}

yk_status yk_ddp_check_divergence(yk_ddp *ddp)
{
    YKI_NOT_NULL(ddp);
    size_t count = yk_model_parameter_count(ddp->model);
    if (ddp->options.broadcast_buffers)
        count += yk_model_buffer_count(ddp->model);
    size_t ranks = (size_t)yk_group_size(ddp->group);
    if (!ddp->hashes)
        ddp->hashes = yki_calloc((ranks + 1) * count, sizeof *ddp->hashes);
    if (!ddp->hashes)
        return yki_error_memory((ranks + 1) * count * sizeof *ddp->hashes, "hashes");
    YK_TRY(yki_buffers_follow(ddp));
    uint64_t *mine = ddp->hashes + ranks * count;
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < count; i++) {
        yk_tensor value = tensor_at(ddp, i).value;
        mine[i] = hash_tensor(&value);
    }
    YK_TRY(yk_all_gather(ddp->group, ddp->hashes, mine, count, YK_I64, NULL));
    return compare_hashes(ddp, ddp->hashes, count);
}
