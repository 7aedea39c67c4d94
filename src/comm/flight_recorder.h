/*
 * The flight recorder: each group remembers its last calls, and when a group fails, its process
 * writes those of all its groups to a file. Comparing the files of all ranks shows which rank did
 * not take part in which call. The names in the file are those of PyTorch's flight recorder, where
 * it has them.
 *
 * Recording takes no lock and no memory. The fields are atomic because another group's thread may
 * write the file meanwhile; it may then see half of a new entry.
 */
#ifndef YKI_FLIGHT_RECORDER_H
#define YKI_FLIGHT_RECORDER_H

#include <stdatomic.h>

#include "base/clock.h"
#include "comm/call.h"
#include "comm/job/rendezvous.h"

enum { YKI_FLIGHT_ENTRIES = 256 };

typedef enum yki_flight_state {
    YKI_FLIGHT_STARTED,
    YKI_FLIGHT_COMPLETED,
    YKI_FLIGHT_FAILED
} yki_flight_state;

/* Of the group, see backend.h: two words that are compared and copied as bytes. */
typedef struct yki_flight_words {
    uint64_t word[2];
} yki_flight_words;
_Static_assert(sizeof(yk_descriptor) == sizeof(yki_flight_words), "a descriptor is two words");

typedef struct yki_flight_entry {
    _Atomic uint64_t sequence, what[2];
    _Atomic uint64_t submitted, started, ended; /* yki_ticks() */
    atomic_int state;
} yki_flight_entry;

/* A group's ring. Only the thread that runs the group's calls writes to it. */
typedef struct yki_flight_ring {
    yki_flight_entry entries[YKI_FLIGHT_ENTRIES];
    _Atomic uint64_t count; /* of all calls so far: the ring has the last of them */
    _Atomic uint64_t last_started, last_completed; /* the numbers of collectives */
    const yki_job *job;
    const char *backend;
    struct yki_flight_ring *next; /* of another group of this process */
} yki_flight_ring;

/* From here on the ring is among those that are written; job and backend stay valid until fini. */
void yki_flight_init(yki_flight_ring *ring, const yki_job *job, const char *backend);
void yki_flight_fini(yki_flight_ring *ring);

/* Whether the call is a collective, whose number all ranks know. */
static inline bool yki_flight_is_collective(const yk_descriptor *what)
{
    return what->operation < YK_OPERATION_SEND;
}

static inline void yki_flight_add(yki_flight_ring *ring, const yk_descriptor *what,
                                  uint64_t sequence, uint64_t submitted, uint64_t now)
{
    yki_flight_words words;
    uint64_t number = atomic_load_explicit(&ring->count, memory_order_relaxed);
    yki_flight_entry *entry = &ring->entries[number % YKI_FLIGHT_ENTRIES];
    __builtin_memcpy(&words, what, sizeof words);
    atomic_store_explicit(&entry->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->what[0], words.word[0], memory_order_relaxed);
    atomic_store_explicit(&entry->what[1], words.word[1], memory_order_relaxed);
    atomic_store_explicit(&entry->submitted, submitted, memory_order_relaxed);
    atomic_store_explicit(&entry->started, now, memory_order_relaxed);
    atomic_store_explicit(&entry->state, YKI_FLIGHT_STARTED, memory_order_relaxed);
    atomic_store_explicit(&ring->count, number + 1, memory_order_relaxed);
}

/* A batch has an entry for each of its messages, and every other call has one. */
static inline bool yki_flight_is_batch(const yki_call *call)
{
    return call->base.what.operation == YK_OPERATION_BATCH;
}

/* A call has been submitted, at that time, and begins now. */
static inline void yki_flight_begin(yki_flight_ring *ring, yki_call *call)
{
    const yk_backend_call *base = &call->base;
    uint64_t now = yki_ticks(), submitted = call->submitted ? call->submitted : now;
    call->entry = atomic_load_explicit(&ring->count, memory_order_relaxed);
    if (!yki_flight_is_batch(call))
        yki_flight_add(ring, &base->what, base->sequence, submitted, now);
    for (size_t i = 0; yki_flight_is_batch(call) && i < base->message_count; i++)
        yki_flight_add(ring, &base->messages[i].what, base->messages[i].sequence, submitted, now);
    if (yki_flight_is_collective(&base->what))
        atomic_store_explicit(&ring->last_started, base->sequence, memory_order_relaxed);
}

/* The call has ended. */
static inline void yki_flight_end(yki_flight_ring *ring, const yki_call *call, yk_status status)
{
    int state = status == YK_OK ? YKI_FLIGHT_COMPLETED : YKI_FLIGHT_FAILED;
    uint64_t now = yki_ticks(), count = yki_flight_is_batch(call) ? call->base.message_count : 1;
    for (uint64_t i = count > YKI_FLIGHT_ENTRIES ? count - YKI_FLIGHT_ENTRIES : 0; i < count; i++) {
        yki_flight_entry *entry = &ring->entries[(call->entry + i) % YKI_FLIGHT_ENTRIES];
        atomic_store_explicit(&entry->ended, now, memory_order_relaxed);
        atomic_store_explicit(&entry->state, state, memory_order_relaxed);
    }
    if (status == YK_OK && yki_flight_is_collective(&call->base.what))
        atomic_store_explicit(&ring->last_completed, call->base.sequence, memory_order_relaxed);
}

/*
 * A group has failed, with this thread's error line as the reason: writes the file, once for all
 * groups that this process has at a time, and adds its name to the line. Returns status. Does
 * nothing where no folder is known.
 */
yk_status yki_flight_write(const yki_job *job, yk_status status);

/* Where the file goes, unless the environment variable YOKE_FLIGHT_RECORDER names a folder. */
void yki_flight_set_folder(const char *folder);

#endif
