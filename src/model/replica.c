/* See replica.h. */
#include "model/replica.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "model/choices.h"
#include "model/model.h"
#include "tensor/tensor.h"

/* The places are those of the model: indices of parameters, buffers and inputs, in equal order. */
static yk_status copy_places(yk_model *replica, const yk_model *model)
{
    const yki_variables *from = &model->variables;
    yki_variables *to = &replica->variables;
    size_t count = model->graph->value_count, parameters = from->parameter_count;
    yki_place *fixed = yki_calloc(count, sizeof *fixed);
    if (!fixed)
        return yki_error_memory(count * sizeof *fixed, "a replica");
    memcpy(fixed, model->executor.source.fixed, count * sizeof *fixed);
    memcpy(to->grad_order, from->grad_order, parameters * sizeof *from->grad_order);
    memcpy(to->used, from->used, parameters * sizeof *from->used);
    yki_device *device = replica->executor.source.device;
    replica->executor.source = model->executor.source;
    replica->executor.source.device = device;
    replica->executor.source.fixed = fixed;
    replica->executor.source.for_logits = NULL;
    if (!model->executor.source.for_logits)
        return YK_OK;
    bool *for_logits = yki_calloc(count, sizeof *for_logits);
    if (!for_logits)
        return yki_error_memory(count * sizeof *for_logits, "a replica");
    memcpy(for_logits, model->executor.source.for_logits, count * sizeof *for_logits);
    replica->executor.source.for_logits = for_logits;
    return YK_OK;
}

static yk_status build_replica(yk_model *replica, const yk_model *model)
{
    YK_TRY(yki_model_open_device(replica));
    YK_TRY(yki_executor_create(&replica->executor));
    YK_TRY(yki_inputs_create(&replica->executor.inputs, replica->executor.source.device,
                             replica->graph));
    YK_TRY(yki_variables_create(&replica->variables, replica->executor.source.device,
                                replica->graph, true));
    return copy_places(replica, model);
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

static yk_tensor all_bytes(const yki_variables *variables, void *memory, size_t bytes)
{
    return (yk_tensor){.data = memory,
                       .dtype = YK_U8,
                       .ndim = 1,
                       .dims = {(int64_t)bytes},
                       .device = variables->device};
}

/* From one device to another, through the host. */
static yk_status copy_values(yki_variables *to, const yki_variables *from)
{
    const yk_tensor target = all_bytes(to, to->memory, to->bytes);
    const yk_tensor source = all_bytes(from, from->memory, from->bytes);
    yki_host_view view;
    pthread_mutex_lock(&model_stream);
    yk_status status = yki_host_view_open(&view, &source, YKI_READ);
    pthread_mutex_unlock(&model_stream);
    YK_TRY(status);
    return yki_host_view_end(&view, yk_tensor_write(&target, view.data));
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
    YK_TRY(copy_values(&replica->variables, &model->variables));
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

static yk_status add_replica(const yki_variables *variables, char *sum,
                             const yki_variables *replica, int part, int parts)
{
    const yk_tensor gradients =
        all_bytes(replica, replica->gradient_memory, replica->gradient_bytes);
    yki_host_view view;
    YK_TRY(yki_host_view_open(&view, &gradients, YKI_READ));
    add_slices(variables, sum, view.data, part, parts);
    return yki_host_view_close(&view);
}

yk_status yki_model_add_gradients(yk_model *model, yk_model *const *replicas, int count, int part,
                                  int parts)
{
    const yki_variables *variables = &model->variables;
    const yk_tensor gradients =
        all_bytes(variables, variables->gradient_memory, variables->gradient_bytes);
    yki_host_view view;
    bool is_shared = yki_device_is_host(variables->device); /* else one thread adds up all */
    if (!is_shared && part > 0)
        return YK_OK;
    YK_TRY(yki_host_view_open(&view, &gradients, YKI_READ_WRITE));
    yk_status status = YK_OK;
    for (int r = 0; r < count && status == YK_OK; r++)
        status =
            add_replica(variables, view.data, &replicas[r]->variables, part, is_shared ? parts : 1);
    return yki_host_view_end(&view, status);
}

static yk_status check_replicable(const yk_model *model)
{
    const yki_variables *variables = &model->variables;
    const yk_value *logits = model->executor.source.logits;
    if (model->distribution.sync)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model is distributed already (SyncBatchNorm)");
    if (variables->parameter_count > 0 && variables->parameters[0].data != variables->memory)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model's parameters are sharded (ZeRO)");
    if (model->executor.plans.count > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: create it before the model's first forward");
    if (logits && (logits->ndim == 0 || logits->dims[0] != YK_BATCH))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "data parallel: outputs are gathered along their first dimension, and that "
            "of options.logits is not the batch's");
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

bool yki_model_has_output(const yk_model *model)
{
    return model->executor.source.logits != NULL;
}

yki_backward yki_gradients_weigh(const yk_model *model, int64_t samples)
{
    yk_value *const *terms = model->executor.source.terms;
    return yki_accumulation_weigh(&model->accumulation, samples, terms[YKI_LOSS_MEANS],
                                  terms[YKI_LOSS_SUMS]);
}
