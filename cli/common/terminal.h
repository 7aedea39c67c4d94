/* How wide the terminal is, and text laid out for it. */
#ifndef YOKE_CLI_TERMINAL_H
#define YOKE_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Whether stderr can redraw a line: it is a terminal other than TERM=dumb, or a launcher that owns
 * one has said so in YOKE_TERMINAL.
 */
bool cli_terminal_redraws(void);

/* Columns of the terminal: YOKE_TERMINAL, else those of fd, else COLUMNS, else 80. */
int cli_terminal_columns(int fd);

/*
 * Columns for text that is printed once: those of the terminal of fd, at least 40 and at most 80,
 * so that a log reads like the terminal it may be shown on. 80 where fd is no terminal.
 */
int cli_text_columns(int fd);

/* Columns that a text in UTF-8 takes on a terminal: two for each East Asian character. */
int cli_text_width(const char *text);

/* Prints the name of a file or a class. It may hold anything: what a terminal would act on, the end
 * of a line included, becomes "?". */
void cli_print_name(FILE *file, const char *name);
/* The same in place, for a text that becomes one line. */
void cli_make_printable(char *text);

/*
 * Prints text, one or more lines. A line longer than `columns` is broken between words, where
 * possible after a comma, semicolon or colon or before a parenthesis, and continues `indent`
 * columns from the left. A word longer than a line stays whole.
 */
void cli_print_wrapped(FILE *file, const char *text, int columns, int indent);

#endif
