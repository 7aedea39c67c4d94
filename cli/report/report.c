/* `yoke report`: one HTML file about one or more runs. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/files.h"
#include "common/plural.h"
#include "options/options.h"
#include "options/paths.h"
#include "report/page.h"
#include "setup/setup.h"

typedef struct report_options {
    const char *output;
    int64_t pictures;
} report_options;

static bool write_page(const char *path, const cli_run *runs, const cli_mistakes *mistakes,
                       int count)
{
    bool to_stdout = strcmp(path, "-") == 0;
    cli_file file;
    if (to_stdout)
        cli_file_stdout(&file);
    else if (!cli_file_create(&file, path))
        return false;
    bool made = cli_page_write(file.stream, runs, mistakes, count) || cli_complain("out of memory");
    bool written = cli_file_close(&file) && made;
    if (written && !to_stdout)
        printf("Report on %d %s in %s: open it in a browser\n", count,
               cli_plural(count, "run", "runs"), path);
    return written;
}

/* Without a name the page of the only run goes into its folder. */
static bool report(const cli_run *runs, int count, const report_options *o)
{
    char own[4200];
    cli_mistakes *mistakes = calloc((size_t)count, sizeof *mistakes);
    if (!mistakes)
        return cli_complain("out of memory");
    for (int i = 0; i < count && o->pictures > 0; i++)
        cli_mistakes_find(&mistakes[i], &runs[i], (int)o->pictures);
    snprintf(own, sizeof own, "%s/report.html", runs[0].folder);
    bool written = write_page(o->output ? o->output : own, runs, mistakes, count);
    for (int i = 0; i < count; i++)
        cli_mistakes_release(&mistakes[i]);
    free(mistakes);
    return written;
}

int cli_cmd_report(const char *name, int argc, char **argv)
{
    report_options o = {.pictures = 24};
    const cli_option options[] = {
        CLI_TEXT('o', "output", "FILE",
                 "where to write the page; -: standard output\n[RUN/report.html, or report.html "
                 "for several runs]",
                 &o.output, NULL),
        CLI_INT(0, "pictures", "N",
                "misclassified test images to show of each run;\n0: none, which needs no data [24]",
                &o.pictures, NULL, 0, CLI_MAX_MISTAKES),
    };
    const cli_command command = {
        .name = name,
        .operands = "RUN...",
        .summary =
            "Writes one HTML file about training runs: their results, the options in which "
            "they\ndiffer, curves of loss, accuracy, learning rate and throughput, where "
            "the time went,\nhow training scaled with the number of ranks, and misclassified "
            "images. The file needs\nno network and no other file. A RUN is the output "
            "folder of yoke train, which may\nstill be training. Of several RUNs, those without "
            "records are left out, as of runs of a\nsweep that have failed.",
        .examples = "  yoke report runs/a\n"
                    "  yoke report runs/* -o report.html",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .max_operands = CLI_MAX_RUNS};
    char *paths[CLI_MAX_RUNS];
    static cli_run runs[CLI_MAX_RUNS];
    int count, code = cli_options_parse(&command, argc, argv, paths, &count);
    if (code >= 0)
        return code;
    if (count == 0)
        return cli_usage_error(name, "missing RUN, the output folder of a run");
    if (o.output && strcmp(o.output, "-") != 0 &&
        !cli_check_writable_result(name, "--output", o.output))
        return CLI_EXIT_USAGE;
    if (!o.output && count > 1)
        o.output = "report.html";
    bool fine = cli_runs_read(runs, paths, &count) && report(runs, count, &o);
    cli_runs_release(runs, count);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
