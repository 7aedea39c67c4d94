/*
 * The recorder of a timeline: what each thread of this process did, and when. Any thread records
 * without a lock into one ring of fixed size; report/trace.c removes the events and writes them.
 * Events that find the ring full are dropped and counted: recording never waits.
 *
 * While nothing is recorded a call costs one load and one branch:
 *
 *     double begin = yki_trace_begin();
 *     ... what is to be seen ...
 *     YKI_TRACE_END(begin, YKI_NO_ARGS, "optimizer step");
 */
#ifndef YKI_TRACE_H
#define YKI_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

enum { YKI_TRACE_NAME = 56, YKI_TRACE_ARGS = 2 };

typedef enum yki_trace_kind {
    YKI_TRACE_SPAN,  /* spans of one thread nest */
    YKI_TRACE_ASYNC, /* spans that overlap each other; one row a name */
    YKI_TRACE_THREAD /* a thread's first event: its name, and its place as the first argument */
} yki_trace_kind;

/* Numbers shown with a span; keys live forever, NULL where there is none. */
typedef struct yki_trace_args {
    const char *key[YKI_TRACE_ARGS];
    int64_t value[YKI_TRACE_ARGS];
} yki_trace_args;

#define YKI_NO_ARGS ((yki_trace_args){.key = {NULL}})

typedef struct yki_trace_event {
    yki_trace_kind kind;
    int thread; /* its number in the system */
    char name[YKI_TRACE_NAME];
    double begin, end; /* yki_now() */
    yki_trace_args args;
} yki_trace_event;

extern atomic_bool yki_trace_recording;

static inline bool yki_trace_on(void)
{
    return atomic_load_explicit(&yki_trace_recording, memory_order_relaxed);
}

/* 0 while nothing is recorded. */
static inline double yki_trace_begin(void)
{
    return yki_trace_on() ? yki_now() : 0;
}

/* Records what this thread has done since begin, if that is not 0: (begin, args, format, ...). */
#define YKI_TRACE_END(begin, ...)                                                                  \
    do {                                                                                           \
        if ((begin) > 0 && yki_trace_on())                                                         \
            yki_trace_record(YKI_TRACE_SPAN, begin, yki_now(), __VA_ARGS__);                       \
    } while (0)

void yki_trace_record(yki_trace_kind kind, double begin, double end, yki_trace_args args,
                      const char *format, ...) YKI_PRINTF(5, 6);

/* What the timeline calls this thread, and its place among the threads. Costs nothing. */
typedef enum yki_trace_place {
    YKI_TRACE_COMPUTE,
    YKI_TRACE_COMMUNICATION,
    YKI_TRACE_DATA,
    YKI_TRACE_OTHER
} yki_trace_place;
void yki_trace_name_thread(const char *name, yki_trace_place place);

/* ---- for whoever writes the timeline; one thread at a time ----------------------------------- */

void yki_trace_start(void);
/* Returns when no thread is in the middle of recording any more. */
void yki_trace_stop(void);
/* Takes the oldest event; false when there is none. */
bool yki_trace_take(yki_trace_event *event);
/* How full the ring is, 0..1. */
double yki_trace_fill(void);
/* Events that found it full since the start. */
int64_t yki_trace_dropped(void);

#endif
