/*
 * What all optimizers share: state tensors in one mapped block, the hyperparameters by name, and
 * the step, which cuts all parameters into chunks of about equal size so that threads share the
 * work evenly and a small tensor costs no parallel region of its own.
 *
 * A step allocates nothing. Gradients are looked up at each step, since DDP may have moved them.
 */
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { CHUNK_ELEMENTS = 16384 };

typedef struct chunk {
    size_t parameter;
    int64_t begin, count;
} chunk;

struct yk_optimizer {
    const yki_optimizer_rule *rule;
    yk_model *model;
    double hyperparameters[YKI_MAX_HYPERPARAMETERS];
    int64_t steps;
    int slots;
    size_t parameters;
    yk_parameter_view *views;    /* (parameters), refreshed at each step */
    char **state[YKI_MAX_SLOTS]; /* (parameters), into memory */
    char *memory;
    size_t memory_bytes;
    chunk *chunks;
    size_t chunk_count;
};

/* ---- creation ------------------------------------------------------------------------------- */

static yk_status check_dtypes(const yk_model *model)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        if (view.value.dtype != YK_F32 && view.value.dtype != YK_F64)
            return yki_error(YK_UNSUPPORTED, "%s is %s; an optimizer needs float32 or float64",
                             view.name, yk_dtype_name(view.value.dtype));
    }
    return YK_OK;
}

static size_t chunks_of(int64_t count)
{
    return (size_t)((count + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS);
}

static yk_status make_chunks(yk_optimizer *optimizer)
{
    size_t total = 0;
    for (size_t i = 0; i < optimizer->parameters; i++)
        total += chunks_of(yk_tensor_count(&optimizer->views[i].value));
    optimizer->chunks = yki_calloc(total, sizeof *optimizer->chunks);
    if (!optimizer->chunks)
        return yki_error_memory(total * sizeof *optimizer->chunks, "the optimizer's chunks");
    for (size_t i = 0; i < optimizer->parameters; i++) {
        int64_t count = yk_tensor_count(&optimizer->views[i].value);
        for (int64_t begin = 0; begin < count; begin += CHUNK_ELEMENTS) {
            int64_t rest = count - begin;
            optimizer->chunks[optimizer->chunk_count++] =
                (chunk){i, begin, rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS};
        }
    }
    return YK_OK;
}

static yk_status make_state(yk_optimizer *optimizer)
{
    size_t slot_bytes = 0;
    for (size_t i = 0; i < optimizer->parameters; i++)
        slot_bytes += yki_align(yk_tensor_bytes(&optimizer->views[i].value), YKI_ALIGNMENT);
    optimizer->memory_bytes = slot_bytes * (size_t)optimizer->slots;
    optimizer->memory = yki_map(optimizer->memory_bytes);
    if (!optimizer->memory)
        return yki_error_memory(optimizer->memory_bytes, "the optimizer's state");

    char *at = optimizer->memory;
    for (int slot = 0; slot < optimizer->slots; slot++) {
        optimizer->state[slot] = yki_calloc(optimizer->parameters, sizeof(char *));
        if (!optimizer->state[slot])
            return yki_error_memory(optimizer->parameters * sizeof(char *), "the optimizer");
        for (size_t i = 0; i < optimizer->parameters; i++) {
            optimizer->state[slot][i] = at;
            at += yki_align(yk_tensor_bytes(&optimizer->views[i].value), YKI_ALIGNMENT);
        }
    }
    return YK_OK;
}

static void refresh_views(yk_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->parameters; i++)
        optimizer->views[i] = yk_model_parameter(optimizer->model, i);
}

yk_status yki_optimizer_create(yk_optimizer **optimizer, yk_model *model,
                               const yki_optimizer_rule *rule, const double *hyperparameters)
{
    *optimizer = NULL;
    YK_TRY(rule->check(hyperparameters));
    YK_TRY(check_dtypes(model));
    yk_optimizer *new = yki_calloc(1, sizeof *new);
    if (!new)
        return yki_error_memory(sizeof *new, "the optimizer");
    new->rule = rule;
    new->model = model;
    memcpy(new->hyperparameters, hyperparameters,
           (size_t)rule->hyperparameters * sizeof *hyperparameters);
    new->slots = rule->slots(hyperparameters);
    new->parameters = yk_model_parameter_count(model);

    yk_status status = YK_OK;
    new->views = yki_calloc(new->parameters, sizeof *new->views);
    if (!new->views)
        status = yki_error_memory(new->parameters * sizeof *new->views, "the optimizer");
    if (status == YK_OK) {
        refresh_views(new);
        status = make_chunks(new);
    }
    if (status == YK_OK)
        status = make_state(new);
    if (status != YK_OK) {
        yk_optimizer_destroy(new);
        return status;
    }
    *optimizer = new;
    return YK_OK;
}

void yk_optimizer_destroy(yk_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int slot = 0; slot < optimizer->slots; slot++)
        free(optimizer->state[slot]);
    yki_unmap(optimizer->memory, optimizer->memory_bytes);
    free(optimizer->chunks);
    free(optimizer->views);
    free(optimizer);
}

/* ---- the step ------------------------------------------------------------------------------- */

static void update_chunk(const yk_optimizer *optimizer, const chunk *part,
                         const yki_coefficients *coefficients)
{
    const yk_parameter_view *view = &optimizer->views[part->parameter];
    size_t offset = (size_t)part->begin * yk_dtype_size(view->value.dtype);
    yki_piece piece = {.value = (char *)view->value.data + offset,
                       .grad = (const char *)view->grad.data + offset,
                       .count = part->count};
    for (int slot = 0; slot < optimizer->slots; slot++)
        piece.state[slot] = optimizer->state[slot][part->parameter] + offset;
    if (view->value.dtype == YK_F64)
        optimizer->rule->update_f64(&piece, coefficients);
    else
        optimizer->rule->update_f32(&piece, coefficients);
}

yk_status yk_optimizer_step(yk_optimizer *optimizer)
{
    refresh_views(optimizer);
    optimizer->steps++;
    yki_coefficients coefficients =
        optimizer->rule->prepare(optimizer->hyperparameters, optimizer->steps);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < optimizer->chunk_count; i++)
        update_chunk(optimizer, &optimizer->chunks[i], &coefficients);
    yk_model_zero_grad(optimizer->model);
    yk_model_parameters_changed(optimizer->model);
    return YK_OK;
}

/* ---- what can be seen and set --------------------------------------------------------------- */

double yk_optimizer_lr(const yk_optimizer *optimizer)
{
    return optimizer->hyperparameters[YKI_LR];
}

void yk_optimizer_set_lr(yk_optimizer *optimizer, double lr)
{
    optimizer->hyperparameters[YKI_LR] = lr;
}

const char *yk_optimizer_name(const yk_optimizer *optimizer)
{
    return optimizer->rule->name;
}

int64_t yk_optimizer_steps(const yk_optimizer *optimizer)
{
    return optimizer->steps;
}

void yk_optimizer_set_steps(yk_optimizer *optimizer, int64_t steps)
{
    optimizer->steps = steps;
}

bool yk_optimizer_state(const yk_optimizer *optimizer, size_t parameter, size_t slot,
                        const char **name, yk_tensor *tensor)
{
    if (parameter >= optimizer->parameters || slot >= (size_t)optimizer->slots)
        return false;
    *name = optimizer->rule->slot_names[slot];
    *tensor = optimizer->views[parameter].value;
    tensor->data = optimizer->state[slot][parameter];
    return true;
}

bool yk_optimizer_hyperparameter(const yk_optimizer *optimizer, size_t index, const char **name,
                                 double *value)
{
    if (index >= (size_t)optimizer->rule->hyperparameters)
        return false;
    *name = optimizer->rule->hyperparameter_names[index];
    *value = optimizer->hyperparameters[index];
    return true;
}

yk_status yki_optimizer_set_hyperparameters(yk_optimizer *optimizer, const double *values)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    YK_TRY(rule->check(values));
    if (rule->slots(values) != optimizer->slots)
        return yki_error(YK_INVALID_ARGUMENT,
                         "%s: these settings need %d state tensors a parameter, and there are %d",
                         rule->name, rule->slots(values), optimizer->slots);
    memcpy(optimizer->hyperparameters, values, (size_t)rule->hyperparameters * sizeof *values);
    return YK_OK;
}

yk_status yk_optimizer_set_hyperparameter(yk_optimizer *optimizer, const char *name, double value)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    double values[YKI_MAX_HYPERPARAMETERS];
    memcpy(values, optimizer->hyperparameters, sizeof values);
    for (int i = 0; i < rule->hyperparameters; i++)
        if (strcmp(rule->hyperparameter_names[i], name) == 0) {
            values[i] = value;
            return yki_optimizer_set_hyperparameters(optimizer, values);
        }
    return yki_error(YK_INVALID_ARGUMENT, "%s has no hyperparameter \"%s\"", rule->name, name);
}

yk_status yki_check_option(const char *rule, const char *option, double value, double minimum,
                           double below)
{
    if (isfinite(value) && value >= minimum && (below <= 0 || value < below))
        return YK_OK;
    if (below > 0)
        return yki_error(YK_INVALID_ARGUMENT, "%s: %s must be at least %g and below %g, not %g",
                         rule, option, minimum, below, value);
    return yki_error(YK_INVALID_ARGUMENT, "%s: %s must be at least %g, not %g", rule, option,
                     minimum, value);
}
