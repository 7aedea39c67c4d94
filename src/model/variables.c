/* See variables.h. Parameters lie one after the other, each padded; so do their gradients. */
#include "model/variables.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/tensor.h"

static yk_tensor shape_of(const yki_variable *variable)
{
    const yk_value *value = variable->value;
    yk_tensor tensor = {.dtype = value->dtype, .ndim = value->ndim};
    memcpy(tensor.dims, value->dims, sizeof tensor.dims);
    return tensor;
}

yk_tensor yki_variable_tensor(const yki_variables *variables, const yki_variable *variable,
                              void *data)
{
    yk_tensor tensor = shape_of(variable);
    tensor.data = data;
    tensor.device = yki_device_is_host(variables->device) ? NULL : variables->device;
    return tensor;
}

size_t yki_variable_bytes(const yki_variable *variable)
{
    yk_tensor tensor = shape_of(variable);
    return yki_tensor_padded_bytes(&tensor);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static yk_status collect_variables(yki_variables *variables, const yk_graph *graph)
{
    size_t count = graph->value_count;
    variables->parameters = yki_calloc(count, sizeof *variables->parameters);
    variables->buffers = yki_calloc(count, sizeof *variables->buffers);
    variables->grad_order = yki_calloc(count, sizeof *variables->grad_order);
    variables->used = yki_calloc(count, sizeof *variables->used);
    if (!variables->parameters || !variables->buffers || !variables->grad_order || !variables->used)
        return yki_error_memory(count * sizeof *variables->parameters, "the model");
    for (size_t i = 0; i < count; i++) {
        yk_value *value = graph->values[i];
        if (value->kind == YKI_PARAMETER)
            variables->parameters[variables->parameter_count++].value = value;
        else if (value->kind == YKI_BUFFER)
            variables->buffers[variables->buffer_count++].value = value;
    }
    return YK_OK;
}

static size_t total_bytes(const yki_variable *variables, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += yki_variable_bytes(&variables[i]);
    return bytes;
}

static void lay_out(yki_variables *variables)
{
    char *value = variables->memory, *grad = variables->gradient_memory; /* may be NULL */
    for (size_t i = 0; i < variables->parameter_count; i++) {
        yki_variable *parameter = &variables->parameters[i];
        parameter->data = value;
        parameter->grad = grad;
        value += yki_variable_bytes(parameter);
        grad += grad ? yki_variable_bytes(parameter) : 0;
    }
    for (size_t i = 0; i < variables->buffer_count; i++) {
        variables->buffers[i].data = value;
        value += yki_variable_bytes(&variables->buffers[i]);
    }
}

yk_status yki_variables_create(yki_variables *variables, yki_device *device, const yk_graph *graph,
                               bool trained)
{
    variables->device = device;
    YK_TRY(collect_variables(variables, graph));
    size_t parameters = total_bytes(variables->parameters, variables->parameter_count);
    variables->gradient_bytes = trained ? parameters : 0;
    variables->bytes = parameters + total_bytes(variables->buffers, variables->buffer_count);
    YK_TRY(yki_device_alloc(device, variables->bytes, &variables->memory));
    YK_TRY(yki_device_alloc(device, variables->gradient_bytes, &variables->gradient_memory));
    lay_out(variables);
    variables->version = 1;
    return YK_OK;
}

void yki_variables_destroy(yki_variables *variables)
{
    yki_device_free(variables->device, variables->memory, variables->bytes);
    yki_device_free(variables->device, variables->gradient_memory, variables->gradient_bytes);
    free(variables->parameters);
    free(variables->buffers);
    free(variables->grad_order);
    free(variables->used);
}

/* ---- initial values -------------------------------------------------------------------------- */

/* By the recipe, or as the layer wants it if that is NULL. */
static yk_status draw(yki_variables *variables, const yki_variable *variable,
                      const yki_recipe *recipe)
{
    const yk_value *value = variable->value;
    yki_mt19937 *generator = &variables->generator;
    yk_tensor tensor = yki_variable_tensor(variables, variable, variable->data);
    yki_host_view view;
    YK_TRY(yki_host_view_open(&view, &tensor, YKI_WRITE));
    tensor.data = view.data;
    yk_status status = recipe ? yki_init_with(generator, recipe, &tensor)
                              : yki_init_tensor(generator, value->init, value->fan, &tensor);
    status = yki_host_view_end(&view, status);
    return status == YK_OK ? status : yki_error_context(status, "%s", value->name);
}

static yk_status start_buffer(yki_variables *variables, const yki_variable *buffer)
{
    yk_tensor tensor = yki_variable_tensor(variables, buffer, buffer->data);
    return buffer->value->given ? yk_tensor_write(&tensor, buffer->value->given)
                                : draw(variables, buffer, NULL);
}

/* Whether torchvision's networks replace what the module's constructor has drawn: one uniform
 * number per element, which advances the generator. */
static bool is_drawn_again(yk_init init)
{
    return init == YK_INIT_KAIMING_NORMAL_FAN_OUT || init == YK_INIT_KAIMING_NORMAL_FAN_IN ||
           init == YK_INIT_KAIMING_UNIFORM_FAN_IN || init == YK_INIT_KAIMING_UNIFORM_FAN_OUT ||
           init == YK_INIT_NORMAL || init == YK_INIT_UNIFORM_FAN_OUT ||
           init == YK_INIT_ZEROS_AFTER_DRAW;
}

/*
 * One generator for the whole model, like torch.manual_seed, read in the order in which
 * torchvision's networks draw: first every module's constructor, in order of declaration; then
 * kaiming_normal_ and the like for the layers that have their own initialisation.
 */
yk_status yki_variables_draw(yki_variables *variables, uint64_t seed)
{
    yki_mt19937_init(&variables->generator, (uint32_t)seed);
    for (size_t i = 0; i < variables->parameter_count; i++) {
        const yki_variable *variable = &variables->parameters[i];
        yk_tensor tensor = shape_of(variable);
        if (is_drawn_again(variable->value->init))
            yki_mt19937_skip(&variables->generator, yk_tensor_count(&tensor));
        else
            YK_TRY(draw(variables, variable, NULL));
    }
    for (size_t i = 0; i < variables->parameter_count; i++)
        if (is_drawn_again(variables->parameters[i].value->init))
            YK_TRY(draw(variables, &variables->parameters[i], NULL));
    for (size_t i = 0; i < variables->buffer_count; i++)
        YK_TRY(start_buffer(variables, &variables->buffers[i]));
    return YK_OK;
}

yk_status yki_variables_draw_again(yki_variables *variables, size_t parameter,
                                   const yki_recipe *recipe)
{
    return draw(variables, &variables->parameters[parameter], recipe);
}

/* ---- in the graph ---------------------------------------------------------------------------- */

void yki_variables_place(const yki_variables *variables, const yki_gradients *gradients,
                         yki_place *fixed)
{
    for (size_t i = 0; i < variables->buffer_count; i++)
        fixed[variables->buffers[i].value->id] = (yki_place){.kind = YKI_PLACE_BUFFER, .index = i};
    for (size_t i = 0; i < variables->parameter_count; i++) {
        int id = variables->parameters[i].value->id;
        fixed[id] = (yki_place){.kind = YKI_PLACE_PARAMETER, .index = i};
        if (gradients->of && gradients->of[id])
            fixed[gradients->of[id]->id] = (yki_place){.kind = YKI_PLACE_GRADIENT, .index = i};
    }
}

/* Parameters without a gradient come last. */
void yki_variables_order(yki_variables *variables, const yk_graph *graph, size_t first_backward,
                         const yki_place *fixed)
{
    size_t count = 0;
    for (size_t n = first_backward; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n]->out_count; i++) {
            const yk_value *value = graph->nodes[n]->out[i];
            if (value && fixed[value->id].kind == YKI_PLACE_GRADIENT)
                variables->grad_order[count++] = fixed[value->id].index;
        }
    for (size_t i = 0; i < count; i++)
        variables->used[variables->grad_order[i]] = true;
    for (size_t p = 0; p < variables->parameter_count; p++)
        if (!variables->used[p])
            variables->grad_order[count++] = p;
}
