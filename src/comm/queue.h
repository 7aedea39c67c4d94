/*
 * Asynchronous work: the group's communication thread starts calls in the order in which they were
 * submitted, several at a time where the backend can do so, and completes them in the same order.
 * The thread starts with the first call.
 */
#ifndef YKI_QUEUE_H
#define YKI_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/call.h"

/* The times of a work, by yki_now. */
typedef struct yki_work_times {
    double started;  /* on this rank */
    double met;      /* when all ranks had started it; at the earliest `started` */
    double finished; /* all of it, on this rank */
} yki_work_times;

struct yk_work {
    struct yk_work *next;
    struct yki_queue *queue;
    yki_call call;
    yk_status status;
    bool refused; /* its arguments were; line tells why */
    bool over;    /* status is known; only the queue's thread uses this */
    bool done;    /* guarded by the queue's lock */
    yki_work_times times;
    char line[YKI_ERROR_LINE];
};

/* How a queue runs its works. Both return true once the work's status and error line are set. */
typedef struct yki_queue_ops {
    bool (*start)(void *context, yk_work *work);
    /* Only for the oldest of the works that are not over; waits for it at most wait_s seconds. */
    bool (*advance)(void *context, yk_work *work, double wait_s);
} yki_queue_ops;

typedef struct yki_queue {
    void *context;
    const yki_queue_ops *ops;
    int capacity; /* how many works may be started before the first is over */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, stopping;
    yk_work *head, *tail; /* all works that are not done */
    yk_work *next;        /* the first of them that is not started; NULL: all are */
    int running;          /* how many are started, and not over */
    bool starting;        /* the thread is about to start another one */
    yk_work *spare;       /* finished works, used again: a training step allocates nothing */
    atomic_int pending;
} yki_queue;

void yki_queue_init(yki_queue *queue, void *context, const yki_queue_ops *ops, int capacity);
/* Runs all remaining calls, then ends the thread. */
void yki_queue_fini(yki_queue *queue);
/* refusal: NULL, or the error line of arguments that were refused. */
yk_status yki_queue_submit(yki_queue *queue, const yki_call *call, const char *refusal,
                           yk_work **work);
/* Returns when all submitted calls have run. */
void yki_queue_drain(yki_queue *queue);
/* Whether there are no works that could be started. If waits is false: whether there are none. */
bool yki_queue_rests(void *queue, bool waits);
/* Whether this is the queue's own thread. */
bool yki_queue_is_current(const yki_queue *queue);
/* How many seconds after `since` a work still waited for ranks that had not started it. */
static inline double yki_work_waited(const yki_work_times *times, double since)
{
    double from = times->started > since ? times->started : since;
    return times->met > from ? times->met - from : 0;
}

/* Waits for a work, recycles it, and returns its status and times. */
yk_status yki_queue_wait(yk_work *work, yki_work_times *times);
bool yki_queue_is_done(const yk_work *work);

/* ---- of a group's queue: run.c --------------------------------------------------------------- */

/* Runs task(context) on the group's thread, in the order of submission among the asynchronous
 * collectives; its blocking collectives then happen at this place on every rank. */
yk_status yki_group_run(yk_group *group, yk_status (*task)(void *context), void *context,
                        yk_work **work);
/* Sets the name of the group's next asynchronous call on a timeline, e.g. "bucket 2". Does nothing
 * while no timeline is recorded. */
void yki_group_label(yk_group *group, const char *format, ...) YKI_PRINTF(2, 3);
/* yk_work_wait that also tells when the work happened. */
yk_status yki_work_wait_timed(yk_work *work, yki_work_times *times);

#endif
