/* See courier.h. */
#define _GNU_SOURCE
#include "launch/courier.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double connect_s = 2; /* the store is there, or lost */
static const double last_s = 0.5;  /* for what is left to do when the courier is dismissed */

typedef struct task {
    struct task *next;
    cli_errand errand; /* NULL: a question */
    char key[64];
    char *text; /* what is sent, or room for the answer, */
    size_t size;
    bool found; /* which has come; */
    bool done;
    bool dropped; /* nobody waits for it any more */
} task;

struct cli_courier {
    cli_courier_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    yk_store *store; /* changed with the lock; NULL while the thread connects again, or lost */
    task *first, **last;
    bool dismissed, lost;
};

static struct timespec moment_in(double seconds)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    long nanoseconds = moment.tv_nsec + (long)(1e9 * (seconds - (double)(time_t)seconds));
    moment.tv_sec += (time_t)seconds + nanoseconds / 1000000000;
    moment.tv_nsec = nanoseconds % 1000000000;
    return moment;
}

static bool wait_until(cli_courier *courier, const struct timespec *moment)
{
    return pthread_cond_clockwait(&courier->changed, &courier->lock, CLOCK_MONOTONIC, moment) == 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* False if the store fails. */
static bool run_task(yk_store *store, task *turn)
{
    size_t used;
    if (turn->errand)
        return turn->errand(store, turn->key, turn->text) == YK_OK;
    yk_status status = yk_store_get(store, turn->key, turn->text, turn->size - 1, &used, 0);
    turn->found = status == YK_OK;
    if (turn->found)
        turn->text[used] = '\0';
    return turn->found || status == YK_ERROR_TIMEOUT;
}

/* The connection is idle most of the time, so an outage of the network may end it unnoticed. */
static void connect_again(cli_courier *courier)
{
    const cli_courier_options *o = &courier->options;
    yk_store *lost, *store = NULL;
    pthread_mutex_lock(&courier->lock);
    lost = courier->store;
    courier->store = NULL;
    bool dismissed = courier->dismissed;
    pthread_mutex_unlock(&courier->lock);
    yk_store_destroy(lost);
    if (!dismissed)
        yk_store_connect(&store, o->host, o->port, o->secret, connect_s);
    pthread_mutex_lock(&courier->lock);
    courier->store = store;
    courier->lost = !store;
    pthread_mutex_unlock(&courier->lock);
}

static void do_task(cli_courier *courier, task *turn)
{
    if (run_task(courier->store, turn))
        return;
    connect_again(courier);
    if (courier->store && !run_task(courier->store, turn))
        courier->lost = true;
    if (courier->lost && courier->options.lost)
        courier->options.lost(courier->options.context, yk_last_error());
}

static void free_task(task *turn)
{
    free(turn->text);
    free(turn);
}

/* Done or not: the first task has had its turn. With the lock. */
static void take_off_first(cli_courier *courier)
{
    task *first = courier->first;
    courier->first = first->next;
    if (!courier->first)
        courier->last = &courier->first;
    first->done = true;
    if (first->errand || first->dropped)
        free_task(first);
    pthread_cond_broadcast(&courier->changed);
}

static void *run(void *context)
{
    cli_courier *courier = context;
    pthread_mutex_lock(&courier->lock);
    while (courier->first || !courier->dismissed) {
        if (!courier->first) {
            pthread_cond_wait(&courier->changed, &courier->lock);
            continue;
        }
        pthread_mutex_unlock(&courier->lock);
        if (!courier->lost)
            do_task(courier, courier->first);
        pthread_mutex_lock(&courier->lock);
        take_off_first(courier);
    }
    pthread_mutex_unlock(&courier->lock);
    return NULL;
}

/* ---- the launcher's side --------------------------------------------------------------------- */

/* The task owns text. NULL, without memory, or without a courier. */
static task *add_task(cli_courier *courier, cli_errand errand, const char *key, char *text,
                      size_t size)
{
    task *added = courier && text ? calloc(1, sizeof *added) : NULL;
    if (!added) {
        free(text);
        return NULL;
    }
    added->errand = errand;
    added->text = text;
    added->size = size;
    snprintf(added->key, sizeof added->key, "%s", key);
    pthread_mutex_lock(&courier->lock);
    *courier->last = added;
    courier->last = &added->next;
    pthread_cond_broadcast(&courier->changed);
    pthread_mutex_unlock(&courier->lock);
    return added;
}

void cli_courier_send(cli_courier *courier, cli_errand errand, const char *key, const char *text)
{
    add_task(courier, errand, key, strdup(text), 0);
}

bool cli_courier_ask(cli_courier *courier, const char *key, char *value, size_t size, double wait_s)
{
    task *asked = add_task(courier, NULL, key, malloc(size), size);
    if (!asked)
        return false;
    struct timespec patience = moment_in(wait_s);
    pthread_mutex_lock(&courier->lock);
    while (!asked->done && wait_until(courier, &patience))
        ;
    bool done = asked->done, found = done && asked->found;
    if (found)
        snprintf(value, size, "%s", asked->text);
    asked->dropped = true;
    pthread_mutex_unlock(&courier->lock);
    if (done)
        free_task(asked);
    return found;
}

static void free_courier(cli_courier *courier)
{
    yk_store_destroy(courier->store);
    pthread_cond_destroy(&courier->changed);
    pthread_mutex_destroy(&courier->lock);
    free(courier);
}

cli_courier *cli_courier_hire(yk_store *store, const cli_courier_options *options)
{
    cli_courier *courier = calloc(1, sizeof *courier);
    if (!courier) {
        yk_store_destroy(store);
        return NULL;
    }
    courier->options = *options;
    courier->store = store;
    courier->last = &courier->first;
    pthread_mutex_init(&courier->lock, NULL);
    pthread_cond_init(&courier->changed, NULL);
    if (pthread_create(&courier->thread, NULL, run, courier) == 0)
        return courier;
    free_courier(courier);
    return NULL;
}

void cli_courier_dismiss(cli_courier *courier)
{
    if (!courier)
        return;
    struct timespec patience = moment_in(last_s);
    pthread_mutex_lock(&courier->lock);
    courier->dismissed = true;
    pthread_cond_broadcast(&courier->changed);
    while (courier->first && wait_until(courier, &patience))
        ;
    if (courier->first && courier->store)
        yk_store_interrupt(courier->store);
    pthread_mutex_unlock(&courier->lock);
    pthread_join(courier->thread, NULL);
    free_courier(courier);
}
