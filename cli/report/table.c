/* See table.h. */
#define _GNU_SOURCE
#include "report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/terminal.h"

enum { GAP = 2 };

typedef struct row {
    char **cells;
    int count;
    bool ruled; /* a line follows it */
} row;

struct cli_table {
    row *rows;
    size_t count;
    int columns; /* of the longest row */
    bool failed;
};

cli_table *cli_table_create(void)
{
    return calloc(1, sizeof(cli_table));
}

void cli_table_row(cli_table *table)
{
    row *rows = table ? realloc(table->rows, (table->count + 1) * sizeof *rows) : NULL;
    if (!table || !rows) {
        if (table)
            table->failed = true;
        return;
    }
    table->rows = rows;
    rows[table->count++] = (row){.count = 0};
}

void cli_table_cell(cli_table *table, const char *format, ...)
{
    va_list arguments;
    if (!table || table->failed)
        return;
    row *last = &table->rows[table->count - 1];
    char **cells = realloc(last->cells, ((size_t)last->count + 1) * sizeof *cells);
    if (!cells) {
        table->failed = true;
        return;
    }
    last->cells = cells;
    va_start(arguments, format);
    if (vasprintf(&cells[last->count], format, arguments) < 0)
        table->failed = true;
    else
        cli_make_printable(cells[last->count++]);
    va_end(arguments);
    if (last->count > table->columns)
        table->columns = last->count;
}

void cli_table_rule(cli_table *table)
{
    if (table && table->count > 0)
        table->rows[table->count - 1].ruled = true;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The width of each column; NULL without memory. */
static int *measure(const cli_table *table)
{
    int *widths = calloc((size_t)table->columns + 1, sizeof *widths);
    if (!widths)
        return NULL;
    for (size_t i = 0; i < table->count; i++)
        for (int column = 0; column < table->rows[i].count; column++) {
            int width = cli_text_width(table->rows[i].cells[column]);
            widths[column] = width > widths[column] ? width : widths[column];
        }
    return widths;
}

static void print_row(const row *r, const int *widths, FILE *file)
{
    for (int column = 0; column < r->count; column++) {
        int padding = widths[column] - cli_text_width(r->cells[column]);
        bool left = column == 0, last = column == r->count - 1;
        fprintf(file, "%*s%s%*s", left ? 0 : padding + GAP, "", r->cells[column],
                left && !last ? padding : 0, "");
    }
    fputc('\n', file);
}

bool cli_table_print(const cli_table *table, FILE *file)
{
    int *widths = table && !table->failed ? measure(table) : NULL, all = 0;
    if (!widths)
        return false;
    for (int column = 0; column < table->columns; column++)
        all += widths[column] ? widths[column] + (column ? GAP : 0) : 0;
    for (size_t i = 0; i < table->count; i++) {
        print_row(&table->rows[i], widths, file);
        for (int column = 0; table->rows[i].ruled && column < all; column++)
            fputc('-', file);
        if (table->rows[i].ruled)
            fputc('\n', file);
    }
    free(widths);
    return true;
}

void cli_table_destroy(cli_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++) {
        for (int column = 0; column < table->rows[i].count; column++)
            free(table->rows[i].cells[column]);
        free(table->rows[i].cells);
    }
    free(table->rows);
    free(table);
}
