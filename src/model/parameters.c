/* A model's parameters and buffers as users and distributed training see and move them. */
#include "model/model.h"

size_t yk_model_parameter_count(const yk_model *model)
{
    return model ? model->variables.parameter_count : 0;
}

size_t yk_model_buffer_count(const yk_model *model)
{
    return model ? model->variables.buffer_count : 0;
}

static yk_parameter_view view_of(const yk_model *model, const yki_variable *variable)
{
    const yki_variables *variables = &model->variables;
    return (yk_parameter_view){.name = variable->value->name,
                               .value = yki_variable_tensor(variables, variable, variable->data),
                               .grad = yki_variable_tensor(variables, variable, variable->grad),
                               .trainable = variable->grad && !variable->value->frozen};
}

yk_parameter_view yk_model_parameter(const yk_model *model, size_t index)
{
    return index < yk_model_parameter_count(model)
               ? view_of(model, &model->variables.parameters[index])
               : (yk_parameter_view){0};
}

yk_parameter_view yk_model_buffer(const yk_model *model, size_t index)
{
    return index < yk_model_buffer_count(model) ? view_of(model, &model->variables.buffers[index])
                                                : (yk_parameter_view){0};
}

size_t yki_model_entry_count(const yk_model *model)
{
    return model->variables.parameter_count + model->variables.buffer_count;
}

yk_parameter_view yki_model_entry(const yk_model *model, size_t index)
{
    size_t parameters = model->variables.parameter_count;
    return index < parameters ? yk_model_parameter(model, index)
                              : yk_model_buffer(model, index - parameters);
}

bool yki_model_saves_entry(const yk_model *model, size_t index)
{
    const yki_variables *variables = &model->variables;
    size_t parameters = variables->parameter_count;
    return index < parameters || yki_value_is_saved(variables->buffers[index - parameters].value);
}

int64_t yk_model_parameter_elements(const yk_model *model)
{
    int64_t elements = 0;
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_tensor tensor = yk_model_parameter(model, i).value;
        elements += yk_tensor_count(&tensor);
    }
    return elements;
}

void yk_model_parameters_changed(yk_model *model)
{
    if (model)
        model->variables.version++;
}

void yki_model_set_torn(yk_model *model, bool torn)
{
    model->torn = torn;
}

yk_status yki_model_check_whole(const yk_model *model)
{
    if (!model->torn)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "cannot save: the optimizer's last step was not completed, and only some of "
                     "the weights have been updated; load a checkpoint first");
}

size_t yki_model_padded_bytes(const yk_model *model, size_t parameter)
{
    return yki_variable_bytes(&model->variables.parameters[parameter]);
}

const size_t *yki_model_grad_order(const yk_model *model)
{
    return model->variables.grad_order;
}

const bool *yki_model_used(const yk_model *model)
{
    return model->variables.used;
}

void yki_model_set_used(yk_model *model, size_t parameter)
{
    model->variables.used[parameter] = true;
}

yki_device *yki_model_device(const yk_model *model)
{
    return model->variables.device;
}

static yk_status move_value(yki_variables *variables, yki_variable *variable, void *to)
{
    yki_device *device = variables->device;
    void *from = variable->data;
    if (from == to)
        return YK_OK;
    variable->data = to;
    variables->moves++;
    return yki_device_copy(device, to, from, yki_variable_bytes(variable), YKI_WITHIN_DEVICE,
                           yki_device_stream(device));
}

yk_status yki_model_place_parameters(yk_model *model, void *const *memory)
{
    yki_variables *variables = &model->variables;
    yki_device *device = variables->device;
    char *own = variables->memory;
    yk_status status = YK_OK;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        yki_variable *variable = &variables->parameters[i];
        yk_status moved = move_value(variables, variable, memory ? memory[i] : own);
        status = status == YK_OK ? moved : status;
        own += yki_variable_bytes(variable);
    }
    variables->version++;
    YK_TRY(status);
    YK_TRY(yki_stream_wait(device, yki_device_stream(device)));
    if (memory)
        yki_device_unuse(device, variables->memory, (size_t)(own - (char *)variables->memory));
    return YK_OK;
}

/* Returns where they were. */
static void *set_gradient(yki_variables *variables, yki_variable *variable, void *grad)
{
    void *before = variable->grad;
    variables->gradient_moves += before != grad;
    variable->grad = grad;
    return before;
}

void yki_model_place_gradients(yk_model *model, void *const *memory)
{
    yki_variables *variables = &model->variables;
    char *own = variables->gradient_memory;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        yki_variable *variable = &variables->parameters[i];
        set_gradient(variables, variable, memory[i] ? memory[i] : own);
        own += yki_variable_bytes(variable);
    }
    model->accumulation.spent = true;
}

/* A device that fails to copy them fails in the next call that waits for it, too. */
void yki_model_return_gradients(yk_model *model)
{
    yki_variables *variables = &model->variables;
    yki_device *device = variables->device;
    char *own = variables->gradient_memory;
    for (size_t i = 0; i < variables->parameter_count; i++) {
        yki_variable *variable = &variables->parameters[i];
        size_t bytes = yki_variable_bytes(variable);
        const void *before = set_gradient(variables, variable, own);
        if (before != own)
            yki_device_copy(device, own, before, bytes, YKI_WITHIN_DEVICE,
                            yki_device_stream(device));
        own += bytes;
    }
}
