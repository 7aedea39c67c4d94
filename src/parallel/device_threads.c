/* See device_threads.h. */
#define _GNU_SOURCE
#include "parallel/device_threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/trace.h"

typedef struct worker {
    yki_device_threads *threads;
    int device;
    pthread_t thread;
    bool started;
    yk_status status; /* of the last phase */
    char line[YKI_ERROR_LINE];
} worker;

struct yki_device_threads {
    const yki_device_list *devices;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    /* Guarded by lock: */
    yki_phase phase;
    uint64_t round;      /* number of phases begun */
    int active, running; /* threads that take part in the phase; those still running */
    bool stopping;
    worker workers[];
};

static void *run_worker(void *argument)
{
    worker *w = argument;
    yki_device_threads *t = w->threads;
    yki_trace_name_thread(t->devices->device[w->device].name, YKI_TRACE_COMPUTE);
    pthread_mutex_lock(&t->lock);
    for (uint64_t seen = 0; !t->stopping;) {
        if (t->round == seen) {
            pthread_cond_wait(&t->begun, &t->lock);
            continue;
        }
        seen = t->round;
        if (w->device >= t->active)
            continue;
        yki_phase phase = t->phase;
        pthread_mutex_unlock(&t->lock);
        w->status = phase(t->context, w->device);
        if (w->status != YK_OK)
            yki_error_copy(w->line, sizeof w->line);
        pthread_mutex_lock(&t->lock);
        if (--t->running == 0)
            pthread_cond_signal(&t->ended);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

yk_status yki_device_threads_run(yki_device_threads *t, yki_phase phase, int active,
                                 double *seconds)
{
    double start = yki_now();
    pthread_mutex_lock(&t->lock);
    t->phase = phase;
    t->active = t->running = active;
    t->round++;
    pthread_cond_broadcast(&t->begun);
    while (t->running > 0)
        pthread_cond_wait(&t->ended, &t->lock);
    pthread_mutex_unlock(&t->lock);
    *seconds = yki_now() - start;
    for (int i = 0; i < active; i++) {
        const worker *w = &t->workers[i];
        if (w->status == YK_OK)
            continue;
        yki_error_set_line(w->status, w->line);
        return yki_error_context(w->status, "%s", t->devices->device[i].name);
    }
    return YK_OK;
}

static yk_status start_worker(worker *w)
{
    const yki_device_list *devices = w->threads->devices;
    pthread_attr_t attributes;
    char name[16];
    snprintf(name, sizeof name, "yoke-device%d", w->device);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(cpu_set_t), &devices->device[w->device].cores);
    int error = yki_thread_create(&w->thread, name, &attributes, run_worker, w);
    pthread_attr_destroy(&attributes);
    if (error)
        return yki_error(YK_ERROR_OUT_OF_MEMORY, "cannot start a thread for %s: %s",
                         devices->device[w->device].name, yki_thread_error(error));
    w->started = true;
    return YK_OK;
}

yk_status yki_device_threads_create(yki_device_threads **threads, const yki_device_list *devices,
                                    void *context)
{
    size_t bytes = sizeof **threads + (size_t)devices->count * sizeof(worker);
    yki_device_threads *t = yki_calloc(1, bytes);
    if (!t)
        return yki_error_memory(bytes, "devices' threads");
    t->devices = devices;
    t->context = context;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begun, NULL);
    pthread_cond_init(&t->ended, NULL);
    yk_status status = YK_OK;
    for (int i = 0; i < devices->count && status == YK_OK; i++) {
        t->workers[i] = (worker){.threads = t, .device = i};
        status = start_worker(&t->workers[i]);
    }
    if (status != YK_OK)
        yki_device_threads_destroy(t);
    else
        *threads = t;
    return status;
}

void yki_device_threads_destroy(yki_device_threads *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->devices->count; i++)
        if (t->workers[i].started)
            pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->ended);
    pthread_cond_destroy(&t->begun);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
