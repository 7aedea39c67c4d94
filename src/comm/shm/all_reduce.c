/*
 * All-reduce and reduce, in one of four ways, by size and place. They differ in who gets the
 * result: all ranks, or root alone.
 *
 *   up to 32 bytes     rides in the line of the exchange; whoever gets the result reduces all of it
 *   up to 8 KiB        the same with small[], published by the same exchange; buffers in shared
 *                      regions only up to 512 bytes, beyond which the copy costs more than a step
 *   in shared regions  each rank owns a slice: it reads it from all ranks' buffers where they lie
 *                      and writes the result to all that get it. One exchange before, one step
 *                      after; each byte is read and written once by each rank, no copies
 *   private buffers    in chunks through stage[]. Of two ranks, whoever gets the result reduces the
 *                      whole chunk to where it is wanted. With more, there are slices as above, and
 *                      the others' slices are copied in before and out after. A rank reads its own
 *                      data where it lies: stage[] is in the cache of whoever fetches it
 *
 * Every element is reduced in rank order by one rank or by all alike: bitwise equal everywhere.
 * The slices are those of the "reduce-scatter + all-gather" scheme (Rabenseifner 2004), with loads
 * and stores in place of messages.
 */
#include <assert.h>
#include <string.h>

#include "comm/engine/reduce.h"
#include "comm/shm/shm.h"

enum { COPIED = 512 }; /* bytes of a shared buffer that still go through small[] */

static bool gets_result(const yk_descriptor *what, int rank)
{
    return what->operation == YK_OPERATION_ALL_REDUCE || rank == what->root;
}

/* Rank r's part of count elements; starts at a cache line so that no two ranks write to one. */
static size_t slice_start(const shm_backend *shm, size_t count, size_t size, int rank)
{
    assert(shm->world > 0);
    size_t unit = SHM_LINE / size, units = (count + unit - 1) / unit;
    size_t start = units * (size_t)rank / (size_t)shm->world * unit;
    return start < count ? start : count;
}

/* Leaves in shm->to the buffers of those that get the result; returns their number. */
static int keep_targets(shm_backend *shm, const yk_descriptor *what)
{
    if (what->operation == YK_OPERATION_REDUCE) {
        shm->to[0] = shm->to[what->root];
        return 1;
    }
    /* The own copy last: it is the one that this core reads next. */
    void *mine = shm->to[shm->rank];
    shm->to[shm->rank] = shm->to[shm->world - 1];
    shm->to[shm->world - 1] = mine;
    return shm->world;
}

/* Reduces this rank's slice of the buffers that shm->to points to. */
static void reduce_own_slice(shm_backend *shm, const yk_descriptor *what, size_t count)
{
    size_t size = yk_dtype_size((yk_dtype)what->dtype);
    size_t start = slice_start(shm, count, size, shm->rank);
    size_t end = slice_start(shm, count, size, shm->rank + 1);
    for (int r = 0; r < shm->world; r++) {
        shm->to[r] = (char *)shm->to[r] + start * size;
        shm->from[r] = shm->to[r];
    }
    int copies = keep_targets(shm, what);
    yki_reduce_ranks(shm->to, copies, shm->from, shm->world, end - start, (yk_dtype)what->dtype,
                     (yk_reduce_op)what->reduce);
}

/* Where this rank gets the result. */
static void reduce_whole(shm_backend *shm, const yk_descriptor *what, void *out, size_t count)
{
    if (!gets_result(what, shm->rank))
        return;
    yki_reduce_ranks(&out, 1, shm->from, shm->world, count, (yk_dtype)what->dtype,
                     (yk_reduce_op)what->reduce);
}

/* Copies the slices of the other ranks. */
static void copy_others(const shm_backend *shm, void *to, const void *from, size_t count,
                        size_t size)
{
    size_t begin = slice_start(shm, count, size, shm->rank) * size;
    size_t end = slice_start(shm, count, size, shm->rank + 1) * size;
    memcpy(to, from, begin);
    memcpy((char *)to + end, (const char *)from + end, count * size - end);
}

/* A part of a private buffer that fits stage[]. */
typedef struct chunk {
    void *data;
    size_t count, size; /* elements, and of one the bytes */
    int half;           /* of stage[] */
} chunk;

static size_t most_of_chunk(const yk_descriptor *what)
{
    size_t size = yk_dtype_size((yk_dtype)what->dtype);
    assert(size > 0);
    return SHM_STAGE / size;
}

static chunk chunk_at(const shm_backend *shm, const yk_backend_call *call, size_t start)
{
    size_t size = yk_dtype_size((yk_dtype)call->what.dtype), most = most_of_chunk(&call->what);
    size_t left = call->what.count - start;
    assert(most > 0);
    return (chunk){.data = (char *)call->out + start * size,
                   .count = left < most ? left : most,
                   .size = size,
                   .half = (int)((shm->chunk + start / most) & 1)};
}

/* What other ranks read. */
static void copy_in(const shm_backend *shm, const yk_descriptor *what, const chunk *c)
{
    if (shm->world > 2)
        copy_others(shm, shm->me->stage[c->half], c->data, c->count, c->size);
    else if (gets_result(what, 1 - shm->rank))
        memcpy(shm->me->stage[c->half], c->data, c->count * c->size);
}

static void reduce_chunk(shm_backend *shm, const yk_descriptor *what, const chunk *c)
{
    for (int r = 0; r < shm->world; r++)
        shm->from[r] = shm->to[r] =
            r == shm->rank ? c->data : (void *)shm->ranks[r]->stage[c->half];
    if (shm->world == 2)
        reduce_whole(shm, what, c->data, c->count);
    else
        reduce_own_slice(shm, what, c->count);
}

/* One step a chunk: after it, all ranks have reduced one chunk and copied in the next. */
static yk_status reduce_private(shm_backend *shm, const yk_backend_call *call)
{
    bool slices = shm->world > 2;
    size_t start = 0;
    chunk now = chunk_at(shm, call, 0);
    copy_in(shm, &call->what, &now);
    YK_TRY(yki_shm_step(shm));
    for (bool more = true; more; start += now.count) {
        now = chunk_at(shm, call, start);
        more = start + now.count < call->what.count;
        reduce_chunk(shm, &call->what, &now);
        if (more) {
            chunk next = chunk_at(shm, call, start + now.count);
            copy_in(shm, &call->what, &next);
        }
        if (more || slices)
            YK_TRY(yki_shm_step(shm));
        if (slices && gets_result(&call->what, shm->rank))
            copy_others(shm, now.data, shm->me->stage[now.half], now.count, now.size);
    }
    size_t most = most_of_chunk(&call->what);
    assert(most > 0);
    shm->chunk += (uint32_t)((call->what.count + most - 1) / most);
    return YK_OK;
}

/* How many ranks' buffers are where all can reach them; then also where, in shm->to. */
static int find_shared(shm_backend *shm)
{
    int found = 0;
    for (int r = 0; r < shm->world; r++)
        found += (shm->to[r] = yki_shm_placed(shm, r)) != NULL;
    return found;
}

/* In the line of the exchange. */
static yk_status reduce_tiny(shm_backend *shm, yk_backend_call *call, size_t bytes)
{
    YK_TRY(yki_shm_exchange(shm, call, NULL, call->out, bytes));
    for (int r = 0; r < shm->world; r++)
        shm->from[r] = yki_shm_line_of(shm, r)->data;
    reduce_whole(shm, &call->what, call->out, call->what.count);
    return YK_OK;
}

yk_status yki_shm_reduce_in_place(shm_backend *shm, yk_backend_call *call)
{
    const yk_descriptor *what = &call->what;
    size_t bytes = what->count * yk_dtype_size((yk_dtype)what->dtype);
    if (bytes <= SHM_INLINE)
        return reduce_tiny(shm, call, bytes);
    assert(call->out);
    int slot = (shm->ticket + 1) & 1;
    bool small = bytes <= SHM_SMALL;
    const void *shared = bytes > COPIED && yki_shm_placement(shm, call->out) ? call->out : NULL;
    if (small && !shared)
        memcpy(shm->me->small[slot], call->out, bytes);
    YK_TRY(yki_shm_exchange(shm, call, shared, NULL, 0));
    int found = find_shared(shm);
    if (found == shm->world) {
        reduce_own_slice(shm, what, what->count);
        return yki_shm_step(shm);
    }
    if (!small || found > 0)
        return reduce_private(shm, call);
    for (int r = 0; r < shm->world; r++)
        shm->from[r] = shm->ranks[r]->small[slot];
    reduce_whole(shm, what, call->out, what->count);
    return YK_OK;
}
