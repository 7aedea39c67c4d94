/*
 * The ring: a writer claims the next number, fills that slot and publishes it by storing the
 * number's successor in `ready`; the reader takes slots as far as they are published. A slot is
 * free again once `taken` has passed it (Vyukov's bounded queue, with one reader).
 */
#define _GNU_SOURCE
#include "base/trace.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CAPACITY = 16384 };

typedef struct slot {
    atomic_uint_fast64_t ready; /* the number of the event in it, plus 1 */
    yki_trace_event event;
} slot;

atomic_bool yki_trace_recording;

static slot ring[CAPACITY]; /* untouched, and so without memory, until something is recorded */
static atomic_uint_fast64_t claimed, taken;
static atomic_int_fast64_t dropped;
static atomic_int session; /* counts starts: every thread introduces itself once in each */

static _Thread_local struct {
    const char *name;
    yki_trace_place place;
    int introduced; /* in this session */
} self = {.place = YKI_TRACE_OTHER};

/* ---- writing --------------------------------------------------------------------------------- */

/* The next slot and its number, or NULL when the ring is full. */
static slot *claim(uint_fast64_t *number)
{
    *number = atomic_load_explicit(&claimed, memory_order_relaxed);
    do {
        /* Negative when other threads have advanced both meanwhile: the exchange then reloads. */
        int64_t held = (int64_t)(*number - atomic_load_explicit(&taken, memory_order_acquire));
        if (held >= CAPACITY) {
            atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&claimed, number, *number + 1));
    return &ring[*number % CAPACITY];
}

static void publish(slot *full, uint_fast64_t number)
{
    atomic_store_explicit(&full->ready, number + 1, memory_order_release);
}

static void introduce_thread(void)
{
    uint_fast64_t number;
    slot *mine = claim(&number);
    if (!mine)
        return;
    mine->event = (yki_trace_event){.kind = YKI_TRACE_THREAD,
                                    .thread = (int)gettid(),
                                    .args = {.key = {"sort_index"}, .value = {self.place}}};
    snprintf(mine->event.name, sizeof mine->event.name, "%s", self.name ? self.name : "thread");
    publish(mine, number);
    self.introduced = atomic_load(&session);
}

void yki_trace_record(yki_trace_kind kind, double begin, double end, yki_trace_args args,
                      const char *format, ...)
{
    uint_fast64_t number;
    if (self.introduced != atomic_load_explicit(&session, memory_order_relaxed))
        introduce_thread();
    slot *mine = claim(&number);
    if (!mine)
        return;
    mine->event = (yki_trace_event){
        .kind = kind, .thread = (int)gettid(), .begin = begin, .end = end, .args = args};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mine->event.name, sizeof mine->event.name, format, arguments);
    va_end(arguments);
    publish(mine, number);
}

void yki_trace_name_thread(const char *name, yki_trace_place place)
{
    self.name = name;
    self.place = place;
}

/* ---- reading --------------------------------------------------------------------------------- */

void yki_trace_start(void)
{
    for (yki_trace_event event; yki_trace_take(&event);)
        ; /* left by a thread that was late for the last stop */
    atomic_store(&dropped, 0);
    atomic_fetch_add(&session, 1);
    atomic_store(&yki_trace_recording, true);
}

void yki_trace_stop(void)
{
    atomic_store(&yki_trace_recording, false);
    uint_fast64_t last = atomic_load(&claimed);
    for (uint_fast64_t i = atomic_load(&taken); i < last; i++)
        while (atomic_load_explicit(&ring[i % CAPACITY].ready, memory_order_acquire) != i + 1)
            sched_yield(); /* its writer is between claiming and publishing */
}

bool yki_trace_take(yki_trace_event *event)
{
    uint_fast64_t number = atomic_load_explicit(&taken, memory_order_relaxed);
    slot *oldest = &ring[number % CAPACITY];
    if (atomic_load_explicit(&oldest->ready, memory_order_acquire) != number + 1)
        return false;
    *event = oldest->event;
    atomic_store_explicit(&taken, number + 1, memory_order_release);
    return true;
}

double yki_trace_fill(void)
{
    return (double)(atomic_load(&claimed) - atomic_load(&taken)) / CAPACITY;
}

int64_t yki_trace_dropped(void)
{
    return atomic_load(&dropped);
}
