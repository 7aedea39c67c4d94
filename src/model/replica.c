/* See replica.h. */
#include "model/replica.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "model/choices.h"
#include "model/model.h"
#include "tensor/tensor.h"

/* An array by value id; *to stays NULL where there is none. */
static yk_status copy_by_value(void **to, const void *from, size_t count, size_t size)
{
    if (!from)
        return YK_OK;
    *to = yki_calloc(count, size);
    if (!*to)
        return yki_error_memory(count * size, "a replica");
    memcpy(*to, from, count * size);
    return YK_OK;
}

/* What was found out about the graph. The places are those of the model: indices of parameters,
 * buffers and inputs, in equal order. */
static yk_status copy_source(yki_plan_source *to, const yki_plan_source *from)
{
    const size_t count = from->graph->value_count;
    void *fixed = NULL, *images = NULL, *for_outputs = NULL;
    yk_status status = copy_by_value(&fixed, from->fixed, count, sizeof *from->fixed);
    if (status == YK_OK)
        status = copy_by_value(&images, from->images, count, sizeof *from->images);
    if (status == YK_OK)
        status = copy_by_value(&for_outputs, from->for_outputs, count, sizeof *from->for_outputs);
    yki_device *device = to->device;
    *to = *from;
    to->device = device;
    to->fixed = fixed;
    to->images = images;
    to->for_outputs = for_outputs;
    return status;
}

static yk_status copy_model(yk_model *replica, const yk_model *model)
{
    const yki_variables *from = &model->variables;
    yki_variables *to = &replica->variables;
    memcpy(to->grad_order, from->grad_order, from->parameter_count * sizeof *from->grad_order);
    memcpy(to->used, from->used, from->parameter_count * sizeof *from->used);
    return copy_source(&replica->executor.source, &model->executor.source);
}

static yk_status build_replica(yk_model *replica, const yk_model *model)
{
    YK_TRY(yki_model_open_device(replica));
    YK_TRY(yki_executor_create(&replica->executor));
    YK_TRY(yki_inputs_create(&replica->executor.inputs, replica->executor.source.device,
                             replica->graph));
    YK_TRY(yki_variables_create(&replica->variables, replica->executor.source.device,
                                replica->graph, true));
    return copy_model(replica, model);
}

yk_status yki_model_replicate(yk_model **replica, const yk_model *model, const char *device)
{
    *replica = NULL;
    yk_model *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a replica");
    yki_reference_init(&made->reference);
    made->graph = model->graph;
    made->is_replica = true;
    made->options = model->options;
    if (device)
        made->options.device = device;
    made->accumulation.spent = true;
    yk_status status = build_replica(made, model);
    if (status != YK_OK) {
        yk_model_destroy(made);
        return status;
    }
    *replica = made;
    return YK_OK;
}

/* One thread at a time uses the stream of the model's device. */
static pthread_mutex_t model_stream = PTHREAD_MUTEX_INITIALIZER;

static yk_status copy_to_host(yki_device *device, void *host, const void *memory, size_t bytes)
{
    yki_stream *stream = yki_device_stream(device);
    YK_TRY(yki_device_copy(device, host, memory, bytes, YKI_TO_HOST, stream));
    return yki_stream_wait(device, stream);
}

static yk_status copy_to_device(yki_device *device, void *memory, const void *host, size_t bytes)
{
    yki_stream *stream = yki_device_stream(device);
    YK_TRY(yki_device_copy(device, memory, host, bytes, YKI_TO_DEVICE, stream));
    return yki_stream_wait(device, stream);
}

/* Room on the host that the model keeps from step to step: pinning takes longer than copying. */
static yk_status reserve_room(yk_model *model, size_t bytes)
{
    yki_device *device = yki_model_device(model);
    if (bytes <= model->room_bytes)
        return YK_OK;
    yki_device_free_pinned(device, model->room, model->room_bytes);
    model->room_bytes = 0;
    YK_TRY(yki_device_alloc_pinned(device, bytes, &model->room));
    model->room_bytes = bytes;
    return YK_OK;
}

/* What is in a device's memory, as the host sees it: in the model's room, unless the host can use
 * the memory itself. */
static yk_status show(yk_model *model, yki_device *device, void *memory, size_t bytes, void **shown)
{
    *shown = memory;
    if (yki_device_is_host(device))
        return YK_OK;
    YK_TRY(reserve_room(model, bytes));
    *shown = model->room;
    return copy_to_host(device, model->room, memory, bytes);
}

/* From one device to another, through the host. */
static yk_status copy_values(yk_model *replica, const yk_model *model)
{
    const yki_variables *from = &model->variables, *to = &replica->variables;
    void *values;
    pthread_mutex_lock(&model_stream);
    yk_status status = show(replica, from->device, from->memory, from->bytes, &values);
    pthread_mutex_unlock(&model_stream);
    YK_TRY(status);
    if (!yki_device_is_host(to->device))
        return copy_to_device(to->device, to->memory, values, to->bytes);
    memcpy(to->memory, values, to->bytes);
    return YK_OK;
}

/* So that all replicas compute with the same kernels, also those that a checkpoint brought. */
static yk_status copy_choices(yk_model *replica, const yk_model *model)
{
    bool same_type = yki_model_device(replica)->type == yki_model_device(model)->type;
    return same_type ? yki_model_adopt_choices(replica, yki_model_choices(model)) : YK_OK;
}

yk_status yki_model_refresh_replica(yk_model *replica, const yk_model *model)
{
    YK_TRY(copy_choices(replica, model));
    YK_TRY(copy_values(replica, model));
    yk_model_parameters_changed(replica);
    replica->training = model->training;
    replica->step = model->step;
    return YK_OK;
}

void yki_model_begin_replica(yk_model *replica, const yk_model *model)
{
    replica->loss_scale.factor = model->loss_scale.factor;
    replica->loss_scale.weight = model->loss_scale.weight;
    replica->accumulation.spent = true;
}

/* Adds a slice of every gradient, as they lie one after the other in both. */
static void add_slices(const yki_variables *variables, char *sum, const char *more, int part,
                       int parts)
{
    for (size_t p = 0; p < variables->parameter_count; p++) {
        const yki_variable *parameter = &variables->parameters[p];
        yk_tensor grad = yki_variable_tensor(variables, parameter, parameter->grad);
        int64_t elements = yk_tensor_count(&grad);
        int64_t begin = elements * part / parts, end = elements * (part + 1) / parts;
        size_t at = (size_t)((char *)grad.data - (char *)variables->gradient_memory) +
                    (size_t)begin * yk_dtype_size(grad.dtype);
        yki_add_scaled(grad.dtype, sum + at, 1, sum + at, more + at, end - begin);
    }
}

static yk_status add_replica(const yki_variables *variables, char *sum, yk_model *replica, int part,
                             int parts)
{
    const yki_variables *of = &replica->variables;
    void *gradients;
    YK_TRY(show(replica, of->device, of->gradient_memory, of->gradient_bytes, &gradients));
    add_slices(variables, sum, gradients, part, parts);
    return YK_OK;
}

yk_status yki_model_add_gradients(yk_model *model, yk_model *const *replicas, int count, int part,
                                  int parts)
{
    const yki_variables *variables = &model->variables;
    yki_device *device = variables->device;
    bool is_shared = yki_device_is_host(device); /* else one thread adds up all */
    void *sum;
    if (!is_shared && part > 0)
        return YK_OK;
    YK_TRY(show(model, device, variables->gradient_memory, variables->gradient_bytes, &sum));
    for (int r = 0; r < count; r++)
        YK_TRY(add_replica(variables, sum, replicas[r], part, is_shared ? parts : 1));
    return is_shared
               ? YK_OK
               : copy_to_device(device, variables->gradient_memory, sum, variables->gradient_bytes);
}

static yk_status check_gatherable(const yk_model *model, size_t index)
{
    const yk_value *value = model->executor.source.outputs.list[index].made;
    char name[48] = "options.logits";
    if (!value || (value->ndim > 0 && value->dims[0] == YK_BATCH))
        return YK_OK;
    if (index > 0)
        snprintf(name, sizeof name, "options.outputs[%zu]", index - 1);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "data parallel: outputs are gathered along their first dimension, and that "
                     "of %s is not the batch's",
                     name);
}

static yk_status check_replicable(const yk_model *model)
{
    const yki_variables *variables = &model->variables;
    if (model->distribution.sync)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model is distributed already (SyncBatchNorm)");
    if (yki_model_gathering(model).ranks > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model has an all_gather_batch, which replicas cannot "
                         "run: use yk_ddp");
    if (variables->parameter_count > 0 && variables->parameters[0].data != variables->memory)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model's parameters are sharded (ZeRO)");
    if (model->executor.plans.count > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: create it before the model's first forward");
    for (size_t i = 0; i < yki_model_outputs(model); i++)
        YK_TRY(check_gatherable(model, i));
    return YK_OK;
}

yk_status yki_model_prepare_for_replicas(yk_model *model, int threads)
{
    yki_device *device = model->executor.source.device;
    YK_TRY(check_replicable(model));
    if (device->type->set_threads)
        device->type->set_threads(device, threads);
    model->options.threads = threads;
    return YK_OK;
}

const char *yki_model_device_name(const yk_model *model)
{
    return model->executor.source.device->name;
}

size_t yki_model_outputs(const yk_model *model)
{
    return model->executor.source.outputs.count;
}

bool yki_model_has_output(const yk_model *model, size_t index)
{
    return model->executor.source.outputs.list[index].made != NULL;
}

yki_backward yki_gradients_weigh(const yk_model *model, int64_t samples)
{
    yk_value *const *terms = model->executor.source.terms;
    return yki_accumulation_weigh(&model->accumulation, samples, terms[YKI_LOSS_MEANS],
                                  terms[YKI_LOSS_SUMS]);
}
