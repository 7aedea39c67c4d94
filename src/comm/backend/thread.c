/*
 * A thread for engines whose calls block. Works are reused: those that wait and the one that runs
 * are in a queue, and those whose result has been taken are spare. The thread works on copies of
 * the calls, because a call that was given up may still run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/backend/thread.h"

struct yk_backend_work {
    struct yk_backend_work *next;      /* in the queue, or among the spare ones */
    struct yk_backend_work *next_made; /* of all that were ever made */
    yk_backend_call call;              /* what runs */
    yk_backend_message *messages;      /* of call, [room] */
    size_t room;
    yk_backend_call *original; /* gets the mismatch */
    yk_status status;
    bool done;
    char line[YKI_ERROR_LINE];
};

struct yk_backend_thread {
    yk_status (*run)(void *context, yk_backend_call *call);
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    yk_backend_work *head, *tail; /* waiting, and running */
    yk_backend_work *spare, *made;
    bool stopping;
    bool cancelled; /* no more calls are begun */
    bool abandoned; /* the thread frees its memory itself, should its call ever return */
};

static void free_thread(yk_backend_thread *thread)
{
    for (yk_backend_work *work = thread->made, *next; work; work = next) {
        next = work->next_made;
        free(work->messages);
        free(work);
    }
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

static void run_work(yk_backend_thread *thread, yk_backend_work *work)
{
    work->status = thread->run(thread->context, &work->call);
    if (work->status != YK_OK)
        yki_error_copy(work->line, sizeof work->line);
}

static void *run_all(void *argument)
{
    yk_backend_thread *thread = argument;
    pthread_mutex_lock(&thread->lock);
    for (;;) {
        while (!thread->head && !thread->stopping)
            pthread_cond_wait(&thread->changed, &thread->lock);
        yk_backend_work *work = thread->head;
        if (!work || thread->abandoned)
            break;
        if (!thread->cancelled) {
            pthread_mutex_unlock(&thread->lock);
            run_work(thread, work);
            pthread_mutex_lock(&thread->lock);
        }
        thread->head = work->next;
        work->done = true;
        pthread_cond_broadcast(&thread->changed);
    }
    bool abandoned = thread->abandoned;
    pthread_mutex_unlock(&thread->lock);
    if (abandoned)
        free_thread(thread);
    return NULL;
}

yk_status yk_backend_thread_create(yk_backend_thread **thread, const char *name,
                                   yk_status (*run)(void *context, yk_backend_call *call),
                                   void *context)
{
    YKI_NOT_NULL(thread);
    *thread = NULL;
    YKI_NOT_NULL(name);
    YKI_NOT_NULL(run);
    yk_backend_thread *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a thread");
    made->run = run;
    made->context = context;
    pthread_mutex_init(&made->lock, NULL);
    yki_cond_init(&made->changed);
    int error = yki_thread_create(&made->thread, name, NULL, run_all, made);
    if (error) {
        free_thread(made);
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot start the thread %s: %s", name,
                         yki_thread_error(error));
    }
    *thread = made;
    return YK_OK;
}

void yk_backend_thread_destroy(yk_backend_thread *thread, bool abandoned)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    thread->abandoned = abandoned;
    pthread_cond_broadcast(&thread->changed);
    if (abandoned)
        pthread_detach(thread->thread); /* before it can end and free its memory */
    pthread_mutex_unlock(&thread->lock);
    if (abandoned)
        return;
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}

/* The lock is held. */
static yk_backend_work *make_work(yk_backend_thread *thread)
{
    yk_backend_work *work = yki_calloc(1, sizeof *work);
    if (!work)
        return NULL;
    work->next_made = thread->made;
    thread->made = work;
    return work;
}

/* A spare work, or a new one; the lock is held. */
static yk_backend_work *take_work(yk_backend_thread *thread)
{
    yk_backend_work *work = thread->spare;
    if (!work)
        return make_work(thread);
    thread->spare = work->next;
    return work;
}

yk_status yki_backend_thread_reserve(yk_backend_thread *thread, int count)
{
    yk_backend_work *work = NULL;
    pthread_mutex_lock(&thread->lock);
    for (int i = 0; i < count && (work = make_work(thread)); i++) {
        work->next = thread->spare;
        thread->spare = work;
    }
    pthread_mutex_unlock(&thread->lock);
    return work ? YK_OK : yki_error_memory((size_t)count * sizeof *work, "the works of a thread");
}

static bool copy_messages(yk_backend_work *work, const yk_backend_call *call)
{
    size_t count = call->message_count;
    if (count > work->room) {
        free(work->messages);
        work->messages = yki_calloc(count, sizeof *work->messages);
        work->room = work->messages ? count : 0;
    }
    if (count > work->room)
        return false;
    if (count > 0)
        memcpy(work->messages, call->messages, count * sizeof *work->messages);
    work->call.messages = count > 0 ? work->messages : NULL;
    return true;
}

yk_status yk_backend_thread_post(yk_backend_thread *thread, yk_backend_call *call,
                                 yk_backend_work **work)
{
    YKI_NOT_NULL(work);
    *work = NULL;
    YKI_NOT_NULL(thread);
    YKI_NOT_NULL(call);
    pthread_mutex_lock(&thread->lock);
    yk_backend_work *posted = take_work(thread);
    if (!posted) {
        pthread_mutex_unlock(&thread->lock);
        return yki_error_memory(sizeof *posted, "a work");
    }
    posted->next = NULL;
    posted->call = *call;
    if (!copy_messages(posted, call)) {
        posted->next = thread->spare;
        thread->spare = posted;
        pthread_mutex_unlock(&thread->lock);
        return yki_error_memory(call->message_count * sizeof *call->messages, "messages");
    }
    posted->original = call;
    posted->done = false;
    if (thread->head)
        thread->tail->next = posted;
    else
        thread->head = posted;
    thread->tail = posted;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    *work = posted;
    return YK_OK;
}

/* wait_s seconds from now, on the clock of the condition variable. */
static struct timespec moment_after(double wait_s)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    long nanoseconds = at.tv_nsec + (long)(1e9 * (wait_s - (double)(long)wait_s));
    at.tv_sec += (long)wait_s + nanoseconds / 1000000000;
    at.tv_nsec = nanoseconds % 1000000000;
    return at;
}

yk_status yk_backend_thread_test(yk_backend_thread *thread, yk_backend_work *work, double wait_s,
                                 bool *done)
{
    YKI_NOT_NULL(done);
    *done = true; /* a work that does not exist is over */
    YKI_NOT_NULL(thread);
    YKI_NOT_NULL(work);
    struct timespec until = moment_after(wait_s);
    pthread_mutex_lock(&thread->lock);
    while (!work->done && wait_s > 0 &&
           pthread_cond_timedwait(&thread->changed, &thread->lock, &until) != ETIMEDOUT)
        ;
    *done = work->done;
    yk_status status = YK_OK;
    if (work->done) {
        status = work->status;
        work->original->mismatch = work->call.mismatch;
        work->original->met_s = work->call.met_s;
        if (status != YK_OK)
            yki_error_set_line(status, work->line);
        work->next = thread->spare;
        thread->spare = work;
    }
    pthread_mutex_unlock(&thread->lock);
    return status;
}

bool yk_backend_thread_cancel(yk_backend_thread *thread, yk_backend_work *work, double wait_s)
{
    if (!thread || !work)
        return true;
    struct timespec until = moment_after(wait_s);
    pthread_mutex_lock(&thread->lock);
    thread->cancelled = true;
    while (!work->done &&
           pthread_cond_timedwait(&thread->changed, &thread->lock, &until) != ETIMEDOUT)
        ;
    bool done = work->done;
    if (done) {
        work->next = thread->spare;
        thread->spare = work;
    }
    pthread_mutex_unlock(&thread->lock);
    return done;
}
