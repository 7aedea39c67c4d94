/* What streams, events and recordings of the simulated device are made of; all of it under the
 * device's lock. */
#ifndef YKI_SIM_STREAM_H
#define YKI_SIM_STREAM_H

#include "device/sim/sim.h"

typedef struct yki_sim_operation {
    struct yki_sim_operation *next;
    yki_stream *after; /* or NULL: waits until this stream has done after_count operations */
    uint64_t after_count;
    int lane, after_lane;     /* in a recording, instead of streams */
    bool follows;             /* there is an after_lane */
    const yki_sim_work *kind; /* NULL if it does nothing but wait */
    max_align_t work[];
} yki_sim_operation;

/* The operations from first to last are not done, because the first of them has failed or follows
 * one that did. */
typedef struct yki_sim_failure {
    uint64_t first, last;
    yk_status status; /* YK_OK: there was none */
    char line[YKI_ERROR_LINE];
} yki_sim_failure;

struct yki_event {
    yki_sim *sim;
    yki_stream *stream; /* NULL before the first mark */
    uint64_t number;
    uint64_t recording; /* the number of the recording in which it was marked, or 0 */
    int lane;           /* of it */
    bool timed;
    double time; /* of the last mark that was reached, if timed */
};

struct yki_stream {
    yki_sim *sim;
    yki_stream *next;
    bool destroyed;
    yki_sim_operation *head, *tail;
    uint64_t entered, done, wanted; /* numbers of operations */
    uint64_t ancestors;             /* see precedes in stream.c */
    bool busy;                      /* a thread is running the head */
    yki_sim_failure failure;
    yki_recording *recording; /* what is entered goes there, if not NULL */
    int lane;                 /* of the recording */
    yki_event end;            /* see yki_stream_ops */
};

/* A copy of work with an operation around it, or NULL. kind may be NULL. */
yki_sim_operation *yki_sim_new_operation(const yki_sim_work *kind, const void *work);
void yki_sim_release(yki_sim_operation *operation);
/* To the end of the stream, or of its recording. */
void yki_sim_append(yki_stream *stream, yki_sim_operation *operation);

/* Makes what has to be done before the operation wanted, and the operation itself. */
void yki_sim_want(yki_sim *sim, yki_stream *stream, uint64_t number);
/* Runs one operation that is wanted if there is one that can run; *busy: another thread does. */
bool yki_sim_run_one(yki_sim *sim, bool *busy);
/* Waits for the operation; what it and a wait report. */
yk_status yki_sim_reach(yki_sim *sim, yki_stream *stream, uint64_t number);
yk_status yki_sim_report(yki_stream *stream, uint64_t number);
/* The same until a time (yki_now) at most. */
yk_status yki_sim_reach_by(yki_sim *sim, yki_stream *stream, uint64_t number, double deadline,
                           bool *reached);
/* The first operation of a kind whose work begins with a pointer to that owner, and where it is;
 * NULL: no stream has one. */
yki_sim_operation *yki_sim_find_work(yki_sim *sim, const yki_sim_work *kind, const void *owner,
                                     yki_stream **stream, uint64_t *number);
/* An operation cannot wait for others. */
yk_status yki_sim_check_outside(void);

yk_status yki_sim_create_stream(yki_device *device, yki_stream **stream);
void yki_sim_destroy_stream(yki_stream *stream);
yki_event *yki_sim_end_of_stream(yki_stream *stream);

/* ---- event.c --------------------------------------------------------------------------------- */

yk_status yki_sim_create_event(yki_device *device, bool timed, yki_event **event);
void yki_sim_destroy_event(yki_event *event); /* a timed one once it has been reached */
yk_status yki_sim_mark(yki_event *event, yki_stream *stream);
yk_status yki_sim_follow(yki_event *event, yki_stream *stream);
yk_status yki_sim_query(yki_event *event, bool *reached);
yk_status yki_sim_wait(yki_event *event);
yk_status yki_sim_wait_for(yki_event *event, double seconds, bool *reached);
yk_status yki_sim_between(yki_event *first, yki_event *second, double *seconds);

/* ---- recording.c ----------------------------------------------------------------------------- */

void yki_sim_record(yki_stream *stream, yki_sim_operation *operation);
/* Marks an event in a stream that is recorded. */
void yki_sim_mark_recorded(yki_event *event, const yki_stream *stream);
/* Whether the event was last marked in the recording that the stream is in. */
bool yki_sim_is_of(const yki_event *event, const yki_stream *stream);
/* A stream that is recorded, or joins a recording now, follows an event. */
yk_status yki_sim_follow_recorded(const yki_event *event, yki_stream *stream);
yk_status yki_sim_record_begin(yki_stream *stream);
yk_status yki_sim_record_end(yki_stream *stream, yki_recording **recording);
/* Its operations, in the order in which they were recorded. */
yki_sim_operation *yki_sim_recorded(yki_recording *recording);
yk_status yki_sim_replay(yki_recording *recording, yki_stream *stream);
void yki_sim_destroy_recording(yki_recording *recording);

#endif
