/*
 * What ranks wait for. A rank that has waited for a second publishes its call in the store, as the
 * key waiting/RANK of its group:
 *
 *     "SEQUENCE SECONDS OPERATION PEER WORDS", as in
 *     "7 25 12 1 recv(float32 x 4, from rank 1)"
 *
 * SECONDS is how long it has waited, and is told again every second: the clocks of hosts may differ
 * by hours. OPERATION is a yk_operation, PEER the other rank of a send or recv, or of the first one
 * in a batch, as the group counts them, else 0. The key disappears when the wait has ended.
 *
 * A rank that waits in a collective, or leaves, also publishes, as messages/RANK, how many messages
 * it has had with each other rank. Whoever waits for one of them knows from this whether it is
 * still to come.
 */
#ifndef YKI_WAITING_H
#define YKI_WAITING_H

#include <stdatomic.h>

#include "comm/job/describe.h"
#include "comm/job/failure.h"

typedef struct yki_waiting {
    bool active;
    bool end_is_told; /* by yki_watch_rest; otherwise a wait ends when nothing asks any more */
    uint64_t sequence;
    yk_descriptor what;
    double since;         /* yki_now() */
    const void *caller;   /* the thread that waits, NULL: one that works for others */
    uint64_t collectives; /* of this rank so far */
    /* [2 * world]: how many messages it has begun to send to each rank, and to receive from it. */
    const _Atomic uint64_t *messages;
    const atomic_bool *partners; /* [world]: the other ranks of the call's messages */
} yki_waiting;

/* What the watch remembers from one time to the next. */
typedef struct yki_waiting_state {
    yki_waiting published; /* what the store says of this rank */
    double told;           /* when that was told */
    int partner;           /* the rank that was looked at last */
    uint64_t mine, theirs; /* the two calls that did not match, */
    double unmatched;      /* and since when; 0: they did */
} yki_waiting_state;

/* Publishes how many messages this rank has had, [2 * world] as above, unless it has had none. */
yk_status yki_messages_publish(const yki_job *job, const _Atomic uint64_t *messages);
/* How many another rank had sent to this one, and received from it, when it published them; 0 where
 * it has not. */
yk_status yki_messages_read(const yki_job *job, int other, uint64_t *sent, uint64_t *received);

/* Publishes what this rank waits for, or that it does not wait any more. Asks the store. */
void yki_waiting_publish(const yki_job *job, yki_waiting_state *state, const yki_waiting *now);

/*
 * A send or recv, alone or in a batch, whose other rank has not made it and waits in a call that
 * cannot match it would never end, and neither would that call. True when this has been so for a
 * while; then the failure is described. Looks at one of the other ranks of a batch at a time.
 * Backends that see this themselves are faster.
 */
bool yki_waiting_is_hopeless(const yki_job *job, yki_waiting_state *state, yki_failure *failure);

#endif
