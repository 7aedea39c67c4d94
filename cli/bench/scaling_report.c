/* The scaling table on the terminal and as JSON. */
#define _GNU_SOURCE
#include "bench/scaling.h"

#include <string.h>

#include "common/files.h"
#include "common/json.h"
#include "common/plural.h"
#include "common/terminal.h"
#include "setup/setup.h"

void cli_scaling_describe(const cli_scaling *s, char text[CLI_SCALING_TEXT])
{
    const cli_scaling_options *o = &s->options;
    bool weak = o->given.per_rank_batch;
    const char *slash = strrchr(o->data, '/'), *data = slash && slash[1] ? slash + 1 : o->data;
    snprintf(text, CLI_SCALING_TEXT,
             "%s on %s, %lld images a step %s, %lld steps, device = %lld of %d %s", o->arch, data,
             (long long)(weak ? o->per_rank_batch : o->batch_size),
             weak ? "on each rank" : "over all ranks", (long long)s->rows[0].result.steps,
             (long long)o->threads, s->cores, cli_plural(s->cores, "core", "cores"));
    cli_make_printable(text);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static void print_row(const cli_scaling_row *row)
{
    char waiting[16] = "-", exposed[16] = "-", accuracy[16] = "-";
    if (row->kind != CLI_SINGLE) {
        snprintf(waiting, sizeof waiting, "%.1f %%", 100 * row->result.waiting_share);
        snprintf(exposed, sizeof exposed, "%.1f %%", 100 * row->result.exposed_share);
    }
    if (row->result.accuracy >= 0)
        snprintf(accuracy, sizeof accuracy, "%.2f %%", 100 * row->result.accuracy);
    char speed_up[16] = "-", efficiency[16] = "unreliable";
    if (!row->unreliable) {
        snprintf(speed_up, sizeof speed_up, "%.2f", row->speed_up);
        snprintf(efficiency, sizeof efficiency, "%.0f %%", 100 * row->efficiency);
    }
    printf("%-20s %5d %6lld %9.2f %9.1f %9s %10s %8s %8s %9s%s\n", row->name, row->ranks,
           (long long)row->batch_size, row->result.seconds, row->result.images_per_s, speed_up,
           efficiency, waiting, exposed, accuracy, row->oversubscribed ? "  *" : "");
}

/* A rank that is slower than its peers: a busy core, a hot processor, slower memory. */
static void name_slow_ranks(const cli_scaling *s)
{
    for (int i = 0; i < s->count; i++) {
        const cli_scaling_result *r = &s->rows[i].result;
        bool matters = r->waited_s >= 0.05; /* less is chance, and would be 0.0 s */
        if (s->rows[i].kind == CLI_DDP && r->slowest_rank >= 0 && matters)
            printf("%s: rank %d is slower: the other ranks waited %.1f s for it\n", s->rows[i].name,
                   r->slowest_rank, r->waited_s);
    }
}

static void warn_of_unreliable_rows(const cli_scaling *s)
{
    int unreliable = 0;
    for (int i = 0; i < s->count; i++)
        if (s->rows[i].unreliable) {
            if (!unreliable++)
                fprintf(stderr,
                        "yoke: warning: unreliable rows, which are not compared or drawn:\n");
            fprintf(stderr, "  %s: %s\n", s->rows[i].name, s->rows[i].unreliable);
        }
    if (unreliable)
        fprintf(stderr,
                "Measure again on a quiet machine, or with more --max-steps or --repeats.\n");
}

void cli_scaling_print(const cli_scaling *s)
{
    char description[CLI_SCALING_TEXT];
    bool oversubscribed = false;
    cli_scaling_describe(s, description);
    printf("%s\n\n%-20s %5s %6s %9s %9s %9s %10s %8s %8s %9s\n", description, "", "ranks", "batch",
           "seconds", "images/s", "speed-up", "efficiency", "waiting", "exposed", "accuracy");
    for (int i = 0; i < s->count; i++) {
        print_row(&s->rows[i]);
        oversubscribed |= s->rows[i].oversubscribed;
    }
    printf("\nseconds: training alone, the first step counted as the mean of the others; waiting: "
           "time\nspent waiting for slower ranks; exposed: time spent moving data (DataParallel: "
           "copying)\nwhile nothing was computed; efficiency: speed-up / ranks%s\n",
           oversubscribed ? ";\n*: oversubscribed, more threads than cores" : "");
    name_slow_ranks(s);
    warn_of_unreliable_rows(s);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_row(FILE *file, const cli_scaling_row *row, int64_t threads)
{
    static const char *const kinds[] = {"single", "dp", "ddp"};
    const cli_scaling_result *r = &row->result;
    fprintf(file, "    {\"name\": ");
    cli_json_string(file, row->name);
    fprintf(file,
            ", \"parallel\": \"%s\", \"ranks\": %d, \"threads\": %lld, \"amp\": \"%s\", "
            "\"batch_size\": %lld, \"oversubscribed\": %s,\n     \"steps\": %lld, "
            "\"seconds\": %.6g, \"images_per_s\": %.6g, \"cpu_seconds\": %.6g, "
            "\"other_cpu_seconds\": %.6g,\n"
            "     \"data_share\": %.4g, \"waiting_share\": %.4g, "
            "\"exposed_communication_share\": %.4g, ",
            kinds[row->kind], row->ranks, (long long)(row->ranks * threads), cli_amp_name(row->amp),
            (long long)row->batch_size, row->oversubscribed ? "true" : "false", (long long)r->steps,
            r->seconds, r->images_per_s, r->cpu_s, r->others_s, r->data_share, r->waiting_share,
            r->exposed_share);
    if (row->kind == CLI_DDP && r->slowest_rank >= 0)
        fprintf(file, "\"slowest_rank\": %d, \"waited_s\": %.4g, ", r->slowest_rank, r->waited_s);
    if (row->unreliable)
        fprintf(file, "\"speed_up\": null, \"efficiency\": null, \"unreliable\": \"%s\",\n     ",
                row->unreliable);
    else
        fprintf(file, "\"speed_up\": %.4g, \"efficiency\": %.4g, \"unreliable\": null,\n     ",
                row->speed_up, row->efficiency);
    if (r->accuracy >= 0)
        fprintf(file, "\"accuracy\": %.6g}", r->accuracy);
    else
        fprintf(file, "\"accuracy\": null}");
}

bool cli_scaling_write_json(const cli_scaling *s, const char *path)
{
    const cli_scaling_options *o = &s->options;
    cli_file written;
    if (!cli_file_create(&written, path))
        return false;
    FILE *file = written.stream;
    fprintf(file, "{\n  \"yoke\": \"%s\",\n  \"arch\": ", yk_version());
    cli_json_string(file, o->arch);
    fprintf(file, ",\n  \"data\": ");
    cli_json_string(file, o->data);
    fprintf(file,
            ",\n  \"scaling\": \"%s\",\n  \"cores\": %d,\n  \"threads_per_device\": %lld,\n"
            "  \"repeats\": %lld,\n  \"rows\": [\n",
            o->given.per_rank_batch ? "weak" : "strong", s->cores, (long long)o->threads,
            (long long)o->repeats);
    for (int i = 0; i < s->count; i++) {
        write_row(file, &s->rows[i], o->threads);
        fputs(i + 1 < s->count ? ",\n" : "\n", file);
    }
    fputs("  ]\n}\n", file);
    return cli_file_close(&written);
}
