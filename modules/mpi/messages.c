/* Messages between two ranks: all of a call are under way at once. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "mpi_engine.h"

enum { MOST_AHEAD = 16 }; /* messages from or to a rank that are under way at once */

/* How long a receive that was taken back may take to end. */
#define WITHDRAWAL_S 0.5

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_sent(const yk_backend_message *message)
{
    return message->what.operation == YK_OPERATION_SEND;
}

/* The callers get their buffers back: takes back the receives into them. One whose data is already
 * coming cannot be taken back and ends with it. */
static void withdraw(mpi_engine *engine, const yk_backend_call *call)
{
    const double until = mpi_now() + WITHDRAWAL_S;
    for (size_t i = 0; i < call->message_count; i++) {
        MPI_Request *request = &engine->transfers[i].moved;
        int done = 0;
        if (is_sent(&call->messages[i]) || *request == MPI_REQUEST_NULL ||
            MPI_Cancel(request) != MPI_SUCCESS)
            continue;
        while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
               mpi_now() < until)
            sched_yield();
    }
}

/* Tells the other rank what this one calls, unless both know it. */
static yk_status announce(mpi_engine *engine, const yk_backend_call *call, mpi_transfer *t)
{
    bool sends = is_sent(t->message);
    int other = t->message->what.root, size = sizeof(yk_descriptor);
    if (call->matched)
        return YK_OK;
    TRY_MPI(MPI_Irecv(&t->theirs, size, MPI_BYTE, other, sends ? TAG_WANTED : TAG_SENT,
                      engine->comm, &t->heard));
    TRY_MPI(MPI_Isend(&t->mine, size, MPI_BYTE, other, sends ? TAG_SENT : TAG_WANTED, engine->comm,
                      &t->told));
    return YK_OK;
}

/* One that does not match moves no data. */
static yk_status compare(mpi_engine *engine, yk_backend_call *call, mpi_transfer *t)
{
    int told, heard = 0, me = engine->common.rank, other = t->message->what.root;
    TRY_MPI(MPI_Test(&t->told, &told, MPI_STATUS_IGNORE));
    if (told)
        TRY_MPI(MPI_Test(&t->heard, &heard, MPI_STATUS_IGNORE));
    if (!heard)
        return YK_OK;
    yk_status status = is_sent(t->message)
                           ? yk_backend_compare_messages(call, me, &t->mine, other, &t->theirs)
                           : yk_backend_compare_messages(call, other, &t->theirs, me, &t->mine);
    t->compared = true;
    t->left = status == YK_OK ? t->left : 0;
    return YK_OK;
}

/* Begins to move the data, part by part. *begun tells whether the last part is under way. */
static yk_status move(mpi_engine *engine, mpi_transfer *t, bool *begun)
{
    const yk_descriptor *what = &t->message->what;
    yk_dtype dtype = (yk_dtype)what->dtype;
    int moved = 1;
    while (t->left > 0) {
        TRY_MPI(MPI_Test(&t->moved, &moved, MPI_STATUS_IGNORE));
        if (!moved)
            break;
        mpi_next_span(&t->part, &t->left, engine->largest, yk_dtype_size(dtype));
        char *data = (char *)t->message->data + t->part.start;
        if (is_sent(t->message))
            TRY_MPI(MPI_Isend(data, t->part.count, mpi_type_of(dtype), what->root, TAG_DATA,
                              engine->comm, &t->moved));
        else
            TRY_MPI(MPI_Irecv(data, t->part.count, mpi_type_of(dtype), what->root, TAG_DATA,
                              engine->comm, &t->moved));
    }
    *begun = t->left == 0;
    return YK_OK;
}

/* ---- all messages of a call ------------------------------------------------------------------ */

/* Each channel's messages, in their order. All channels were empty before. */
static void line_up(mpi_engine *engine, const yk_backend_call *call)
{
    engine->busy = NULL;
    for (size_t i = 0; i < call->message_count; i++) {
        const yk_backend_message *message = &call->messages[i];
        mpi_transfer *t = &engine->transfers[i];
        mpi_channel *channel = &engine->channels[2 * message->what.root + is_sent(message)];
        *t = (mpi_transfer){.message = message,
                            .mine = message->what,
                            .told = MPI_REQUEST_NULL,
                            .heard = MPI_REQUEST_NULL,
                            .moved = MPI_REQUEST_NULL,
                            .compared = call->matched,
                            .left = message->what.count};
        if (channel->first) {
            channel->last->next = t;
        } else {
            *channel = (mpi_channel){.next = engine->busy, .first = t, .idle = t, .unannounced = t};
            engine->busy = channel;
        }
        channel->last = t;
    }
}

/*
 * The data of a channel's messages is under way in their order, so that MPI sees it in the same
 * order on both ranks. Only a few messages are announced before their turn, because MPI looks
 * through what it has been given.
 */
static yk_status advance_channel(mpi_engine *engine, yk_backend_call *call, mpi_channel *channel,
                                 bool *moved)
{
    for (; channel->unannounced && channel->ahead < MOST_AHEAD; channel->ahead++) {
        TRY(announce(engine, call, channel->unannounced));
        channel->unannounced = channel->unannounced->next;
    }
    for (mpi_transfer *t; (t = channel->idle) != channel->unannounced; channel->idle = t->next) {
        bool begun = false;
        if (!t->compared)
            TRY(compare(engine, call, t));
        if (t->compared)
            TRY(move(engine, t, &begun));
        if (!begun)
            break;
        *moved = true;
    }
    for (mpi_transfer *t; (t = channel->first) != channel->idle; channel->first = t->next) {
        int over;
        TRY_MPI(MPI_Test(&t->moved, &over, MPI_STATUS_IGNORE));
        if (!over)
            break;
        channel->ahead--;
        *moved = true;
    }
    return YK_OK;
}

/* Keeps the channels in which not all messages are over. */
static yk_status advance_all(mpi_engine *engine, yk_backend_call *call, bool *moved)
{
    *moved = false;
    for (mpi_channel **at = &engine->busy; *at;) {
        TRY(advance_channel(engine, call, *at, moved));
        if ((*at)->first)
            at = &(*at)->next;
        else
            *at = (*at)->next;
    }
    return YK_OK;
}

static yk_status finish_messages(mpi_engine *engine, yk_backend_call *call)
{
    mpi_pauses waits = {.background = call->background};
    for (bool moved;;) {
        TRY(advance_all(engine, call, &moved));
        if (!engine->busy)
            return YK_OK;
        if (atomic_load_explicit(&engine->cancelled, memory_order_relaxed))
            return yk_set_error(YK_ERROR_NETWORK, "the call was cancelled");
        if (moved)
            waits = (mpi_pauses){.background = call->background};
        mpi_pause(&waits);
    }
}

static yk_status make_room(mpi_engine *engine, size_t count)
{
    if (count <= engine->transfer_room)
        return YK_OK;
    free(engine->transfers);
    engine->transfers = calloc(count, sizeof *engine->transfers);
    engine->transfer_room = engine->transfers ? count : 0;
    return engine->transfers ? YK_OK
                             : yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for messages");
}

/* All are under way at once. */
yk_status mpi_engine_messages(yki_engine_base *common, yk_backend_call *call)
{
    mpi_engine *engine = (mpi_engine *)common;
    TRY(mpi_engine_check_usable(engine));
    TRY(make_room(engine, call->message_count));
    engine->pending = 1;
    line_up(engine, call);
    yk_status status = finish_messages(engine, call);
    if (status != YK_OK) {
        withdraw(engine, call);
        return status;
    }
    engine->pending = 0;
    bool matched = call->mismatch.rank_a == call->mismatch.rank_b;
    return matched ? YK_OK : YK_ERROR_MISMATCH;
}
