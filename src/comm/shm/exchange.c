/*
 * The exchange at the start of every collective: each rank publishes one cache line and reads those
 * of the others. A line contains the descriptor of the call, which must be the same on all ranks,
 * the place of the data and, up to 32 bytes, the data itself. No rank continues before it has read
 * all lines. On a mismatch, all ranks therefore report the same error before any data has moved,
 * and the next collective starts in step.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/shm/shm.h"

enum { REGION_SHIFT = 40 }; /* offsets up to 1 TiB */

uint64_t yki_shm_placement(const shm_backend *shm, const void *data)
{
    const char *at = data;
    const shm_region *regions = shm->placed->regions;
    for (uint64_t i = shm->placed->region_count; i-- > 0;) {
        const char *base = regions[i].segments[shm->rank].memory;
        if (at >= base && at < base + regions[i].bytes)
            return (regions[i].id + 1) << REGION_SHIFT | (uint64_t)(at - base);
    }
    return 0;
}

void *yki_shm_locate(const shm_backend *shm, int rank, uint64_t placement)
{
    uint64_t region = placement >> REGION_SHIFT;
    uint64_t offset = placement & ((UINT64_C(1) << REGION_SHIFT) - 1);
    const shm_region *regions = shm->placed->regions;
    for (uint64_t i = shm->placed->region_count; region > 0 && i-- > 0;)
        if (regions[i].id == region - 1)
            return (char *)regions[i].segments[rank].memory + offset;
    return NULL;
}

const shm_line *yki_shm_line_of(const shm_backend *shm, int rank)
{
    return &shm->ranks[rank]->line[shm->ticket & 1];
}

void *yki_shm_placed(const shm_backend *shm, int rank)
{
    return yki_shm_locate(shm, rank, yki_shm_line_of(shm, rank)->placement);
}

static shm_counter *ticket_of(const shm_wait *wait, int rank)
{
    return &wait->shm->ranks[rank]->line[wait->slot].ticket;
}

bool yki_shm_out_of_step(yk_mismatch *mismatch, int rank_a, const yk_descriptor *what_a, int rank_b,
                         const yk_descriptor *what_b)
{
    *mismatch = (yk_mismatch){.rank_a = rank_a,
                              .rank_b = rank_b,
                              .what_a = *what_a,
                              .what_b = *what_b,
                              .out_of_step = true};
    return true;
}

/* Whether the peer waits for this rank in send or recv, while this rank waits for it here. */
static bool blocked_in_transfer(const shm_wait *wait, yk_mismatch *mismatch)
{
    shm_backend *shm = wait->shm;
    const yk_descriptor *mine = &wait->call->what;
    for (int r = 0; r < shm->world; r++) {
        shm_channel *in = &shm->ranks[r]->to[shm->rank], *out = &shm->me->to[r];
        uint32_t sent = atomic_load(&in->sent), wanted = atomic_load(&out->received);
        if (sent != shm->received[r])
            return yki_shm_out_of_step(mismatch, shm->rank, mine, r, &in->what[sent & 1]);
        if (wanted != shm->sent[r])
            return yki_shm_out_of_step(mismatch, shm->rank, mine, r, &out->wanted[wanted & 1]);
    }
    return false;
}

static bool same_descriptor(const yk_descriptor *a, const yk_descriptor *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Slow path: collects the descriptors of all ranks for yk_backend_compare. */
static yk_status disagreement(const shm_backend *shm, yk_backend_call *call)
{
    yk_descriptor *all = yki_calloc((size_t)shm->world, sizeof *all);
    if (!all)
        return yki_error_memory((size_t)shm->world * sizeof *all, "descriptors");
    for (int r = 0; r < shm->world; r++)
        all[r] = yki_shm_line_of(shm, r)->what;
    yk_status status = yk_backend_compare(call, all, shm->world);
    free(all);
    return status;
}

yk_status yki_shm_memory_freed(const shm_backend *shm, yk_backend_call *call, int owner)
{
    call->mismatch = (yk_mismatch){.rank_a = owner, .rank_b = shm->rank, .memory_freed = true};
    return YK_ERROR_MISMATCH;
}

/* Data that lies in a region is read there, so this rank must not have freed it. */
static yk_status check_regions(const shm_backend *shm, yk_backend_call *call)
{
    for (int r = 0; r < shm->world; r++)
        if (yki_shm_line_of(shm, r)->placement && !yki_shm_placed(shm, r))
            return yki_shm_memory_freed(shm, call, r);
    return YK_OK;
}

yk_status yki_shm_exchange(shm_backend *shm, yk_backend_call *call, const void *shared,
                           const void *data, size_t size)
{
    uint32_t ticket = ++shm->ticket;
    int slot = ticket & 1;
    shm_line *mine = &shm->me->line[slot];
    mine->what = call->what;
    mine->placement = shared ? yki_shm_placement(shm, shared) : 0;
    if (size)
        memcpy(mine->data, data, size);
    yki_shm_publish(shm, &mine->ticket, ticket);
    YK_TRY(yki_shm_wait_for(&(shm_wait){.shm = shm,
                                        .counter = ticket_of,
                                        .target = ticket,
                                        .only = -1,
                                        .slot = slot,
                                        .hopeless = blocked_in_transfer,
                                        .call = call}));
    for (int r = 0; r < shm->world; r++)
        if (!same_descriptor(&shm->ranks[r]->line[slot].what, &call->what))
            return disagreement(shm, call);
    return check_regions(shm, call);
}
