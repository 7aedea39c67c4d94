/* A single lock and condition variable suffice, since works are few and long. */
#include "comm/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/trace.h"

void yki_queue_init(yki_queue *queue, void *context,
                    yk_status (*run)(void *context, yki_call *call, const char *refusal))
{
    *queue = (yki_queue){.context = context, .run = run};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

static void run_work(yki_queue *queue, yk_work *work)
{
    work->status = queue->run(queue->context, &work->call, work->line[0] ? work->line : NULL);
    if (work->status != YK_OK)
        yki_error_copy(work->line, sizeof work->line);
    work->finished = yki_now();
}

static void *run_all(void *argument)
{
    yki_queue *queue = argument;
    yki_trace_name_thread("communication", YKI_TRACE_COMMUNICATION);
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->head && !queue->stopping)
            pthread_cond_wait(&queue->changed, &queue->lock);
        yk_work *work = queue->head;
        if (!work)
            break;
        pthread_mutex_unlock(&queue->lock);
        run_work(queue, work);
        pthread_mutex_lock(&queue->lock);
        queue->head = work->next;
        work->done = true;
        atomic_fetch_sub(&queue->pending, 1);
        pthread_cond_broadcast(&queue->changed);
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
        return error ? yki_error(YK_ERROR_OUT_OF_MEMORY,
                                 "cannot start the communication thread: %s", strerror(error))
                     : yki_error_memory(sizeof *work, "a work object");
    }
    work->next = NULL;
    work->queue = queue;
    work->call = *call;
    work->done = false;
    snprintf(work->line, sizeof work->line, "%s", refusal ? refusal : "");
    if (queue->head)
        queue->tail->next = work;
    else
        queue->head = work;
    queue->tail = work;
    atomic_fetch_add(&queue->pending, 1);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    *out = work;
    return YK_OK;
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
    while (atomic_load(&queue->pending) > 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
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

yk_status yki_queue_wait(yk_work *work, double *finished)
{
    yki_queue *queue = work->queue;
    pthread_mutex_lock(&queue->lock);
    while (!work->done)
        pthread_cond_wait(&queue->changed, &queue->lock);
    yk_status status = work->status;
    *finished = work->finished;
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
