/*
 * DataParallel: see the public header. Every device has a thread bound to its cores, whose OpenMP
 * team inherits the binding; the caller's thread hands out phases and waits:
 *
 *   forward   scatter (views of the batch), replicate, forward, gather (copies of the outputs)
 *   backward  backward, reduce (each thread adds up a slice of every gradient)
 *
 * Replica 0 is the model itself. Gradients are added in the order of devices: the same devices give
 * the same bits.
 */
#define _GNU_SOURCE
#include <yoke/data_parallel.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory.h"
#include "ddp/device_list.h"
#include "graph/model_hooks.h"

typedef struct replica {
    yk_data_parallel *dp;
    int index;
    yk_model *model;
    yk_batch part; /* of the running batch */
    yk_tensor *tensors;
    int tensor_capacity;
    double loss_weight; /* of its loss in the whole batch's */
    pthread_t thread;
    bool started;
    yk_status status; /* of the last phase */
    char line[YKI_ERROR_LINE];
} replica;

typedef yk_status (*phase_fn)(replica *r);

struct yk_data_parallel {
    yki_device_list devices;
    int threads; /* of each device */
    char description[256];
    replica *replicas;
    yk_model **others; /* the models of replicas 1, 2, ... */
    int active;        /* replicas that have a part of the batch */
    int64_t samples;   /* of the batch */
    yki_backward whole;
    yk_data_parallel_stats stats;
    void *gathered; /* the outputs, joined */
    size_t gathered_bytes;
    yk_tensor output;

    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    phase_fn phase; /* guarded by lock, as are the next three */
    uint64_t round; /* phases begun */
    int running;    /* threads still at it */
    bool stopping;
};

/* ---- threads --------------------------------------------------------------------------------- */

static void *work(void *argument)
{
    replica *r = argument;
    yk_data_parallel *dp = r->dp;
    pthread_mutex_lock(&dp->lock);
    for (uint64_t seen = 0;;) {
        while (dp->round == seen && !dp->stopping)
            pthread_cond_wait(&dp->begun, &dp->lock);
        if (dp->stopping)
            break;
        seen = dp->round;
        if (r->index >= dp->active)
            continue;
        phase_fn phase = dp->phase;
        pthread_mutex_unlock(&dp->lock);
        r->status = phase(r);
        if (r->status != YK_OK)
            yki_error_copy(r->line, sizeof r->line);
        pthread_mutex_lock(&dp->lock);
        if (--dp->running == 0)
            pthread_cond_signal(&dp->ended);
    }
    pthread_mutex_unlock(&dp->lock);
    return NULL;
}

/* Runs a phase on all replicas that have a part; the first failure in their order counts. */
static yk_status run_phase(yk_data_parallel *dp, phase_fn phase, double *seconds)
{
    double start = yki_now();
    pthread_mutex_lock(&dp->lock);
    dp->phase = phase;
    dp->running = dp->active;
    dp->round++;
    pthread_cond_broadcast(&dp->begun);
    while (dp->running > 0)
        pthread_cond_wait(&dp->ended, &dp->lock);
    pthread_mutex_unlock(&dp->lock);
    *seconds = yki_now() - start;
    for (int i = 0; i < dp->active; i++) {
        const replica *r = &dp->replicas[i];
        if (r->status == YK_OK)
            continue;
        yki_error_set_line(r->status, r->line);
        return yki_error_context(r->status, "%s", dp->devices.device[i].name);
    }
    return YK_OK;
}

/* Signals are for the program's own threads: its handlers expect to run there. */
static yk_status start_thread(replica *r)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof(cpu_set_t),
                                &r->dp->devices.device[r->index].cores);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&r->thread, &attributes, work, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error)
        return yki_error(YK_OUT_OF_MEMORY, "cannot start a thread for %s: %s",
                         r->dp->devices.device[r->index].name, strerror(error));
    r->started = true;
    char name[16];
    snprintf(name, sizeof name, "yoke-cpu%d", r->index);
    pthread_setname_np(r->thread, name);
    return YK_OK;
}

static void stop_threads(yk_data_parallel *dp)
{
    pthread_mutex_lock(&dp->lock);
    dp->stopping = true;
    pthread_cond_broadcast(&dp->begun);
    pthread_mutex_unlock(&dp->lock);
    for (int i = 0; dp->replicas && i < dp->devices.count; i++)
        if (dp->replicas[i].started)
            pthread_join(dp->replicas[i].thread, NULL);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Views of samples first ... of every tensor. */
static yk_status take_part(replica *r, const yk_batch *batch, int64_t first, int64_t count)
{
    if (r->tensor_capacity < batch->count) {
        free(r->tensors);
        r->tensors = yki_calloc((size_t)batch->count, sizeof *r->tensors);
        r->tensor_capacity = r->tensors ? batch->count : 0;
        if (!r->tensors)
            return yki_error_memory((size_t)batch->count * sizeof *r->tensors, "a part of a batch");
    }
    for (int i = 0; i < batch->count; i++) {
        yk_tensor *tensor = &r->tensors[i];
        *tensor = batch->tensors[i];
        if (tensor->ndim < 1 || tensor->dims[0] != batch->size)
            return yki_error(YK_INVALID_SHAPE, "the batch's \"%s\" is not one of %lld samples",
                             batch->names[i], (long long)batch->size);
        tensor->dims[0] = 1;
        tensor->data = (char *)tensor->data + (size_t)first * yk_tensor_bytes(tensor);
        tensor->dims[0] = count;
    }
    r->part = (yk_batch){.size = count,
                         .count = batch->count,
                         .names = batch->names,
                         .tensors = r->tensors,
                         .indices = batch->indices ? batch->indices + first : NULL};
    return YK_OK;
}

/* torch.chunk: parts of ceil(N / devices), the last one shorter, as many as that makes. */
static yk_status scatter(yk_data_parallel *dp, const yk_batch *batch)
{
    double start = yki_now();
    int64_t devices = dp->devices.count, size = (batch->size + devices - 1) / devices;
    bool sum = yki_model_loss_is_sum(dp->replicas[0].model);
    dp->active = 0;
    if (batch->size < 1)
        return yki_error(YK_INVALID_ARGUMENT, "the batch has %lld samples", (long long)batch->size);
    int parts = 0;
    for (int64_t first = 0; first < batch->size; first += size) {
        int64_t count = batch->size - first < size ? batch->size - first : size;
        replica *r = &dp->replicas[parts++];
        YK_TRY(take_part(r, batch, first, count));
        r->loss_weight = sum ? 1 : (double)count / (double)batch->size;
    }
    dp->active = parts;
    dp->samples = batch->size;
    dp->stats.replicas = parts;
    dp->stats.scatter_s = yki_now() - start;
    return YK_OK;
}

static yk_status replicate(replica *r)
{
    if (r->index > 0)
        yki_model_refresh_replica(r->model, r->dp->replicas[0].model);
    return YK_OK;
}

static yk_status run_forward(replica *r)
{
    return yki_model_forward(r->model, &r->part);
}

/* Room for as many outputs as any batch has had. */
static yk_status reserve_outputs(yk_data_parallel *dp, size_t bytes)
{
    if (bytes <= dp->gathered_bytes)
        return YK_OK;
    free(dp->gathered);
    dp->gathered = yki_calloc(bytes, 1);
    dp->gathered_bytes = dp->gathered ? bytes : 0;
    return dp->gathered ? YK_OK : yki_error_memory(bytes, "gathered outputs");
}

static yk_status gather(yk_data_parallel *dp)
{
    double start = yki_now();
    yk_tensor part;
    if (!yki_model_has_output(dp->replicas[0].model))
        return YK_OK;
    YK_TRY(yki_model_output(dp->replicas[0].model, &part));
    dp->output = part;
    dp->output.dims[0] = dp->samples;
    YK_TRY(reserve_outputs(dp, yk_tensor_bytes(&dp->output)));
    char *at = dp->output.data = dp->gathered;
    for (int i = 0; i < dp->active; i++) {
        YK_TRY(yki_model_output(dp->replicas[i].model, &part));
        memcpy(at, part.data, yk_tensor_bytes(&part));
        at += yk_tensor_bytes(&part);
    }
    dp->stats.gather_s = yki_now() - start;
    return YK_OK;
}

static yk_status forward(void *context, const yk_batch *batch)
{
    yk_data_parallel *dp = context;
    dp->stats = (yk_data_parallel_stats){0};
    YK_TRY(scatter(dp, batch));
    yk_status status = run_phase(dp, replicate, &dp->stats.replicate_s);
    if (status == YK_OK)
        status = run_phase(dp, run_forward, &dp->stats.forward_s);
    if (status == YK_OK)
        status = gather(dp);
    if (status != YK_OK)
        dp->active = 0;
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A hook of every replica: its part of what the whole batch's backward would weigh. */
static yk_status weigh(void *context, yki_backward *backward)
{
    const replica *r = context;
    const yki_backward *whole = &r->dp->whole;
    backward->loss_weight = whole->loss_weight * r->loss_weight;
    backward->kept_weight = whole->kept_weight;
    backward->samples = r->dp->samples;
    return YK_OK;
}

static yk_status run_backward(replica *r)
{
    if (r->index > 0)
        yki_model_begin_replica(r->model, r->dp->replicas[0].model);
    return yki_model_backward(r->model);
}

static yk_status reduce(replica *r)
{
    yk_data_parallel *dp = r->dp;
    yki_model_add_gradients(dp->replicas[0].model, dp->others, dp->active - 1, r->index,
                            dp->active);
    return YK_OK;
}

static yk_status backward(void *context)
{
    yk_data_parallel *dp = context;
    if (dp->active == 0)
        return yki_error(YK_INVALID_ARGUMENT, "backward without a forward before it");
    dp->whole = yki_gradients_weigh(dp->replicas[0].model, dp->samples);
    YK_TRY(run_phase(dp, run_backward, &dp->stats.backward_s));
    return run_phase(dp, reduce, &dp->stats.reduce_s);
}

/* ---- looking --------------------------------------------------------------------------------- */

static double loss(const void *context)
{
    const yk_data_parallel *dp = context;
    double whole = dp->active > 0 ? 0 : NAN;
    for (int i = 0; i < dp->active; i++)
        whole += dp->replicas[i].loss_weight * yki_model_loss(dp->replicas[i].model);
    return whole;
}

static yk_status output(void *context, yk_tensor *joined)
{
    const yk_data_parallel *dp = context;
    if (dp->active == 0 || !yki_model_has_output(dp->replicas[0].model))
        return yki_model_output(dp->replicas[0].model, joined); /* says what is missing */
    *joined = dp->output;
    return YK_OK;
}

yk_data_parallel_stats yk_data_parallel_last_stats(const yk_data_parallel *dp)
{
    return dp->stats;
}

const char *yk_data_parallel_description(const yk_data_parallel *dp)
{
    return dp->description;
}

/* ---- making ---------------------------------------------------------------------------------- */

yk_status yk_data_parallel_check(const char *devices, int *count)
{
    yki_device_list list;
    *count = 0;
    YK_TRY(yki_device_list_parse(&list, devices));
    *count = list.count;
    return YK_OK;
}

static void describe(yk_data_parallel *dp)
{
    char *text = dp->description;
    size_t size = sizeof dp->description, at = 0;
    for (int i = 0; i < dp->devices.count && at < size; i++) {
        const cpu_set_t *cores = &dp->devices.device[i].cores;
        int first = 0, last = CPU_SETSIZE - 1;
        while (!CPU_ISSET(first, cores))
            first++;
        while (!CPU_ISSET(last, cores))
            last--;
        at += (size_t)snprintf(text + at, size - at, "%s%s = core%s %d", i ? ", " : "",
                               dp->devices.device[i].name, first < last ? "s" : "", first);
        if (first < last && at < size)
            at += (size_t)snprintf(text + at, size - at, "-%d", last);
    }
    if (at < size)
        snprintf(text + at, size - at, "; %d thread%s each", dp->threads,
                 dp->threads == 1 ? "" : "s");
}

/* One for each core that affinity and the cgroup's quota leave to the smallest device. */
static int choose_threads(const yki_device_list *devices)
{
    int threads = yki_cores_available() / devices->count;
    for (int i = 0; i < devices->count; i++) {
        int cores = CPU_COUNT(&devices->device[i].cores);
        threads = cores < threads ? cores : threads;
    }
    return threads > 0 ? threads : 1;
}

static yk_status make_replica(yk_data_parallel *dp, yk_model *model, int index)
{
    replica *r = &dp->replicas[index];
    *r = (replica){.dp = dp, .index = index, .model = index ? NULL : model};
    if (index > 0) {
        YK_TRY(yki_model_replicate(&r->model, model, index));
        dp->others[index - 1] = r->model;
    }
    yki_model_set_hooks(r->model, &(yki_model_hooks){.context = r, .backward_begin = weigh});
    return start_thread(r);
}

static yk_status build(yk_data_parallel *dp, yk_model *model,
                       const yk_data_parallel_options *options)
{
    YK_TRY(yki_device_list_parse(&dp->devices, options->devices));
    dp->threads = options->threads ? options->threads : choose_threads(&dp->devices);
    YK_TRY(yki_model_prepare_for_replicas(model, dp->threads));
    size_t count = (size_t)dp->devices.count;
    dp->replicas = yki_calloc(count, sizeof *dp->replicas);
    dp->others = yki_calloc(count, sizeof *dp->others);
    if (!dp->replicas || !dp->others)
        return yki_error_memory(count * sizeof *dp->replicas, "data parallel");
    for (int i = 0; i < dp->devices.count; i++)
        YK_TRY(make_replica(dp, model, i));
    yki_model_set_runner(model, &(yki_model_runner){.context = dp,
                                                    .forward = forward,
                                                    .backward = backward,
                                                    .loss = loss,
                                                    .output = output});
    describe(dp);
    return YK_OK;
}

yk_status yk_data_parallel_create(yk_data_parallel **dp, yk_model *model,
                                  const yk_data_parallel_options *options)
{
    static const yk_data_parallel_options defaults;
    *dp = NULL;
    options = options ? options : &defaults;
    if (options->threads < 0)
        return yki_error(YK_INVALID_ARGUMENT, "threads is %d, expected 0 or more",
                         options->threads);
    yk_data_parallel *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "data parallel");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->begun, NULL);
    pthread_cond_init(&made->ended, NULL);
    yk_status status = build(made, model, options);
    if (status != YK_OK) {
        yk_data_parallel_destroy(made);
        return status;
    }
    *dp = made;
    return YK_OK;
}

void yk_data_parallel_destroy(yk_data_parallel *dp)
{
    if (!dp)
        return;
    stop_threads(dp);
    for (int i = 0; dp->replicas && i < dp->devices.count; i++) {
        replica *r = &dp->replicas[i];
        if (r->model && i == 0) {
            yki_model_set_runner(r->model, NULL);
            yki_model_set_hooks(r->model, NULL);
        } else {
            yk_model_destroy(r->model);
        }
        free(r->tensors);
    }
    pthread_cond_destroy(&dp->ended);
    pthread_cond_destroy(&dp->begun);
    pthread_mutex_destroy(&dp->lock);
    free(dp->gathered);
    free(dp->others);
    free(dp->replicas);
    free(dp);
}
