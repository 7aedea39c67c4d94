/*
 * Parsing the options of a command. Long options take `-` and `_` alike, and their value as
 * `--name value` or `--name=value`. An invalid option prints exactly one line on stderr.
 */
#ifndef YOKE_CLI_OPTIONS_H
#define YOKE_CLI_OPTIONS_H

#include "options/option_table.h"

/*
 * Parses argv, which it leaves as it is. Operands go to operands[0 .. *operand_count), which has
 * room for max_operands; both may be NULL when none is taken. Returns -1 if the command is to
 * run, else the exit code: 0 after --help, 2 after an error.
 */
int cli_options_parse(const cli_command *command, int argc, char **argv, char **operands,
                      int *operand_count);

/* Puts the line "name=value\n" into kept, see cli_command.kept; false when it does not fit. */
bool cli_options_keep(char *kept, size_t size, const char *name, const char *value);

/* Prints "NAME: ..." and where help is to be had, in one line; returns 2. */
int cli_usage_error(const char *command_name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What a word that begins with a dash says. */
typedef struct cli_option_word {
    const cli_option *option; /* NULL: it names none of the command's options */
    bool negated;             /* "--no-NAME" of a switch */
    const char *value;        /* in the same word, or NULL */
} cli_option_word;
cli_option_word cli_option_find(const cli_command *command, const char *word);

/* Whether a word asks for a help page: "-h", "--help" or "--help=FORMAT". */
bool cli_asks_for_help(const char *word);

/* Refuses an option that the command does not have, and says which one may have been meant, also by
 * "-epochs"; returns 2. */
int cli_refuse_option(const cli_command *command, const char *text);

/* The position of text in "a|b|c", from 0; -1 where it is none of them. */
int cli_choice_index(const char *choices, const char *text);
/* The choice at a position, in the program's own memory until the next call; "" past the last. */
const char *cli_choice_name(const char *choices, int index);

/* Whether text is a value of the option; prints an error of the command if not. Sets nothing. */
bool cli_option_accepts(const char *command_name, const cli_option *option, const char *text);

/* Whether text is one of "a|b|c". */
bool cli_is_choice(const char *choices, const char *text);

#endif
