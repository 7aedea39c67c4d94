/*
 * DataParallel: see the public header. The caller's thread hands out phases to the devices' threads
 * and waits:
 *
 *   forward   scatter (views of the batch, or the parts that devices have made of it), replicate,
 *             forward, gather (copies of the outputs)
 *   backward  backward, reduce (each thread adds up a slice of every gradient)
 *
 * Replica 0 is the model itself. Gradients are added in the order of devices: the same devices give
 * the same bits.
 */
#define _GNU_SOURCE
#include <yoke/data_parallel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/reference.h"
#include "base/text.h"
#include "base/trace.h"
#include "model/loss_scale.h"
#include "model/replica.h"
#include "parallel/device_threads.h"
#include "parallel/references.h"

typedef struct replica {
    yk_data_parallel *dp;
    yk_model *model;
    yk_batch part; /* of the running batch */
    yk_tensor *tensors;
    int tensor_capacity;
    double part_weight; /* its part of the batch's samples */
} replica;

/* One of the model's outputs, joined. */
typedef struct gathered_output {
    void *memory;
    size_t bytes; /* of it */
    yk_tensor tensor;
} gathered_output;

struct yk_data_parallel {
    yki_reference reference;
    yki_device_list devices;
    yki_device_threads *device_threads;
    int threads; /* of each device's kernels */
    char description[256];
    replica *replicas;
    yk_model **others; /* the models of replicas 1, 2, ... */
    int active;        /* replicas that have a part of the batch */
    int64_t samples;   /* of the batch */
    yki_backward whole;
    yk_data_parallel_stats stats;
    gathered_output *outputs;
    size_t output_count;
};

/* ---- forward --------------------------------------------------------------------------------- */

/* Samples first ... of a tensor of the batch: a view, or the part that a loader has put in the
 * memory of the replica's device. */
static yk_status take_rows(const replica *r, yk_tensor *tensor, const char *name, int64_t first,
                           int64_t count)
{
    const yk_tensor_parts *parts = tensor->parts;
    const yki_device *own = yki_model_device(r->model);
    int index = (int)(r - r->dp->replicas);
    if (parts && index < parts->count && parts->tensors[index].device == own &&
        parts->tensors[index].dims[0] == count) {
        *tensor = parts->tensors[index];
        return YK_OK;
    }
    if (parts || (tensor->device && tensor->device != own))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the batch's \"%s\" is in the memory of other devices: create its loader "
                         "after yk_data_parallel_create",
                         name);
    tensor->dims[0] = 1;
    tensor->data = (char *)tensor->data + (size_t)first * yk_tensor_bytes(tensor);
    tensor->dims[0] = count;
    return YK_OK;
}

static yk_status set_replica_batch(replica *r, const yk_batch *batch, int64_t first, int64_t count)
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
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "the batch's \"%s\" is not one of %lld samples", batch->names[i],
                             (long long)batch->size);
        YK_TRY(take_rows(r, tensor, batch->names[i], first, count));
    }
    r->part = (yk_batch){.size = count,
                         .count = batch->count,
                         .names = batch->names,
                         .tensors = r->tensors,
                         .indices = batch->indices ? batch->indices + first : NULL};
    return YK_OK;
}

static yk_status scatter_batch(yk_data_parallel *dp, const yk_batch *batch)
{
    double start = yki_now();
    int64_t size = yki_share_of(batch->size, dp->devices.count);
    dp->active = 0;
    if (batch->size < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has %lld samples",
                         (long long)batch->size);
    int parts = 0;
    for (int64_t first = 0; first < batch->size; first += size) {
        int64_t count = batch->size - first < size ? batch->size - first : size;
        replica *r = &dp->replicas[parts++];
        YK_TRY(set_replica_batch(r, batch, first, count));
        r->part_weight = (double)count / (double)batch->size;
    }
    dp->active = parts;
    dp->samples = batch->size;
    dp->stats.replicas = parts;
    dp->stats.scatter_s = yki_now() - start;
    YKI_TRACE_END(start, YKI_NO_ARGS, "scatter");
    return YK_OK;
}

static yk_status run_phase(yk_data_parallel *dp, yki_phase phase, const char *name, double *seconds)
{
    double begin = yki_trace_begin();
    yk_status status = yki_device_threads_run(dp->device_threads, phase, dp->active, seconds);
    YKI_TRACE_END(begin, YKI_NO_ARGS, "%s", name);
    return status;
}

/* The phases run on the devices' threads. */
static yk_status replicate_parameters(void *context, int device)
{
    const yk_data_parallel *dp = context;
    return device > 0 ? yki_model_refresh_replica(dp->replicas[device].model, dp->replicas[0].model)
                      : YK_OK;
}

static yk_status forward_replica(void *context, int device)
{
    const replica *r = &((yk_data_parallel *)context)->replicas[device];
    return yki_model_forward(r->model, &r->part);
}

/* Room for the output of the largest batch so far. */
static yk_status reserve_output(gathered_output *gathered, size_t bytes)
{
    if (bytes <= gathered->bytes)
        return YK_OK;
    free(gathered->memory);
    gathered->memory = yki_calloc(bytes, 1);
    gathered->bytes = gathered->memory ? bytes : 0;
    return gathered->memory ? YK_OK : yki_error_memory(bytes, "gathered outputs");
}

static yk_status gather_output(yk_data_parallel *dp, size_t index)
{
    gathered_output *gathered = &dp->outputs[index];
    yk_tensor part;
    YK_TRY(yki_model_output(dp->replicas[0].model, index, &part));
    gathered->tensor = part;
    gathered->tensor.dims[0] = dp->samples;
    YK_TRY(reserve_output(gathered, yk_tensor_bytes(&gathered->tensor)));
    char *at = gathered->tensor.data = gathered->memory;
    for (int i = 0; i < dp->active; i++) {
        YK_TRY(yki_model_output(dp->replicas[i].model, index, &part));
        memcpy(at, part.data, yk_tensor_bytes(&part));
        at += yk_tensor_bytes(&part);
    }
    return YK_OK;
}

static yk_status gather_outputs(yk_data_parallel *dp)
{
    double start = yki_now();
    for (size_t i = 0; i < dp->output_count; i++)
        if (yki_model_has_output(dp->replicas[0].model, i))
            YK_TRY(gather_output(dp, i));
    dp->stats.gather_s = yki_now() - start;
    YKI_TRACE_END(start, YKI_NO_ARGS, "gather");
    return YK_OK;
}

static yk_status run_forward_phases(yk_data_parallel *dp)
{
    YK_TRY(run_phase(dp, replicate_parameters, "replicate", &dp->stats.replicate_s));
    YK_TRY(run_phase(dp, forward_replica, "forward", &dp->stats.forward_s));
    return gather_outputs(dp);
}

static yk_status forward_all(void *context, const yk_batch *batch)
{
    yk_data_parallel *dp = ((replica *)context)->dp;
    dp->stats = (yk_data_parallel_stats){0};
    YK_TRY(scatter_batch(dp, batch));
    yk_status status = run_forward_phases(dp);
    if (status != YK_OK)
        dp->active = 0;
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Hook of every replica: weights its loss by its part of the whole batch. */
static yk_status weigh(void *context, yki_backward *backward)
{
    const replica *r = context;
    const yki_backward *whole = &r->dp->whole;
    backward->mean_weight = whole->mean_weight * r->part_weight;
    backward->sum_weight = whole->sum_weight;
    backward->kept_weight = whole->kept_weight;
    backward->samples = r->dp->samples;
    return YK_OK;
}

static yk_status backward_replica(void *context, int device)
{
    const yk_data_parallel *dp = context;
    yk_model *model = dp->replicas[device].model;
    if (device > 0)
        yki_model_begin_replica(model, dp->replicas[0].model);
    return yki_model_backward(model);
}

static yk_status reduce_device_slice(void *context, int device)
{
    const yk_data_parallel *dp = context;
    return yki_model_add_gradients(dp->replicas[0].model, dp->others, dp->active - 1, device,
                                   dp->active);
}

static yk_status run_backward_phases(yk_data_parallel *dp)
{
    YK_TRY(run_phase(dp, backward_replica, "backward", &dp->stats.backward_s));
    return run_phase(dp, reduce_device_slice, "reduce", &dp->stats.reduce_s);
}

/* If a replica fails, the gradients of the model itself may nevertheless be there. */
static yk_status backward_all(void *context)
{
    yk_data_parallel *dp = ((replica *)context)->dp;
    YK_TRY(yki_model_settle_loss_scale(dp->replicas[0].model)); /* all take it over */
    if (dp->active == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backward without a forward before it");
    dp->whole = yki_gradients_weigh(dp->replicas[0].model, dp->samples);
    YK_TRY(yki_backward_check(&dp->whole));
    yk_status status = run_backward_phases(dp);
    if (status != YK_OK && !dp->whole.adds)
        yk_model_zero_grad(dp->replicas[0].model);
    return status;
}

/* ---- results --------------------------------------------------------------------------------- */

static double loss(const void *context)
{
    const yk_data_parallel *dp = ((const replica *)context)->dp;
    double whole = dp->active > 0 ? 0 : NAN;
    for (int i = 0; i < dp->active; i++) {
        const replica *r = &dp->replicas[i];
        whole += r->part_weight * yki_model_loss_terms(r->model, YKI_LOSS_MEANS) +
                 yki_model_loss_terms(r->model, YKI_LOSS_SUMS);
    }
    return whole;
}

static yk_status output(void *context, size_t index, yk_tensor *joined)
{
    const yk_data_parallel *dp = ((const replica *)context)->dp;
    if (!yki_model_has_output(dp->replicas[0].model, index)) /* says what is missing */
        return yki_model_output(dp->replicas[0].model, index, joined);
    if (dp->active == 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no output before a forward");
    *joined = dp->outputs[index].tensor;
    return YK_OK;
}

yk_data_parallel_stats yk_data_parallel_last_stats(const yk_data_parallel *dp)
{
    return dp ? dp->stats : (yk_data_parallel_stats){0};
}

const char *yk_data_parallel_description(const yk_data_parallel *dp)
{
    return dp ? dp->description : "";
}

/* ---- making ---------------------------------------------------------------------------------- */

yk_status yk_data_parallel_check(const char *devices, int *count)
{
    yki_device_list list;
    YKI_NOT_NULL(count);
    *count = 0;
    YK_TRY(yki_device_list_parse(&list, devices));
    *count = list.count;
    return YK_OK;
}

/* Devices with memory of their own, which their names describe. */
static void list_devices(yk_data_parallel *dp)
{
    size_t size = sizeof dp->description, at = 0;
    for (int i = 0; i < dp->devices.count && at < size; i++)
        at += (size_t)snprintf(dp->description + at, size - at, "%s%s", i ? ", " : "",
                               dp->devices.device[i].name);
}

static void describe_devices(yk_data_parallel *dp)
{
    char *text = dp->description;
    size_t size = sizeof dp->description, at = 0;
    if (!dp->devices.of_cores) {
        list_devices(dp);
        return;
    }
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
        snprintf(text + at, size - at, "; %d %s each", dp->threads,
                 yki_plural(dp->threads, "thread", "threads"));
}

/* One thread per core of the smallest device, within the affinity mask and the cgroup's quota. */
static int threads_per_device(const yki_device_list *devices)
{
    int threads = yki_cores_available() / devices->count;
    for (int i = 0; i < devices->count; i++) {
        int cores = CPU_COUNT(&devices->device[i].cores);
        threads = cores < threads ? cores : threads;
    }
    return threads > 0 ? threads : 1;
}

/* Replica 0 is the model itself; its forward and backward are redirected to this file. */
static yk_status attach_model(yk_data_parallel *dp, yk_model *model)
{
    replica *r = &dp->replicas[0];
    yki_model_hooks hooks = {.context = r,
                             .backward_begin = weigh,
                             .run_forward = forward_all,
                             .run_backward = backward_all,
                             .loss = loss,
                             .output = output,
                             .replicas = dp->others,
                             .replica_count = dp->devices.count - 1};
    YK_TRY(yki_model_attach(model, &hooks, "data parallel"));
    *r = (replica){.dp = dp, .model = model};
    yki_model_retain(model);
    return yki_model_prepare_for_replicas(model, dp->threads);
}

/* Replica 0 stays where it is. */
static yk_status check_device(const yk_data_parallel *dp, const yk_model *model)
{
    const char *first = dp->devices.device[0].name, *own = yki_model_device_name(model);
    if (dp->devices.of_cores || strcmp(own, first) == 0)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "the model is on the device %s, but the first of the list is %s: create the "
                     "model there",
                     own, first);
}

static yk_status make_replica(yk_data_parallel *dp, const yk_model *model, int index)
{
    replica *r = &dp->replicas[index];
    yki_model_hooks hooks = {.context = r, .stream = index, .backward_begin = weigh};
    r->dp = dp;
    YK_TRY(yki_model_replicate(&r->model, model,
                               dp->devices.of_cores ? NULL : dp->devices.device[index].name));
    dp->others[index - 1] = r->model;
    return yki_model_attach(r->model, &hooks, "data parallel");
}

static yk_status build_data_parallel(yk_data_parallel *dp, yk_model *model,
                                     const yk_data_parallel_options *options)
{
    YK_TRY(yki_device_list_parse(&dp->devices, options->devices));
    dp->threads =
        options->threads != YK_THREADS_AUTO ? options->threads : threads_per_device(&dp->devices);
    YK_TRY(check_device(dp, model));
    size_t count = (size_t)dp->devices.count;
    dp->replicas = yki_calloc(count, sizeof *dp->replicas);
    dp->others = yki_calloc(count, sizeof *dp->others);
    dp->outputs = yki_calloc(yki_model_outputs(model), sizeof *dp->outputs);
    if (!dp->replicas || !dp->others || !dp->outputs)
        return yki_error_memory(count * sizeof *dp->replicas, "data parallel");
    dp->output_count = yki_model_outputs(model);
    YK_TRY(attach_model(dp, model));
    for (int i = 1; i < dp->devices.count; i++)
        YK_TRY(make_replica(dp, model, i));
    YK_TRY(yki_device_threads_create(&dp->device_threads, &dp->devices, dp));
    describe_devices(dp);
    return YK_OK;
}

yk_status yk_data_parallel_create(yk_data_parallel **dp, yk_model *model,
                                  const yk_data_parallel_options *given)
{
    yk_data_parallel_options options;
    YKI_NOT_NULL(dp);
    *dp = NULL;
    YKI_NOT_NULL(model);
    YK_TRY(
        YKI_READ_OPTIONS(&options, given, yk_data_parallel_options, YK_DATA_PARALLEL_OPTIONS_INIT));
    bool counted = options.threads >= 1 && options.threads <= YKI_MODEL_THREADS_MAX;
    if (!counted && options.threads != YK_THREADS_AUTO)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "threads is %d, expected 1 to %d or YK_THREADS_AUTO", options.threads,
                         YKI_MODEL_THREADS_MAX);
    yk_data_parallel *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "data parallel");
    yki_reference_init(&made->reference);
    yk_status status = build_data_parallel(made, model, &options);
    if (status != YK_OK) {
        yk_data_parallel_destroy(made);
        return status;
    }
    *dp = made;
    return YK_OK;
}

void yki_data_parallel_retain(yk_data_parallel *dp)
{
    yki_reference_retain(&dp->reference);
}

void yk_data_parallel_destroy(yk_data_parallel *dp)
{
    if (!dp || !yki_reference_release(&dp->reference))
        return;
    yki_device_threads_destroy(dp->device_threads);
    for (int i = 0; dp->replicas && i < dp->devices.count; i++) {
        replica *r = &dp->replicas[i];
        if (r->model)
            yki_model_detach(r->model);
        yk_model_destroy(r->model);
        free(r->tensors);
    }
    for (size_t i = 0; i < dp->output_count; i++)
        free(dp->outputs[i].memory);
    free(dp->outputs);
    free(dp->others);
    free(dp->replicas);
    free(dp);
}
