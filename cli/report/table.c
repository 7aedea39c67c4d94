/* See table.h. */
#define _GNU_SOURCE
#include "report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/terminal.h"

enum { MAX_COLUMNS = 68, GAP = 2 };

typedef struct row {
    char *cells[MAX_COLUMNS];
    int count;
    bool ruled; /* a line follows it */
} row;

struct cli_table {
    row *rows;
    size_t count;
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
    if (last->count == MAX_COLUMNS)
        return;
    va_start(arguments, format);
    if (vasprintf(&last->cells[last->count], format, arguments) < 0)
        table->failed = true;
    else
        cli_make_printable(last->cells[last->count++]);
    va_end(arguments);
}

void cli_table_rule(cli_table *table)
{
    if (table && table->count > 0)
        table->rows[table->count - 1].ruled = true;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void measure(const cli_table *table, int widths[MAX_COLUMNS])
{
    for (size_t i = 0; i < table->count; i++)
        for (int column = 0; column < table->rows[i].count; column++) {
            int width = cli_text_width(table->rows[i].cells[column]);
            widths[column] = width > widths[column] ? width : widths[column];
        }
}

static void print_row(const row *r, const int widths[MAX_COLUMNS], FILE *file)
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
    int widths[MAX_COLUMNS] = {0}, all = 0;
    if (!table || table->failed)
        return false;
    measure(table, widths);
    for (int column = 0; column < MAX_COLUMNS; column++)
        all += widths[column] ? widths[column] + (column ? GAP : 0) : 0;
    for (size_t i = 0; i < table->count; i++) {
        print_row(&table->rows[i], widths, file);
        for (int column = 0; table->rows[i].ruled && column < all; column++)
            fputc('-', file);
        if (table->rows[i].ruled)
            fputc('\n', file);
    }
    return true;
}

void cli_table_destroy(cli_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        for (int column = 0; column < table->rows[i].count; column++)
            free(table->rows[i].cells[column]);
    free(table->rows);
    free(table);
}
