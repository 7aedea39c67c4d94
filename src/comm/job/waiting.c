#include "comm/job/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define TELL_AGAIN_S 1.0
#define SURE_S       1.0 /* how long two calls must have waited for each other, without any change */

enum { TEXT = YKI_WORDS + 96 };

typedef struct entry {
    unsigned long long sequence;
    int operation, peer;
    char words[YKI_WORDS];
} entry;

static bool is_message(int operation)
{
    return operation >= YK_OPERATION_SEND;
}

static int write_entry(char text[TEXT], const yki_job *job, const yki_waiting *waiting)
{
    char words[YKI_WORDS];
    const yk_descriptor *what = &waiting->what;
    yki_describe(words, job, what);
    return snprintf(text, TEXT, "%llu %.0f %d %d %s", (unsigned long long)waiting->sequence,
                    yki_now() - waiting->since, what->operation,
                    is_message(what->operation) ? what->root : 0, words);
}

static yk_status set_key(const yki_job *job, const char *name, const void *value, size_t size)
{
    char key[YKI_JOB_KEY];
    yki_job_key(job, key, sizeof key, name, job->rank);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_set(job->store, key, value, size);
    yki_fair_lock_release(job->lock);
    return status;
}

yk_status yki_messages_publish(const yki_job *job, const _Atomic uint64_t *messages)
{
    size_t count = 2 * (size_t)job->world;
    uint64_t any = 0, *copy = yki_calloc(count, sizeof *copy);
    if (!copy)
        return yki_error_memory(count * sizeof *copy, "the numbers of messages");
    for (size_t i = 0; i < count; i++)
        any |= copy[i] = atomic_load(&messages[i]);
    yk_status status = any ? set_key(job, "messages", copy, count * sizeof *copy) : YK_OK;
    free(copy);
    return status;
}

yk_status yki_messages_read(const yki_job *job, int other, uint64_t *sent, uint64_t *received)
{
    char key[YKI_JOB_KEY];
    size_t world = (size_t)job->world, used;
    uint64_t *theirs = yki_calloc(2 * world, sizeof *theirs);
    *sent = *received = 0;
    if (!theirs)
        return yki_error_memory(2 * world * sizeof *theirs, "the numbers of messages");
    yki_job_key(job, key, sizeof key, "messages", other);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_get(job->store, key, theirs, 2 * world * sizeof *theirs, &used, 0);
    yki_fair_lock_release(job->lock);
    *sent = theirs[job->rank];
    *received = theirs[world + (size_t)job->rank];
    free(theirs);
    return status == YK_ERROR_TIMEOUT ? YK_OK : status;
}

/* The messages come first, so that whoever reads the entry finds those that belong to it. They are
 * the same as long as the call is. */
static void publish(const yki_job *job, const yki_waiting *waiting, bool again)
{
    char text[TEXT];
    if (again || is_message(waiting->what.operation) ||
        yki_messages_publish(job, waiting->messages) == YK_OK)
        set_key(job, "waiting", text, (size_t)write_entry(text, job, waiting));
}

void yki_waiting_publish(const yki_job *job, yki_waiting_state *state, const yki_waiting *now)
{
    char key[YKI_JOB_KEY];
    yki_waiting *published = &state->published;
    bool same = published->active == now->active && published->sequence == now->sequence &&
                published->what.operation == now->what.operation;
    if ((same && yki_now() - state->told < TELL_AGAIN_S) || (!published->active && !now->active))
        return;
    if (now->active)
        publish(job, now, same);
    else {
        yki_job_key(job, key, sizeof key, "waiting", job->rank);
        yki_fair_lock_take(job->lock);
        yk_store_delete(job->store, key, NULL);
        yki_fair_lock_release(job->lock);
    }
    *published = *now;
    state->told = yki_now();
}

static bool read_entry(const yki_job *job, int rank, entry *found)
{
    char key[YKI_JOB_KEY], text[TEXT];
    size_t used;
    int at = 0;
    yki_job_key(job, key, sizeof key, "waiting", rank);
    yki_fair_lock_take(job->lock);
    yk_status status = yk_store_get(job->store, key, text, sizeof text - 1, &used, 0);
    yki_fair_lock_release(job->lock);
    if (status != YK_OK)
        return false;
    text[used] = '\0';
    if (sscanf(text, "%llu %*d %d %d %n", &found->sequence, &found->operation, &found->peer, &at) <
        3)
        return false;
    snprintf(found->words, sizeof found->words, "%s", text + at);
    return true;
}

/* Whether this rank has begun messages with the other one, which waits in a collective, that the
 * other one has not. */
static bool lacks_messages(const yki_job *job, const yki_waiting *mine, int other)
{
    uint64_t sent, received;
    return yki_messages_read(job, other, &sent, &received) == YK_OK &&
           (received < atomic_load(&mine->messages[other]) ||
            sent < atomic_load(&mine->messages[job->world + other]));
}

/*
 * Whether the other rank's call is no counterpart of this one, but needs this rank, which has not
 * made it yet. If it has, the wait is over, but the other rank is stopped and cannot tell. A batch
 * is a counterpart of every message. One that still waits for others may be over with this rank,
 * which then goes on to the next collective.
 */
static bool is_unmatched(const yki_job *job, const yki_waiting *mine, int other,
                         const entry *theirs)
{
    if (!is_message(theirs->operation))
        return theirs->sequence > mine->collectives && lacks_messages(job, mine, other);
    if (theirs->peer != job->rank || theirs->operation != mine->what.operation ||
        theirs->operation == YK_OPERATION_BATCH)
        return false;
    bool sends = theirs->operation == YK_OPERATION_SEND;
    return theirs->sequence > atomic_load(&mine->messages[sends ? job->world + other : other]);
}

/* What to do about two ranks that wait for each other. */
static const char *advice(const entry *theirs)
{
    if (!is_message(theirs->operation))
        return "";
    return theirs->operation == YK_OPERATION_SEND
               ? ": one of the two must receive first, or both call yk_batch_send_recv"
               : ": one of the two must send first, or both call yk_batch_send_recv";
}

static void describe_both(const yki_job *job, const yki_waiting *mine, int partner,
                          const entry *theirs, yki_failure *failure)
{
    char words[YKI_WORDS], name[YKI_RANK_NAME], other[YKI_RANK_NAME];
    yki_describe(words, job, &mine->what);
    yki_rank_name(job, job->rank, name);
    yki_rank_name(job, partner, other);
    *failure = (yki_failure){.status = YK_ERROR_MISMATCH, .culprit = -1};
    snprintf(failure->text, sizeof failure->text,
             "ranks disagree in operation: %s called %s, %s called %s%s", name, words, other,
             theirs->words, advice(theirs));
}

/* The next rank after this one with which the call has messages. */
static int next_partner(const yki_job *job, const yki_waiting *mine, int after)
{
    int next = after;
    do
        next = (next + 1) % job->world;
    while (next != after && !atomic_load(&mine->partners[next]));
    return next;
}

bool yki_waiting_is_hopeless(const yki_job *job, yki_waiting_state *state, yki_failure *failure)
{
    entry theirs;
    const yki_waiting *mine = &state->published;
    if (!mine->active || !is_message(mine->what.operation)) {
        state->unmatched = 0;
        return false;
    }
    if (!(state->unmatched > 0))
        state->partner = next_partner(job, mine, state->partner);
    if (!atomic_load(&mine->partners[state->partner]) ||
        !read_entry(job, state->partner, &theirs) ||
        !is_unmatched(job, mine, state->partner, &theirs)) {
        state->unmatched = 0;
        return false;
    }
    if (!(state->unmatched > 0) || state->mine != mine->sequence ||
        state->theirs != theirs.sequence) {
        state->unmatched = yki_now();
        state->mine = mine->sequence;
        state->theirs = theirs.sequence;
        return false;
    }
    if (yki_now() - state->unmatched < SURE_S)
        return false;
    describe_both(job, mine, state->partner, &theirs, failure);
    return true;
}
