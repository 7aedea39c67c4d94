/*
 * The parameter groups of the optimizer: --lr-group gives parts of the network rates of their own,
 * with --independent-decay also weight decays that go with them, and --no-decay-norms exempts norms
 * and biases from weight decay. With both, each part that has both kinds of parameters becomes two
 * groups.
 *
 * Groups are numbered from 1, with Muon from 2, in this order: the patterns of --lr-group as they
 * are listed, each with its decaying parameters first; last the norms and biases that match no
 * pattern. In a resumed run they already exist, under the same numbers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/errors.h"
#include "train/train.h"

enum { PATTERN_SIZE = 256 };

size_t cli_train_muon_group(const cli_train_options *o)
{
    return o->optimizer == CLI_OPTIMIZER_MUON ? 1 : SIZE_MAX;
}

/* ---- the text -------------------------------------------------------------------------------- */

typedef struct rule {
    const char *at; /* where it begins in the text */
    char pattern[PATTERN_SIZE];
    double rate;
    double epochs; /* for which it trains; HUGE_VAL: all */
} rule;

/* Reads a number, at least `least`, and moves *at past it. */
static bool read_number(const char **at, double least, double *number)
{
    char *end;
    *number = strtod(*at, &end);
    bool valid = end != *at && *number >= least && *number <= 1e6;
    *at = end;
    return valid;
}

/* Reads the next "PATTERN=RATE[:EPOCHS]" and moves *at past it; false at the end, and if the text
 * has another form. */
static bool next_rule(const char **at, rule *r)
{
    const char *equals = strchr(*at, '=');
    if (!equals || equals == *at || equals - *at >= PATTERN_SIZE)
        return false;
    r->at = *at;
    snprintf(r->pattern, PATTERN_SIZE, "%.*s", (int)(equals - *at), *at);
    const char *end = equals + 1;
    if (!read_number(&end, 0, &r->rate))
        return false;
    r->epochs = HUGE_VAL;
    if (*end == ':' && (end++, !read_number(&end, 0, &r->epochs)))
        return false;
    if (*end && *end != ',')
        return false;
    *at = *end ? end + 1 : end;
    return true;
}

bool cli_lr_groups_are_valid(const char *text)
{
    rule r;
    while (*text)
        if (!next_rule(&text, &r))
            return false;
    return true;
}

yk_status cli_lr_groups_find(const char *text, yk_graph *graph)
{
    rule r;
    yk_status status = YK_OK;
    while (status == YK_OK && text && next_rule(&text, &r))
        status = yk_graph_set_trainable(graph, r.pattern, true, NULL);
    return status;
}

bool cli_lr_groups_are_alike(const char *a, const char *b)
{
    rule one, other;
    for (bool more = true; more;) {
        more = next_rule(&a, &one);
        if (next_rule(&b, &other) != more || (more && strcmp(one.pattern, other.pattern) != 0))
            return false;
    }
    return true;
}

/* ---- which pattern a parameter belongs to ---------------------------------------------------- */

/* Finds the first rule whose pattern matches the parameter; false if there is none. */
static bool find_rule(const cli_training *t, const yk_parameter_view *parameter, rule *r)
{
    const char *at = t->options.lr_groups ? t->options.lr_groups : "";
    while (next_rule(&at, r))
        if (yk_filter_name(parameter, r->pattern))
            return true;
    return false;
}

/* What belongs to one rule of --lr-group. */
typedef struct matches {
    size_t trained, own; /* own: those that no rule before it matches */
} matches;

static matches count_matches(const cli_training *t, const rule *wanted)
{
    matches found = {0, 0};
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        rule first;
        yk_parameter_view view = yk_model_parameter(t->model, i);
        if (!yk_filter_name(&view, wanted->pattern))
            continue;
        found.trained += view.trainable;
        found.own += yk_optimizer_group_of(t->optimizer, i) == 0 && find_rule(t, &view, &first) &&
                     first.at == wanted->at;
    }
    return found;
}

static bool leaves_some(const cli_training *t)
{
    rule r;
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        yk_parameter_view view = yk_model_parameter(t->model, i);
        if (yk_optimizer_group_of(t->optimizer, i) == 0 && !find_rule(t, &view, &r))
            return true;
    }
    return false;
}

bool cli_training_check_groups(const cli_training *t)
{
    rule r;
    const char *at = t->options.lr_groups ? t->options.lr_groups : "";
    while (next_rule(&at, &r)) {
        matches found = count_matches(t, &r);
        if (found.trained == 0)
            return cli_complain("--lr-group %s: all that it matches is frozen, and no rate trains "
                                "it; leave it out",
                                r.pattern);
        if (found.own == 0)
            return cli_complain(
                "--lr-group %s: the patterns before it, or Muon, have taken all that it "
                "matches",
                r.pattern);
    }
    return !t->options.lr_groups || !*t->options.lr_groups || leaves_some(t) ||
           cli_complain("--lr-group %s: the patterns leave no parameter to --lr, which needs one",
                        t->options.lr_groups);
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

/* Sets the rate of a part, and with --independent-decay the weight decay that belongs to it. */
static yk_status set_rate(cli_training *t, size_t *group, const part *wanted, double rate)
{
    yk_status status = set_part(t, group, wanted, "lr", rate);
    if (status != YK_OK || !t->options.independent_decay)
        return status;
    return yk_optimizer_set_group_hyperparameter(t->optimizer, *group - 1, "weight_decay",
                                                 cli_train_decay(&t->options, rate));
}

/* The group or two of one pattern. */
static yk_status set_pattern(cli_training *t, size_t *group, const char *pattern, double rate)
{
    part all = {pattern, true, true}, decaying = {pattern, true, false};
    part resting = {pattern, false, true};
    size_t in, out;
    if (t->options.decay_norms)
        return set_rate(t, group, &all, rate);
    count_part(t, &decaying, *group, &in, &out);
    bool decays = in > 0;
    if (decays) {
        yk_status status = set_rate(t, group, &decaying, rate);
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
    rule r;
    size_t group =
        t->options.optimizer == CLI_OPTIMIZER_MUON ? cli_train_muon_group(&t->options) + 1 : 1;
    const char *at = t->options.lr_groups ? t->options.lr_groups : "";
    while (next_rule(&at, &r)) {
        yk_status status = set_pattern(t, &group, r.pattern, r.rate * factor);
        if (status != YK_OK)
            return status;
    }
    return t->options.decay_norms ? YK_OK : exempt_rest(t, group);
}

yk_status cli_training_end_groups(cli_training *t)
{
    rule r;
    int64_t unit = t->schedule.per_step ? t->steps_per_epoch : 1;
    for (size_t i = 0; i < yk_model_parameter_count(t->model); i++) {
        yk_parameter_view view = yk_model_parameter(t->model, i);
        size_t group = yk_optimizer_group_of(t->optimizer, i);
        if (group == cli_train_muon_group(&t->options) || !find_rule(t, &view, &r) ||
            r.epochs == HUGE_VAL)
            continue;
        yk_status status =
            yk_optimizer_set_group_end(t->optimizer, group, cli_train_units(r.epochs, unit));
        if (status != YK_OK)
            return status;
    }
    return YK_OK;
}
