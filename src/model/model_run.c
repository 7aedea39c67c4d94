/*
 * A model at work: a plan for each batch size and mode that has come by, kept; forward and backward
 * are a walk over its steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/trace.h"
#include "compile/arena.h"
#include "model/model.h"

/* ---- plans ---------------------------------------------------------------------------------- */

static size_t scratch_offset(const yki_plan *plan)
{
    return yki_align(plan->arena_bytes, 4096);
}

/* The arena is as large as the largest plan so far asks. */
static yk_status reserve(yk_model *model, const yki_plan *plan)
{
    size_t bytes = scratch_offset(plan) + plan->scratch_bytes;
    if (bytes <= model->arena_bytes)
        return YK_OK;
    yki_unmap(model->arena, model->arena_bytes);
    model->arena_bytes = 0;
    model->arena = yki_map(bytes);
    if (!model->arena)
        return yki_error_memory(bytes, "activations");
    model->arena_bytes = bytes;
    return YK_OK;
}

static yk_status add_plan(yk_model *model, int64_t batch, bool training, bool backward,
                          yki_plan **plan)
{
    yki_plan **larger = realloc(model->plans, (model->plan_count + 1) * sizeof *larger);
    if (!larger)
        return yki_error_memory(sizeof *larger, "a plan");
    model->plans = larger;
    YK_TRY(yki_plan_create(plan, &model->source, batch, training, backward));
    model->plans[model->plan_count++] = *plan;
    yk_status status = yki_packs_add(model, *plan);
    if (status != YK_OK)
        (*plan)->batch = -1; /* kept, as packs may point at its kernels, but never found again */
    return status;
}

static void enter(yk_model *model)
{
    if (model->device->type->enter)
        model->device->type->enter(model->device);
}

static yk_status find_plan(yk_model *model, int64_t batch, bool training, yki_plan **plan)
{
    bool backward = training || model->eval_backward;
    for (size_t i = 0; i < model->plan_count; i++) {
        *plan = model->plans[i];
        if ((*plan)->batch == batch && (*plan)->training == training &&
            (*plan)->backward == backward)
            return YK_OK;
    }
    return add_plan(model, batch, training, backward, plan);
}

yk_status yk_model_memory_plan(yk_model *model, int64_t batch_size, yk_memory_plan *memory)
{
    yki_plan *plan = NULL;
    if (batch_size < 1)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "batch_size is %lld, expected 1 or more",
                         (long long)batch_size);
    enter(model);
    YK_TRY(find_plan(model, batch_size, true, &plan));
    *memory = (yk_memory_plan){.parameters = model->variable_bytes,
                               .gradients = model->gradient_bytes,
                               .activations = plan->arena_bytes,
                               .scratch = plan->scratch_bytes};
    for (size_t i = 0; i < model->pack_count; i++)
        memory->packed_weights += model->packs[i].kernel->pack_bytes;
    return YK_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

static void *address_of(const yk_model *model, const yki_plan *plan, const yki_place *place)
{
    switch (place->kind) {
    case YKI_PLACE_ARENA:
        return (char *)model->arena + plan->slots[place->index].offset;
    case YKI_PLACE_INPUT:
        return (void *)(uintptr_t)model->input_data[place->index];
    case YKI_PLACE_PARAMETER:
        return model->parameters[place->index].data;
    case YKI_PLACE_GRADIENT:
        return yki_gradient_target(model, place->index);
    case YKI_PLACE_BUFFER:
        return model->buffers[place->index].data;
    case YKI_PLACE_LOSS_GRADIENT:
        return (void *)&((yk_model *)(uintptr_t)model)->loss_gradient;
    case YKI_PLACE_NONE:
        break;
    }
    return NULL;
}

/* A stale packed copy is made anew, once a step: parameters change between steps. */
static yk_status refresh_pack(yk_model *model, const yki_step *step, void **weight)
{
    yki_pack *pack = &model->packs[step->pack];
    const void *canonical = *weight;
    *weight = pack->memory;
    if (pack->source.kind == YKI_PLACE_PARAMETER && pack->version == model->version)
        return YK_OK;
    pack->version = model->version;
    return step->kernel->impl->pack(step->kernel, canonical, pack->memory);
}

static yk_status run_step(yk_model *model, const yki_plan *plan, const yki_step *step)
{
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    for (int i = 0; i < step->in_count; i++)
        in[i] = address_of(model, plan, &step->in[i]);
    for (int i = 0; i < step->out_count; i++)
        out[i] = address_of(model, plan, &step->out[i]);
    if (step->pack >= 0)
        YK_TRY(refresh_pack(model, step, &in[step->kernel->pack_input]));
    yki_kernel_args run = {.in = in,
                           .out = out,
                           .scratch = (char *)model->arena + scratch_offset(plan),
                           .seed = model->options.seed,
                           .step = model->step ^ model->stream << 48,
                           .sync = plan->training ? model->sync : NULL};
    double begin = plan->training ? yki_trace_begin() : 0;
    yk_status status = step->kernel->impl->run(step->kernel, &run);
    if (step->node)
        YKI_TRACE_END(begin, YKI_NO_ARGS, "%s%s", step->node->scope, step->node->op->name);
    else
        YKI_TRACE_END(begin, YKI_NO_ARGS, "reorder of an input");
    if (status != YK_OK && step->node)
        return yki_error_context(status, "%s%s", step->node->scope, step->node->op->name);
    return status;
}

/* Finds each of the model's inputs in the batch and checks its dtype and shape. */
static yk_status take_inputs(yk_model *model, const yk_batch *batch)
{
    bool alone = !model->hooks.forward_begin && !model->sync;
    if (batch->size < alone) /* among ranks one may have nothing left */
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has %lld samples",
                         (long long)batch->size);
    for (size_t i = 0; i < model->input_count; i++) {
        const yk_value *input = model->inputs[i];
        const yk_tensor *tensor = NULL;
        for (int t = 0; t < batch->count && !tensor; t++)
            if (strcmp(batch->names[t], input->name) == 0)
                tensor = &batch->tensors[t];
        if (!tensor)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "the batch has no tensor \"%s\"",
                             input->name);
        bool fits = tensor->dtype == input->dtype && tensor->ndim == input->ndim;
        for (int d = 0; fits && d < input->ndim; d++)
            fits = tensor->dims[d] == (input->dims[d] == YK_BATCH ? batch->size : input->dims[d]);
        char text[96];
        if (!fits)
            return yki_error(YK_ERROR_INVALID_SHAPE,
                             "the batch's \"%s\" does not fit: expected %s %s with N = %lld",
                             input->name, yki_shape_text(input, text, sizeof text),
                             yk_dtype_name(input->dtype), (long long)batch->size);
        model->input_data[i] = tensor->data;
    }
    return YK_OK;
}

static yk_status run_forward(yk_model *model, const yk_batch *batch, bool training)
{
    yki_plan *plan;
    YK_TRY(find_plan(model, batch->size, training, &plan));
    YK_TRY(reserve(model, plan));
    for (size_t i = 0; i < plan->forward_count; i++)
        YK_TRY(run_step(model, plan, &plan->steps[i]));
    model->current = model->last = plan;
    return YK_OK;
}

static yki_trace_args trace_samples(int64_t samples)
{
    return (yki_trace_args){.key = {"samples"}, .value = {samples}};
}

yk_status yki_model_forward(yk_model *model, const yk_batch *batch)
{
    double begin = yki_trace_begin();
    model->current = model->last = NULL;
    YK_TRY(take_inputs(model, batch));
    enter(model);
    if (model->training) {
        model->step++;
        if (model->hooks.forward_begin)
            YK_TRY(model->hooks.forward_begin(model->hooks.context, batch->size));
    }
    model->batch = batch;
    yk_status status = run_forward(model, batch, model->training);
    YKI_TRACE_END(begin, trace_samples(batch->size), "forward%s",
                  model->training ? "" : " (evaluation)");
    return status;
}

static yk_status run_backward(yk_model *model, const yki_backward *backward)
{
    const yki_plan *plan = model->current;
    YK_TRY(yki_gradients_begin(model, backward));
    double start = backward->loss_weight * model->loss_scale;
    if (model->source.loss->dtype == YK_F64)
        model->loss_gradient.f64 = start;
    else
        model->loss_gradient.f32 = (float)start;
    size_t finished = 0;
    for (size_t i = plan->forward_count; i < plan->step_count; i++) {
        const yki_step *step = &plan->steps[i];
        YK_TRY(run_step(model, plan, step));
        for (int g = 0; g < step->gradients; g++, finished++)
            yki_gradient_finish(model, step->parameter[g]);
    }
    yki_gradients_finish_unreached(model, finished);
    return YK_OK;
}

yk_status yki_model_backward(yk_model *model)
{
    double begin = yki_trace_begin();
    if (!model->current)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "backward without a forward before it");
    enter(model);
    if (!model->current->backward) {
        /* The first backward in evaluation mode: from now on such plans keep what it needs. */
        model->eval_backward = true;
        YK_TRY(run_forward(model, model->batch, false));
    }
    yki_backward backward = yki_gradients_weigh(model, model->current->batch);
    backward.training = model->current->training;
    if (model->hooks.backward_begin)
        YK_TRY(model->hooks.backward_begin(model->hooks.context, &backward));
    yk_status status = run_backward(model, &backward);
    char line[YKI_ERROR_LINE];
    if (status != YK_OK)
        yki_error_copy(line, sizeof line);
    /* Also after a failure: what is in flight still uses the gradients. */
    if (model->hooks.backward_end) {
        yk_status ended = model->hooks.backward_end(model->hooks.context);
        if (status == YK_OK)
            status = ended;
        else
            yki_error_set_line(status, line);
    }
    YKI_TRACE_END(begin, trace_samples(model->current->batch), "backward");
    model->current = NULL;
    if (status == YK_OK) {
        model->kept_samples = backward.kept_samples + backward.samples;
        model->gradients_spent = false;
    }
    return status;
}

/* ---- looking -------------------------------------------------------------------------------- */

double yki_model_loss(const yk_model *model)
{
    const yki_plan *plan = model->last;
    if (!plan)
        return NAN;
    const void *loss = address_of(model, plan, &plan->loss);
    return model->source.loss->dtype == YK_F64 ? *(const double *)loss : *(const float *)loss;
}

yk_status yki_model_output(yk_model *model, yk_tensor *output)
{
    const yk_value *logits = model->options.logits; /* by its shape, and as the plan keeps it */
    const yki_plan *plan = model->last;
    if (!logits)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "the model was created without options.logits");
    if (!plan)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "output without a forward before it");
    *output = (yk_tensor){.data = address_of(model, plan, &plan->logits),
                          .dtype = model->source.logits->dtype,
                          .ndim = logits->ndim};
    memcpy(output->dims, logits->dims, sizeof output->dims);
    if (output->ndim && output->dims[0] == YK_BATCH)
        output->dims[0] = plan->batch;
    return YK_OK;
}
