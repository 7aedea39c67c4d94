/*
 * Help pages, written from a command's table of options: as text for a terminal, as a manual page,
 * and as a list that the completions of shells are generated from (scripts/make-manual).
 */
#ifndef YOKE_CLI_HELP_H
#define YOKE_CLI_HELP_H

#include "options/option_table.h"

/*
 * Prints the page that "--help" or "--help=FORMAT" asks for; FORMAT is text (NULL means it), man or
 * options. False when there is no such format.
 *
 * The format "options" has one line for each option, its fields separated by tabs:
 * letter, name, argument, choices (separated by "|") and help; "-" marks an absent field. A
 * first line "operands" gives the operands.
 */
bool cli_print_help(const cli_command *command, const char *format);

/* Choices ("a|b|c") in lines that begin at a column. Those that begin with the same letters share
 * lines: resnet18, resnet50. */
void cli_print_choices(const char *choices, int indent);

/* A manual page's title and NAME section; purpose is a phrase such as "train a network". */
void cli_print_man_title(const char *name, const char *purpose);
/* Text of a manual page: blank lines separate paragraphs, indented lines stay as they are. */
void cli_print_man_text(const char *text);

#endif
