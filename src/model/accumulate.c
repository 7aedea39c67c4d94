/*
 * Gradients of several backwards in one. The first after an optimizer step writes into the
 * gradients themselves. A further one writes each gradient into memory of its own and adds it at
 * the moment it is final, while it is still in the cache:
 *
 *     gradient = kept_weight * gradient + increment
 *
 * The mean over all samples is kept as a running mean: with S samples in the gradients and n new
 * ones the weights are S / (S + n) and n / (S + n), so that nobody must know ahead how many there
 * will be. Distributed training weighs over all ranks instead (parallel/reducer.c).
 */
#include <string.h>

#include "base/memory.h"
#include "model/model.h"
#include "tensor/tensor.h"

enum { CHUNK_ELEMENTS = 16384 }; /* what one thread adds up sooner than a second one wakes up */

void yk_model_set_accumulation(yk_model *model, yk_accumulation accumulation)
{
    model->accumulation = accumulation;
}

yki_backward yki_gradients_weigh(const yk_model *model, int64_t samples)
{
    bool sum = yki_model_loss_is_sum(model);
    yki_backward backward = {.samples = samples,
                             .adds = !model->gradients_spent,
                             .kept_samples = model->gradients_spent ? 0 : model->kept_samples,
                             .sum = sum,
                             .mean = model->accumulation == YK_ACCUMULATION_MEAN && !sum,
                             .loss_weight = 1,
                             .kept_weight = 1};
    if (backward.mean && backward.adds) {
        double all = (double)(backward.kept_samples + samples);
        if (all == 0)
            return backward; /* empty batches so far */
        backward.loss_weight = (double)samples / all;
        backward.kept_weight = (double)backward.kept_samples / all;
    }
    return backward;
}

yk_status yki_gradients_begin(yk_model *model, const yki_backward *backward)
{
    model->adding = backward->adds;
    model->kept_weight = backward->kept_weight;
    if (!model->adding || model->fresh_memory)
        return YK_OK;
    model->fresh_memory = yki_map(model->gradient_bytes);
    if (!model->fresh_memory)
        return yki_error_memory(model->gradient_bytes, "accumulated gradients");
    char *at = model->fresh_memory;
    for (size_t i = 0; i < model->parameter_count; i++) {
        model->parameters[i].increment = at;
        at += yki_variable_bytes(&model->parameters[i]);
    }
    return YK_OK;
}

void *yki_gradient_target(const yk_model *model, size_t parameter)
{
    const yki_variable *variable = &model->parameters[parameter];
    return model->adding ? variable->increment : variable->grad;
}

static void add_increment(const yk_tensor *grad, const void *increment, double kept_weight)
{
    int64_t count = yk_tensor_count(grad);
    size_t size = yk_dtype_size(grad->dtype);
#pragma omp parallel for schedule(static) if (count >= CHUNK_ELEMENTS)
    for (int64_t begin = 0; begin < count; begin += CHUNK_ELEMENTS) {
        int64_t rest = count - begin, part = rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS;
        char *sum = (char *)grad->data + (size_t)begin * size;
        const char *more = (const char *)increment + (size_t)begin * size;
        yki_add_scaled(grad->dtype, sum, kept_weight, sum, more, part);
    }
}

void yki_gradient_finish(yk_model *model, size_t parameter)
{
    if (model->adding) {
        yk_tensor grad = yk_model_parameter(model, parameter).grad;
        add_increment(&grad, model->parameters[parameter].increment, model->kept_weight);
    }
    if (model->hooks.grad_ready)
        model->hooks.grad_ready(model->hooks.context, parameter);
}

void yki_gradients_finish_unreached(yk_model *model, size_t finished)
{
    for (size_t i = finished; i < model->parameter_count; i++) {
        size_t parameter = model->grad_order[i];
        yki_variable *variable = &model->parameters[parameter];
        memset(yki_gradient_target(model, parameter), 0, yki_variable_bytes(variable));
        yki_gradient_finish(model, parameter);
    }
}
