/*
 * Parameter groups: sets of parameters that each have separate hyperparameters, torch.optim's
 * param_groups. Group 0 holds the parameters that no other group has taken. A group may need fewer
 * state tensors than there is memory for, but never more.
 */
#define _GNU_SOURCE
#include "optim/optimizer.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static yk_status check_number(const yk_optimizer *optimizer, size_t group)
{
    if (group < optimizer->group_count)
        return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "there is no parameter group %zu, only %zu of them",
                     group, optimizer->group_count);
}

/* ---- which parameters ------------------------------------------------------------------------ */

bool yk_filter_norms_and_biases(const yk_parameter_view *parameter, const void *context)
{
    (void)context;
    return parameter && parameter->value.ndim <= 1;
}

bool yk_filter_name(const yk_parameter_view *parameter, const void *context)
{
    return parameter && parameter->name && context && fnmatch(context, parameter->name, 0) == 0;
}

/* The filter selects none of the first group's parameters, or all of them. */
static yk_status refuse_selection(const yk_optimizer *optimizer, bool all, size_t count,
                                  yk_parameter_filter filter, const char *pattern)
{
    if (all)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the new parameter group would take all %zu parameters of the first one; "
                         "set the first group's hyperparameters instead",
                         count);
    if (filter != yk_filter_name || !pattern)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "the new parameter group would be empty: its filter selects none of the "
                         "first group's %zu parameters",
                         count);
    size_t first = 0;
    while (optimizer->group_of[first] != 0)
        first++;
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "the new parameter group would be empty: none of the first group's %zu "
                     "parameters, such as %s, has a name like \"%s\"",
                     count, optimizer->views[first].name, pattern);
}

yk_status yk_optimizer_add_param_group(yk_optimizer *optimizer, yk_parameter_filter filter,
                                       const void *context, size_t *group)
{
    YKI_NOT_NULL(optimizer);
    YKI_NOT_NULL(filter);
    size_t wanted = 0, left = 0, new = optimizer->group_count;
    for (size_t i = 0; i < optimizer->parameters; i++)
        if (optimizer->group_of[i] == 0) {
            bool chosen = filter(&optimizer->views[i], context);
            wanted += chosen;
            left += !chosen;
        }
    if (wanted == 0 || left == 0)
        return refuse_selection(optimizer, wanted > 0, wanted + left, filter, context);
    YK_TRY(yki_optimizer_fit_coefficients(optimizer, new + 1));
    yki_param_group *groups = realloc(optimizer->groups, (new + 1) * sizeof *groups);
    if (!groups)
        return yki_error_memory((new + 1) * sizeof *groups, "the optimizer's groups");
    groups[new] = groups[0];
    optimizer->groups = groups;
    optimizer->group_count++;
    for (size_t i = 0; i < optimizer->parameters; i++)
        if (optimizer->group_of[i] == 0 && filter(&optimizer->views[i], context))
            optimizer->group_of[i] = new;
    if (group)
        *group = new;
    return YK_OK;
}

yk_status yk_optimizer_set_group_end(yk_optimizer *optimizer, size_t group, int64_t t)
{
    YKI_NOT_NULL(optimizer);
    YK_TRY(check_number(optimizer, group));
    optimizer->groups[group].end = t;
    return YK_OK;
}

size_t yk_optimizer_group_count(const yk_optimizer *optimizer)
{
    return optimizer ? optimizer->group_count : 0;
}

size_t yk_optimizer_group_of(const yk_optimizer *optimizer, size_t parameter)
{
    bool exists = optimizer && parameter < optimizer->parameters;
    return exists ? optimizer->group_of[parameter] : SIZE_MAX;
}

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* What is kept in some settings and not in others belongs to a switch or is a momentum. */
static yk_status refuse_slot(const yki_optimizer_rule *rule, int slot)
{
    const char *option = rule->slot_switches[slot];
    if (!option)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: it was created without a momentum and has no memory for one: create "
                         "it with a momentum above 0",
                         rule->name);
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "%s: it was created without %s and has no memory for %s: create it with %s",
                     rule->name, option, rule->slot_names[slot], option);
}

static yk_status check_group(const yk_optimizer *optimizer, const size_t *group_of, size_t group,
                             const double *values)
{
    const yki_optimizer_rule *rule = optimizer->rule;
    YK_TRY(rule->check(values));
    unsigned lacking = yki_optimizer_lacking(optimizer, values);
    for (int slot = 0; slot < YKI_MAX_SLOTS; slot++)
        if (lacking >> slot & 1)
            return refuse_slot(rule, slot);
    return yki_muon_check_group(optimizer, group_of, group, values);
}

yk_status yki_optimizer_set_groups(yk_optimizer *optimizer, const yki_param_group *groups,
                                   size_t count, const size_t *group_of)
{
    for (size_t g = 0; g < count; g++)
        YK_TRY(check_group(optimizer, group_of, g, groups[g].hyperparameters));
    YK_TRY(yki_optimizer_fit_coefficients(optimizer, count));
    yki_param_group *room = yki_calloc(count, sizeof *room);
    if (!room)
        return yki_error_memory(count * sizeof *room, "the optimizer's groups");
    memcpy(room, groups, count * sizeof *groups);
    for (size_t g = 0; g < count; g++) /* no part of a checkpoint */
        room[g].end = g < optimizer->group_count ? optimizer->groups[g].end : YK_NEVER;
    free(optimizer->groups);
    optimizer->groups = room;
    optimizer->group_count = count;
    memcpy(optimizer->group_of, group_of, optimizer->parameters * sizeof *group_of);
    return YK_OK;
}

double yk_optimizer_lr(const yk_optimizer *optimizer)
{
    return optimizer ? optimizer->groups[0].hyperparameters[YKI_LR] : NAN;
}

bool yk_optimizer_group_hyperparameter(const yk_optimizer *optimizer, size_t group, size_t index,
                                       const char **name, double *value)
{
    if (group >= yk_optimizer_group_count(optimizer) ||
        index >= (size_t)optimizer->rule->hyperparameters || !name || !value)
        return false;
    *name = optimizer->rule->hyperparameter_names[index];
    *value = optimizer->groups[group].hyperparameters[index];
    return true;
}

bool yk_optimizer_hyperparameter(const yk_optimizer *optimizer, size_t index, const char **name,
                                 double *value)
{
    return yk_optimizer_group_hyperparameter(optimizer, 0, index, name, value);
}

static yk_status find_hyperparameter(const yki_optimizer_rule *rule, const char *name, int *index)
{
    for (*index = 0; *index < rule->hyperparameters; ++*index)
        if (strcmp(rule->hyperparameter_names[*index], name) == 0)
            return YK_OK;
    return yki_error(YK_ERROR_INVALID_ARGUMENT, "%s has no hyperparameter \"%s\"", rule->name,
                     name);
}

/* Checks the value in the groups first <= g < end, then sets it. */
static yk_status set_in(yk_optimizer *optimizer, size_t first, size_t end, const char *name,
                        double value)
{
    int index;
    YK_TRY(find_hyperparameter(optimizer->rule, name, &index));
    for (size_t g = first; g < end; g++) {
        double values[YKI_MAX_HYPERPARAMETERS];
        memcpy(values, optimizer->groups[g].hyperparameters, sizeof values);
        values[index] = value;
        YK_TRY(check_group(optimizer, optimizer->group_of, g, values));
    }
    for (size_t g = first; g < end; g++) {
        optimizer->groups[g].hyperparameters[index] = value;
        if (index == YKI_LR)
            optimizer->groups[g].initial_lr = value;
    }
    return YK_OK;
}

yk_status yk_optimizer_set_hyperparameter(yk_optimizer *optimizer, const char *name, double value)
{
    YKI_NOT_NULL(optimizer);
    YKI_NOT_NULL(name);
    return set_in(optimizer, 0, optimizer->group_count, name, value);
}

yk_status yk_optimizer_set_lr(yk_optimizer *optimizer, double lr)
{
    return yk_optimizer_set_hyperparameter(optimizer, "lr", lr);
}

yk_status yk_optimizer_set_group_hyperparameter(yk_optimizer *optimizer, size_t group,
                                                const char *name, double value)
{
    YKI_NOT_NULL(optimizer);
    YKI_NOT_NULL(name);
    YK_TRY(check_number(optimizer, group));
    return set_in(optimizer, group, group + 1, name, value);
}
