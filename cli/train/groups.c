/*
 * The parameter groups of the optimizer: --lr-group gives parts of the network rates of their own,
 * and --no-decay-norms exempts norms and biases from weight decay. With both, each part that has
 * both kinds of parameters becomes two groups.
 *
 * Groups are numbered from 1 on in this order: the patterns of --lr-group as they are listed, first
 * what decays, then what does not; last the norms and biases that match no pattern. In a resumed
 * run they exist already, under the same numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setup.h"
#include "train/train.h"

enum { PATTERN_SIZE = 256 };

/* ---- the text -------------------------------------------------------------------------------- */

/* The next "PATTERN=RATE" of *at, which moves on; false at the end and for what is neither. */
static bool next_rule(const char **at, char pattern[PATTERN_SIZE], double *rate)
{
    const char *equals = strchr(*at, '=');
    char *end;
    if (!equals || equals == *at || equals - *at >= PATTERN_SIZE)
        return false;
    snprintf(pattern, PATTERN_SIZE, "%.*s", (int)(equals - *at), *at);
    *rate = strtod(equals + 1, &end);
    if (end == equals + 1 || (*end && *end != ',') || !(*rate >= 0 && *rate <= 1e6))
        return false;
    *at = *end ? end + 1 : end;
    return true;
}

bool cli_lr_groups_are_valid(const char *text)
{
    char pattern[PATTERN_SIZE];
    double rate;
    while (*text)
        if (!next_rule(&text, pattern, &rate))
            return false;
    return true;
}

bool cli_lr_groups_are_alike(const char *a, const char *b)
{
    char one[PATTERN_SIZE], other[PATTERN_SIZE];
    double rate;
    for (bool more = true; more;) {
        more = next_rule(&a, one, &rate);
        if (next_rule(&b, other, &rate) != more || (more && strcmp(one, other) != 0))
            return false;
    }
    return true;
}

/* ---- the groups ------------------------------------------------------------------------------ */

/* What a group holds of the parameters that no group before it has taken. */
typedef struct part {
    const char *pattern; /* NULL: whatever the name */
    bool decays, rests;  /* whether those that decay belong to it, and those that do not */
} part;

static bool belongs(const yk_parameter_view *parameter, const void *context)
{
    const part *wanted = context;
    bool rests = yk_filter_norms_and_biases(parameter, NULL);
    return (!wanted->pattern || yk_filter_name(parameter, wanted->pattern)) &&
           (rests ? wanted->rests : wanted->decays);
}

/* Whether the part has parameters, and whether others are left in group 0: while groups are made,
 * it holds what is not taken; in a resumed run, the group itself is there. */
static void count_part(const cli_training *t, const part *wanted, size_t group, size_t *in,
                       size_t *out)
{
    *in = *out = 0;
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        size_t its = yk_optimizer_group_of(t->optimizer, i);
        yk_parameter_view view = yk_model_parameter(t->model, i);
        bool inside = (its == 0 || its == group) && belongs(&view, wanted);
        *in += inside;
        *out += its == 0 && !inside;
    }
}

/* Sets a hyperparameter of the part's group, number *group, which is made where it is not there.
 * Then *group is the next one. */
static yk_status set_part(cli_training *t, size_t *group, const part *wanted, const char *name,
                          double value)
{
    yk_status status = YK_OK;
    if (yk_optimizer_group_count(t->optimizer) <= *group)
        status = yk_optimizer_add_param_group(t->optimizer, belongs, wanted, NULL);
    return status == YK_OK
               ? yk_optimizer_set_group_hyperparameter(t->optimizer, (*group)++, name, value)
               : status;
}

/* The group or two of one pattern. */
static yk_status set_pattern(cli_training *t, size_t *group, const char *pattern, double rate)
{
    part all = {pattern, true, true}, decaying = {pattern, true, false};
    part resting = {pattern, false, true};
    size_t in, out;
    if (t->options.decay_norms)
        return set_part(t, group, &all, "lr", rate);
    count_part(t, &decaying, *group, &in, &out);
    bool decays = in > 0;
    if (decays) {
        yk_status status = set_part(t, group, &decaying, "lr", rate);
        if (status != YK_OK)
            return status;
    }
    count_part(t, &resting, *group, &in, &out);
    if (decays && in == 0)
        return YK_OK;
    yk_status status = set_part(t, group, &resting, "lr", rate);
    return status == YK_OK
               ? yk_optimizer_set_group_hyperparameter(t->optimizer, *group - 1, "weight_decay", 0)
               : status;
}

/* The norms and biases that match no pattern. Where nothing else is left, they are group 0. */
static yk_status exempt_rest(cli_training *t, size_t group)
{
    const part resting = {NULL, false, true};
    size_t in, out;
    count_part(t, &resting, group, &in, &out);
    if (in == 0)
        return YK_OK;
    if (out == 0 && yk_optimizer_group_count(t->optimizer) <= group)
        group = 0;
    return set_part(t, &group, &resting, "weight_decay", 0);
}

yk_status cli_training_set_groups(cli_training *t, double factor)
{
    char pattern[PATTERN_SIZE];
    double rate;
    size_t group = 1;
    const char *at = t->options.lr_groups ? t->options.lr_groups : "";
    while (next_rule(&at, pattern, &rate)) {
        yk_status status = set_pattern(t, &group, pattern, rate * factor);
        if (status != YK_OK)
            return status;
    }
    return t->options.decay_norms ? YK_OK : exempt_rest(t, group);
}
