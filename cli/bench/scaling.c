/*
 * `yoke bench scaling`: measures the tables of the DDP tutorials on this machine. It trains on a
 * single device, with DataParallel, with DDP on each number of ranks, and with mixed precision,
 * each as a separate job, one after the other. A device is a set of --threads cores, so that two
 * ranks have twice the resources of a single device, as with GPUs. Under a launcher, its ranks, on
 * one host or several, are those that train (scaling_crew.c).
 */
#define _GNU_SOURCE
#include "bench/scaling.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/scaling_crew.h"

#include "cli.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

enum { MAX_RANKS = 1024, MAX_BATCH = 10000000, DATA_PARALLEL_DEVICES = 2 };

/* ---- options --------------------------------------------------------------------------------- */

static const char summary[] =
    "Trains the same network on a single device, with DataParallel on two devices of its\n"
    "type (of the cpu, on two parts of the cores), with DDP on each number of ranks, and with\n"
    "DDP and mixed precision. Prints the time, the speed-up over the single device, the\n"
    "efficiency (speed-up / ranks), the exposed communication and the accuracy of each.\n"
    "Measures strong scaling by default, with the same global batch for all rows;\n"
    "--per-rank-batch measures weak scaling. Where yoke run, torchrun, srun or mpirun has\n"
    "started it on several hosts, the rows of DDP use the ranks that it has started.";

static const char examples[] =
    "  yoke bench scaling --data synthetic --arch resnet18-cifar --max-steps 10\n"
    "  yoke bench scaling --arch resnet50 --per-rank-batch 64 --ranks 1,2,4\n"
    "  yoke bench scaling --ranks 1,2,3,4,6,8 --json scaling.json --svg scaling.svg";

static int parse_scaling_options(cli_scaling_options *o, const char *name, int argc, char **argv)
{
    const cli_option options[] = {
        CLI_GROUP("Training"),
        CLI_TEXT(0, "data", "DATA",
                 "cifar10, synthetic, a folder, ...: see `yoke data --help`\n[cifar10]", &o->data,
                 NULL),
        CLI_ARCH("network to train [resnet18-cifar]", &o->arch, NULL),
        CLI_INT(0, "epochs", "N", "passes over the data [1]", &o->epochs, NULL, 1, 1e6),
        CLI_INT(0, "max-steps", "S", "stop after S steps; 0: no limit [0]", &o->max_steps, NULL, 0,
                1e12),
        CLI_INT('b', "batch-size", "GLOBAL",
                "images per step, over all ranks; rounded down to a\nmultiple of the ranks [128]",
                &o->batch_size, &o->given.batch_size, 1, MAX_BATCH),
        CLI_INT(0, "per-rank-batch", "LOCAL", "images per step and rank, instead of --batch-size",
                &o->per_rank_batch, &o->given.per_rank_batch, 1,
                (double)MAX_BATCH / DATA_PARALLEL_DEVICES),
        CLI_REAL(0, "lr", "RATE", "learning rate [the default of yoke train]", &o->lr, &o->given.lr,
                 0, 1e6),
        CLI_GROUP("Configurations"),
        CLI_TEXT(0, "ranks", "N,N,...",
                 "numbers of DDP ranks to measure [1,2,4; under a\nlauncher 1, 2, 4 ... and all]",
                 &o->ranks, &o->given.ranks),
        CLI_INT(0, "threads", "T", "cores per device and kernel threads per rank [1]", &o->threads,
                NULL, 1, CLI_MAX_THREADS),
        CLI_AMP("precision of the mixed-precision row, which uses as\nmany ranks as have cores; "
                "off: no such row [bf16]",
                &o->amp, &o->given.amp),
        CLI_DEVICE(&o->device, NULL),
        CLI_INT(0, "repeats", "N", "measurements per row; the median is reported [3]", &o->repeats,
                NULL, 1, CLI_SCALING_REPEATS),
        CLI_GROUP("Output"),
        CLI_TEXT(0, "json", "FILE", "write the table as JSON", &o->json, NULL),
        CLI_TEXT(0, "svg", "FILE", "write the table as a chart", &o->svg, NULL),
    };
    const cli_command command = {.name = name,
                                 .operands = "",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options};
    return cli_options_parse(&command, argc, argv, NULL, NULL);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static cli_scaling_row *add_row(cli_scaling *s, cli_scaling_kind kind, int ranks, yk_amp amp)
{
    static const char *const kinds[] = {"Single device", "DataParallel", "DDP"};
    const cli_scaling_options *o = &s->options;
    cli_scaling_row *row = &s->rows[s->count++];
    *row = (cli_scaling_row){.kind = kind, .ranks = ranks, .amp = amp};
    int length = snprintf(row->name, sizeof row->name, "%s", kinds[kind]);
    if (kind != CLI_SINGLE)
        length += snprintf(row->name + length, sizeof row->name - (size_t)length, " x%d", ranks);
    if (amp != YK_AMP_OFF)
        snprintf(row->name + length, sizeof row->name - (size_t)length, " + %s", cli_amp_name(amp));
    /* As the tutorials: a global batch that cannot be shared evenly is rounded down. */
    row->batch_size = o->given.per_rank_batch ? o->per_rank_batch * ranks
                      : kind == CLI_DDP       ? o->batch_size / ranks * ranks
                                              : o->batch_size;
    int here = s->crew && ranks > s->crew->local_size ? s->crew->local_size : ranks;
    row->oversubscribed = here * o->threads > s->cores;
    return row;
}

/* Checks that each rank gets an image; returns -1, or the exit code of a usage error. */
static int check_scaling_batch(const char *name, const cli_scaling_options *o, long ranks)
{
    if (!o->given.per_rank_batch && o->batch_size < ranks)
        return cli_usage_error(name,
                               "--batch-size %lld is less than one image for each of %ld ranks",
                               (long long)o->batch_size, ranks);
    if (o->given.per_rank_batch && o->per_rank_batch > MAX_BATCH / ranks)
        return cli_usage_error(name,
                               "--per-rank-batch %lld on %ld ranks is more than %d images a step",
                               (long long)o->per_rank_batch, ranks, MAX_BATCH);
    return -1;
}

static bool has_ranks(const cli_scaling *s, long ranks)
{
    for (int i = 0; i < s->count; i++)
        if (s->rows[i].kind == CLI_DDP && s->rows[i].ranks == ranks)
            return true;
    return false;
}

/* Adds a row for each number in "1,2,4"; returns -1, or the exit code of a usage error. */
static int add_ranks(cli_scaling *s, const char *name)
{
    const char *at = s->options.ranks;
    int most = s->crew ? s->crew->size : MAX_RANKS;
    for (;;) {
        char *end;
        long ranks = strtol(at, &end, 10);
        if (end == at || ranks < 1 || ranks > most || (*end && *end != ','))
            return cli_usage_error(name, "--ranks %s: expected numbers from 1 to %d%s, e.g. 1,2,4",
                                   s->options.ranks, most,
                                   s->crew ? ", the ranks that were started" : "");
        if (s->count == CLI_SCALING_ROWS - 1)
            return cli_usage_error(name, "--ranks %s: more than %d numbers", s->options.ranks,
                                   CLI_SCALING_ROWS - 3);
        if (has_ranks(s, ranks))
            return cli_usage_error(name, "--ranks %s: %ld is listed twice", s->options.ranks,
                                   ranks);
        int code = check_scaling_batch(name, &s->options, ranks);
        if (code >= 0)
            return code;
        add_row(s, CLI_DDP, (int)ranks, YK_AMP_OFF);
        if (!*end)
            return -1;
        at = end + 1;
    }
}

/* Mixed precision on the most ranks that have cores of their own. */
static void add_mixed_precision(cli_scaling *s)
{
    int most = 0;
    for (int i = 0; i < s->count; i++)
        if (s->rows[i].kind == CLI_DDP && !s->rows[i].oversubscribed && s->rows[i].ranks > most)
            most = s->rows[i].ranks;
    if (s->options.amp != YK_AMP_OFF)
        add_row(s, CLI_DDP, most ? most : 1, s->options.amp);
}

static int check_scaling_options(const char *name, cli_scaling_options *o)
{
    yk_model_options model = YK_MODEL_OPTIONS_INIT;
    if (o->given.batch_size && o->given.per_rank_batch)
        return cli_usage_error(name, "--batch-size is over all ranks, --per-rank-batch of each: "
                                     "give one of them");
    if (o->given.lr && !(o->lr > 0))
        return cli_usage_error(name, "--lr must be more than 0");
    if (o->json && o->svg && strcmp(o->json, o->svg) == 0)
        return cli_usage_error(name, "--json and --svg name the same file, %s", o->svg);
    if (strcmp(o->device, "ref") == 0 && !o->given.amp)
        o->amp = YK_AMP_OFF;
    model.device = o->device;
    model.amp = o->amp;
    bool fine = cli_check_data(name, "--data", o->data) &&
                cli_check_writable_result(name, "--json", o->json) &&
                cli_check_writable_result(name, "--svg", o->svg) &&
                cli_check_model_options(name, &model);
    return fine ? -1 : CLI_EXIT_USAGE;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int measure_row(cli_scaling *s, cli_scaling_result *result, const cli_scaling_row *row)
{
    return s->crew ? cli_crew_train(s->crew, result, &s->options, row)
                   : cli_scaling_train(result, &s->options, row);
}

static int measure_rows(cli_scaling *s)
{
    for (int64_t repeat = 0; repeat < s->options.repeats; repeat++)
        for (int i = 0; i < s->count; i++) {
            cli_scaling_row *row = &s->rows[i];
            cli_scaling_result *result = &row->results[repeat];
            int code = measure_row(s, result, row);
            if (code)
                return code;
            if (s->is_silent)
                continue;
            fprintf(stderr, "[%d/%d] %s: %lld steps, %.1f images/s\n",
                    (int)repeat * s->count + i + 1, (int)s->options.repeats * s->count, row->name,
                    (long long)result->steps, result->images_per_s);
        }
    cli_scaling_conclude(s);
    return CLI_EXIT_OK;
}

/* On two devices of the type; those of the cpu are halves of the cores. Says it where there are
 * fewer. */
static void add_data_parallel(cli_scaling *s)
{
    char type[16];
    int there = 0;
    const char *device = s->options.device;
    snprintf(type, sizeof type, "%.*s", (int)strcspn(device, ":"), device);
    bool parts = strcmp(type, "cpu") == 0;
    if (!parts && (yk_device_count(type, &there) != YK_OK || there < DATA_PARALLEL_DEVICES)) {
        cli_complain("there is no row for DataParallel: it needs %d devices of the type %s, and "
                     "there %s %d",
                     DATA_PARALLEL_DEVICES, type, there == 1 ? "is" : "are", there);
        return;
    }
    cli_scaling_row *row = add_row(s, CLI_DATA_PARALLEL, DATA_PARALLEL_DEVICES, YK_AMP_OFF);
    snprintf(row->devices, sizeof row->devices, "%s:0,%s:1", type, type);
}

/* Returns -1, or the exit code of a usage error. */
static int add_rows(cli_scaling *s, const char *name)
{
    char ranks[256];
    const cli_crew *crew = s->crew;
    add_row(s, CLI_SINGLE, 1, YK_AMP_OFF);
    if (!crew)
        add_data_parallel(s);
    if (crew && !s->options.given.ranks) {
        size_t at = 0;
        for (int n = 1; n < crew->size; n *= 2)
            at += (size_t)snprintf(ranks + at, sizeof ranks - at, "%d,", n);
        snprintf(ranks + at, sizeof ranks - at, "%d", crew->size);
        s->options.ranks = ranks;
    }
    int code = add_ranks(s, name);
    s->options.ranks = NULL;
    if (code < 0)
        add_mixed_precision(s);
    return code;
}

static int run_scaling(cli_scaling *s, const char *name)
{
    const cli_scaling_options *o = &s->options;
    int code = add_rows(s, name);
    if (code < 0)
        code = measure_rows(s);
    if (code || s->is_silent)
        return code;
    bool table = !o->json || cli_scaling_write_json(s, o->json);
    bool picture = !o->svg || cli_scaling_write_svg(s, o->svg);
    cli_scaling_print(s); /* last: who reads it may have left */
    return table && picture ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

/* Rank 0 speaks for all. */
static int run_with_crew(cli_scaling *s, const char *name)
{
    cli_crew crew;
    if (!cli_crew_join(&crew))
        return CLI_EXIT_FAILED;
    s->crew = &crew;
    s->is_silent = crew.rank > 0;
    s->cores = (int)sysconf(_SC_NPROCESSORS_ONLN); /* each rank may have only a part of them */
    int code = run_scaling(s, name);
    cli_crew_leave(&crew);
    return code;
}

int cli_bench_scaling(const char *name, int argc, char **argv)
{
    cli_scaling s = {.options = {.data = "cifar10",
                                 .arch = "resnet18-cifar",
                                 .device = "cpu",
                                 .amp = YK_AMP_BF16,
                                 .ranks = "1,2,4",
                                 .batch_size = 128,
                                 .threads = 1,
                                 .epochs = 1,
                                 .repeats = 3},
                     .cores = yk_threads_default(1)};
    int code = parse_scaling_options(&s.options, name, argc, argv);
    if (code < 0)
        code = check_scaling_options(name, &s.options);
    if (code >= 0)
        return code;
    return cli_is_rank() ? run_with_crew(&s, name) : run_scaling(&s, name);
}
