/*
 * torch.optim's state_dict:
 *
 *     {"state": {0: {"momentum_buffer": tensor}, 1: ...},
 *      "param_groups": [{"lr": 0.1, ..., "params": [0, 1, ...]}]}
 *
 * Our hyperparameters have its names, except that Adam's "betas" is a pair there and "nesterov" a
 * bool. Adam also keeps its step in each parameter's state, as a float32 tensor.
 */
#include "io/optimizer_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "optim/optimizer.h"

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_adam(const yk_optimizer *optimizer)
{
    return strncmp(yk_optimizer_name(optimizer), "adam", 4) == 0;
}

static yk_status write_parameter(yki_pth_writer *writer, const yk_optimizer *optimizer,
                                 size_t parameter)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_int(pickle, (int64_t)parameter);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    if (is_adam(optimizer)) {
        yki_pickle_text(pickle, "step");
        YK_TRY(yki_pth_scalar(writer, (float)yk_optimizer_steps(optimizer)));
    }
    const char *name;
    yk_tensor tensor;
    for (size_t slot = 0; yk_optimizer_state(optimizer, parameter, slot, &name, &tensor); slot++) {
        yki_pickle_text(pickle, name);
        YK_TRY(yki_pth_tensor(writer, &tensor));
    }
    yki_pickle_setitems(pickle);
    return YK_OK;
}

/* Before the first step there is no state, and without momentum there never is. */
static yk_status write_state(yki_pth_writer *writer, const yk_optimizer *optimizer,
                             size_t parameters)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    const char *name;
    yk_tensor tensor;
    yki_pickle_dict(pickle);
    if (yk_optimizer_steps(optimizer) == 0 || !yk_optimizer_state(optimizer, 0, 0, &name, &tensor))
        return YK_OK;
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < parameters; i++)
        YK_TRY(write_parameter(writer, optimizer, i));
    yki_pickle_setitems(pickle);
    return YK_OK;
}

static void write_hyperparameter(yki_pickle_writer *pickle, const yk_optimizer *optimizer,
                                 size_t *index, const char *name, double value)
{
    if (strcmp(name, "beta1") == 0) {
        double beta2 = 0;
        yk_optimizer_hyperparameter(optimizer, ++*index, &name, &beta2);
        yki_pickle_text(pickle, "betas");
        yki_pickle_mark(pickle);
        yki_pickle_float(pickle, value);
        yki_pickle_float(pickle, beta2);
        yki_pickle_tuple(pickle);
        return;
    }
    yki_pickle_text(pickle, name);
    if (strcmp(name, "nesterov") == 0)
        yki_pickle_bool(pickle, value != 0);
    else
        yki_pickle_float(pickle, value);
}

/* Keys that torch.optim expects in a group and that yoke has no use for. */
static void write_torch_defaults(yki_pickle_writer *pickle, const yk_optimizer *optimizer)
{
    static const char *const off[] = {"maximize", "differentiable", "amsgrad", "capturable"};
    size_t count = is_adam(optimizer) ? 4 : 2;
    for (size_t i = 0; i < count; i++) {
        yki_pickle_text(pickle, off[i]);
        yki_pickle_bool(pickle, false);
    }
    yki_pickle_text(pickle, "foreach");
    yki_pickle_none(pickle);
}

static void write_group(yki_pickle_writer *pickle, const yk_optimizer *optimizer, size_t parameters)
{
    const char *name;
    double value;
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; yk_optimizer_hyperparameter(optimizer, i, &name, &value); i++)
        write_hyperparameter(pickle, optimizer, &i, name, value);
    write_torch_defaults(pickle, optimizer);
    yki_pickle_text(pickle, "params");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < parameters; i++)
        yki_pickle_int(pickle, (int64_t)i);
    yki_pickle_appends(pickle);
    yki_pickle_setitems(pickle);
}

yk_status yki_optimizer_state_write(yki_pth_writer *writer, const yk_optimizer *optimizer,
                                    size_t parameters)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "state");
    YK_TRY(write_state(writer, optimizer, parameters));
    yki_pickle_text(pickle, "param_groups");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    write_group(pickle, optimizer, parameters);
    yki_pickle_appends(pickle);
    yki_pickle_setitems(pickle);
    return YK_OK;
}

/* ---- reading: hyperparameters --------------------------------------------------------------- */

static bool to_number(const yki_pickle_value *value, double *number)
{
    if (yki_pickle_is(value, YKI_PICKLE_FLOAT))
        *number = value->real;
    else if (yki_pickle_is(value, YKI_PICKLE_INT) || yki_pickle_is(value, YKI_PICKLE_BOOL))
        *number = (double)value->integer;
    else
        return false;
    return true;
}

static const yki_pickle_value *find_hyperparameter(const yki_pickle_value *group, const char *name)
{
    if (strcmp(name, "beta1") == 0 || strcmp(name, "beta2") == 0)
        return yki_pickle_item(yki_pickle_get(group, "betas"), name[4] == '2');
    return yki_pickle_get(group, name);
}

static yk_status read_hyperparameters(yki_optimizer_state *state, const yki_pth *pth,
                                      const yki_pickle_value *group, const yk_optimizer *optimizer)
{
    const char *name;
    double value;
    state->hyperparameters = yki_calloc(YKI_MAX_HYPERPARAMETERS, sizeof(double));
    if (!state->hyperparameters)
        return yki_error_memory(YKI_MAX_HYPERPARAMETERS * sizeof(double), "hyperparameters");
    for (size_t i = 0; yk_optimizer_hyperparameter(optimizer, i, &name, &value); i++) {
        const yki_pickle_value *found = find_hyperparameter(group, name);
        if (!to_number(found, &state->hyperparameters[i]))
            return yki_pickle_unexpected(yki_pth_file_pickle(pth), found,
                                         "%s's \"%s\" in \"param_groups\"",
                                         yk_optimizer_name(optimizer), name);
    }
    return YK_OK;
}

/* ---- reading: tensors ----------------------------------------------------------------------- */

/* The entry of "state" under this number. */
static const yki_pickle_value *find_parameter(const yki_pickle_value *entries, int64_t id)
{
    for (size_t i = yki_pickle_pairs(entries); i-- > 0;) {
        const yki_pickle_value *key = yki_pickle_key(entries, i);
        if (yki_pickle_is(key, YKI_PICKLE_INT) && key->integer == id)
            return yki_pickle_pair_value(entries, i);
    }
    return NULL;
}

static yk_status read_slot(yki_optimizer_state *state, yki_pth *pth, const yki_pickle_value *value,
                           const yk_tensor *tensor, const char *name, size_t index)
{
    if (!value || yki_pickle_is(value, YKI_PICKLE_NONE))
        return YK_OK; /* a parameter that had no gradient yet */
    yki_pth_view *view = &state->views[index];
    YK_TRY(yki_pth_view_of(pth, value, view));
    if (view->ndim != tensor->ndim ||
        memcmp(view->dims, tensor->dims, (size_t)tensor->ndim * sizeof *tensor->dims) != 0)
        return yki_error(YK_MISMATCH,
                         "%s: the optimizer's %s of parameter %zu has another shape"
                         " than the parameter",
                         yki_pth_path(pth), name, index / state->slots);
    state->present[index] = true;
    return yki_pth_fetch(pth, view);
}

/* Adam's step, a tensor in newer files and a number in older ones. */
static yk_status read_step(yki_optimizer_state *state, yki_pth *pth, const yki_pickle_value *value)
{
    double step;
    if (yki_pth_is_tensor(value)) {
        yki_pth_view view;
        YK_TRY(yki_pth_view_of(pth, value, &view));
        if (view.ndim > 1 || (view.ndim == 1 && view.dims[0] != 1))
            return yki_pickle_unexpected(yki_pth_file_pickle(pth), value, "a single step");
        YK_TRY(yki_pth_fetch(pth, &view));
        yk_tensor tensor = {.data = &step, .dtype = YK_F64, .ndim = view.ndim, .dims = {1}};
        yki_pth_copy(pth, &view, &tensor);
    } else if (!to_number(value, &step))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value, "a step");
    if (!(step >= 0 && step < 9e15))
        return yki_error(YK_FORMAT, "%s: expected the optimizer's step, found %g",
                         yki_pth_path(pth), step);
    if ((int64_t)step > state->steps)
        state->steps = (int64_t)step;
    return YK_OK;
}

static yk_status read_parameter(yki_optimizer_state *state, yki_pth *pth,
                                const yki_pickle_value *entry, const yk_optimizer *optimizer,
                                size_t parameter)
{
    const char *name;
    yk_tensor tensor;
    for (size_t slot = 0; yk_optimizer_state(optimizer, parameter, slot, &name, &tensor); slot++)
        YK_TRY(read_slot(state, pth, yki_pickle_get(entry, name), &tensor, name,
                         parameter * state->slots + slot));
    const yki_pickle_value *step = yki_pickle_get(entry, "step");
    if (step)
        return read_step(state, pth, step);
    /* SGD keeps no count: one step is enough to know that the buffer is no longer the first. */
    if (state->slots && state->present[parameter * state->slots] && state->steps == 0)
        state->steps = 1;
    return YK_OK;
}

static yk_status make_room(yki_optimizer_state *state, const yk_optimizer *optimizer,
                           size_t parameters)
{
    const char *name;
    yk_tensor tensor;
    state->parameters = parameters;
    while (yk_optimizer_state(optimizer, 0, state->slots, &name, &tensor))
        state->slots++;
    size_t count = parameters * state->slots;
    state->views = yki_calloc(count, sizeof *state->views);
    state->present = yki_calloc(count, sizeof *state->present);
    if (!state->views || !state->present)
        return yki_error_memory(count * sizeof *state->views, "the optimizer's state");
    return YK_OK;
}

static yk_status read_all(yki_optimizer_state *state, yki_pth *pth, const yki_pickle_value *value,
                          const yk_optimizer *optimizer, size_t parameters)
{
    const yki_pickle *pickle = yki_pth_file_pickle(pth);
    const yki_pickle_value *entries = yki_pickle_get(value, "state");
    const yki_pickle_value *groups = yki_pickle_get(value, "param_groups");
    const yki_pickle_value *group = yki_pickle_item(groups, 0);
    const yki_pickle_value *ids = yki_pickle_get(group, "params");
    if (!yki_pickle_is(entries, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(pickle, entries, "the optimizer's \"state\"");
    if (!yki_pickle_is(groups, YKI_PICKLE_LIST) || groups->count != 1)
        return yki_pickle_unexpected(pickle, groups, "one group in \"param_groups\"");
    if (!yki_pickle_is(ids, YKI_PICKLE_LIST) || ids->count != parameters)
        return yki_pickle_unexpected(pickle, ids, "the %zu parameters of the model in \"params\"",
                                     parameters);
    YK_TRY(make_room(state, optimizer, parameters));
    YK_TRY(read_hyperparameters(state, pth, group, optimizer));
    for (size_t i = 0; i < parameters; i++) {
        const yki_pickle_value *id = yki_pickle_item(ids, i);
        if (!yki_pickle_is(id, YKI_PICKLE_INT))
            return yki_pickle_unexpected(pickle, id, "a parameter's number");
        YK_TRY(read_parameter(state, pth, find_parameter(entries, id->integer), optimizer, i));
    }
    return YK_OK;
}

yk_status yki_optimizer_state_read(yki_optimizer_state *state, yki_pth *pth,
                                   const yki_pickle_value *value, const yk_optimizer *optimizer,
                                   size_t parameters)
{
    *state = (yki_optimizer_state){0};
    yk_status status = read_all(state, pth, value, optimizer, parameters);
    if (status != YK_OK)
        yki_optimizer_state_fini(state);
    return status;
}

yk_status yki_optimizer_state_apply(const yki_optimizer_state *state, const yki_pth *pth,
                                    yk_optimizer *optimizer)
{
    const char *name;
    yk_tensor tensor;
    YK_TRY(yki_optimizer_set_hyperparameters(optimizer, state->hyperparameters));
    for (size_t i = 0; i < state->parameters * state->slots; i++) {
        yk_optimizer_state(optimizer, i / state->slots, i % state->slots, &name, &tensor);
        if (state->present[i])
            yki_pth_copy(pth, &state->views[i], &tensor);
        else
            memset(tensor.data, 0, yk_tensor_bytes(&tensor));
    }
    yk_optimizer_set_steps(optimizer, state->steps);
    return YK_OK;
}

void yki_optimizer_state_fini(yki_optimizer_state *state)
{
    free(state->views);
    free(state->present);
    free(state->hyperparameters);
    *state = (yki_optimizer_state){0};
}
