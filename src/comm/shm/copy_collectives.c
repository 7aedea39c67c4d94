/*
 * Broadcast, all-gather, gather, scatter, all-to-all and reduce-scatter have one shape: some ranks
 * offer a window of bytes, then some ranks pull their part from the windows of the others.
 *
 *                      offers              pulls
 *   broadcast          root: count         the others, all of it
 *   all-gather         all: count          all, every window
 *   gather             all: count          root, every window
 *   scatter            root: world * count all, the piece of their rank
 *   all-to-all         all: world * count  all, the piece of their rank from every window
 *   reduce-scatter     all: world * count  all, the pieces of their rank, reduced in rank order
 *
 * A window of up to 8 KiB is sent with the exchange. One in a shared region is read in place, and a
 * step afterwards releases it. Other windows are copied through stage[] in chunks.
 */
#include <string.h>

#include "comm/engine/reduce.h"
#include "comm/shm/shm.h"

static bool has_pieces(const yk_descriptor *what)
{
    return what->operation == YK_OPERATION_SCATTER || what->operation == YK_OPERATION_ALL_TO_ALL ||
           what->operation == YK_OPERATION_REDUCE_SCATTER;
}

static bool offers(const yk_descriptor *what, int rank)
{
    bool root_only =
        what->operation == YK_OPERATION_BROADCAST || what->operation == YK_OPERATION_SCATTER;
    return !root_only || rank == what->root;
}

/*
 * Pulls n elements at `offset` of the result from windows in shm->from, whose pieces (if any) lie
 * `pitch` bytes apart.
 */
static void pull(shm_backend *shm, const yk_backend_call *call, size_t offset, size_t n,
                 size_t pitch)
{
    const yk_descriptor *what = &call->what;
    size_t size = yk_dtype_size((yk_dtype)what->dtype), piece = pitch * (size_t)shm->rank;
    const char *const *from = (const char *const *)shm->from;
    char *out = call->out;
    void *to = out + offset * size;
    switch ((yk_operation)what->operation) {
    case YK_OPERATION_BROADCAST:
        if (shm->rank != what->root)
            memcpy(to, from[what->root], n * size);
        break;
    case YK_OPERATION_GATHER:
        if (shm->rank != what->root)
            break; /* fallthrough */
    case YK_OPERATION_ALL_GATHER:
    case YK_OPERATION_ALL_TO_ALL_V:
        for (int r = 0; r < shm->world; r++) {
            char *part = out + ((size_t)r * what->count + offset) * size;
            if (part != from[r]) /* already in place */
                memmove(part, from[r], n * size);
        }
        break;
    case YK_OPERATION_SCATTER:
        memmove(to, from[what->root] + piece, n * size);
        break;
    case YK_OPERATION_ALL_TO_ALL:
        for (int r = 0; r < shm->world; r++)
            memcpy(out + ((size_t)r * what->count + offset) * size, from[r] + piece, n * size);
        break;
    default: /* reduce-scatter */
        for (int r = 0; r < shm->world; r++)
            shm->from[r] = from[r] + piece;
        yki_reduce_ranks(&to, 1, shm->from, shm->world, n, (yk_dtype)what->dtype,
                         (yk_reduce_op)what->reduce);
    }
}

/* Copies n elements at `offset` of what this rank offers, of every piece, into a window. */
static void fill_window(const shm_backend *shm, const yk_backend_call *call, char *window,
                        size_t offset, size_t n)
{
    size_t size = yk_dtype_size((yk_dtype)call->what.dtype);
    size_t pieces = has_pieces(&call->what) ? (size_t)shm->world : 1;
    const char *in = call->in;
    for (size_t d = 0; d < pieces; d++)
        memcpy(window + d * n * size, in + (d * call->what.count + offset) * size, n * size);
}

static yk_status pull_staged(shm_backend *shm, yk_backend_call *call)
{
    size_t size = yk_dtype_size((yk_dtype)call->what.dtype);
    size_t pieces = has_pieces(&call->what) ? (size_t)shm->world : 1;
    size_t chunk = SHM_STAGE / (pieces * size);
    for (size_t done = 0; done < call->what.count; done += chunk) {
        size_t n = call->what.count - done < chunk ? call->what.count - done : chunk;
        int half = shm->chunk++ & 1;
        if (offers(&call->what, shm->rank))
            fill_window(shm, call, (char *)shm->me->stage[half], done, n);
        YK_TRY(yki_shm_step(shm));
        for (int r = 0; r < shm->world; r++)
            shm->from[r] = shm->ranks[r]->stage[half];
        pull(shm, call, done, n, n * size);
    }
    return YK_OK;
}

static yk_status pull_small(shm_backend *shm, yk_backend_call *call)
{
    size_t size = yk_dtype_size((yk_dtype)call->what.dtype), count = call->what.count;
    int slot = (shm->ticket + 1) & 1;
    if (offers(&call->what, shm->rank))
        fill_window(shm, call, (char *)shm->me->small[slot], 0, count);
    YK_TRY(yki_shm_exchange(shm, call, NULL, NULL, 0));
    for (int r = 0; r < shm->world; r++)
        shm->from[r] = shm->ranks[r]->small[slot];
    pull(shm, call, 0, count, count * size);
    return YK_OK;
}

static yk_status pull_large(shm_backend *shm, yk_backend_call *call)
{
    size_t pitch = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    bool mine = offers(&call->what, shm->rank), shared = true;
    YK_TRY(yki_shm_exchange(shm, call, mine ? call->in : NULL, NULL, 0));
    for (int r = 0; r < shm->world; r++) {
        shm->from[r] = yki_shm_placed(shm, r);
        shared = shared && (shm->from[r] || !offers(&call->what, r));
    }
    if (!shared)
        return pull_staged(shm, call);
    pull(shm, call, 0, call->what.count, pitch);
    return yki_shm_step(shm);
}

yk_status yki_shm_collective(shm_backend *shm, yk_backend_call *call)
{
    if (call->what.operation == YK_OPERATION_BARRIER || call->what.invalid || call->compare_only)
        return yki_shm_exchange(shm, call, NULL, NULL, 0);
    if (call->what.operation == YK_OPERATION_ALL_REDUCE ||
        call->what.operation == YK_OPERATION_REDUCE)
        return yki_shm_reduce_in_place(shm, call);
    size_t window = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    if (has_pieces(&call->what))
        window *= (size_t)shm->world;
    return window <= SHM_SMALL ? pull_small(shm, call) : pull_large(shm, call);
}
