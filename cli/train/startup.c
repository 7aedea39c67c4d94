/* See startup.h. A thread looks after two seconds what is being done, and again whenever that has
 * changed; each thing is said once. */
#define _GNU_SOURCE
#include "train/startup.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <yoke/group.h>

enum { PATIENCE_S = 2 };

struct cli_startup {
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    const char *what, *said;
    struct timespec due; /* when it has taken too long */
    bool over;
};

static void set_what(cli_startup *s, const char *what)
{
    s->what = what;
    clock_gettime(CLOCK_MONOTONIC, &s->due);
    s->due.tv_sec += PATIENCE_S;
}

/* Waits for the next change or for the moment when what is being done has taken too long. */
static bool is_late(cli_startup *s)
{
    if (s->what == s->said) {
        pthread_cond_wait(&s->changed, &s->mutex);
        return false;
    }
    struct timespec due = s->due, now;
    pthread_cond_clockwait(&s->changed, &s->mutex, CLOCK_MONOTONIC, &due);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > s->due.tv_sec ||
           (now.tv_sec == s->due.tv_sec && now.tv_nsec >= s->due.tv_nsec);
}

static void *watch(void *argument)
{
    cli_startup *s = argument;
    pthread_mutex_lock(&s->mutex);
    while (!s->over)
        if (is_late(s) && !s->over) {
            s->said = s->what;
            fprintf(stderr, "yoke: still %s\n", s->what);
        }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

void cli_startup_begin(cli_startup **startup, const char *what)
{
    yk_place place;
    bool is_first = yk_group_place(&place) == YK_OK && place.rank == 0;
    cli_startup *made = is_first ? calloc(1, sizeof *made) : NULL;
    *startup = NULL;
    if (!made)
        return;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    set_what(made, what);
    if (pthread_create(&made->thread, NULL, watch, made) == 0)
        *startup = made;
    else
        free(made);
}

void cli_startup_next(cli_startup *startup, const char *what)
{
    if (!startup)
        return;
    pthread_mutex_lock(&startup->mutex);
    set_what(startup, what);
    pthread_cond_signal(&startup->changed);
    pthread_mutex_unlock(&startup->mutex);
}

void cli_startup_end(cli_startup **startup)
{
    cli_startup *s = *startup;
    *startup = NULL;
    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    s->over = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}
