/* See store_thread.h. */
#define _GNU_SOURCE
#include "launch/store_thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

static const double connect_s = 2; /* the store is there, or lost */
static const double last_s = 0.5;  /* for what is left to do when the thread is stopped */

typedef struct task {
    struct task *next;
    cli_store_write write; /* NULL: a question */
    char key[64];
    char *text; /* what is sent, or room for the answer, */
    size_t size;
    bool found; /* which has come; */
    bool done;
    bool dropped; /* whoever asked has given up */
} task;

struct cli_store_thread {
    cli_store_thread_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    yk_store *store; /* changed with the lock; NULL while the thread connects again, or lost */
    task *first, **last;
    bool stopping, lost;
};

static bool wait_until(cli_store_thread *thread, const struct timespec *moment)
{
    return pthread_cond_clockwait(&thread->changed, &thread->lock, CLOCK_MONOTONIC, moment) == 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* False if the store fails. */
static bool run_task(yk_store *store, task *turn)
{
    size_t used;
    if (turn->write)
        return turn->write(store, turn->key, turn->text) == YK_OK;
    yk_status status = yk_store_get(store, turn->key, turn->text, turn->size - 1, &used, 0);
    turn->found = status == YK_OK;
    if (turn->found)
        turn->text[used] = '\0';
    return turn->found || status == YK_ERROR_TIMEOUT;
}

/* The connection is idle most of the time, so an outage of the network may end it unnoticed. */
static void connect_again(cli_store_thread *thread)
{
    const cli_store_thread_options *o = &thread->options;
    yk_store *lost, *store = NULL;
    pthread_mutex_lock(&thread->lock);
    lost = thread->store;
    thread->store = NULL;
    bool stopping = thread->stopping;
    pthread_mutex_unlock(&thread->lock);
    yk_store_destroy(lost);
    if (!stopping)
        yk_store_connect(&store, o->host, o->port, o->secret, connect_s);
    pthread_mutex_lock(&thread->lock);
    thread->store = store;
    thread->lost = !store;
    pthread_mutex_unlock(&thread->lock);
}

static void do_task(cli_store_thread *thread, task *turn)
{
    if (run_task(thread->store, turn))
        return;
    connect_again(thread);
    if (thread->store && !run_task(thread->store, turn))
        thread->lost = true;
    if (thread->lost && thread->options.lost)
        thread->options.lost(thread->options.context, yk_last_error());
}

static void free_task(task *turn)
{
    free(turn->text);
    free(turn);
}

/* Done or not: the first task has had its turn. With the lock. */
static void take_off_first(cli_store_thread *thread)
{
    task *first = thread->first;
    thread->first = first->next;
    if (!thread->first)
        thread->last = &thread->first;
    first->done = true;
    if (first->write || first->dropped)
        free_task(first);
    pthread_cond_broadcast(&thread->changed);
}

static void *run(void *context)
{
    cli_store_thread *thread = context;
    pthread_mutex_lock(&thread->lock);
    while (thread->first || !thread->stopping) {
        if (!thread->first) {
            pthread_cond_wait(&thread->changed, &thread->lock);
            continue;
        }
        pthread_mutex_unlock(&thread->lock);
        if (!thread->lost)
            do_task(thread, thread->first);
        pthread_mutex_lock(&thread->lock);
        take_off_first(thread);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* ---- the launcher's side --------------------------------------------------------------------- */

/* The task owns text. NULL, without memory, or without a thread. */
static task *add_task(cli_store_thread *thread, cli_store_write write, const char *key, char *text,
                      size_t size)
{
    task *added = thread && text ? calloc(1, sizeof *added) : NULL;
    if (!added) {
        free(text);
        return NULL;
    }
    added->write = write;
    added->text = text;
    added->size = size;
    snprintf(added->key, sizeof added->key, "%s", key);
    pthread_mutex_lock(&thread->lock);
    *thread->last = added;
    thread->last = &added->next;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    return added;
}

void cli_store_thread_post(cli_store_thread *thread, cli_store_write write, const char *key,
                           const char *text)
{
    add_task(thread, write, key, strdup(text), 0);
}

bool cli_store_thread_ask(cli_store_thread *thread, const char *key, char *value, size_t size,
                          double wait_s)
{
    task *asked = add_task(thread, NULL, key, malloc(size), size);
    if (!asked)
        return false;
    struct timespec patience = cli_clock_after(wait_s);
    pthread_mutex_lock(&thread->lock);
    while (!asked->done && wait_until(thread, &patience))
        ;
    bool done = asked->done, found = done && asked->found;
    if (found)
        snprintf(value, size, "%s", asked->text);
    asked->dropped = true;
    pthread_mutex_unlock(&thread->lock);
    if (done)
        free_task(asked);
    return found;
}

static void free_thread(cli_store_thread *thread)
{
    yk_store_destroy(thread->store);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

cli_store_thread *cli_store_thread_start(yk_store *store, const cli_store_thread_options *options)
{
    cli_store_thread *thread = calloc(1, sizeof *thread);
    if (!thread) {
        yk_store_destroy(store);
        return NULL;
    }
    thread->options = *options;
    thread->store = store;
    thread->last = &thread->first;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    if (pthread_create(&thread->thread, NULL, run, thread) == 0)
        return thread;
    free_thread(thread);
    return NULL;
}

void cli_store_thread_stop(cli_store_thread *thread)
{
    if (!thread)
        return;
    struct timespec patience = cli_clock_after(last_s);
    pthread_mutex_lock(&thread->lock);
    thread->stopping = true;
    pthread_cond_broadcast(&thread->changed);
    while (thread->first && wait_until(thread, &patience))
        ;
    if (thread->first && thread->store)
        yk_store_interrupt(thread->store);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}
