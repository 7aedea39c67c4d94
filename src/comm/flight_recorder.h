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
#include "comm/rendezvous.h"

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

/* A call has been submitted, at that time, and begins now. */
static inline void yki_flight_begin(yki_flight_ring *ring, yki_call *call)
{
    yki_flight_words words;
    uint64_t number = atomic_load_explicit(&ring->count, memory_order_relaxed);
    yki_flight_entry *entry = &ring->entries[number % YKI_FLIGHT_ENTRIES];
    uint64_t now = yki_ticks();
    __builtin_memcpy(&words, &call->base.what, sizeof words);
    atomic_store_explicit(&entry->sequence, call->base.sequence, memory_order_relaxed);
    atomic_store_explicit(&entry->what[0], words.word[0], memory_order_relaxed);
    atomic_store_explicit(&entry->what[1], words.word[1], memory_order_relaxed);
    atomic_store_explicit(&entry->submitted, call->submitted ? call->submitted : now,
                          memory_order_relaxed);
    atomic_store_explicit(&entry->started, now, memory_order_relaxed);
    atomic_store_explicit(&entry->state, YKI_FLIGHT_STARTED, memory_order_relaxed);
    atomic_store_explicit(&ring->count, number + 1, memory_order_relaxed);
    if (yki_flight_is_collective(&call->base.what))
        atomic_store_explicit(&ring->last_started, call->base.sequence, memory_order_relaxed);
    call->entry = entry;
}

/* The call has ended. */
static inline void yki_flight_end(yki_flight_ring *ring, const yki_call *call, yk_status status)
{
    yki_flight_entry *entry = call->entry;
    int state = status == YK_OK ? YKI_FLIGHT_COMPLETED : YKI_FLIGHT_FAILED;
    atomic_store_explicit(&entry->ended, yki_ticks(), memory_order_relaxed);
    atomic_store_explicit(&entry->state, state, memory_order_relaxed);
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
