/* See thread.h. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

int yki_thread_create(pthread_t *thread, const char *name, const pthread_attr_t *attributes,
                      void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* which the thread inherits */
    int error = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}

const char *yki_thread_error(int error)
{
    static _Thread_local char text[160];
    struct rlimit limit;
    int used = snprintf(text, sizeof text, "%s", strerror(error));
    if (error == EAGAIN && getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text + used, sizeof text - (size_t)used,
                 "; the user may have %llu processes and threads (ulimit -u)",
                 (unsigned long long)limit.rlim_cur);
    return text;
}

void yki_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
