/*
 * Messages: each pair of ranks has a channel in each direction, through which messages pass one
 * after the other. The sender announces a message, and the receiver says that it has come for it.
 * Both then compare the two calls, and data moves only if they match. Data in a shared region is
 * read in place; other data goes through the halves of the sender's outbox, in chunks. A sender is
 * done when the receiver has everything.
 *
 * The messages of a call are under way at the same time: each is advanced as far as it can be, and
 * when none can, the rank waits for its bell, which the others ring whenever they have changed a
 * channel. All channels of a sender share its outbox. A chunk is only filled for a receiver that
 * has come, and which therefore drains it whatever else it waits for, so no message holds up
 * another.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/shm/shm.h"

/* ---- one message ----------------------------------------------------------------------------- */

static void tell(shm_backend *shm, int rank, shm_counter *counter, uint32_t value)
{
    atomic_store_explicit(counter, value, memory_order_release);
    yki_shm_ring(shm, rank);
}

/* One that does not match is over. */
static yk_status match(shm_transfer *t, yk_status compared)
{
    t->matched = true;
    t->over = compared != YK_OK;
    return compared;
}

static void announce_send(shm_backend *shm, shm_transfer *t)
{
    const yk_backend_message *message = t->message;
    int to = message->what.root;
    shm_channel *channel = &shm->me->to[to];
    t->announced = true;
    t->number = ++shm->sent[to];
    channel->what[t->number & 1] = message->what;
    channel->placement[t->number & 1] = yki_shm_placement(shm, message->data);
    t->shared = channel->placement[t->number & 1] != 0;
    tell(shm, to, &channel->sent, t->number);
}

/* A half of the outbox that has been drained, or -1. */
static int find_half(const shm_backend *shm)
{
    for (int i = 0; i < 2; i++) {
        const shm_half *half = &shm->half[i];
        if (half->to < 0 || yki_shm_reached(&shm->me->to[half->to].drained, half->chunk))
            return i;
    }
    return -1;
}

/* Fills the next chunk, of at most `left` bytes; returns how many, or 0 if there is no room. */
static size_t fill_chunk(shm_backend *shm, int to, const char *from, size_t left)
{
    int half = find_half(shm);
    if (half < 0)
        return 0;
    size_t n = left < SHM_OUTBOX / 2 ? left : SHM_OUTBOX / 2;
    uint32_t chunk = ++shm->filled[to];
    shm->half[half] = (shm_half){.to = to, .chunk = chunk};
    shm->me->to[to].half[chunk & 1] = (uint32_t)half;
    memcpy(shm->me->outbox[half], from, n);
    tell(shm, to, &shm->me->to[to].filled, chunk);
    return n;
}

/* All chunks for that rank have been drained. */
static void release_halves(shm_backend *shm, int to)
{
    for (int i = 0; i < 2; i++)
        if (shm->half[i].to == to)
            shm->half[i].to = -1;
}

/* This and advance_receive set *moved if anything has changed. With a mismatch the message is over;
 * after any other error the group has failed. */
static yk_status advance_send(shm_backend *shm, yk_backend_call *call, shm_transfer *t, bool *moved)
{
    const yk_backend_message *message = t->message;
    int to = message->what.root;
    shm_channel *channel = &shm->me->to[to];
    size_t bytes = yki_descriptor_bytes(&message->what);
    if (!t->announced)
        announce_send(shm, t);
    if (!t->matched) {
        if (!yki_shm_reached(&channel->received, t->number))
            return YK_OK;
        *moved = true;
        YK_TRY(match(t, yk_backend_compare_messages(call, shm->rank, &message->what, to,
                                                    &channel->wanted[t->number & 1])));
        if (t->shared && bytes > 0) {
            tell(shm, to, &channel->filled, ++shm->filled[to]);
            t->done = bytes;
        }
    }
    for (size_t n = 1; t->done < bytes && n > 0; t->done += n) {
        n = fill_chunk(shm, to, (const char *)message->data + t->done, bytes - t->done);
        *moved = *moved || n > 0;
    }
    if (t->done < bytes || !yki_shm_reached(&channel->drained, shm->filled[to]))
        return YK_OK;
    release_halves(shm, to);
    t->over = *moved = true;
    return YK_OK;
}

static void announce_receive(shm_backend *shm, shm_transfer *t)
{
    const yk_backend_message *message = t->message;
    int from = message->what.root;
    shm_channel *channel = &shm->ranks[from]->to[shm->rank];
    t->announced = true;
    t->number = ++shm->received[from];
    channel->wanted[t->number & 1] = message->what;
    tell(shm, from, &channel->received, t->number);
}

static void take_chunk(shm_backend *shm, int from, const void *place, char *to, size_t n)
{
    shm_channel *channel = &shm->ranks[from]->to[shm->rank];
    uint32_t chunk = ++shm->drained[from];
    memcpy(to, place ? place : shm->ranks[from]->outbox[channel->half[chunk & 1]], n);
    tell(shm, from, &channel->drained, chunk);
}

static yk_status advance_receive(shm_backend *shm, yk_backend_call *call, shm_transfer *t,
                                 bool *moved)
{
    const yk_backend_message *message = t->message;
    int from = message->what.root;
    shm_channel *channel = &shm->ranks[from]->to[shm->rank];
    size_t bytes = yki_descriptor_bytes(&message->what);
    if (!t->announced)
        announce_receive(shm, t);
    if (!yki_shm_reached(&channel->sent, t->number))
        return YK_OK;
    if (!t->matched) {
        *moved = true;
        YK_TRY(match(t, yk_backend_compare_messages(call, from, &channel->what[t->number & 1],
                                                    shm->rank, &message->what)));
    }
    uint64_t placement = channel->placement[t->number & 1];
    const void *place = yki_shm_locate(shm, from, placement);
    if (placement && !place)
        return yki_shm_memory_freed(shm, call, from);
    while (t->done < bytes && yki_shm_reached(&channel->filled, shm->drained[from] + 1)) {
        size_t left = bytes - t->done, most = place ? left : SHM_OUTBOX / 2;
        size_t n = left < most ? left : most;
        take_chunk(shm, from, place, (char *)message->data + t->done, n);
        t->done += n;
        *moved = true;
    }
    t->over = t->done == bytes;
    return YK_OK;
}

/* ---- all messages of a call ------------------------------------------------------------------ */

static bool is_send(const shm_transfer *t)
{
    return t->message->what.operation == YK_OPERATION_SEND;
}

/* Each channel's messages, in their order. */
static void line_up(shm_backend *shm, const yk_backend_call *call)
{
    memset(shm->last, 0, 2 * (size_t)shm->world * sizeof(shm_transfer *));
    shm->first_count = 0;
    for (size_t i = 0; i < call->message_count; i++) {
        shm_transfer *t = &shm->transfers[i];
        *t = (shm_transfer){.message = &call->messages[i]};
        shm_transfer **last = &shm->last[2 * t->message->what.root + is_send(t)];
        if (*last)
            (*last)->next = t;
        else
            shm->first[shm->first_count++] = t;
        *last = t;
    }
}

/* Advances the messages of a channel until one is not over, which becomes *first; NULL: all are. */
static yk_status advance_channel(shm_backend *shm, yk_backend_call *call, shm_transfer **first,
                                 bool *moved)
{
    for (shm_transfer *t; (t = *first); *first = t->next) {
        yk_status status =
            is_send(t) ? advance_send(shm, call, t, moved) : advance_receive(shm, call, t, moved);
        if (!t->over)
            return status;
    }
    return YK_OK;
}

/* Keeps the channels in which not all messages are over. */
static yk_status advance_all(shm_backend *shm, yk_backend_call *call, bool *moved)
{
    int kept = 0;
    *moved = false;
    for (int i = 0; i < shm->first_count; i++) {
        YK_TRY(advance_channel(shm, call, &shm->first[i], moved));
        if (shm->first[i])
            shm->first[kept++] = shm->first[i];
    }
    shm->first_count = kept;
    return YK_OK;
}

static bool is_missing(const shm_wait *wait, int rank)
{
    for (int i = 0; i < wait->shm->first_count; i++)
        if (wait->shm->first[i]->message->what.root == rank)
            return true;
    return false;
}

/* A peer is in a collective that cannot end without this rank, which waits for the peer. */
static bool blocked_in_collective(const shm_wait *wait, yk_mismatch *mismatch)
{
    shm_backend *shm = wait->shm;
    uint32_t next = shm->ticket + 1;
    for (int i = 0; i < shm->first_count; i++) {
        const yk_descriptor *what = &shm->first[i]->message->what;
        shm_line *line = &shm->ranks[what->root]->line[next & 1];
        if (atomic_load(&line->ticket) == next)
            return yki_shm_out_of_step(mismatch, shm->rank, what, what->root, &line->what);
    }
    return false;
}

static shm_counter *bell_of(const shm_wait *wait, int rank)
{
    return &wait->shm->ranks[rank]->bell;
}

/* Until the bell is rung once more than `heard` says. */
static yk_status await_bell(shm_backend *shm, yk_backend_call *call, uint32_t heard)
{
    return yki_shm_wait_for(&(shm_wait){.shm = shm,
                                        .counter = bell_of,
                                        .target = heard + 1,
                                        .only = shm->rank,
                                        .hopeless = blocked_in_collective,
                                        .missing = is_missing,
                                        .call = call});
}

static yk_status make_room(shm_backend *shm, size_t count)
{
    if (count > shm->transfer_room) {
        free(shm->transfers);
        shm->transfers = yki_calloc(count, sizeof *shm->transfers);
        shm->transfer_room = shm->transfers ? count : 0;
    }
    if (count > shm->transfer_room)
        return yki_error_memory(count * sizeof *shm->transfers, "messages");
    return YK_OK;
}

yk_status yki_shm_transfer(shm_backend *shm, yk_backend_call *call)
{
    YK_TRY(make_room(shm, call->message_count));
    line_up(shm, call);
    for (bool moved = true; shm->first_count > 0;) {
        uint32_t heard = atomic_load(&shm->me->bell);
        YK_TRY(advance_all(shm, call, &moved));
        if (shm->first_count > 0 && !moved)
            YK_TRY(await_bell(shm, call, heard));
    }
    bool matched = call->mismatch.rank_a == call->mismatch.rank_b;
    return matched ? YK_OK : YK_ERROR_MISMATCH;
}
