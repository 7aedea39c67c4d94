#include <sched.h>

#include "base/fair_lock.h"
#include "harness.h"

enum { THREADS = 8, TURNS = 1000 };

typedef struct shared {
    yki_fair_lock lock;
    int came[THREADS + 1], count; /* guarded by the lock */
} shared;

typedef struct asker {
    shared *shared;
    int number;
    pthread_t thread;
} asker;

static void note(shared *s, int number)
{
    yki_fair_lock_take(&s->lock);
    s->came[s->count++] = number;
    yki_fair_lock_release(&s->lock);
}

static void *ask(void *context)
{
    asker *a = context;
    note(a->shared, a->number);
    return NULL;
}

static void await_asked(yki_fair_lock *lock, uint64_t number)
{
    for (uint64_t asked = 0; asked < number;) {
        sched_yield();
        pthread_mutex_lock(&lock->mutex);
        asked = lock->asked;
        pthread_mutex_unlock(&lock->mutex);
    }
}

/* The last one to ask is the thread that has just released it. */
YK_TEST(threads_get_a_fair_lock_in_the_order_in_which_they_ask)
{
    shared s = {.count = 0};
    asker askers[THREADS];
    yki_fair_lock_init(&s.lock);
    yki_fair_lock_take(&s.lock);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){.shared = &s, .number = i};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
        await_asked(&s.lock, 2 + (uint64_t)i);
    }
    yki_fair_lock_release(&s.lock);
    note(&s, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(askers[i].thread, NULL);
    for (int i = 0; i <= THREADS; i++)
        assert_int_equal(s.came[i], i);
    yki_fair_lock_destroy(&s.lock);
}

static void *count(void *context)
{
    shared *s = context;
    for (int i = 0; i < TURNS; i++) {
        yki_fair_lock_take(&s->lock);
        s->count++;
        yki_fair_lock_release(&s->lock);
    }
    return NULL;
}

YK_TEST(one_thread_at_a_time_has_a_fair_lock)
{
    shared s = {.count = 0};
    pthread_t threads[THREADS];
    yki_fair_lock_init(&s.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(s.count, THREADS * TURNS);
    yki_fair_lock_destroy(&s.lock);
}
