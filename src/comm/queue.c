/*
 * A single lock and condition variable suffice, since works are few and long.
 *
 * The works form one list: first those that are started, then, from `next` on, those that wait. The
 * thread starts the next one while there is room for it, and otherwise waits for the oldest.
 */
#include "comm/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"
#include "base/trace.h"
#include "comm/job/callers.h"

#define WAIT_S       0.02
/* While there is room for a call that may be submitted meanwhile; each look takes time from the
 * threads that compute. */
#define SHORT_WAIT_S 0.005

void yki_queue_init(yki_queue *queue, void *context, const yki_queue_ops *ops, int capacity)
{
    *queue = (yki_queue){.context = context, .ops = ops, .capacity = capacity};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

/* A task makes calls of its own, so it waits until it is alone. */
static bool may_start(const yki_queue *queue, const yk_work *work)
{
    return work && (queue->running == 0 || (queue->running < queue->capacity && !work->call.task));
}

/* Starts next, if it is not NULL, or else waits for the oldest work. Called without the lock. */
static void make_progress(yki_queue *queue, yk_work *oldest, yk_work *start, double wait_s)
{
    if (start)
        start->over = queue->ops->start(queue->context, start);
    else
        oldest->over = queue->ops->advance(queue->context, oldest, wait_s);
}

/* Takes the works that are over off the head of the list; returns their number. */
static int remove_finished(yki_queue *queue)
{
    int count = 0;
    for (yk_work *work; (work = queue->head) != queue->next && work->over; count++) {
        queue->head = work->next;
        work->done = true;
        atomic_fetch_sub(&queue->pending, 1);
    }
    if (count > 0)
        pthread_cond_broadcast(&queue->changed);
    return count;
}

static void *run_all(void *argument)
{
    yki_queue *queue = argument;
    yki_trace_name_thread("communication", YKI_TRACE_COMMUNICATION);
    yki_caller_works();
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->head && !queue->stopping)
            pthread_cond_wait(&queue->changed, &queue->lock);
        yk_work *oldest = queue->head, *next = queue->next;
        if (!oldest)
            break;
        yk_work *start = may_start(queue, next) ? next : NULL;
        bool room = !next && queue->running < queue->capacity;
        queue->starting = start != NULL;
        pthread_mutex_unlock(&queue->lock);
        make_progress(queue, oldest, start, room ? SHORT_WAIT_S : WAIT_S);
        pthread_mutex_lock(&queue->lock);
        if (start) {
            queue->next = start->next;
            queue->running++;
            queue->starting = false;
        }
        queue->running -= remove_finished(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

yk_status yki_queue_submit(yki_queue *queue, const yki_call *call, const char *refusal,
                           yk_work **out)
{
    pthread_mutex_lock(&queue->lock);
    yk_work *work = queue->spare;
    if (work)
        queue->spare = work->next;
    else
        work = yki_calloc(1, sizeof *work);
    int error = 0;
    if (work && !queue->started) {
        error = yki_thread_create(&queue->thread, "yoke-comm", NULL, run_all, queue);
        queue->started = !error; /* written once: the thread reads it without the lock */
    }
    if (!work || error) {
        pthread_mutex_unlock(&queue->lock);
        free(work);
        return error
                   ? yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot start the communication thread: %s",
                               yki_thread_error(error))
                   : yki_error_memory(sizeof *work, "a work object");
    }
    work->next = NULL;
    work->queue = queue;
    work->call = *call;
    work->done = work->over = false;
    work->refused = refusal != NULL;
    snprintf(work->line, sizeof work->line, "%s", refusal ? refusal : "");
    if (queue->head)
        queue->tail->next = work;
    else
        queue->head = work;
    if (!queue->next)
        queue->next = work;
    queue->tail = work;
    atomic_fetch_add(&queue->pending, 1);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    *out = work;
    return YK_OK;
}

/* The start of a work may be all of it: then the thread waits there. One that is started beside
 * others is on its way. */
bool yki_queue_rests(void *rests, bool waits)
{
    yki_queue *queue = rests;
    if (!waits)
        return atomic_load(&queue->pending) == 0;
    pthread_mutex_lock(&queue->lock);
    bool may = queue->starting ? queue->running > 0 : may_start(queue, queue->next);
    pthread_mutex_unlock(&queue->lock);
    return !may;
}

bool yki_queue_is_current(const yki_queue *queue)
{
    return queue->started && pthread_equal(queue->thread, pthread_self());
}

void yki_queue_drain(yki_queue *queue)
{
    if (atomic_load(&queue->pending) == 0)
        return;
    pthread_mutex_lock(&queue->lock);
    yki_caller_wait(queue);
    while (atomic_load(&queue->pending) > 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    yki_caller_wait(NULL);
    pthread_mutex_unlock(&queue->lock);
}

void yki_queue_fini(yki_queue *queue)
{
    if (queue->started) {
        pthread_mutex_lock(&queue->lock);
        queue->stopping = true;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        pthread_join(queue->thread, NULL);
    }
    for (yk_work *work = queue->spare, *next; work; work = next) {
        next = work->next;
        free(work);
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

yk_status yki_queue_wait(yk_work *work, yki_work_times *times)
{
    yki_queue *queue = work->queue;
    yki_caller_note();
    pthread_mutex_lock(&queue->lock);
    if (!work->done)
        yki_caller_wait(queue);
    while (!work->done)
        pthread_cond_wait(&queue->changed, &queue->lock);
    yki_caller_wait(NULL);
    yk_status status = work->status;
    *times = work->times;
    if (status != YK_OK)
        yki_error_set_line(status, work->line);
    work->next = queue->spare;
    queue->spare = work;
    pthread_mutex_unlock(&queue->lock);
    return status;
}

bool yki_queue_is_done(const yk_work *work)
{
    yki_queue *queue = work->queue;
    pthread_mutex_lock(&queue->lock);
    bool done = work->done;
    pthread_mutex_unlock(&queue->lock);
    return done;
}
