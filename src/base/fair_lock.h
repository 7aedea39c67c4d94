/*
 * A lock that threads get in the order in which they ask for it. A mutex may be taken again by the
 * thread that has just released it, while others wait: one that takes it in a loop, and holds it
 * most of the time, then keeps the others from it.
 */
#ifndef YKI_FAIR_LOCK_H
#define YKI_FAIR_LOCK_H

#include <pthread.h>
#include <stdint.h>

typedef struct yki_fair_lock {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t asked, served; /* how many threads have asked for it, and how many have released it */
} yki_fair_lock;

void yki_fair_lock_init(yki_fair_lock *lock);
void yki_fair_lock_destroy(yki_fair_lock *lock);
/* Blocks until all that have asked before have released it; not by the thread that holds it. */
void yki_fair_lock_take(yki_fair_lock *lock);
void yki_fair_lock_release(yki_fair_lock *lock);

#endif
