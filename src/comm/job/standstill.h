/*
 * Ranks that wait for each other in different groups, where no group sees a mismatch: rank 0 in the
 * group of all ranks, say, and rank 1 in a duplicate of it.
 *
 * A rank stands still while every thread that has made calls waits in a collective, and no group
 * has calls that it could still start. Once it has done so for a few seconds, it says so in the
 * store, as the key standstill/RANK of the job, with a line for each collective in which it waits,
 * and one for each of its groups:
 *
 *     "wait PREFIX SEQUENCE RANKS WORDS", as in
 *     "wait group/0 7 1,2 all_reduce(float32 x 4, sum) in the group of all ranks"
 *     "has PREFIX SEQUENCE", as in "has group/0 7"
 *
 * RANKS are those that do not wait in this group, as far as they have said so, and SEQUENCE is the
 * number of the last collective that the rank has begun. The key disappears when the rank goes on.
 * Each change of a key adds 1 to the number in the key standstill of the job: ranks that stand
 * still for long, because another one is late, read that number alone until it has changed.
 *
 * A collective ends when all its ranks have begun it. Ranks are lost if each of the collectives in
 * which they wait lacks another one of them. It does not matter when each of them has told this:
 * the first of them to go on would have had to wait for another one, which had gone on before.
 *
 * Nothing fails because of this: a thread that has made no call yet, of which nothing is known, may
 * still make the missing one. But a warning says what the ranks wait for, and so does the error if
 * they wait until the timeout. A rank does not stand still that waits for messages, for a device,
 * or for a new group.
 */
#ifndef YKI_STANDSTILL_H
#define YKI_STANDSTILL_H

#include "comm/job/watch.h"

enum { YKI_STANDSTILL = 16 << 10, YKI_LOST = 384 };

/* Ranks that wait, each for the next one, from this rank to one that is among them already. */
typedef struct yki_stand_chain {
    int first;     /* the smallest */
    uint64_t hash; /* of what they have told */
    char text[YKI_LOST];
} yki_stand_chain;

/* What the watch remembers from one time to the next. */
typedef struct yki_standstill {
    char told[YKI_STANDSTILL];  /* what the store says of this rank; "": nothing */
    double read;                /* when the thread last looked */
    int64_t changes;            /* of all ranks' keys, when they were last read */
    yki_stand_chain suspected;  /* lost ranks, as far as was known then, */
    double since;               /* and since when; 0: there are none */
    bool warned;                /* of these */
    char found[YKI_LOST];       /* which ranks wait for each other, and where; "": none are known */
    char waits[YKI_STANDSTILL]; /* what this rank had told when they were found */
} yki_standstill;

/* What this rank has to tell; "" where it goes on. With the lock of the watch. */
void yki_standstill_describe(char text[YKI_STANDSTILL], const yki_watched *first);
/* Tells it, unless that has been done. job is that of all ranks, as below. Both ask the store. */
void yki_standstill_publish(const yki_job *job, yki_standstill *state, const char *text);
/* Describes ranks that have been lost for a while, this one among them, of which the first warns;
 * "" where there are none. */
void yki_standstill_find(char found[YKI_LOST], const yki_job *job, yki_standstill *state);
/* Whether the group still waits in a collective of this text, which this rank has told. With the
 * lock of the watch. */
bool yki_standstill_goes_on(const char *text, const yki_watched *group);

#endif
