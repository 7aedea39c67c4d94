/*
 * See clock.h. A thread ticks. Where two ticks are far apart, it could not run, and nor could
 * anything else; a thread that only waits for a core on a busy machine is not that late.
 */
#define _GNU_SOURCE
#include "clock.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_US = 50000, LATE_S = 1 };

static _Atomic double ticked_at, paused_s;

static void *tick(void *unused)
{
    for (;;) {
        usleep(TICK_US);
        double now = yki_now(), gap = now - ticked_at;
        if (gap > LATE_S)
            paused_s = paused_s + gap - 1e-6 * TICK_US;
        ticked_at = now; /* after paused_s, which is up to date for who reads ticked_at first */
    }
    return unused;
}

/* A child of fork() does not inherit the thread and starts one of its own. */
static void start_once(void)
{
    static pid_t owner;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        ticked_at = yki_now();
        if (pthread_create(&thread, NULL, tick, NULL))
            abort();
        pthread_detach(thread);
        owner = getpid();
    }
    pthread_mutex_unlock(&lock);
}

double yk_test_now(void)
{
    start_once();
    while (yki_now() - ticked_at > LATE_S) /* this thread woke up first after a pause */
        usleep(1000);
    return yki_now() - paused_s;
}
