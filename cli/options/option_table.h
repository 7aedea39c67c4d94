/* The options of a command, declared in one table that drives parsing (options.h) and help pages
 * (help.h). */
#ifndef YOKE_CLI_OPTION_TABLE_H
#define YOKE_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/ranks.h"

typedef enum cli_option_type {
    CLI_OPTION_GROUP, /* a heading on the help page: name alone */
    CLI_OPTION_SWITCH,
    CLI_OPTION_INT,
    CLI_OPTION_REAL,
    CLI_OPTION_RANKS, /* see ranks.h */
    CLI_OPTION_TEXT,
    CLI_OPTION_CHOICE, /* one of several words, as text */
    CLI_OPTION_ENUM    /* one of several words, as its number */
} cli_option_type;

typedef struct cli_option {
    cli_option_type type;
    char letter; /* short form, or 0 */
    const char *name;
    const char *argument; /* what the help page calls the value; NULL: the choices, if any */
    const char *help;     /* states the default; newlines are spaces */
    void *value;          /* holds the default; its type is that of the row's macro */
    size_t width;         /* sizeof *value, for integers */
    bool *given;          /* set when the option was on the command line; may be NULL */
    double minimum, maximum;
    bool zero_is_never;                /* see CLI_INT_OR_NEVER */
    bool on;                           /* of a switch: its default */
    const char *choices;               /* "sgd|adam|adamw" */
    const char *(*list_choices)(void); /* the same, where they are not a constant */
    const char *(*choice_at)(size_t);  /* their own names: '_' may be written for '-' */
    bool kept;                         /* of a group: see cli_command.kept */
} cli_option;

/* Rows of the table. given may be NULL. */
#define CLI_GROUP(heading)                                                                         \
    {                                                                                              \
        .type = CLI_OPTION_GROUP, .name = (heading)                                                \
    }
/* The options of this group are stored with a run and reused when it is resumed. */
#define CLI_GROUP_KEPT(heading)                                                                    \
    {                                                                                              \
        .type = CLI_OPTION_GROUP, .name = (heading), .kept = true                                  \
    }
/* --NAME sets a bool and --no-NAME clears it. The help page shows the one that changes the default:
 * CLI_SWITCH is off by default, CLI_SWITCH_ON is on. */
#define CLI_SWITCH(letter_, name_, help_, variable)                                                \
    {                                                                                              \
        .type = CLI_OPTION_SWITCH, .letter = (letter_), .name = (name_), .help = (help_),          \
        .value = (bool *)                                                                          \
        {                                                                                          \
            variable                                                                               \
        }                                                                                          \
    }
#define CLI_SWITCH_ON(name_, help_, variable, given_)                                              \
    {                                                                                              \
        .type = CLI_OPTION_SWITCH, .name = (name_), .help = (help_), .value = (bool *){variable},  \
        .given = (given_), .on = true                                                              \
    }
/* An int64_t, uint64_t or int. */
#define CLI_INT(letter_, name_, argument_, help_, variable, given_, minimum_, maximum_)            \
    {                                                                                              \
        .type = CLI_OPTION_INT, .letter = (letter_), .name = (name_), .argument = (argument_),     \
        .help = (help_), .value = CLI_INTEGER(variable), .width = sizeof *(variable),              \
        .given = (given_), .minimum = (minimum_), .maximum = (maximum_)                            \
    }
/* The same from 0, which means never, or no limit: the largest number (infinity) is stored. */
#define CLI_INT_OR_NEVER(name_, argument_, help_, variable, maximum_)                              \
    {                                                                                              \
        .type = CLI_OPTION_INT, .name = (name_), .argument = (argument_), .help = (help_),         \
        .value = CLI_INTEGER(variable), .width = sizeof *(variable), .maximum = (maximum_),        \
        .zero_is_never = true                                                                      \
    }
#define CLI_REAL_OR_NEVER(name_, argument_, help_, variable, maximum_)                             \
    {                                                                                              \
        .type = CLI_OPTION_REAL, .name = (name_), .argument = (argument_), .help = (help_),        \
        .value = (double *){variable}, .maximum = (maximum_), .zero_is_never = true                \
    }
#define CLI_INTEGER(variable)                                                                      \
    _Generic((variable), int64_t * : (variable), uint64_t * : (variable), int * : (variable))
#define CLI_REAL(letter_, name_, argument_, help_, variable, given_, minimum_, maximum_)           \
    {                                                                                              \
        .type = CLI_OPTION_REAL, .letter = (letter_), .name = (name_), .argument = (argument_),    \
        .help = (help_), .value = (double *){variable}, .given = (given_), .minimum = (minimum_),  \
        .maximum = (maximum_)                                                                      \
    }
/* A number of ranks, or a word for one (ranks.h). */
#define CLI_RANKS(name_, help_, variable, given_, maximum_)                                        \
    {                                                                                              \
        .type = CLI_OPTION_RANKS, .letter = 'n', .name = (name_), .argument = "N",                 \
        .help = (help_), .value = (cli_ranks *){variable}, .given = (given_),                      \
        .maximum = (maximum_)                                                                      \
    }
#define CLI_TEXT(letter_, name_, argument_, help_, variable, given_)                               \
    {                                                                                              \
        .type = CLI_OPTION_TEXT, .letter = (letter_), .name = (name_), .argument = (argument_),    \
        .help = (help_), .value = (const char **){variable}, .given = (given_)                     \
    }
#define CLI_CHOICE(letter_, name_, choices_, help_, variable, given_)                              \
    {                                                                                              \
        .type = CLI_OPTION_CHOICE, .letter = (letter_), .name = (name_), .choices = (choices_),    \
        .help = (help_), .value = (const char **){variable}, .given = (given_)                     \
    }
/* An enum whose constants are numbered like the choices. */
#define CLI_ENUM(letter_, name_, choices_, help_, variable, given_)                                \
    {                                                                                              \
        .type = CLI_OPTION_ENUM, .letter = (letter_), .name = (name_), .choices = (choices_),      \
        .help = (help_), .value = (variable), .width = sizeof *(variable), .given = (given_)       \
    }
typedef struct cli_command {
    const char *name;       /* "yoke train" */
    const char *operands;   /* "CHECKPOINT", or "" when none is taken */
    const char *summary;    /* what it does, in paragraphs; indented lines stay as they are */
    const char *exit_codes; /* a table for the help page; NULL: 0, 1 and 2 as everywhere */
    const char *examples;   /* the end of the help page */
    const cli_option *options;
    size_t option_count;
    int max_operands;
    bool stop_at_operand; /* options end at the first operand: the rest is another program's */
    /* "PET_": the option --node-rank may also be set by PET_NODE_RANK; the command line overrides
     * it. An empty variable counts as unset. NULL: options come from the command line only. */
    const char *environment;
    /* The options of the groups to keep that were given are added here, as lines "name=value\n",
     * each in place of an earlier one of the same name; NULL: nowhere. A switch is "true" or
     * "false". */
    char *kept;
    size_t kept_size;
    bool only_kept; /* refuses all other options: these words come from a file */
} cli_command;

/* The choices of an option, or NULL. */
static inline const char *cli_option_choices(const cli_option *option)
{
    return option->list_choices ? option->list_choices() : option->choices;
}
#endif
