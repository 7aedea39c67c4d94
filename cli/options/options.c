/* See options.h: one pass over argv, one table, one line for what is wrong. */
#define _GNU_SOURCE
#include "options/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "common/errors.h"
#include "common/spelling.h"
#include "common/terminal.h"
#include "options/help.h"
#include "options/ranks.h"

int cli_usage_error(const char *command_name, const char *format, ...)
{
    char line[2 * PATH_MAX]; /* a path, and what is wrong with it */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cli_make_printable(line); /* what was given may hold anything: it stays one line */
    fprintf(stderr, "%s: %s (see %s --help)\n", command_name, line, command_name);
    return CLI_EXIT_USAGE;
}

/* ---- parsing: an option --------------------------------------------------------------------- */

/* Whether text[0 .. length) is the option's name, `_` read as `-`. */
static bool same_name(const char *name, const char *text, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != (text[i] == '_' ? '-' : text[i]))
            return false;
    return true;
}

static const cli_option *find_long(const cli_command *command, const char *text, size_t length)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].type != CLI_OPTION_GROUP &&
            same_name(command->options[i].name, text, length))
            return &command->options[i];
    return NULL;
}

/* The switch that "no-NAME" turns off, or NULL. */
static const cli_option *find_negated(const cli_command *command, const char *text, size_t length)
{
    if (length < 3 || !same_name("no-", text, 3))
        return NULL;
    const cli_option *option = find_long(command, text + 3, length - 3);
    return option && option->type == CLI_OPTION_SWITCH ? option : NULL;
}

static const cli_option *find_letter(const cli_command *command, char letter)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (letter && command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

cli_option_word cli_option_find(const cli_command *command, const char *word)
{
    bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long;
    size_t length = is_long ? strcspn(name, "=") : 1;
    const cli_option *negated = is_long ? find_negated(command, name, length) : NULL;
    return (cli_option_word){.option = negated   ? negated
                                       : is_long ? find_long(command, name, length)
                                                 : find_letter(command, *name),
                             .negated = negated != NULL,
                             .value = *name && name[length] ? name + length + is_long : NULL};
}

bool cli_asks_for_help(const char *word)
{
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 ||
           strncmp(word, "--help=", 7) == 0;
}

/* Whether a list of choices begins with this one. */
static bool begins_with(const char *choices, const char *text)
{
    for (; *text; text++, choices++)
        if (*choices != *text && !(*choices == '-' && *text == '_'))
            return false;
    return *choices == '|' || !*choices;
}

int cli_choice_index(const char *choices, const char *text)
{
    int index = 0;
    for (const char *at = choices; at; at = strchr(at, '|'), index++) {
        at += *at == '|';
        if (*text && begins_with(at, text))
            return index;
    }
    return -1;
}

const char *cli_choice_name(const char *choices, int index)
{
    static char name[32];
    for (; index > 0 && choices; index--) {
        choices = strchr(choices, '|');
        choices += choices != NULL;
    }
    int length = choices ? (int)strcspn(choices, "|") : 0;
    snprintf(name, sizeof name, "%.*s", length, choices ? choices : "");
    return name;
}

bool cli_is_choice(const char *choices, const char *text)
{
    return cli_choice_index(choices, text) >= 0;
}

/* Below, label is what the user wrote before the value: "--nnodes", "PET_NNODES". */
static int set_int(const cli_command *command, const cli_option *option, const char *label,
                   const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || (double)number < option->minimum ||
        (double)number > option->maximum)
        return cli_usage_error(command->name, "%s %s: expected a whole number from %.0f to %.0f",
                               label, text, option->minimum, option->maximum);
    bool never = number == 0 && option->zero_is_never;
    if (option->width == sizeof(int))
        *(int *)option->value = never ? INT_MAX : (int)number;
    else
        *(int64_t *)option->value = never ? INT64_MAX : number;
    return -1;
}

static int set_real(const cli_command *command, const cli_option *option, const char *label,
                    const char *text)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (errno || end == text || *end || isnan(number) || number < option->minimum ||
        number > option->maximum)
        return cli_usage_error(command->name, "%s %s: expected a number from %.7g to %.7g", label,
                               text, option->minimum, option->maximum);
    *(double *)option->value = number == 0 && option->zero_is_never ? HUGE_VAL : number;
    return -1;
}

static int set_ranks(const cli_command *command, const cli_option *option, const char *label,
                     const char *text)
{
    cli_ranks ranks = cli_ranks_read(text, (int)option->maximum);
    if (ranks.count == 0 && ranks.counted)
        return cli_usage_error(command->name, "%s %s: %s", label, text, cli_reason());
    if (ranks.count == 0)
        return cli_usage_error(command->name,
                               "%s %s: expected a number from 1 to %.0f, auto, cpu or gpu", label,
                               text, option->maximum);
    *(cli_ranks *)option->value = ranks;
    return -1;
}

/* "did you mean NAME? " for a choice that is misspelt, or "". */
static const char *suggest_choice(const char *choices, const char *text)
{
    static char words[96];
    char *copy = strdup(choices), *rest = copy;
    cli_spelling near = cli_spelling_begin(text, strlen(text));
    for (char *name; (name = strsep(&rest, "|"));)
        cli_spelling_try(&near, name);
    snprintf(words, sizeof words, near.best ? "did you mean %s? " : "", near.best);
    free(copy);
    return words;
}

static int set_choice(const cli_command *command, const cli_option *option, const char *label,
                      const char *text)
{
    const char *choices = cli_option_choices(option);
    int index = cli_choice_index(choices, text);
    if (index < 0)
        return cli_usage_error(command->name, "%s %s: %sexpected %s%s", label, text,
                               suggest_choice(choices, text),
                               option->list_choices ? "a name that the help lists" : "one of ",
                               option->list_choices ? "" : choices);
    if (option->type == CLI_OPTION_ENUM)
        *(int *)option->value = index;
    else
        *(const char **)option->value = option->choice_at ? option->choice_at((size_t)index) : text;
    return -1;
}

static int set_value(const cli_command *command, const cli_option *option, const char *label,
                     const char *text)
{
    if (option->given)
        *option->given = true;
    if (!*text)
        return cli_usage_error(command->name, "%s: its value is empty", label);
    switch (option->type) {
    case CLI_OPTION_INT:
        return set_int(command, option, label, text);
    case CLI_OPTION_REAL:
        return set_real(command, option, label, text);
    case CLI_OPTION_RANKS:
        return set_ranks(command, option, label, text);
    case CLI_OPTION_CHOICE:
    case CLI_OPTION_ENUM:
        return set_choice(command, option, label, text);
    case CLI_OPTION_TEXT:
        *(const char **)option->value = text;
        return -1;
    case CLI_OPTION_SWITCH:
        *(bool *)option->value = strcmp(text, "true") == 0;
        return -1;
    case CLI_OPTION_GROUP:
        break;
    }
    return -1;
}

bool cli_option_accepts(const char *command_name, const cli_option *option, const char *text)
{
    union {
        int64_t integer;
        double real;
        const char *text;
        cli_ranks ranks;
        bool on;
    } ignored;
    const cli_command command = {.name = command_name};
    cli_option tried = *option;
    tried.value = &ignored;
    tried.given = NULL;
    char label[64];
    snprintf(label, sizeof label, "--%s", option->name);
    return set_value(&command, &tried, label, text) < 0;
}

/* ---- keeping -------------------------------------------------------------------------------- */

static bool is_kept(const cli_command *command, const cli_option *option)
{
    while (option > command->options && option->type != CLI_OPTION_GROUP)
        option--;
    return command->kept && option->kept;
}

/* Cuts the option's line out of the text. */
static void forget(char *text, const char *name)
{
    for (char *line = text; *line;) {
        char *next = strchr(line, '\n') + 1;
        if (same_name(name, line, strcspn(line, "=\n")))
            memmove(line, next, strlen(next) + 1);
        else
            line = next;
    }
}

bool cli_options_keep(char *kept, size_t size, const char *name, const char *value)
{
    forget(kept, name);
    size_t used = strlen(kept), left = size - used;
    int length = snprintf(kept + used, left, "%s=%s\n", name, value);
    if (!strchr(value, '\n') && (size_t)length < left)
        return true;
    kept[used] = '\0';
    return false;
}

static int keep(const cli_command *command, const cli_option *option, const char *value)
{
    if (cli_options_keep(command->kept, command->kept_size, option->name, value))
        return -1;
    return cli_usage_error(command->name, "--%s: too long, or of several lines", option->name);
}

static int set_and_keep(const cli_command *command, const cli_option *option, const char *value)
{
    if (command->only_kept && !is_kept(command, option))
        return cli_usage_error(command->name, "--%s cannot be set by a checkpoint", option->name);
    char label[64];
    snprintf(label, sizeof label, "--%s", option->name);
    int code = set_value(command, option, label, value);
    return code < 0 && is_kept(command, option) ? keep(command, option, value) : code;
}

/* ---- parsing: the environment --------------------------------------------------------------- */

static int set_switch_from(const cli_command *command, const cli_option *option,
                           const char *variable, const char *text)
{
    bool on = strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0;
    if (!on && strcmp(text, "0") != 0 && strcasecmp(text, "false") != 0)
        return cli_usage_error(command->name, "%s %s: expected 0, 1, true or false", variable,
                               text);
    *(bool *)option->value = on;
    return -1;
}

/* Returns -1, or the exit code of a usage error. */
static int read_environment(const cli_command *command)
{
    for (size_t i = 0; i < command->option_count && command->environment; i++) {
        const cli_option *option = &command->options[i];
        if (option->type == CLI_OPTION_GROUP)
            continue;
        char variable[64];
        snprintf(variable, sizeof variable, "%s%s", command->environment, option->name);
        for (char *at = variable; *at; at++)
            *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
        const char *text = getenv(variable);
        if (!text || !*text)
            continue;
        int code = option->type == CLI_OPTION_SWITCH
                       ? set_switch_from(command, option, variable, text)
                       : set_value(command, option, variable, text);
        if (code >= 0)
            return code;
    }
    return -1;
}

/* ---- parsing: the whole --------------------------------------------------------------------- */

/* Only a checkpoint's words give a switch a value. */
static int turn_switch(const cli_command *command, const cli_option *option, bool negated,
                       const char *value)
{
    if (value && !(command->only_kept && cli_is_choice("true|false", value)))
        return cli_usage_error(command->name, "--%s%s takes no value", negated ? "no-" : "",
                               option->name);
    bool on = !value || strcmp(value, "true") == 0;
    return set_and_keep(command, option, on != negated ? "true" : "false");
}

/* Whether an argument is "--NAME", "--no-NAME" or "--NAME=VALUE" of an option, and so not the value
 * of the option before it. */
static bool is_option_of(const cli_command *command, const char *text)
{
    const char *name = text + 2;
    if (strncmp(text, "--", 2) != 0)
        return false;
    size_t length = strcspn(name, "=");
    return find_long(command, name, length) || find_negated(command, name, length) ||
           same_name("help", name, length);
}

int cli_refuse_option(const cli_command *command, const char *text)
{
    const char *name = text + 1 + (text[1] == '-');
    cli_spelling near = cli_spelling_begin(name, strcspn(name, "="));
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].type != CLI_OPTION_GROUP)
            cli_spelling_try(&near, command->options[i].name);
    return cli_usage_error(command->name, "unknown option '%.*s'%s%s%s", (int)strcspn(text, "="),
                           text, near.best ? ": did you mean --" : "", near.best ? near.best : "",
                           near.best ? "?" : "");
}

/* One option at argv[*at]; moves *at to the last element it used. */
static int parse_option(const cli_command *command, int argc, char **argv, int *at)
{
    const char *text = argv[*at];
    if (cli_asks_for_help(text))
        return cli_print_help(command, strchr(text, '=') ? text + 7 : NULL)
                   ? CLI_EXIT_OK
                   : cli_usage_error(command->name, "%s: expected text, man or options", text);
    const cli_option_word found = cli_option_find(command, text);
    if (!found.option)
        return cli_refuse_option(command, text);
    if (found.option->type == CLI_OPTION_SWITCH)
        return turn_switch(command, found.option, found.negated, found.value);
    if (!found.value && (*at + 1 == argc || is_option_of(command, argv[*at + 1])))
        return cli_usage_error(command->name, "--%s needs a value", found.option->name);
    return set_and_keep(command, found.option, found.value ? found.value : argv[++*at]);
}

/* Whether text and the argument before it look like what a shell makes of shards:x-{0..9}.tar
 * without quotes. */
static bool is_expanded(const char *before, const char *text)
{
    static const char mark[] = "shards:";
    const char *at = strstr(text, mark);
    return at && strncmp(before, text, (size_t)(at - text) + strlen(mark)) == 0;
}

/* Returns -1, or the exit code of a usage error. The arguments of another program may be empty. */
static int add_operand(const cli_command *command, char *word, char **operands, int *count)
{
    const char *several = command->operands ? strstr(command->operands, "...") : NULL;
    if (*count == command->max_operands)
        return several ? cli_usage_error(command->name, "'%s' is one too many: at most %d are read",
                                         word, command->max_operands)
                       : cli_usage_error(command->name, "unexpected argument '%s'", word);
    if (!*word && (*count == 0 || !command->stop_at_operand))
        return cli_usage_error(command->name, "an argument is empty: expected %s",
                               command->operands);
    operands[(*count)++] = word;
    return -1;
}

int cli_options_parse(const cli_command *command, int argc, char **argv, char **operands,
                      int *operand_count)
{
    int count = 0;
    bool options_over = false;
    int invalid = read_environment(command);
    if (invalid >= 0)
        return invalid;
    for (int i = 1; i < argc; i++) {
        bool is_option = !options_over && argv[i][0] == '-' && argv[i][1];
        if (!options_over && is_expanded(argv[i - 1], argv[i]))
            return cli_usage_error(command->name,
                                   "'%s' after '%s': put the pattern in quotes, so that the shell "
                                   "does not expand its braces",
                                   argv[i], argv[i - 1]);
        if (is_option && strcmp(argv[i], "--") == 0) {
            options_over = true;
        } else if (is_option) {
            int code = parse_option(command, argc, argv, &i);
            if (code >= 0)
                return code;
        } else {
            int code = add_operand(command, argv[i], operands, &count);
            if (code >= 0)
                return code;
            options_over |= command->stop_at_operand;
        }
    }
    if (operand_count)
        *operand_count = count;
    return -1;
}
