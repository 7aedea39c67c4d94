/* See store_thread.h. */
#define _GNU_SOURCE
#include "launch/store_thread.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"

static const double connect_s = 2; /* again: the store is there, or lost */
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
    char *host, *secret; /* copies */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int settled;     /* an eventfd: the first connection has been made, or not */
    yk_store *store; /* changed with the lock; NULL while the thread connects, or lost */
    task *first, **last;
    bool opening, connecting; /* for the first time; at all */
    bool stopping, lost;
    bool abandoned; /* stopped while it was connecting: it frees itself */
    char why[512];  /* it is lost */
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

/* With the lock. */
static void open_store(cli_store_thread *thread, double seconds)
{
    const cli_store_thread_options *o = &thread->options;
    yk_store *lost = thread->store, *store = NULL;
    bool stopping = thread->stopping;
    thread->store = NULL;
    thread->connecting = true;
    pthread_mutex_unlock(&thread->lock);
    yk_store_destroy(lost);
    if (!stopping)
        yk_store_connect(&store, thread->host, o->port, thread->secret, seconds);
    if (store)
        yk_store_set_patience(store, INFINITY); /* whoever serves it may be stopped */
    pthread_mutex_lock(&thread->lock);
    thread->store = store;
    thread->lost = !store;
    thread->connecting = false;
    if (!store)
        snprintf(thread->why, sizeof thread->why, "%s", yk_last_error());
}

static void tell_loss(const cli_store_thread *thread)
{
    if (thread->lost && !thread->abandoned && thread->options.lost)
        thread->options.lost(thread->options.context, yk_last_error());
}

/* The connection is idle most of the time, so an outage of the network may end it unnoticed. */
static void do_task(cli_store_thread *thread, task *turn)
{
    if (run_task(thread->store, turn))
        return;
    pthread_mutex_lock(&thread->lock);
    open_store(thread, connect_s);
    pthread_mutex_unlock(&thread->lock);
    if (thread->store && !thread->abandoned && !run_task(thread->store, turn))
        thread->lost = true;
    tell_loss(thread);
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

static void free_thread(cli_store_thread *thread)
{
    for (task *turn = thread->first, *next; turn; turn = next) {
        next = turn->next;
        free_task(turn);
    }
    yk_store_destroy(thread->store);
    if (thread->settled >= 0)
        close(thread->settled);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
    free(thread->host);
    free(thread->secret);
    free(thread);
}

static void open_first(cli_store_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    open_store(thread, thread->options.connect_s);
    thread->opening = false;
    pthread_mutex_unlock(&thread->lock);
    eventfd_write(thread->settled, 1);
    tell_loss(thread);
}

static void *run(void *context)
{
    cli_store_thread *thread = context;
    open_first(thread);
    pthread_mutex_lock(&thread->lock);
    while ((thread->first || !thread->stopping) && !thread->abandoned) {
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
    bool abandoned = thread->abandoned;
    pthread_mutex_unlock(&thread->lock);
    if (abandoned)
        free_thread(thread);
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

cli_store_thread *cli_store_thread_start(const cli_store_thread_options *options)
{
    cli_store_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->options = *options;
    thread->host = strdup(options->host);
    thread->secret = strdup(options->secret);
    thread->opening = thread->connecting = true;
    thread->last = &thread->first;
    thread->settled = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    if (thread->host && thread->secret && thread->settled >= 0 &&
        pthread_create(&thread->thread, NULL, run, thread) == 0)
        return thread;
    free_thread(thread);
    return NULL;
}

int cli_store_thread_fd(const cli_store_thread *thread)
{
    return thread->settled;
}

void cli_store_thread_heed(cli_store_thread *thread)
{
    eventfd_t count;
    eventfd_read(thread->settled, &count);
}

bool cli_store_thread_is_opening(cli_store_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    bool opening = thread->opening;
    pthread_mutex_unlock(&thread->lock);
    return opening;
}

bool cli_store_thread_is_open(cli_store_thread *thread, char *why, size_t size)
{
    pthread_mutex_lock(&thread->lock);
    bool open = thread->store != NULL;
    snprintf(why, size, "%s", thread->why);
    pthread_mutex_unlock(&thread->lock);
    return open;
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
    bool abandoned = thread->connecting;
    if (abandoned)
        thread->abandoned = true;
    pthread_t id = thread->thread;
    pthread_mutex_unlock(&thread->lock);
    if (abandoned) {
        pthread_detach(id);
        return;
    }
    pthread_join(id, NULL);
    free_thread(thread);
}
