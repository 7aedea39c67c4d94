/*
 * torch.optim's state_dict:
 *
 *     {"state": {0: {"momentum_buffer": tensor}, 1: ...},
 *      "param_groups": [{"lr": 0.1, ..., "params": [0, 1, ...]}]}
 *
 * The groups are optimizer_groups.c's. Adam and its relatives, Adagrad and RMSprop also keep their
 * step in each parameter's state, as a float32 tensor, and NAdam its product of momenta.
 */
#include "checkpoint/state/optimizer_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/state/match.h"
#include "device/memory.h"
#include "tensor/tensor.h"

/* ---- writing -------------------------------------------------------------------------------- */

static yk_status write_parameter(yki_pth_writer *writer, const yk_optimizer *optimizer,
                                 size_t parameter, int64_t number)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    yki_pickle_int(pickle, number);
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    const yki_state_age age = yki_optimizer_age(optimizer, parameter);
    if (yki_optimizer_saves_step(optimizer)) {
        yki_pickle_text(pickle, "step");
        YK_TRY(yki_pth_scalar(writer, (float)age.steps));
    }
    if (yki_optimizer_product_name(optimizer)) {
        yki_pickle_text(pickle, yki_optimizer_product_name(optimizer));
        YK_TRY(yki_pth_scalar(writer, age.product));
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

static bool has_state(const yk_optimizer *optimizer, size_t parameter)
{
    const char *name;
    yk_tensor tensor;
    return yki_optimizer_age(optimizer, parameter).steps > 0 &&
           yk_optimizer_state(optimizer, parameter, 0, &name, &tensor);
}

/* Before the first step there is no state. Of SGD without momentum there never is, nor is there of
 * a parameter that has always been frozen. */
static yk_status write_state(yki_pth_writer *writer, const yk_optimizer *optimizer,
                             size_t parameters)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    int64_t number = 0;
    yki_pickle_dict(pickle);
    if (yk_optimizer_steps(optimizer) == 0)
        return YK_OK;
    yki_pickle_mark(pickle);
    for (size_t g = 0; g < yk_optimizer_group_count(optimizer); g++)
        for (size_t i = 0; i < parameters; i++)
            if (yk_optimizer_group_of(optimizer, i) == g) {
                if (has_state(optimizer, i))
                    YK_TRY(write_parameter(writer, optimizer, i, number));
                number++;
            }
    yki_pickle_setitems(pickle);
    return YK_OK;
}

yk_status yki_optimizer_state_write(yki_pth_writer *writer, const yk_optimizer *optimizer,
                                    size_t parameters)
{
    yki_pickle_writer *pickle = yki_pth_pickle(writer);
    YK_TRY(yki_optimizer_check_whole(optimizer));
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    yki_pickle_text(pickle, "state");
    YK_TRY(write_state(writer, optimizer, parameters));
    yki_pickle_text(pickle, "param_groups");
    yki_optimizer_groups_write(pickle, optimizer, parameters);
    yki_pickle_setitems(pickle);
    return YK_OK;
}

enum { LONGEST_NAME = 64 /* of what errors show of a file */ };

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

static yk_status read_slot(yki_optimizer_state *state, yki_pth *pth, const yki_pickle_value *entry,
                           const yk_optimizer *optimizer, size_t parameter, size_t slot)
{
    char here[64], there[64];
    size_t index = parameter * state->slots + slot;
    const char *name = yki_optimizer_slot_name(optimizer, (int)slot);
    const yki_pickle_value *value = yki_pickle_get(entry, name);
    if (!value || yki_pickle_is(value, YKI_PICKLE_NONE))
        return YK_OK; /* a parameter that had no gradient yet */
    yk_tensor tensor = yki_optimizer_slot(optimizer, parameter, (int)slot);
    yki_file_tensor *view = &state->views[index];
    YK_TRY(yki_pth_stored(pth, value, view));
    yki_add_row(view, tensor.ndim, tensor.dims);
    if (view->ndim != tensor.ndim ||
        memcmp(view->dims, tensor.dims, (size_t)tensor.ndim * sizeof *tensor.dims) != 0)
        return yki_error(YK_ERROR_MISMATCH,
                         "%s: the optimizer's %s of parameter %zu is %s, but that of the model, "
                         "%s, is %s: they must be declared in the same order",
                         yki_pth_path(pth), name, parameter,
                         yki_dims_text(there, sizeof there, view->ndim, view->dims),
                         yk_model_parameter(yki_optimizer_model(optimizer), parameter).name,
                         yki_dims_text(here, sizeof here, tensor.ndim, tensor.dims));
    state->present[index] = true;
    return yki_pth_fetch(pth, view);
}

/* The step, a tensor in newer files and a number in older ones. */
static yk_status read_step(yki_optimizer_state *state, yki_pth *pth, const yki_pickle_value *value,
                           size_t parameter)
{
    double step;
    YK_TRY(yki_optimizer_number(pth, value, "a step", &step));
    if (!(step >= 0 && step < 9e15))
        return yki_error(YK_ERROR_FORMAT, "%s: expected the optimizer's step, found %g",
                         yki_pth_path(pth), step);
    state->ages[parameter].steps = (int64_t)step;
    if ((int64_t)step > state->steps)
        state->steps = (int64_t)step;
    return YK_OK;
}

static yk_status read_product(yki_optimizer_state *state, yki_pth *pth,
                              const yki_pickle_value *entry, const yk_optimizer *optimizer,
                              size_t parameter)
{
    double product;
    const char *name = yki_optimizer_product_name(optimizer);
    const yki_pickle_value *value = yki_pickle_get(entry, name);
    if (!value)
        return yki_error(YK_ERROR_FORMAT, "%s: expected the optimizer's %s of parameter %zu",
                         yki_pth_path(pth), name, parameter);
    YK_TRY(yki_optimizer_number(pth, value, name, &product));
    if (!(product >= 0 && product <= 1))
        return yki_error(YK_ERROR_FORMAT, "%s: expected the optimizer's %s, from 0 to 1, found %g",
                         yki_pth_path(pth), name, product);
    state->ages[parameter].product = (float)product;
    return YK_OK;
}

/* Another optimizer, whose settings have the same names, keeps something else. */
static yk_status check_names(const yki_pth *pth, const yki_pickle_value *entry,
                             const yk_optimizer *optimizer)
{
    for (size_t i = 0; i < yki_pickle_pairs(entry); i++) {
        const yki_pickle_value *key = yki_pickle_key(entry, i);
        if (!yki_pickle_is(key, YKI_PICKLE_STRING))
            return yki_pickle_unexpected(yki_pth_file_pickle(pth), key, "a name in \"state\"");
        if (!yki_optimizer_keeps(optimizer, key->text, key->count))
            return yki_error(YK_ERROR_MISMATCH,
                             "%s: its optimizer is not %s, which does not keep \"%.*s\" of a "
                             "parameter",
                             yki_pth_path(pth), yk_optimizer_name(optimizer),
                             (int)(key->count < LONGEST_NAME ? key->count : LONGEST_NAME),
                             key->text);
    }
    return YK_OK;
}

static yk_status read_parameter(yki_optimizer_state *state, yki_pth *pth,
                                const yki_pickle_value *entry, const yk_optimizer *optimizer,
                                size_t parameter)
{
    state->ages[parameter].product = 1;
    YK_TRY(check_names(pth, entry, optimizer));
    for (size_t slot = 0; slot < state->slots; slot++)
        YK_TRY(read_slot(state, pth, entry, optimizer, parameter, slot));
    const yki_pickle_value *step = yki_pickle_get(entry, "step");
    if (step && yki_optimizer_product_name(optimizer))
        YK_TRY(read_product(state, pth, entry, optimizer, parameter));
    if (step)
        return read_step(state, pth, step, parameter);
    /* SGD keeps no count: one step is enough to know that the buffer is no longer the first. */
    if (state->slots && state->present[parameter * state->slots]) {
        state->ages[parameter].steps = 1;
        state->steps = state->steps > 1 ? state->steps : 1;
    }
    return YK_OK;
}

static yk_status make_room_for_state(yki_optimizer_state *state, const yk_optimizer *optimizer,
                                     size_t parameters)
{
    state->parameters = parameters;
    state->slots = (size_t)yki_optimizer_slot_count(optimizer);
    size_t count = parameters * state->slots;
    state->views = yki_calloc(count, sizeof *state->views);
    state->present = yki_calloc(count, sizeof *state->present);
    state->ages = yki_calloc(parameters, sizeof *state->ages);
    if (!state->views || !state->present || !state->ages)
        return yki_error_memory(count * sizeof *state->views, "the optimizer's state");
    return YK_OK;
}

static yk_status read_whole_state(yki_optimizer_state *state, yki_pth *pth,
                                  const yki_pickle_value *value, const yk_optimizer *optimizer,
                                  size_t parameters)
{
    const yki_pickle_value *entries = yki_pickle_get(value, "state");
    if (!yki_pickle_is(entries, YKI_PICKLE_DICT))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), entries,
                                     "the optimizer's \"state\"");
    YK_TRY(yki_optimizer_groups_read(&state->groups, pth, value, optimizer, parameters));
    YK_TRY(make_room_for_state(state, optimizer, parameters));
    for (size_t i = 0; i < parameters; i++)
        YK_TRY(read_parameter(state, pth, find_parameter(entries, state->groups.number[i]),
                              optimizer, i));
    return YK_OK;
}

yk_status yki_optimizer_state_read(yki_optimizer_state *state, yki_pth *pth,
                                   const yki_pickle_value *value, const yk_optimizer *optimizer,
                                   size_t parameters)
{
    *state = (yki_optimizer_state){0};
    yk_status status = read_whole_state(state, pth, value, optimizer, parameters);
    if (status != YK_OK)
        yki_optimizer_state_fini(state);
    return status;
}

yk_status yki_optimizer_state_apply(const yki_optimizer_state *state, const yki_pth *pth,
                                    yk_optimizer *optimizer)
{
    yk_status status = yki_optimizer_set_groups(optimizer, state->groups.groups,
                                                state->groups.count, state->groups.group_of);
    if (status != YK_OK)
        return yki_error_context(status, "%s", yki_pth_path(pth));
    for (size_t i = 0; i < state->parameters * state->slots; i++) {
        size_t parameter = i / state->slots;
        int slot = (int)(i % state->slots);
        yk_tensor tensor = yki_optimizer_slot(optimizer, parameter, slot);
        if (!tensor.data)
            continue; /* another rank's */
        YK_TRY(state->present[i] ? yki_pth_copy(pth, &state->views[i], &tensor)
                                 : yki_optimizer_start_slot(optimizer, parameter, slot));
    }
    yki_optimizer_restart(optimizer, state->steps, state->ages);
    return YK_OK;
}

void yki_optimizer_state_fini(yki_optimizer_state *state)
{
    free(state->views);
    free(state->present);
    free(state->ages);
    yki_optimizer_groups_fini(&state->groups);
    *state = (yki_optimizer_state){0};
}
