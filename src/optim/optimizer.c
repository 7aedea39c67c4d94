/*
 * What all optimizers share: state tensors in one block of the device's memory, and what can be
 * seen of them. step.c has the step, param_groups.c the hyperparameters, shards.c the sharded state
 * of ZeRO.
 */
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model_hooks.h"
#include "optim/average.h"
#include "optim/gradients.h"
#include "tensor/tensor.h"

/* ---- creation ------------------------------------------------------------------------------- */

static yk_status check_dtypes(const yk_model *model)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        if (view.value.dtype != YK_F32 && view.value.dtype != YK_F64)
            return yki_error(YK_ERROR_UNSUPPORTED,
                             "%s is %s; an optimizer needs float32 or float64", view.name,
                             yk_dtype_name(view.value.dtype));
    }
    return YK_OK;
}

static double start_of_slot(const yk_optimizer *optimizer, size_t parameter, int slot)
{
    const yki_param_group *group = &optimizer->groups[optimizer->group_of[parameter]];
    int index = optimizer->rule->slot_starts[optimizer->slot_of_rule[slot]];
    return index ? group->hyperparameters[index] : 0;
}

yk_status yki_optimizer_start_slot(const yk_optimizer *optimizer, size_t parameter, int slot)
{
    yki_host_view view;
    yk_tensor tensor = yki_optimizer_slot(optimizer, parameter, slot);
    double start = start_of_slot(optimizer, parameter, slot);
    YK_TRY(yki_host_view_open(&view, &tensor, YKI_WRITE));
    for (int64_t i = 0; i < yk_tensor_count(&tensor); i++)
        if (tensor.dtype == YK_F64)
            ((double *)view.data)[i] = start;
        else
            ((float *)view.data)[i] = (float)start;
    return yki_host_view_close(&view);
}

yk_status yki_optimizer_start_state(const yk_optimizer *optimizer)
{
    for (int slot = 0; slot < optimizer->slots; slot++)
        for (size_t i = 0; i < optimizer->parameters; i++)
            if (optimizer->state[slot][i] && start_of_slot(optimizer, i, slot) != 0)
                YK_TRY(yki_optimizer_start_slot(optimizer, i, slot));
    return YK_OK;
}

static yk_status make_state(yk_optimizer *optimizer)
{
    size_t slot_bytes = 0;
    for (size_t i = 0; i < optimizer->parameters; i++)
        slot_bytes += yki_tensor_padded_bytes(&optimizer->views[i].value);
    optimizer->memory_bytes = slot_bytes * (size_t)optimizer->slots;
    void *memory;
    YK_TRY(yki_device_alloc(optimizer->device, optimizer->memory_bytes, &memory));
    optimizer->memory = memory;
    char *at = optimizer->memory;
    for (int slot = 0; slot < optimizer->slots; slot++) {
        optimizer->state[slot] = yki_calloc(optimizer->parameters, sizeof(char *));
        if (!optimizer->state[slot])
            return yki_error_memory(optimizer->parameters * sizeof(char *), "the optimizer");
        for (size_t i = 0; i < optimizer->parameters; i++) {
            optimizer->state[slot][i] = at;
            at += yki_tensor_padded_bytes(&optimizer->views[i].value);
        }
    }
    return yki_optimizer_start_state(optimizer);
}

void yki_optimizer_refresh_views(yk_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->parameters; i++)
        optimizer->views[i] = yk_model_parameter(optimizer->model, i);
}

yk_status yki_optimizer_fit_coefficients(yk_optimizer *optimizer, size_t count)
{
    yki_block larger;
    size_t bytes = count * YKI_SWEEP_COEFFICIENTS * sizeof(double);
    if (bytes <= optimizer->coefficients.bytes)
        return YK_OK;
    YK_TRY(yki_block_create(&larger, optimizer->device, bytes));
    yk_status status = yki_stream_wait(optimizer->device, yki_device_stream(optimizer->device));
    if (status == YK_OK)
        status = yki_tape_drop(&optimizer->update_tape);
    yki_block_destroy(status == YK_OK ? &optimizer->coefficients : &larger);
    if (status == YK_OK)
        optimizer->coefficients = larger;
    return status;
}

static yk_status make_groups(yk_optimizer *optimizer, const double *hyperparameters)
{
    optimizer->groups = yki_calloc(1, sizeof *optimizer->groups);
    optimizer->group_of = yki_calloc(optimizer->parameters, sizeof *optimizer->group_of);
    if (!optimizer->groups || !optimizer->group_of)
        return yki_error_memory(optimizer->parameters * sizeof *optimizer->group_of,
                                "the optimizer's groups");
    optimizer->group_count = 1;
    memcpy(optimizer->groups->hyperparameters, hyperparameters,
           (size_t)optimizer->rule->hyperparameters * sizeof *hyperparameters);
    optimizer->groups->initial_lr = hyperparameters[YKI_LR];
    optimizer->groups->end = YK_NEVER;
    return yki_optimizer_fit_coefficients(optimizer, 1);
}

static yk_status make_optimizer_parts(yk_optimizer *optimizer, const double *hyperparameters)
{
    optimizer->views = yki_calloc(optimizer->parameters, sizeof *optimizer->views);
    optimizer->own = yki_calloc(optimizer->parameters, sizeof *optimizer->own);
    optimizer->updated = yki_calloc(optimizer->parameters, sizeof *optimizer->updated);
    optimizer->part_of = yki_calloc(optimizer->parameters, sizeof *optimizer->part_of);
    optimizer->ages = yki_calloc(optimizer->parameters, sizeof *optimizer->ages);
    optimizer->earlier = yki_calloc(optimizer->parameters, sizeof *optimizer->earlier);
    optimizer->set_of = yki_calloc(optimizer->parameters, sizeof *optimizer->set_of);
    optimizer->sets = yki_calloc(optimizer->parameters, sizeof *optimizer->sets);
    if (!optimizer->views || !optimizer->own || !optimizer->updated || !optimizer->part_of ||
        !optimizer->ages || !optimizer->earlier || !optimizer->set_of || !optimizer->sets)
        return yki_error_memory(optimizer->parameters * sizeof *optimizer->views, "the optimizer");
    for (size_t i = 0; i < optimizer->parameters; i++)
        optimizer->ages[i].product = 1;
    yki_optimizer_refresh_views(optimizer);
    YK_TRY(make_groups(optimizer, hyperparameters));
    YK_TRY(make_state(optimizer));
    memset(optimizer->own, true, optimizer->parameters * sizeof *optimizer->own);
    YK_TRY(yki_optimizer_choose(optimizer, optimizer->own));
    YK_TRY(yki_gradients_create(&optimizer->gradients, optimizer->model));
    YK_TRY(yki_late_create(&optimizer->squares, optimizer->device, sizeof(double)));
    return yki_block_create(&optimizer->clipping, optimizer->device,
                            YKI_SWEEP_COEFFICIENTS * sizeof(double));
}

static void choose_slots(yk_optimizer *optimizer, unsigned wanted)
{
    for (int slot = 0; slot < YKI_MAX_SLOTS; slot++)
        if (wanted >> slot & 1)
            optimizer->slot_of_rule[optimizer->slots++] = slot;
}

yk_status yki_optimizer_create(yk_optimizer **optimizer, yk_model *model,
                               const yki_optimizer_rule *rule, const double *hyperparameters)
{
    *optimizer = NULL;
    YK_TRY(rule->check(hyperparameters));
    YK_TRY(yki_model_check_trainable(model, "optimizer"));
    YK_TRY(check_dtypes(model));
    yk_optimizer *new = yki_calloc(1, sizeof *new);
    if (!new)
        return yki_error_memory(sizeof *new, "the optimizer");
    yki_reference_init(&new->reference);
    new->rule = rule;
    new->model = model;
    new->device = yki_model_device(model);
    yki_model_retain(model);
    choose_slots(new, rule->slots(hyperparameters));
    new->parameters = yk_model_parameter_count(model);
    new->part_count = 1;
    yk_status status = make_optimizer_parts(new, hyperparameters);
    if (status != YK_OK) {
        yk_optimizer_destroy(new);
        return status;
    }
    *optimizer = new;
    return YK_OK;
}

yk_status yki_optimizer_settle(const yk_optimizer *optimizer)
{
    return optimizer->settle ? optimizer->settle(optimizer->settle_context) : YK_OK;
}

void yki_optimizer_retain(yk_optimizer *optimizer)
{
    yki_reference_retain(&optimizer->reference);
}

void yki_optimizer_release(yk_optimizer *optimizer)
{
    if (!yki_reference_release(&optimizer->reference))
        return;
    yki_device *device = optimizer->device;
    yki_optimizer_settle(optimizer);
    yki_stream_wait(device, yki_device_stream(device)); /* for steps that have been entered */
    for (int slot = 0; slot < optimizer->slots; slot++)
        free(optimizer->state[slot]);
    yki_tape_drop(&optimizer->update_tape);
    yki_tape_drop(&optimizer->clip_tape);
    yki_optimizer_destroy_parts(optimizer);
    yki_sweep_destroy(optimizer->gradients);
    yki_block_destroy(&optimizer->coefficients);
    yki_block_destroy(&optimizer->clipping);
    yki_late_destroy(&optimizer->squares);
    yki_device_free(device, optimizer->memory, optimizer->memory_bytes);
    free(optimizer->groups);
    free(optimizer->group_of);
    free(optimizer->views);
    free(optimizer->own);
    free(optimizer->updated);
    free(optimizer->part_of);
    free(optimizer->ages);
    free(optimizer->earlier);
    free(optimizer->set_of);
    free(optimizer->sets);
    yki_muon_destroy(optimizer);
    yki_model_release(optimizer->model);
    free(optimizer);
}

void yk_optimizer_destroy(yk_optimizer *optimizer)
{
    if (optimizer)
        yki_optimizer_release(optimizer);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

yk_status yki_optimizer_check_free(const yk_optimizer *optimizer, const char *who)
{
    if (!optimizer->hooks.after)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: the optimizer is under %s", who,
                     optimizer->hooks.owner);
}

void yki_optimizer_attach(yk_optimizer *optimizer, const yki_step_hooks *hooks)
{
    optimizer->hooks = *hooks;
}

void yki_optimizer_detach(yk_optimizer *optimizer, const void *context)
{
    if (optimizer->hooks.context == context)
        optimizer->hooks = (yki_step_hooks){.owner = NULL};
}

void yki_optimizer_set_outer_momentum(yk_optimizer *optimizer, yk_ema *momentum)
{
    optimizer->outer_momentum = momentum;
}

yk_ema *yki_optimizer_outer_momentum(const yk_optimizer *optimizer)
{
    return optimizer->outer_momentum;
}

/* ---- what can be seen and set --------------------------------------------------------------- */

const char *yk_optimizer_name(const yk_optimizer *optimizer)
{
    return optimizer ? optimizer->rule->name : NULL;
}

yk_ema *yk_optimizer_ema(const yk_optimizer *optimizer)
{
    return optimizer ? optimizer->ema : NULL;
}

int64_t yk_optimizer_steps(const yk_optimizer *optimizer)
{
    if (!optimizer)
        return 0;
    yki_optimizer_settle(optimizer);
    return optimizer->steps;
}

size_t yk_optimizer_state_bytes(const yk_optimizer *optimizer)
{
    return optimizer ? optimizer->memory_bytes : 0;
}

static float product_after(const yki_optimizer_rule *rule, const double *hyperparameters,
                           int64_t steps)
{
    float product = 1;
    for (int64_t step = 1; rule->factor && step <= steps && product > 0; step++)
        product *= (float)rule->factor(hyperparameters, step);
    return product;
}

void yk_optimizer_set_steps(yk_optimizer *optimizer, int64_t steps)
{
    if (!optimizer)
        return;
    yki_optimizer_settle(optimizer);
    const bool *used = yki_model_used(optimizer->model);
    for (size_t g = 0; g < optimizer->group_count; g++) {
        yki_state_age age = {
            steps, product_after(optimizer->rule, optimizer->groups[g].hyperparameters, steps)};
        for (size_t i = 0; i < optimizer->parameters; i++)
            if (used[i] && optimizer->group_of[i] == g)
                optimizer->ages[i] = age;
    }
    yki_optimizer_restart(optimizer, steps, optimizer->ages);
}

void yki_optimizer_restart(yk_optimizer *optimizer, int64_t steps, const yki_state_age *ages)
{
    yki_optimizer_settle(optimizer);
    optimizer->steps = steps;
    memmove(optimizer->ages, ages, optimizer->parameters * sizeof *ages);
    if (optimizer->lookahead)
        yki_lookahead_restart(optimizer->lookahead, steps);
    if (optimizer->hooks.restart)
        optimizer->hooks.restart(optimizer->hooks.context);
    optimizer->stage = YKI_STEP_NONE; /* the weights have been set, too */
    yki_model_set_torn(optimizer->model, false);
}

bool yki_optimizer_uses_slot(const yk_optimizer *optimizer, size_t parameter, int slot)
{
    const yki_param_group *group = &optimizer->groups[optimizer->group_of[parameter]];
    return optimizer->rule->slots(group->hyperparameters) >> optimizer->slot_of_rule[slot] & 1;
}

unsigned yki_optimizer_lacking(const yk_optimizer *optimizer, const double *hyperparameters)
{
    unsigned lacking = optimizer->rule->slots(hyperparameters);
    for (int slot = 0; slot < optimizer->slots; slot++)
        lacking &= ~(1U << optimizer->slot_of_rule[slot]);
    return lacking;
}

yk_tensor yki_optimizer_slot(const yk_optimizer *optimizer, size_t parameter, int slot)
{
    yk_tensor tensor = optimizer->views[parameter].value;
    tensor.data = optimizer->state[slot][parameter];
    return tensor;
}

bool yk_optimizer_state(const yk_optimizer *optimizer, size_t parameter, size_t slot,
                        const char **name, yk_tensor *tensor)
{
    if (!optimizer || parameter >= optimizer->parameters || !name || !tensor)
        return false;
    for (int i = 0; i < optimizer->slots; i++)
        if (yki_optimizer_uses_slot(optimizer, parameter, i) && slot-- == 0) {
            if (!optimizer->state[i][parameter])
                return false;
            *name = yki_optimizer_slot_name(optimizer, i);
            *tensor = yki_optimizer_slot(optimizer, parameter, i);
            return true;
        }
    return false;
}

yk_status yki_check_option(const char *rule, const char *option, double value, double minimum,
                           double below)
{
    if (isfinite(value) && value >= minimum && (below <= 0 || value < below))
        return YK_OK;
    if (below > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: %s must be at least %g and below %g, not %g", rule, option, minimum,
                         below, value);
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %s must be at least %g, not %g", rule, option,
                     minimum, value);
}

yk_status yki_check_switch(const char *rule, const char *option, double value)
{
    if (value == 0 || value == 1)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s: %s must be 0 or 1, not %g", rule, option,
                     value);
}

yki_state_age yki_optimizer_age(const yk_optimizer *optimizer, size_t parameter)
{
    yki_optimizer_settle(optimizer);
    return optimizer->ages[parameter];
}

/* ---- for files ------------------------------------------------------------------------------ */

const yk_model *yki_optimizer_model(const yk_optimizer *optimizer)
{
    return optimizer->model;
}

size_t yki_optimizer_parameter_count(const yk_optimizer *optimizer)
{
    return optimizer->parameters;
}

const char *yki_optimizer_parameter_name(const yk_optimizer *optimizer, size_t parameter)
{
    return optimizer->views[parameter].name;
}

double yki_optimizer_initial_lr(const yk_optimizer *optimizer, size_t group)
{
    return optimizer->groups[group].initial_lr;
}

int yki_optimizer_slot_count(const yk_optimizer *optimizer)
{
    return optimizer->slots;
}

const char *yki_optimizer_slot_name(const yk_optimizer *optimizer, int slot)
{
    return optimizer->rule->slot_names[optimizer->slot_of_rule[slot]];
}

bool yki_optimizer_saves_step(const yk_optimizer *optimizer)
{
    return optimizer->rule->saves_step;
}

const char *yki_optimizer_product_name(const yk_optimizer *optimizer)
{
    return optimizer->rule->product_name;
}

static bool is_name(const char *known, const char *name, size_t length)
{
    return known && strlen(known) == length && memcmp(known, name, length) == 0;
}

bool yki_optimizer_keeps(const yk_optimizer *optimizer, const char *name, size_t length)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    if ((rule->saves_step && is_name("step", name, length)) ||
        is_name(rule->product_name, name, length))
        return true;
    for (int slot = 0; slot < YKI_MAX_SLOTS; slot++)
        if (is_name(rule->slot_names[slot], name, length))
            return true;
    return false;
}
