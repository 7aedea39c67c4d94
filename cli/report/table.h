/* A table of texts that is printed with aligned columns: the first to the left, the others to the
 * right. Running out of memory is noticed when it is printed. */
#ifndef YOKE_CLI_TABLE_H
#define YOKE_CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct cli_table cli_table;

cli_table *cli_table_create(void);
/* Begins a row; cells are added to the last one. All functions accept NULL. */
void cli_table_row(cli_table *table);
/* The text may hold anything: what a terminal would act on, the end of a line included, becomes
 * "?". */
void cli_table_cell(cli_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line across the table, below the last row. */
void cli_table_rule(cli_table *table);
/* False when memory has run out. */
bool cli_table_print(const cli_table *table, FILE *file);
void cli_table_destroy(cli_table *table);

#endif
