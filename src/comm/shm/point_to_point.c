/*
 * send and recv: each pair of ranks has a channel in each direction. The sender announces a message
 * and waits for the receiver's call. Both then compare the two calls, and data moves only if they
 * match. Data in a shared region is read in place; other data goes through the two halves of the
 * sender's outbox. send returns when the receiver has everything.
 */
#include <string.h>

#include "comm/shm/shm.h"

static shm_channel *awaited_channel(const shm_wait *wait)
{
    shm_backend *shm = wait->shm;
    return wait->call->what.operation == YK_OPERATION_SEND ? &shm->me->to[wait->only]
                                                           : &shm->ranks[wait->only]->to[shm->rank];
}

/* The counters of the channel in use, one function for each kind of wait. */
static shm_counter *sent_of(const shm_wait *wait, int rank)
{
    (void)rank;
    return &awaited_channel(wait)->sent;
}

static shm_counter *received_of(const shm_wait *wait, int rank)
{
    (void)rank;
    return &awaited_channel(wait)->received;
}

static shm_counter *filled_of(const shm_wait *wait, int rank)
{
    (void)rank;
    return &awaited_channel(wait)->filled;
}

static shm_counter *drained_of(const shm_wait *wait, int rank)
{
    (void)rank;
    return &awaited_channel(wait)->drained;
}

/* The peer is in a collective that cannot end without this rank, which waits for the peer. */
static bool blocked_in_collective(const shm_wait *wait)
{
    shm_backend *shm = wait->shm;
    uint32_t next = shm->ticket + 1;
    shm_line *line = &shm->ranks[wait->only]->line[next & 1];
    if (atomic_load(&line->ticket) != next)
        return false;
    return yki_shm_out_of_step(wait->call, shm->rank, &wait->call->what, wait->only, &line->what);
}

static yk_status await(shm_backend *shm, yk_backend_call *call,
                       shm_counter *(*counter)(const shm_wait *, int), uint32_t target)
{
    return yki_shm_wait_for(&(shm_wait){.shm = shm,
                                        .counter = counter,
                                        .target = target,
                                        .only = call->what.root,
                                        .hopeless = blocked_in_collective,
                                        .call = call});
}

static yk_status send_message(shm_backend *shm, yk_backend_call *call)
{
    int to = call->what.root;
    shm_channel *channel = &shm->me->to[to];
    uint32_t message = ++shm->sent[to];
    channel->what[message & 1] = call->what;
    channel->placement[message & 1] = yki_shm_placement(shm, call->in);
    bool shared = channel->placement[message & 1] != 0;
    yki_shm_publish(shm, &channel->sent, message);
    YK_TRY(await(shm, call, received_of, message));
    YK_TRY(yk_backend_compare_messages(call, shm->rank, &call->what, to,
                                       &channel->wanted[message & 1]));

    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    size_t chunk = shared ? bytes : SHM_OUTBOX / 2;
    for (size_t done = 0; done < bytes; done += chunk) {
        size_t n = bytes - done < chunk ? bytes - done : chunk;
        uint32_t number = ++shm->filled[to];
        YK_TRY(await(shm, call, drained_of, number - 2)); /* until this half is free again */
        if (!shared)
            memcpy(shm->me->outbox[number & 1], (const char *)call->in + done, n);
        yki_shm_publish(shm, &channel->filled, number);
    }
    return await(shm, call, drained_of, shm->filled[to]);
}

static yk_status receive_message(shm_backend *shm, yk_backend_call *call)
{
    int from = call->what.root;
    shm_channel *channel = &shm->ranks[from]->to[shm->rank];
    uint32_t message = ++shm->received[from];
    channel->wanted[message & 1] = call->what;
    yki_shm_publish(shm, &channel->received, message);
    YK_TRY(await(shm, call, sent_of, message));
    YK_TRY(yk_backend_compare_messages(call, from, &channel->what[message & 1], shm->rank,
                                       &call->what));

    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    uint64_t placement = channel->placement[message & 1];
    const void *shared = yki_shm_locate(shm, from, placement);
    if (placement && !shared)
        return yki_shm_memory_freed(shm, call, from);
    size_t chunk = shared ? bytes : SHM_OUTBOX / 2;
    for (size_t done = 0; done < bytes; done += chunk) {
        size_t n = bytes - done < chunk ? bytes - done : chunk;
        uint32_t number = ++shm->drained[from];
        YK_TRY(await(shm, call, filled_of, number));
        memcpy((char *)call->out + done, shared ? shared : shm->ranks[from]->outbox[number & 1], n);
        yki_shm_publish(shm, &channel->drained, number);
    }
    return YK_OK;
}

yk_status yki_shm_transfer(shm_backend *shm, yk_backend_call *call)
{
    return call->what.operation == YK_OPERATION_SEND ? send_message(shm, call)
                                                     : receive_message(shm, call);
}
