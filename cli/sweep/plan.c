/* See plan.h. Only options with numbers and choices take lists: the texts of others, such as
 * --milestones, may have commas of their own. */
#define _GNU_SOURCE
#include "sweep/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/errors.h"
#include "options/options.h"
#include "train/train.h"

/* ---- options of yoke train ------------------------------------------------------------------- */

/* Its options, under the name of a command. */
static cli_command train_as(const char *command)
{
    cli_command train = {.name = command};
    train.options = cli_train_options_table(&train.option_count);
    return train;
}

/* What a word such as "--lr=0.1" or "-b" says. */
static cli_option_word find_option(const char *word)
{
    const cli_command train = train_as("yoke train");
    return word[0] == '-' ? cli_option_find(&train, word) : (cli_option_word){.option = NULL};
}

static bool takes_list(const cli_option *option)
{
    return option->type == CLI_OPTION_INT || option->type == CLI_OPTION_REAL ||
           option->type == CLI_OPTION_CHOICE || option->type == CLI_OPTION_ENUM ||
           option->type == CLI_OPTION_RANKS;
}

/* Options that name one file, which every run would write. */
static bool names_a_file_of_a_run(const cli_option *option)
{
    return strcmp(option->name, "trace") == 0 || strcmp(option->name, "metrics-file") == 0;
}

/* A word that should be an option of yoke train. */
static void refuse_word(const char *command, const char *word)
{
    const cli_command train = train_as(command);
    if (word[0] == '-')
        cli_refuse_option(&train, word);
    else
        cli_usage_error(command, "unexpected argument '%s'", word);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool add_word(cli_sweep_plan *plan, const char *command, char *word)
{
    if (plan->other_count < CLI_SWEEP_WORDS) {
        plan->others[plan->other_count++] = word;
        return true;
    }
    cli_usage_error(command, "more than %d words", CLI_SWEEP_WORDS);
    return false;
}

/* Two runs must not have the same folder. */
static bool add_value(cli_sweep_axis *axis, const char *command, const char *value)
{
    for (int i = 0; i < axis->count; i++) {
        if (strcmp(axis->values[i], value) == 0) {
            cli_usage_error(command, "--%s has the value %s twice", axis->name, value);
            return false;
        }
    }
    if (axis->count == CLI_SWEEP_VALUES) {
        cli_usage_error(command, "--%s has more than %d values", axis->name, CLI_SWEEP_VALUES);
        return false;
    }
    axis->values[axis->count++] = value;
    return true;
}

static bool add_axis(cli_sweep_plan *plan, const char *command, const cli_option *option,
                     const char *list)
{
    if (plan->axis_count == CLI_SWEEP_AXES) {
        cli_usage_error(command, "more than %d options with several values", CLI_SWEEP_AXES);
        return false;
    }
    for (int i = 0; i < plan->axis_count; i++) {
        if (plan->axes[i].name == option->name) {
            cli_usage_error(command, "--%s has two lists of values: join them", option->name);
            return false;
        }
    }
    cli_sweep_axis *axis = &plan->axes[plan->axis_count++];
    axis->name = option->name;
    axis->text = strdup(list);
    axis->count = 0;
    if (!axis->text)
        return cli_complain("out of memory");
    for (char *rest = axis->text, *value; (value = strsep(&rest, ","));) {
        if (!cli_option_accepts(command, option, value) || !add_value(axis, command, value))
            return false;
    }
    return true;
}

/* A single value beside a list would be given to no run. */
static bool lists_stand_alone(const cli_sweep_plan *plan, const char *command)
{
    for (int i = 0; i < plan->axis_count; i++)
        if (cli_sweep_shared(plan, plan->axes[i].name)) {
            cli_usage_error(command, "--%s has a list of values and a single one: give one of them",
                            plan->axes[i].name);
            return false;
        }
    return true;
}

/* Names that are cut off may be the same for two runs. */
static bool names_fit(const cli_sweep_plan *plan, const char *command)
{
    size_t size = 1;
    for (int i = 0; i < plan->axis_count; i++) {
        size_t longest = 0;
        for (int j = 0; j < plan->axes[i].count; j++)
            longest = strlen(plan->axes[i].values[j]) > longest ? strlen(plan->axes[i].values[j])
                                                                : longest;
        size += strlen(plan->axes[i].name) + longest + 2;
    }
    if (size > CLI_SWEEP_NAME)
        cli_usage_error(command,
                        "too many options with several values: a run's name would have "
                        "more than %d bytes",
                        CLI_SWEEP_NAME);
    return size <= CLI_SWEEP_NAME;
}

static bool count_runs(cli_sweep_plan *plan, const char *command)
{
    plan->runs = 1;
    for (int i = 0; i < plan->axis_count; i++) {
        plan->runs *= plan->axes[i].count;
        if (plan->runs > CLI_SWEEP_RUNS) {
            cli_usage_error(command, "more than %d combinations", CLI_SWEEP_RUNS);
            return false;
        }
    }
    if (plan->axis_count == 0)
        cli_usage_error(command, "no option has several values: give one a list, such as "
                                 "--lr 0.01,0.03,0.1");
    return plan->axis_count > 0;
}

/* An option in one word or two, with its value: an axis if that is a list, or else words that all
 * runs share. */
static bool add_option(cli_sweep_plan *plan, const char *command, const cli_option *option,
                       char **words, int count, const char *value)
{
    bool may_be_list = value && takes_list(option);
    if (names_a_file_of_a_run(option)) {
        cli_usage_error(command, "--%s: all runs would write the same file", option->name);
        return false;
    }
    if (value && strcmp(option->name, "recipe") == 0 && strcmp(value, "list") == 0) {
        cli_usage_error(command, "--recipe list trains nothing: `yoke train --recipe list` prints "
                                 "all recipes");
        return false;
    }
    if (may_be_list && strchr(value, ','))
        return add_axis(plan, command, option, value);
    if (may_be_list && !cli_option_accepts(command, option, value))
        return false;
    for (int i = 0; i < count; i++)
        if (!add_word(plan, command, words[i]))
            return false;
    return true;
}

bool cli_sweep_plan_make(cli_sweep_plan *plan, const char *command, int argc, char **argv)
{
    *plan = (cli_sweep_plan){.axis_count = 0};
    for (int i = 0, used = 0; i < argc; i += used) {
        const cli_option_word found = find_option(argv[i]);
        if (!found.option) {
            refuse_word(command, argv[i]);
            return false;
        }
        bool is_switch = found.option->type == CLI_OPTION_SWITCH;
        bool apart = !is_switch && !found.value;
        if (is_switch && found.value) {
            cli_usage_error(command, "%.*s takes no value", (int)strcspn(argv[i], "="), argv[i]);
            return false;
        }
        if (apart && i + 1 == argc) {
            cli_usage_error(command, "%s: missing value", argv[i]);
            return false;
        }
        used = 1 + apart;
        if (!add_option(plan, command, found.option, argv + i, used,
                        apart ? argv[i + 1] : found.value))
            return false;
    }
    return count_runs(plan, command) && lists_stand_alone(plan, command) &&
           names_fit(plan, command);
}

void cli_sweep_plan_release(cli_sweep_plan *plan)
{
    for (int i = 0; i < plan->axis_count; i++)
        free(plan->axes[i].text);
}

const char *cli_sweep_shared(const cli_sweep_plan *plan, const char *name)
{
    const char *shared = NULL;
    for (int i = 0; i < plan->other_count; i++) {
        cli_option_word found = find_option(plan->others[i]);
        assert(found.option); /* or it would not have been added */
        if (found.option->type != CLI_OPTION_SWITCH && !found.value)
            found.value = plan->others[++i];
        if (strcmp(found.option->name, name) == 0)
            shared = found.value;
    }
    return shared;
}

const char *cli_sweep_value(const cli_sweep_plan *plan, int run, int axis)
{
    for (int i = plan->axis_count - 1; i > axis; i--)
        run /= plan->axes[i].count;
    return plan->axes[axis].values[run % plan->axes[axis].count];
}

void cli_sweep_name(char name[CLI_SWEEP_NAME], const cli_sweep_plan *plan, int run)
{
    size_t at = 0;
    for (int i = 0; i < plan->axis_count && at < CLI_SWEEP_NAME; i++)
        at += (size_t)snprintf(name + at, CLI_SWEEP_NAME - at, "%s%s-%s", i ? "_" : "",
                               plan->axes[i].name, cli_sweep_value(plan, run, i));
    for (char *c = name; *c; c++)
        if (*c == '/')
            *c = '-';
}
