/* `yoke compare`: what two or more runs do differently, and what came of it, as a table. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/duration.h"
#include "common/errors.h"
#include "options/options.h"
#include "report/run.h"
#include "report/table.h"

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct comparison {
    const cli_run *runs;
    int count;
    cli_table *table;
} comparison;

static void add_settings(const comparison *c, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cli_table_row(c->table);
        cli_table_cell(c->table, "%s", names[i]);
        for (int run = 0; run < c->count; run++) {
            const char *value = cli_run_setting(&c->runs[run], names[i]);
            cli_table_cell(c->table, "%s", value ? value : "-");
        }
    }
}

/* A result in a run; the number of digits is that of its unit. */
typedef struct result_row {
    const char *name;
    size_t offset; /* in cli_results */
    const char *format;
    double factor;
} result_row;

static const result_row result_rows[] = {
    {"validation accuracy", offsetof(cli_results, accuracy), "%.2f %%", 100},
    {"  highest", offsetof(cli_results, best_accuracy), "%.2f %%", 100},
    {"  in epoch", offsetof(cli_results, best_epoch), "%.0f", 1},
    {"validation loss", offsetof(cli_results, val_loss), "%.4f", 1},
    {"training loss", offsetof(cli_results, train_loss), "%.4f", 1},
    {"images/s", offsetof(cli_results, images_per_s), "%.1f", 1},
    {"waiting for data", offsetof(cli_results, data), "%.1f %%", 100},
    {"waiting for ranks", offsetof(cli_results, waiting), "%.1f %%", 100},
    {"exposed comm", offsetof(cli_results, exposed_comm), "%.1f %%", 100},
    {"slower rank", offsetof(cli_results, slowest_rank), "%.0f", 1},
    {"  in epochs", offsetof(cli_results, slowest_epochs), "%.0f", 1},
};

static void add_result(const comparison *c, const result_row *row)
{
    cli_table_row(c->table);
    cli_table_cell(c->table, "%s", row->name);
    for (int run = 0; run < c->count; run++) {
        char text[64];
        double value = *(const double *)((const char *)&c->runs[run].results + row->offset);
        snprintf(text, sizeof text, row->format, row->factor * value);
        cli_table_cell(c->table, "%s", isnan(value) ? "-" : text);
    }
}

static long long steps_of(const yk_metrics_history *h)
{
    long long steps = 0;
    for (size_t i = 0; i < h->step_count; i++)
        steps += h->steps[i].steps;
    return steps;
}

static void add_results(const comparison *c)
{
    char text[CLI_DURATION_TEXT];
    for (size_t i = 0; i < sizeof result_rows / sizeof *result_rows; i++)
        add_result(c, &result_rows[i]);
    cli_table_row(c->table);
    cli_table_cell(c->table, "time");
    for (int run = 0; run < c->count; run++)
        cli_table_cell(c->table, "%s", cli_duration_text(text, c->runs[run].results.seconds));
    cli_table_row(c->table);
    cli_table_cell(c->table, "steps");
    for (int run = 0; run < c->count; run++)
        cli_table_cell(c->table, "%lld", steps_of(c->runs[run].history));
}

static bool compare(const cli_run *runs, int count, bool all)
{
    size_t names;
    const char **settings = cli_runs_settings(runs, count, !all, &names);
    comparison c = {.runs = runs, .count = count, .table = cli_table_create()};
    cli_table_row(c.table);
    cli_table_cell(c.table, "%s", "");
    for (int run = 0; run < count; run++)
        cli_table_cell(c.table, "%s", runs[run].name);
    cli_table_rule(c.table);
    if (settings && names > 0) {
        add_settings(&c, settings, names);
        cli_table_rule(c.table);
    }
    add_results(&c);
    bool printed = settings && cli_table_print(c.table, stdout);
    if (printed && names == 0)
        puts("The runs were started with the same options.");
    cli_table_destroy(c.table);
    free(settings);
    return printed || cli_complain("out of memory");
}

/* ---- the command ----------------------------------------------------------------------------- */

int cli_cmd_compare(const char *name, int argc, char **argv)
{
    bool all = false;
    const cli_option options[] = {
        CLI_SWITCH('a', "all", "also show the options that are the same", &all),
    };
    const cli_command command = {
        .name = name,
        .operands = "RUN RUN...",
        .summary = "Shows the options in which training runs differ, and their results, as a table "
                   "with a\ncolumn for each run. A RUN is the output folder of yoke train. The run "
                   "may still be\ntraining.",
        .examples = "  yoke compare runs/a runs/b\n"
                    "  yoke compare --all runs/*",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .max_operands = CLI_MAX_RUNS};
    char *paths[CLI_MAX_RUNS];
    static cli_run runs[CLI_MAX_RUNS];
    int count, code = cli_options_parse(&command, argc, argv, paths, &count);
    if (code >= 0)
        return code;
    if (count < 2)
        return cli_usage_error(name, "expected two or more output folders of runs");
    bool fine =
        cli_runs_read(runs, paths, &count) &&
        (count > 1 || cli_complain("there is no other run to compare %s with", runs[0].folder)) &&
        compare(runs, count, all);
    cli_runs_release(runs, count);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
