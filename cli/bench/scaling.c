/*
 * `yoke bench scaling`: the tables of the DDP tutorials, measured here. One training as a single
 * device, as DataParallel, as DDP on more and more ranks, and with mixed precision; each in a job
 * of its own, one after the other. A device is a set of --threads cores, so that two ranks have
 * twice what a single device has, as with GPUs.
 */
#define _GNU_SOURCE
#include "bench/scaling.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "options.h"
#include "setup.h"

enum { MAX_RANKS = 1024, MAX_BATCH = 10000000, DATA_PARALLEL_DEVICES = 2 };

/* ---- options --------------------------------------------------------------------------------- */

static const char summary[] =
    "Trains once as a single device, as DataParallel on two, as DDP on more and more ranks,\n"
    "and as DDP with mixed precision, and compares: seconds, speed-up over the single device,\n"
    "efficiency (speed-up / ranks), exposed communication, accuracy. Strong scaling by\n"
    "default: the same global batch for all; --per-rank-batch gives weak scaling.";

static const char examples[] =
    "  yoke bench scaling --data synthetic --arch resnet18 --max-steps 10\n"
    "  yoke bench scaling --data cifar10 --arch resnet50 --per-rank-batch 64 --ranks 1,2,4\n"
    "  yoke bench scaling --ranks 1,2,3,4,6,8 --json scaling.json --svg scaling.svg";

static int parse(yki_scaling_options *o, int argc, char **argv)
{
    const yki_option options[] = {
        YKI_GROUP("What is trained"),
        YKI_TEXT(0, "data", "DATA", "cifar10, synthetic, or a folder of CIFAR-10 [cifar10]",
                 &o->data, NULL),
        YKI_CHOICE(0, "arch", yki_arch_choices(), "the network [resnet18]", &o->arch, NULL),
        YKI_INT(0, "epochs", "N", "passes over the data [1]", &o->epochs, NULL, 1, 1e6),
        YKI_INT(0, "max-steps", "S", "end after S steps; 0: at the last epoch [0]", &o->max_steps,
                NULL, 0, 1e12),
        YKI_INT('b', "batch-size", "GLOBAL",
                "images a step, over all ranks; rounded down to share\nthem evenly [128]",
                &o->batch_size, &o->given.batch_size, 1, MAX_BATCH),
        YKI_INT(0, "per-rank-batch", "LOCAL", "images a step of each rank instead",
                &o->per_rank_batch, &o->given.per_rank_batch, 1,
                (double)MAX_BATCH / DATA_PARALLEL_DEVICES),
        YKI_REAL(0, "lr", "RATE", "learning rate [yoke train's]", &o->lr, &o->given.lr, 0, 1e6),
        YKI_GROUP("On what"),
        YKI_TEXT(0, "ranks", "N,N,...", "of DDP [1,2,4]", &o->ranks, NULL),
        YKI_INT(0, "threads", "T", "cores of a device, kernel threads of a rank [1]", &o->threads,
                NULL, 1, 4096),
        YKI_CHOICE(0, "amp", "off|bf16|fp16",
                   "of the row with mixed precision, on as many ranks\nas have cores; off: no such "
                   "row [bf16]",
                   &o->amp, &o->given.amp),
        YKI_CHOICE(0, "device", "cpu|ref", "[cpu]", &o->device, NULL),
        YKI_INT(0, "repeats", "N", "of the whole table, interleaved; the median counts [1]",
                &o->repeats, NULL, 1, YKI_SCALING_REPEATS),
        YKI_GROUP("What it leaves"),
        YKI_TEXT(0, "json", "FILE", "the table as JSON", &o->json, NULL),
        YKI_TEXT(0, "svg", "FILE", "the table as a picture", &o->svg, NULL),
    };
    const yki_command command = {.name = argv[0],
                                 .operands = "",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options};
    return yki_options_parse(&command, argc, argv, NULL, NULL);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static yki_scaling_row *add_row(yki_scaling *s, yki_scaling_kind kind, int ranks, const char *amp)
{
    static const char *const kinds[] = {"Single device", "DataParallel", "DDP"};
    const yki_scaling_options *o = &s->options;
    yki_scaling_row *row = &s->rows[s->count++];
    *row = (yki_scaling_row){.kind = kind, .ranks = ranks, .amp = amp};
    int length = snprintf(row->name, sizeof row->name, "%s", kinds[kind]);
    if (kind != YKI_SINGLE)
        length += snprintf(row->name + length, sizeof row->name - (size_t)length, " x%d", ranks);
    if (strcmp(amp, "off") != 0)
        snprintf(row->name + length, sizeof row->name - (size_t)length, " + %s", amp);
    /* As the tutorials: a global batch that cannot be shared evenly is rounded down. */
    row->batch_size = o->given.per_rank_batch ? o->per_rank_batch * ranks
                      : kind == YKI_DDP       ? o->batch_size / ranks * ranks
                                              : o->batch_size;
    row->oversubscribed = ranks * o->threads > s->cores;
    return row;
}

/* Whether so many ranks can share a step's images; -1, or the code of a usage error. */
static int check_batch(const char *name, const yki_scaling_options *o, long ranks)
{
    if (!o->given.per_rank_batch && o->batch_size < ranks)
        return yki_usage_error(name,
                               "--batch-size %lld is less than one image for each of %ld ranks",
                               (long long)o->batch_size, ranks);
    if (o->given.per_rank_batch && o->per_rank_batch > MAX_BATCH / ranks)
        return yki_usage_error(name,
                               "--per-rank-batch %lld on %ld ranks is more than %d images a step",
                               (long long)o->per_rank_batch, ranks, MAX_BATCH);
    return -1;
}

/* Adds "1,2,4"; -1, or the code of a usage error. */
static int add_ranks(yki_scaling *s, const char *name)
{
    const char *at = s->options.ranks;
    for (;;) {
        char *end;
        long ranks = strtol(at, &end, 10);
        if (end == at || ranks < 1 || ranks > MAX_RANKS || (*end && *end != ','))
            return yki_usage_error(name, "--ranks %s: expected numbers from 1 to %d, e.g. 1,2,4",
                                   s->options.ranks, MAX_RANKS);
        if (s->count == YKI_SCALING_ROWS - 1)
            return yki_usage_error(name, "--ranks %s: more than %d numbers", s->options.ranks,
                                   YKI_SCALING_ROWS - 3);
        int code = check_batch(name, &s->options, ranks);
        if (code >= 0)
            return code;
        add_row(s, YKI_DDP, (int)ranks, "off");
        if (!*end)
            return -1;
        at = end + 1;
    }
}

/* Mixed precision on the most ranks that have cores of their own. */
static void add_mixed_precision(yki_scaling *s)
{
    int most = 0;
    for (int i = 0; i < s->count; i++)
        if (s->rows[i].kind == YKI_DDP && !s->rows[i].oversubscribed && s->rows[i].ranks > most)
            most = s->rows[i].ranks;
    if (strcmp(s->options.amp, "off") != 0)
        add_row(s, YKI_DDP, most ? most : 1, s->options.amp);
}

static int check(const char *name, yki_scaling_options *o)
{
    yki_model_setup setup = {.arch = o->arch, .device = o->device, .amp = o->amp};
    if (o->given.batch_size && o->given.per_rank_batch)
        return yki_usage_error(name, "--batch-size is over all ranks, --per-rank-batch of each: "
                                     "give one of them");
    if (getenv("WORLD_SIZE"))
        return yki_usage_error(name, "it starts its own ranks: not under a launcher");
    if (o->given.lr && !(o->lr > 0))
        return yki_usage_error(name, "--lr must be more than 0");
    if (o->json && o->svg && strcmp(o->json, o->svg) == 0)
        return yki_usage_error(name, "--json and --svg name the same file, %s", o->svg);
    if (strcmp(o->device, "ref") == 0 && !o->given.amp)
        setup.amp = o->amp = "off";
    bool fine = yki_check_data(name, "--data", o->data) &&
                yki_check_writable(name, "--json", o->json) &&
                yki_check_writable(name, "--svg", o->svg) && yki_check_model(name, &setup);
    return fine ? -1 : YKI_EXIT_USAGE;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int by_pace(const void *a, const void *b)
{
    double x = ((const yki_scaling_result *)a)->images_per_s;
    double y = ((const yki_scaling_result *)b)->images_per_s;
    return (x > y) - (x < y);
}

static void conclude(yki_scaling *s)
{
    for (int i = 0; i < s->count; i++) {
        yki_scaling_row *row = &s->rows[i];
        qsort(row->results, (size_t)s->options.repeats, sizeof *row->results, by_pace);
        row->result = row->results[s->options.repeats / 2];
        row->speed_up = row->result.images_per_s / s->rows[0].result.images_per_s;
        row->efficiency = row->speed_up / row->ranks;
    }
}

static int measure(yki_scaling *s)
{
    for (int64_t repeat = 0; repeat < s->options.repeats; repeat++)
        for (int i = 0; i < s->count; i++) {
            yki_scaling_row *row = &s->rows[i];
            yki_scaling_result *result = &row->results[repeat];
            int code = yki_scaling_train(result, &s->options, row);
            if (code)
                return code;
            fprintf(stderr, "[%d/%d] %s: %lld steps, %.1f images/s\n",
                    (int)repeat * s->count + i + 1, (int)s->options.repeats * s->count, row->name,
                    (long long)result->steps, result->images_per_s);
        }
    conclude(s);
    return YKI_EXIT_OK;
}

int yki_bench_scaling(int argc, char **argv)
{
    yki_scaling s = {.options = {.data = "cifar10",
                                 .arch = "resnet18",
                                 .device = "cpu",
                                 .amp = "bf16",
                                 .ranks = "1,2,4",
                                 .batch_size = 128,
                                 .threads = 1,
                                 .epochs = 1,
                                 .repeats = 1},
                     .cores = yk_threads_default(1)};
    int code = parse(&s.options, argc, argv);
    if (code < 0)
        code = check(argv[0], &s.options);
    if (code >= 0)
        return code;
    add_row(&s, YKI_SINGLE, 1, "off");
    add_row(&s, YKI_DATA_PARALLEL, DATA_PARALLEL_DEVICES, "off");
    code = add_ranks(&s, argv[0]);
    if (code >= 0)
        return code;
    add_mixed_precision(&s);
    code = measure(&s);
    if (code)
        return code;
    bool table = !s.options.json || yki_scaling_write_json(&s, s.options.json);
    bool picture = !s.options.svg || yki_scaling_write_svg(&s, s.options.svg);
    yki_scaling_print(&s); /* last: who reads it may have left */
    return table && picture ? YKI_EXIT_OK : YKI_EXIT_FAILED;
}
