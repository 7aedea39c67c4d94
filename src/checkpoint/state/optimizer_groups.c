/*
 * torch.optim's param_groups: a list of dicts, each with hyperparameters and the numbers of its
 * parameters under "params". Our hyperparameters have torch.optim's names, except that Adam's
 * "betas" is a pair there, and "nesterov", "centered" and "amsgrad" are bools. "param_names" is
 * PyTorch's own key from 2.6 on.
 */
#include "checkpoint/state/optimizer_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/tensor_file/wrappers.h"

static bool is(const yk_optimizer *optimizer, const char *name)
{
    return strcmp(yk_optimizer_name(optimizer), name) == 0;
}

static bool is_adam(const yk_optimizer *optimizer)
{
    return is(optimizer, "adam") || is(optimizer, "adamw");
}

static const char decoupled_key[] = "decoupled_weight_decay";

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_switch(const char *name)
{
    return strcmp(name, "nesterov") == 0 || strcmp(name, "centered") == 0 ||
           strcmp(name, "amsgrad") == 0 || strcmp(name, decoupled_key) == 0;
}

static void write_hyperparameter(yki_pickle_writer *pickle, const yk_optimizer *optimizer,
                                 size_t group, size_t *index, const char *name, double value)
{
    if (strcmp(name, "beta1") == 0) {
        double beta2 = 0;
        yk_optimizer_group_hyperparameter(optimizer, group, ++*index, &name, &beta2);
        yki_pickle_text(pickle, "betas");
        yki_pickle_mark(pickle);
        yki_pickle_float(pickle, value);
        yki_pickle_float(pickle, beta2);
        yki_pickle_tuple(pickle);
        return;
    }
    yki_pickle_text(pickle, name);
    if (is_switch(name))
        yki_pickle_bool(pickle, value != 0);
    else
        yki_pickle_float(pickle, value);
}

/* Keys that torch.optim expects in a group and that yoke has no use for. */
static void write_torch_defaults(yki_pickle_writer *pickle, const yk_optimizer *optimizer)
{
    static const char *const off[] = {"maximize", "differentiable", "capturable"};
    static const char *const with_capturable[] = {"adam",   "adamw",    "nadam",  "radam",
                                                  "adamax", "adadelta", "rmsprop"};
    size_t count = 2;
    for (size_t i = 0; i < sizeof with_capturable / sizeof *with_capturable; i++)
        count += is(optimizer, with_capturable[i]);
    for (size_t i = 0; i < count; i++) {
        yki_pickle_text(pickle, off[i]);
        yki_pickle_bool(pickle, false);
    }
    if (is_adam(optimizer)) {
        yki_pickle_text(pickle, decoupled_key);
        yki_pickle_bool(pickle, is(optimizer, "adamw"));
    }
    yki_pickle_text(pickle, "foreach");
    yki_pickle_none(pickle);
}

static void write_numbers(yki_pickle_writer *pickle, int64_t first, int64_t end)
{
    yki_pickle_text(pickle, "params");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (int64_t i = first; i < end; i++)
        yki_pickle_int(pickle, i);
    yki_pickle_appends(pickle);
}

static void write_names(yki_pickle_writer *pickle, const yk_optimizer *optimizer, size_t group,
                        size_t parameters)
{
    yki_pickle_text(pickle, "param_names");
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; i < parameters; i++)
        if (yk_optimizer_group_of(optimizer, i) == group)
            yki_pickle_text(pickle, yki_optimizer_parameter_name(optimizer, i));
    yki_pickle_appends(pickle);
}

static void write_group(yki_pickle_writer *pickle, const yk_optimizer *optimizer, size_t group,
                        size_t parameters, int64_t *number)
{
    const char *name;
    double value;
    int64_t first = *number;
    yki_pickle_dict(pickle);
    yki_pickle_mark(pickle);
    for (size_t i = 0; yk_optimizer_group_hyperparameter(optimizer, group, i, &name, &value); i++)
        write_hyperparameter(pickle, optimizer, group, &i, name, value);
    write_torch_defaults(pickle, optimizer);
    yki_pickle_text(pickle, "initial_lr"); /* where torch's schedulers start when they resume */
    yki_pickle_float(pickle, yki_optimizer_initial_lr(optimizer, group));
    for (size_t i = 0; i < parameters; i++)
        *number += yk_optimizer_group_of(optimizer, i) == group;
    write_numbers(pickle, first, *number);
    if (yk_optimizer_group_count(optimizer) > 1)
        write_names(pickle, optimizer, group, parameters);
    yki_pickle_setitems(pickle);
}

void yki_optimizer_groups_write(yki_pickle_writer *pickle, const yk_optimizer *optimizer,
                                size_t parameters)
{
    int64_t number = 0;
    yki_pickle_list(pickle);
    yki_pickle_mark(pickle);
    for (size_t g = 0; g < yk_optimizer_group_count(optimizer); g++)
        write_group(pickle, optimizer, g, parameters, &number);
    yki_pickle_appends(pickle);
}

/* ---- reading: hyperparameters --------------------------------------------------------------- */

static yk_status read_tensor_number(yki_pth *pth, const yki_pickle_value *value, const char *what,
                                    double *number)
{
    double element;
    yki_file_tensor view;
    YK_TRY(yki_pth_stored(pth, value, &view));
    if (view.ndim > 1 || (view.ndim == 1 && view.dims[0] != 1))
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value, "one number as %s", what);
    YK_TRY(yki_pth_fetch(pth, &view));
    yk_tensor tensor = {.data = &element, .dtype = YK_F64, .ndim = view.ndim, .dims = {1}};
    YK_TRY(yki_pth_copy(pth, &view, &tensor));
    *number = element;
    return YK_OK;
}

yk_status yki_optimizer_number(yki_pth *pth, const yki_pickle_value *value, const char *what,
                               double *number)
{
    if (yki_pth_is_tensor(value))
        return read_tensor_number(pth, value, what, number);
    if (yki_pickle_is(value, YKI_PICKLE_FLOAT))
        *number = value->real;
    else if (yki_pickle_is(value, YKI_PICKLE_INT) || yki_pickle_is(value, YKI_PICKLE_BOOL))
        *number = (double)value->integer;
    else
        return yki_pickle_unexpected(yki_pth_file_pickle(pth), value, "a number as %s", what);
    return YK_OK;
}

static const yki_pickle_value *find_hyperparameter(const yki_pickle_value *group, const char *name)
{
    if (strcmp(name, "beta1") == 0 || strcmp(name, "beta2") == 0)
        return yki_pickle_item(yki_pickle_get(group, "betas"), name[4] == '2');
    return yki_pickle_get(group, name);
}

/* What torch.optim can be told and yoke cannot: going on without it would be another training. */
static yk_status check_variant(const yki_pth *pth, const yki_pickle_value *dict)
{
    const yki_pickle_value *value = yki_pickle_get(dict, "maximize");
    if (yki_pickle_is(value, YKI_PICKLE_BOOL) && value->integer)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "%s: its optimizer uses maximize, which yoke does not support",
                         yki_pth_path(pth));
    return YK_OK;
}

static yk_status lacks_hyperparameter(const yki_pth *pth, const yk_optimizer *optimizer,
                                      const char *lacking)
{
    return yki_error(YK_ERROR_MISMATCH,
                     "%s: its optimizer is not %s, whose \"%s\" is not in \"param_groups\"",
                     yki_pth_path(pth), yk_optimizer_name(optimizer), lacking);
}

static bool keeps_largest_gradients(const yki_pickle_value *entries)
{
    for (size_t i = 0; i < yki_pickle_pairs(entries); i++)
        if (yki_pickle_get(yki_pickle_pair_value(entries, i), "exp_inf"))
            return true;
    return false;
}

/*
 * Which of Adam's relatives has written a group and the entries of "state", or NULL: files do not
 * name their optimizer. RAdam has decoupled_weight_decay, and had no maximize before it had that.
 * Adamax, and yoke's LAMB, have maximize alone. (Adamax of PyTorch 1.11 and older has neither, so
 * before its first step it looks like RAdam.)
 */
static const char *relative_of_adam(const yki_pickle_value *group, const yki_pickle_value *entries)
{
    const yki_pickle_value *decoupled = yki_pickle_get(group, decoupled_key);
    if (!yki_pickle_get(group, "betas"))
        return NULL;
    if (yki_pickle_get(group, "amsgrad")) /* which of the two is said since PyTorch 2.7 */
        return !yki_pickle_is(decoupled, YKI_PICKLE_BOOL) ? "adam or adamw"
               : decoupled->integer                       ? "adamw"
                                                          : "adam";
    if (yki_pickle_get(group, "momentum_decay"))
        return "nadam";
    if (keeps_largest_gradients(entries))
        return "adamax";
    return decoupled || !yki_pickle_get(group, "maximize") ? "radam" : NULL;
}

/* Refuses another relative of Adam, whose settings may have the same names. */
static yk_status check_kind(const yki_pth *pth, const yki_pickle_value *group,
                            const yki_pickle_value *entries, const yk_optimizer *optimizer)
{
    const char *kind = relative_of_adam(group, entries), *here = yk_optimizer_name(optimizer);
    if (!kind && is(optimizer, "radam"))
        return yki_error(YK_ERROR_MISMATCH, "%s: its optimizer is not radam", yki_pth_path(pth));
    if (!kind || is(optimizer, kind) || (is_adam(optimizer) && strcmp(kind, "adam or adamw") == 0))
        return YK_OK;
    return yki_error(YK_ERROR_MISMATCH, "%s: its optimizer is %s, not %s", yki_pth_path(pth), kind,
                     here);
}

static yk_status read_hyperparameters(yki_param_group *group, yki_pth *pth,
                                      const yki_pickle_value *dict, const yk_optimizer *optimizer)
{
    char what[96];
    const char *name;
    double value;
    for (size_t i = 0; yk_optimizer_hyperparameter(optimizer, i, &name, &value); i++) {
        const yki_pickle_value *found = find_hyperparameter(dict, name);
        if (!found && strcmp(name, decoupled_key) == 0)
            continue; /* an older PyTorch, which does not decouple it */
        if (!found)
            return lacks_hyperparameter(pth, optimizer, name);
        snprintf(what, sizeof what, "%s's \"%s\" in \"param_groups\"", yk_optimizer_name(optimizer),
                 name);
        YK_TRY(yki_optimizer_number(pth, found, what, &group->hyperparameters[i]));
    }
    const yki_pickle_value *initial = yki_pickle_get(dict, "initial_lr");
    group->initial_lr = group->hyperparameters[YKI_LR];
    return initial ? yki_optimizer_number(pth, initial, "\"initial_lr\" in \"param_groups\"",
                                          &group->initial_lr)
                   : YK_OK;
}

/* ---- reading: which parameters --------------------------------------------------------------- */

static bool name_in_group(const void *names, size_t index, const char **name, size_t *length)
{
    const yki_pickle_value *value = yki_pickle_item(names, index);
    bool is_text = yki_pickle_is(value, YKI_PICKLE_STRING);
    *name = is_text ? value->text : NULL;
    *length = is_text ? value->count : 0;
    return true;
}

static bool name_in_optimizer(const void *optimizer, size_t index, const char **name,
                              size_t *length)
{
    *name = yki_optimizer_parameter_name(optimizer, index);
    *length = strlen(*name);
    return true;
}

/* The parameter of the index'th name, or the number of parameters. Where the names are those of a
 * wrapped model (named_parameters() of DDP), or the optimizer's are, the wrappers come off. */
static size_t find_name(const yk_optimizer *optimizer, const yki_pickle_value *names, size_t index)
{
    const char *name;
    size_t i = 0, length, count = yki_optimizer_parameter_count(optimizer);
    const yki_pickle_value *value = yki_pickle_item(names, index);
    while (i < count && !yki_pickle_is_text(value, yki_optimizer_parameter_name(optimizer, i)))
        i++;
    name_in_group(names, index, &name, &length);
    if (i < count || !name)
        return i;
    size_t skip = yki_common_wrapper(name_in_group, names, names->count);
    size_t own = yki_common_wrapper(name_in_optimizer, optimizer, count);
    for (i = 0; i < count; i++)
        if (yki_same_unwrapped(name + skip, length - skip,
                               yki_optimizer_parameter_name(optimizer, i) + own))
            break;
    return i;
}

/* The parameter that is the index'th of this group in the optimizer. */
static size_t find_place(const yk_optimizer *optimizer, size_t group, size_t index)
{
    size_t i = 0, count = yki_optimizer_parameter_count(optimizer);
    for (; i < count; i++)
        if (yk_optimizer_group_of(optimizer, i) == group && index-- == 0)
            break;
    return i;
}

static yk_status read_group_members(yki_optimizer_groups *groups, const yki_pth *pth,
                                    const yki_pickle_value *dict, const yk_optimizer *optimizer,
                                    size_t g)
{
    const yki_pickle *pickle = yki_pth_file_pickle(pth);
    const yki_pickle_value *ids = yki_pickle_get(dict, "params");
    const yki_pickle_value *names = yki_pickle_get(dict, "param_names");
    if (!yki_pickle_is(ids, YKI_PICKLE_LIST))
        return yki_pickle_unexpected(pickle, ids, "a list \"params\" in \"param_groups\"");
    for (size_t i = 0; i < ids->count; i++) {
        const yki_pickle_value *id = yki_pickle_item(ids, i), *name = yki_pickle_item(names, i);
        size_t parameter = names ? find_name(optimizer, names, i) : find_place(optimizer, g, i);
        if (!yki_pickle_is(id, YKI_PICKLE_INT))
            return yki_pickle_unexpected(pickle, id, "a parameter's number");
        if (parameter == yki_optimizer_parameter_count(optimizer) || groups->number[parameter] >= 0)
            return yki_pickle_unexpected(
                pickle, names ? name : ids,
                "the parameters of the model, each once, in \"params\" of group %zu", g);
        groups->number[parameter] = id->integer;
        groups->group_of[parameter] = g;
    }
    return YK_OK;
}

static yk_status make_room_for_groups(yki_optimizer_groups *groups, size_t parameters)
{
    groups->groups = yki_calloc(groups->count, sizeof *groups->groups);
    groups->group_of = yki_calloc(parameters, sizeof *groups->group_of);
    groups->number = yki_calloc(parameters, sizeof *groups->number);
    if (!groups->groups || !groups->group_of || !groups->number)
        return yki_error_memory(parameters * sizeof *groups->number, "parameter groups");
    for (size_t i = 0; i < parameters; i++)
        groups->number[i] = -1;
    return YK_OK;
}

static yk_status read_all_groups(yki_optimizer_groups *groups, yki_pth *pth,
                                 const yki_pickle_value *state, const yk_optimizer *optimizer,
                                 size_t parameters)
{
    const yki_pickle *pickle = yki_pth_file_pickle(pth);
    const yki_pickle_value *value = yki_pickle_get(state, "param_groups");
    size_t here = yk_optimizer_group_count(optimizer);
    if (!yki_pickle_is(value, YKI_PICKLE_LIST) || value->count == 0 || value->count > parameters)
        return yki_pickle_unexpected(pickle, value, "a list of groups, \"param_groups\"");
    bool named = yki_pickle_get(yki_pickle_item(value, 0), "param_names") != NULL;
    if (!named && value->count != here)
        return yki_error(YK_ERROR_MISMATCH, "%s: has %zu parameter groups, the optimizer has %zu",
                         yki_pth_path(pth), (size_t)value->count, here);
    groups->count = value->count;
    YK_TRY(make_room_for_groups(groups, parameters));
    for (size_t g = 0; g < groups->count; g++) {
        const yki_pickle_value *dict = yki_pickle_item(value, g);
        YK_TRY(check_kind(pth, dict, yki_pickle_get(state, "state"), optimizer));
        YK_TRY(check_variant(pth, dict));
        YK_TRY(read_hyperparameters(&groups->groups[g], pth, dict, optimizer));
        YK_TRY(read_group_members(groups, pth, dict, optimizer, g));
    }
    for (size_t i = 0; i < parameters; i++)
        if (groups->number[i] < 0)
            return yki_error(YK_ERROR_MISMATCH,
                             "%s: no parameter group has %s: expected the %zu parameters of the "
                             "model in \"params\"",
                             yki_pth_path(pth), yki_optimizer_parameter_name(optimizer, i),
                             parameters);
    return YK_OK;
}

yk_status yki_optimizer_groups_read(yki_optimizer_groups *groups, yki_pth *pth,
                                    const yki_pickle_value *dict, const yk_optimizer *optimizer,
                                    size_t parameters)
{
    *groups = (yki_optimizer_groups){0};
    yk_status status = read_all_groups(groups, pth, dict, optimizer, parameters);
    if (status != YK_OK)
        yki_optimizer_groups_fini(groups);
    return status;
}

void yki_optimizer_groups_fini(yki_optimizer_groups *groups)
{
    free(groups->groups);
    free(groups->group_of);
    free(groups->number);
    *groups = (yki_optimizer_groups){0};
}
