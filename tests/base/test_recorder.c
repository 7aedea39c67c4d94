/* The recorder's ring between many writers and one reader. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/trace.h"
#include "harness.h"

enum { WRITERS = 16, EVENTS = 100000 };

static atomic_int writing;

/* Records only where there is room for all writers at once. */
static void *write_events(void *unused)
{
    (void)unused;
    for (int i = 0; i < EVENTS; i++) {
        while (!(yki_trace_fill() < 0.5))
            usleep(100);
        yki_trace_record(YKI_TRACE_SPAN, 1, 2, YKI_NO_ARGS, "event");
    }
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

YK_TEST(nothing_is_dropped_while_there_is_room)
{
    pthread_t threads[WRITERS];
    yki_trace_event event;
    int taken = 0;
    atomic_store(&writing, WRITERS);
    yki_trace_start();
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, NULL), 0);
    while (atomic_load(&writing))
        while (yki_trace_take(&event))
            taken++;
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    yki_trace_stop();
    while (yki_trace_take(&event))
        taken++;
    assert_int_equal(yki_trace_dropped(), 0);
    assert_int_equal(taken, WRITERS * EVENTS + WRITERS); /* and each thread's name */
}
