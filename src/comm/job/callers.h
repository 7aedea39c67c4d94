/*
 * The threads of this process that have used groups. A rank counts as stuck only while all of
 * them wait (standstill.h).
 */
#ifndef YKI_CALLERS_H
#define YKI_CALLERS_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct yki_caller {
    struct yki_caller *next, **link; /* among those that have not ended */
    bool known;                      /* is one of them, or works for groups */
    bool works;                      /* runs calls that other threads make */
    _Atomic(const void *) queue;     /* of a group, whose works it waits for; NULL: none */
} yki_caller;

extern _Thread_local yki_caller yki_this_caller;

/* The first call of this thread. */
void yki_caller_enter(void);
/* This thread belongs to a group or a backend, and runs only calls that other threads have made. */
void yki_caller_works(void);

/* This thread makes a call. */
static inline void yki_caller_note(void)
{
    if (!yki_this_caller.known)
        yki_caller_enter();
}

/* This thread waits for the works of a queue; NULL: no more. */
static inline void yki_caller_wait(const void *queue)
{
    atomic_store_explicit(&yki_this_caller.queue, queue, memory_order_release);
}

/* This thread, or NULL where it works for others. */
const yki_caller *yki_caller_self(void);

/* Whether waits(context, caller) is true of all of them. */
bool yki_callers_all(bool (*waits)(const void *context, const yki_caller *caller),
                     const void *context);

#endif
