/* Parameters, their gradients and buffers: memory, first values, views, packed copies. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"
#include "tensor/init.h"
#include "tensor/tensor.h"

static yk_tensor tensor_of(const yk_value *value, void *data)
{
    yk_tensor tensor = {.data = data, .dtype = value->dtype, .ndim = value->ndim};
    memcpy(tensor.dims, value->dims, sizeof tensor.dims);
    return tensor;
}

size_t yki_variable_bytes(const yki_variable *variable)
{
    yk_tensor tensor = tensor_of(variable->value, NULL);
    return yki_tensor_padded_bytes(&tensor);
}

static yk_status collect(yk_model *model)
{
    const yk_graph *graph = model->graph;
    model->parameters = yki_calloc(graph->value_count, sizeof *model->parameters);
    model->buffers = yki_calloc(graph->value_count, sizeof *model->buffers);
    model->inputs = yki_calloc(graph->value_count, sizeof *model->inputs);
    model->input_data = yki_calloc(graph->value_count, sizeof *model->input_data);
    model->grad_order = yki_calloc(graph->value_count, sizeof *model->grad_order);
    model->used = yki_calloc(graph->value_count, sizeof *model->used);
    if (!model->parameters || !model->buffers || !model->inputs || !model->input_data ||
        !model->grad_order || !model->used)
        return yki_error_memory(graph->value_count * sizeof *model->parameters, "the model");
    for (size_t i = 0; i < graph->value_count; i++) {
        yk_value *value = graph->values[i];
        if (value->kind == YKI_PARAMETER)
            model->parameters[model->parameter_count++].value = value;
        else if (value->kind == YKI_BUFFER)
            model->buffers[model->buffer_count++].value = value;
        else if (value->kind == YKI_INPUT)
            model->inputs[model->input_count++] = value;
    }
    return YK_OK;
}

/* Points each variable's data into memory that starts at base. */
static void *lay_out(yki_variable *variables, size_t count, char *base)
{
    for (size_t i = 0; i < count; i++) {
        variables[i].data = base;
        base += yki_variable_bytes(&variables[i]);
    }
    return base;
}

static void place_own_gradients(yk_model *model)
{
    char *base = model->gradient_memory;
    for (size_t i = 0; i < model->parameter_count; i++) {
        model->parameters[i].grad = base;
        base += yki_variable_bytes(&model->parameters[i]);
    }
}

yk_status yki_variables_create(yk_model *model)
{
    YK_TRY(collect(model));
    for (size_t i = 0; i < model->parameter_count; i++)
        model->gradient_bytes += yki_variable_bytes(&model->parameters[i]);
    model->variable_bytes = model->gradient_bytes;
    for (size_t i = 0; i < model->buffer_count; i++)
        model->variable_bytes += yki_variable_bytes(&model->buffers[i]);
    model->variable_memory = yki_map(model->variable_bytes);
    model->gradient_memory = yki_map(model->gradient_bytes);
    if (!model->variable_memory || !model->gradient_memory)
        return yki_error_memory(model->variable_bytes + model->gradient_bytes, "parameters");
    void *end = lay_out(model->parameters, model->parameter_count, model->variable_memory);
    lay_out(model->buffers, model->buffer_count, end);
    place_own_gradients(model);
    model->version = 1;
    return YK_OK;
}

static yk_status draw(yki_mt19937 *generator, const yki_variable *variable)
{
    yk_tensor tensor = tensor_of(variable->value, variable->data);
    return yki_init_tensor(generator, variable->value->init, variable->value->fan, &tensor);
}

/*
 * One generator for the whole model, as torch.manual_seed, drawn from in the order in which
 * torchvision's networks draw: first every module's constructor, in order of declaration; then, for
 * all convolutions, kaiming_normal_. What nn.Conv2d's constructor has drawn for them, a uniform
 * number an element, is thus lost, but it moves the generator on.
 */
yk_status yki_variables_draw(yk_model *model)
{
    yki_mt19937 generator;
    yki_mt19937_init(&generator, (uint32_t)model->options.seed);
    for (size_t i = 0; i < model->parameter_count; i++) {
        const yki_variable *variable = &model->parameters[i];
        yk_tensor tensor = tensor_of(variable->value, variable->data);
        if (variable->value->init == YK_INIT_KAIMING_NORMAL_FAN_OUT)
            yki_mt19937_skip(&generator, yk_tensor_count(&tensor));
        else
            YK_TRY(draw(&generator, variable));
    }
    for (size_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].value->init == YK_INIT_KAIMING_NORMAL_FAN_OUT)
            YK_TRY(draw(&generator, &model->parameters[i]));
    for (size_t i = 0; i < model->buffer_count; i++)
        YK_TRY(draw(&generator, &model->buffers[i]));
    return YK_OK;
}

void yki_variables_destroy(yk_model *model)
{
    yki_unmap(model->variable_memory, model->variable_bytes);
    yki_unmap(model->gradient_memory, model->gradient_bytes);
    yki_unmap(model->fresh_memory, model->gradient_bytes);
    free(model->parameters);
    free(model->buffers);
    free(model->inputs);
    free(model->input_data);
    free(model->grad_order);
    free(model->used);
}

/* The order in which backward's nodes finish the gradients; parameters without one come last. */
static void find_grad_order(yk_model *model)
{
    const yk_graph *graph = model->graph;
    size_t count = 0;
    for (size_t n = model->source.first_backward; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n]->out_count; i++) {
            const yk_value *value = graph->nodes[n]->out[i];
            if (value && model->source.fixed[value->id].kind == YKI_PLACE_GRADIENT)
                model->grad_order[count++] = model->source.fixed[value->id].index;
        }
    for (size_t i = 0; i < count; i++)
        model->used[model->grad_order[i]] = true;
    for (size_t p = 0; p < model->parameter_count; p++)
        if (!model->used[p])
            model->grad_order[count++] = p;
}

yk_status yki_variables_place(yk_model *model, const yki_gradients *gradients)
{
    yki_place *fixed = yki_calloc(model->graph->value_count, sizeof *fixed);
    if (!fixed)
        return yki_error_memory(model->graph->value_count * sizeof *fixed, "the model");
    model->source.fixed = fixed;
    for (size_t i = 0; i < model->input_count; i++)
        fixed[model->inputs[i]->id] = (yki_place){.kind = YKI_PLACE_INPUT, .index = i};
    for (size_t i = 0; i < model->buffer_count; i++)
        fixed[model->buffers[i].value->id] = (yki_place){.kind = YKI_PLACE_BUFFER, .index = i};
    for (size_t i = 0; i < model->parameter_count; i++) {
        int id = model->parameters[i].value->id;
        fixed[id] = (yki_place){.kind = YKI_PLACE_PARAMETER, .index = i};
        if (gradients->of[id])
            fixed[gradients->of[id]->id] = (yki_place){.kind = YKI_PLACE_GRADIENT, .index = i};
    }
    fixed[gradients->loss_gradient->id] = (yki_place){.kind = YKI_PLACE_LOSS_GRADIENT};
    find_grad_order(model);
    return YK_OK;
}

/* ---- packed copies ----------------------------------------------------------------------------
 */

static bool can_share(const yki_pack *pack, const yki_kernel *kernel, const yki_place *source)
{
    return source->kind == YKI_PLACE_PARAMETER && pack->source.kind == YKI_PLACE_PARAMETER &&
           pack->source.index == source->index &&
           pack->kernel->impl->same_pack == kernel->impl->same_pack &&
           kernel->impl->same_pack(kernel, pack->kernel);
}

static yk_status find_pack(yk_model *model, const yki_kernel *kernel, const yki_place *source,
                           int *index)
{
    for (size_t i = 0; i < model->pack_count; i++) {
        if (can_share(&model->packs[i], kernel, source)) {
            *index = (int)i;
            return YK_OK;
        }
    }
    yki_pack *larger = realloc(model->packs, (model->pack_count + 1) * sizeof *larger);
    if (larger)
        model->packs = larger;
    void *memory = larger ? yki_map(kernel->pack_bytes) : NULL;
    if (!memory)
        return yki_error_memory(kernel->pack_bytes, "packed weights");
    *index = (int)model->pack_count;
    model->packs[model->pack_count++] =
        (yki_pack){.source = *source, .kernel = kernel, .memory = memory};
    return YK_OK;
}

yk_status yki_packs_add(yk_model *model, yki_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        yki_step *step = &plan->steps[i];
        if (step->kernel->pack_bytes)
            YK_TRY(
                find_pack(model, step->kernel, &step->in[step->kernel->pack_input], &step->pack));
    }
    return YK_OK;
}

void yki_packs_destroy(yk_model *model)
{
    for (size_t i = 0; i < model->pack_count; i++)
        yki_unmap(model->packs[i].memory, model->packs[i].kernel->pack_bytes);
    free(model->packs);
}

/* ---- what users and distributed training see ----------------------------------------------------
 */

size_t yk_model_parameter_count(const yk_model *model)
{
    return model->parameter_count;
}

size_t yk_model_buffer_count(const yk_model *model)
{
    return model->buffer_count;
}

yk_parameter_view yk_model_parameter(const yk_model *model, size_t index)
{
    const yki_variable *variable = &model->parameters[index];
    return (yk_parameter_view){.name = variable->value->name,
                               .value = tensor_of(variable->value, variable->data),
                               .grad = tensor_of(variable->value, variable->grad)};
}

yk_parameter_view yk_model_buffer(const yk_model *model, size_t index)
{
    const yki_variable *variable = &model->buffers[index];
    return (yk_parameter_view){.name = variable->value->name,
                               .value = tensor_of(variable->value, variable->data),
                               .grad = tensor_of(variable->value, NULL)};
}

int64_t yk_model_parameter_elements(const yk_model *model)
{
    int64_t elements = 0;
    for (size_t i = 0; i < model->parameter_count; i++) {
        yk_tensor tensor = tensor_of(model->parameters[i].value, NULL);
        elements += yk_tensor_count(&tensor);
    }
    return elements;
}

void yk_model_parameters_changed(yk_model *model)
{
    model->version++;
}

int64_t yk_model_forwards(const yk_model *model)
{
    return (int64_t)model->step;
}

void yk_model_set_forwards(yk_model *model, int64_t forwards)
{
    model->step = (uint64_t)forwards;
}

void yk_model_zero_grad(yk_model *model)
{
    model->gradients_spent = true;
}

const size_t *yki_model_grad_order(const yk_model *model)
{
    return model->grad_order;
}

const bool *yki_model_used(const yk_model *model)
{
    return model->used;
}

void yki_model_set_used(yk_model *model, size_t parameter)
{
    model->used[parameter] = true;
}

static void move_value(yki_variable *variable, void *to)
{
    if (variable->data != to)
        memcpy(to, variable->data, yki_variable_bytes(variable));
    variable->data = to;
}

void yki_model_place_parameters(yk_model *model, void *const *memory)
{
    char *own = model->variable_memory;
    for (size_t i = 0; i < model->parameter_count; i++) {
        yki_variable *variable = &model->parameters[i];
        move_value(variable, memory ? memory[i] : own);
        own += yki_variable_bytes(variable);
    }
    if (memory)
        yki_unuse(model->variable_memory, (size_t)(own - (char *)model->variable_memory));
    model->version++;
}

void yki_model_place_gradients(yk_model *model, void *const *memory)
{
    place_own_gradients(model);
    for (size_t i = 0; memory && i < model->parameter_count; i++)
        if (memory[i])
            model->parameters[i].grad = memory[i];
    model->gradients_spent = true;
}

void yki_model_set_stream(yk_model *model, int stream)
{
    model->stream = (uint64_t)stream;
}

void yki_model_set_hooks(yk_model *model, const yki_model_hooks *hooks)
{
    model->hooks = hooks ? *hooks : (yki_model_hooks){0};
}

yk_status yki_model_check_free(const yk_model *model, const char *who)
{
    if (!model->hooks.context)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s: the model is distributed already (DDP or data parallel)", who);
}

int64_t yki_model_norm_channels(const yk_model *model)
{
    int64_t widest = 0;
    for (size_t n = 0; n < model->graph->node_count; n++) {
        const yki_node *node = model->graph->nodes[n];
        if (node->op == &yki_op_batch_norm && node->in[0]->dims[1] > widest)
            widest = node->in[0]->dims[1];
    }
    return widest;
}

void yki_model_set_sync(yk_model *model, yki_sync *sync)
{
    free(model->sync);
    model->sync = sync;
}

bool yki_model_is_synced(const yk_model *model)
{
    return model->sync != NULL;
}

yk_status yki_model_take_loss_scale(yk_model *model)
{
    if (model->has_scaler)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "grad scaler: the model has one already");
    model->has_scaler = true;
    return YK_OK;
}

void yki_model_release_loss_scale(yk_model *model)
{
    model->has_scaler = false;
    model->loss_scale = 1;
}

void yki_model_set_loss_scale(yk_model *model, double scale)
{
    model->loss_scale = scale;
}

yk_status yki_model_share_maximum(yk_model *model, double *value)
{
    const yki_model_hooks *hooks = &model->hooks;
    return hooks->share_maximum ? hooks->share_maximum(hooks->context, value) : YK_OK;
}
