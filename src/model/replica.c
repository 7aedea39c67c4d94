/*
 * Replicas of a model: the same graph with parameters, gradients, kernels and memory of its own, so
 * that another thread can run it. The graph is only read once a model is made.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model.h"
#include "tensor/tensor.h"

/* The places are those of the model: indices of parameters, buffers and inputs, in equal order. */
static yk_status copy_places(yk_model *replica, const yk_model *model)
{
    size_t count = model->graph->value_count, parameters = model->parameter_count;
    yki_place *fixed = yki_calloc(count, sizeof *fixed);
    if (!fixed)
        return yki_error_memory(count * sizeof *fixed, "a replica");
    memcpy(fixed, model->source.fixed, count * sizeof *fixed);
    memcpy(replica->grad_order, model->grad_order, parameters * sizeof *model->grad_order);
    memcpy(replica->used, model->used, parameters * sizeof *model->used);
    replica->source = model->source;
    replica->source.device = replica->device;
    replica->source.fixed = fixed;
    return YK_OK;
}

yk_status yki_model_replicate(yk_model **replica, const yk_model *model, int index)
{
    yk_model *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a replica");
    made->graph = model->graph;
    made->is_replica = true;
    made->options = model->options;
    made->stream = (uint64_t)index; /* of dropout: as a rank of DDP has its own */
    made->gradients_spent = true;
    yk_status status = yki_device_create(&made->device, made->options.device, made->options.threads,
                                         !made->options.no_winograd);
    if (status == YK_OK)
        status = yki_variables_create(made);
    if (status == YK_OK)
        status = copy_places(made, model);
    if (status != YK_OK) {
        yk_model_destroy(made);
        return status;
    }
    *replica = made;
    return YK_OK;
}

void yki_model_refresh_replica(yk_model *replica, const yk_model *model)
{
    memcpy(replica->variable_memory, model->variable_memory, model->variable_bytes);
    yk_model_parameters_changed(replica);
    replica->training = model->training;
    replica->step = model->step;
}

void yki_model_begin_replica(yk_model *replica, const yk_model *model)
{
    replica->loss_scale = model->loss_scale;
    replica->gradients_spent = true;
}

void yki_model_add_gradients(yk_model *model, yk_model *const *replicas, int count, int part,
                             int parts)
{
    for (size_t p = 0; p < model->parameter_count; p++) {
        yk_tensor grad = yk_model_parameter(model, p).grad;
        int64_t elements = yk_tensor_count(&grad);
        int64_t begin = elements * part / parts, end = elements * (part + 1) / parts;
        size_t offset = (size_t)begin * yk_dtype_size(grad.dtype);
        char *sum = (char *)grad.data + offset;
        for (int r = 0; r < count; r++) {
            const char *more = replicas[r]->parameters[p].grad;
            yki_add_scaled(grad.dtype, sum, 1, sum, more + offset, end - begin);
        }
    }
}

yk_status yki_model_prepare_for_replicas(yk_model *model, int threads)
{
    const yk_value *logits = model->source.logits;
    YK_TRY(yki_model_check_free(model, "data parallel"));
    if (model->sync)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model is distributed already (SyncBatchNorm)");
    if (model->parameter_count > 0 && model->parameters[0].data != model->variable_memory)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: the model's parameters are sharded (ZeRO)");
    if (model->plan_count > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "data parallel: create it before the model's first forward");
    if (logits && (logits->ndim == 0 || logits->dims[0] != YK_BATCH))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "data parallel: outputs are gathered along their first dimension, and that "
            "of options.logits is not the batch's");
    yki_device *device;
    YK_TRY(yki_device_create(&device, model->options.device, threads, !model->options.no_winograd));
    yki_device_destroy(model->device);
    model->device = model->source.device = device;
    model->options.threads = threads;
    return YK_OK;
}

bool yki_model_has_output(const yk_model *model)
{
    return model->source.logits != NULL;
}

bool yki_model_loss_is_sum(const yk_model *model)
{
    bool sum = false;
    for (size_t n = 0; n < model->source.first_backward; n++)
        sum = sum || model->graph->nodes[n]->attrs.reduction == YK_LOSS_SUM;
    return sum;
}
