/*
 * `yoke bench`: two quick measurements, each the median of repeats: all-reduce for a range of
 * sizes, and a full training step on generated images, so that no time is spent loading data.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/all_reduce.h"
#include "bench/scaling.h"
#include "cli.h"
#include "clock.h"
#include "options.h"
#include "setup.h"

enum { MAX_REPEATS = 1000, CLASSES = 10 };

typedef struct bench_options {
    const char *arch;
    const char *backend;    /* of all-reduce: names with commas between them */
    yk_model_options model; /* device, mixed precision, threads, Winograd */
    int64_t batch_size, image_size, nproc, steps;
    bool step_given; /* whether an option that applies to step only was given */
} bench_options;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- a training step ------------------------------------------------------------------------ */

/* Fills a batch with noise and repeating labels; the values do not affect the time of a step. */
static bool make_batch(yk_batch *batch, yk_tensor tensors[2], int64_t size, int64_t side)
{
    int64_t image = 3 * side * side;
    static const char *const names[] = {"images", "labels"};
    float *images = malloc((size_t)(size * image) * sizeof *images);
    int32_t *labels = malloc((size_t)size * sizeof *labels);
    if (!images || !labels) {
        free(images);
        free(labels);
        return cli_complain("no memory for a batch of %lld images", (long long)size);
    }
    uint32_t noise = 1;
    for (int64_t i = 0; i < size * image; i++) {
        noise = noise * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        images[i] = (float)(noise >> 8) / (1 << 23) - 1;
    }
    for (int64_t i = 0; i < size; i++)
        labels[i] = (int32_t)(i % CLASSES);
    tensors[0] =
        (yk_tensor){.data = images, .dtype = YK_F32, .ndim = 4, .dims = {size, 3, side, side}};
    tensors[1] = (yk_tensor){.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {size}};
    *batch = (yk_batch){.size = size, .count = 2, .names = names, .tensors = tensors};
    return true;
}

/* In seconds, of each step. */
typedef struct step_times {
    double step[MAX_REPEATS], waiting[MAX_REPEATS], exposed[MAX_REPEATS];
} step_times;

static double median_ms(double *seconds, int count)
{
    qsort(seconds, (size_t)count, sizeof *seconds, compare_doubles);
    return 1e3 * seconds[count / 2];
}

static bool time_steps(step_times *times, int steps, yk_model *model, yk_ddp *ddp,
                       yk_optimizer *optimizer, const yk_batch *batch)
{
    enum { WARM_UP = 2 };
    for (int i = -WARM_UP; i < steps; i++) {
        double start = cli_clock_s();
        if (!cli_ok(yk_model_forward(model, batch)) || !cli_ok(yk_model_backward(model)) ||
            !cli_ok(yk_optimizer_step(optimizer)))
            return false;
        if (i >= 0) {
            yk_ddp_stats stats = yk_ddp_last_stats(ddp);
            times->step[i] = cli_clock_s() - start;
            times->waiting[i] = stats.waiting_s;
            times->exposed[i] = stats.exposed_s;
        }
    }
    return true;
}

static bool bench_step(const bench_options *o, yk_group *world)
{
    static step_times times;
    int ranks = yk_group_size(world), steps = (int)o->steps;
    const char *source;
    cli_model_setup setup = {.arch = o->arch,
                             .options = o->model,
                             .images = {.ndim = 3, .dims = {3, o->image_size, o->image_size}},
                             .classes = CLASSES};
    setup.options.threads = cli_threads(o->model.threads, yk_group_local_size(world), &source);
    yk_model *model = NULL;
    yk_ddp *ddp = NULL;
    yk_optimizer *optimizer = NULL;
    yk_tensor tensors[2] = {{.data = NULL}};
    yk_batch batch = {.size = 0};
    yk_sgd_options sgd = YK_SGD_OPTIONS_INIT;
    sgd.lr = 0.01;
    sgd.momentum = 0.9;
    bool fine = make_batch(&batch, tensors, o->batch_size / ranks, o->image_size) &&
                cli_build_model(&model, &setup) &&
                (ranks == 1 || cli_ok(yk_ddp_create(&ddp, model, world, NULL))) &&
                cli_ok(yk_sgd_create(&optimizer, model, &sgd)) &&
                time_steps(&times, steps, model, ddp, optimizer, &batch);
    if (fine && yk_group_rank(world) == 0) {
        double step_ms = median_ms(times.step, steps);
        printf("%s, %s, batch %lld = %d x %lld, %s: %.1f images/s, %.2f ms a step", o->arch,
               o->model.amp ? cli_amp_name(o->model.amp) : "f32", (long long)batch.size * ranks,
               ranks, (long long)batch.size, yk_model_device_description(model),
               1e3 * (double)(batch.size * ranks) / step_ms, step_ms);
        if (ddp)
            printf(", waiting for ranks %.2f ms, exposed communication %.2f ms",
                   median_ms(times.waiting, steps), median_ms(times.exposed, steps));
        printf(" (median of %d)\n", steps);
    }
    yk_optimizer_destroy(optimizer);
    yk_ddp_destroy(ddp);
    yk_model_destroy(model);
    free(tensors[0].data);
    free(tensors[1].data);
    return fine;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int parse_bench_options(bench_options *o, const char *name, int argc, char **argv,
                               char **what, int *operands)
{
    const cli_option options[] = {
        CLI_GROUP("Options for all-reduce and step"),
        CLI_INT('n', "nproc", "N", "number of local ranks [all-reduce 2, step 1]", &o->nproc, NULL,
                1, 1024),
        CLI_TEXT(0, "backend", "NAME[,NAME...]",
                 "what moves data: shm, gloo, mpi, ...; all-reduce measures\nseveral in turns "
                 "[by where the ranks are]",
                 &o->backend, NULL),
        CLI_GROUP("Options for step"),
        CLI_ARCH("network to train [resnet18-cifar]", &o->arch, &o->step_given),
        CLI_INT('b', "batch-size", "GLOBAL", "images per step, over all ranks [128]",
                &o->batch_size, &o->step_given, 1, 1e7),
        CLI_INT(0, "image-size", "N", "width and height of the images [32]", &o->image_size,
                &o->step_given, 1, 16384),
        CLI_AMP("mixed precision [off]", &o->model.amp, &o->step_given),
        CLI_DEVICE(&o->model.device, &o->step_given),
        CLI_SWITCH_ON("winograd", "do not use Winograd convolutions", &o->model.winograd,
                      &o->step_given),
        CLI_INT(0, "threads", "T", "kernel threads per rank [cores / local ranks]",
                &o->model.threads, &o->step_given, 1, 4096),
        CLI_INT(0, "steps", "N", "steps to measure, after 2 warm-up steps [10]", &o->steps,
                &o->step_given, 1, MAX_REPEATS),
    };
    const cli_command command = {.name = name,
                                 .operands = "all-reduce|step|scaling",
                                 .summary = "Measures all-reduce from 4 B to 64 MiB, a whole "
                                            "training step, or how training\nscales with the "
                                            "number of ranks. For the options of scaling, run\n"
                                            "`yoke bench scaling --help`.",
                                 .examples = "  yoke bench all-reduce --nproc 2\n"
                                             "  yoke bench step --arch resnet18-cifar --amp bf16\n"
                                             "  yoke bench scaling --svg scaling.svg",
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 1};
    return cli_options_parse(&command, argc, argv, what, operands);
}

static int check_step_options(const char *name, const bench_options *o)
{
    int64_t ranks = cli_ranks_expected(o->nproc);
    cli_model_setup setup = {.arch = o->arch, .options = o->model};
    if (o->batch_size % ranks)
        return cli_usage_error(name, "--batch-size %lld cannot be shared equally by %lld ranks",
                               (long long)o->batch_size, (long long)ranks);
    return cli_check_model(name, &setup) ? -1 : CLI_EXIT_USAGE;
}

static int check_all_reduce_options(const char *name, const bench_options *o)
{
    if (o->step_given)
        return cli_usage_error(name,
                               "all-reduce takes only --nproc and --backend; the other options "
                               "apply to step");
    return -1;
}

static bool bench_step_on(const bench_options *o)
{
    yk_group *world;
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    joining.backend = o->backend;
    if (!cli_ok(yk_group_init(&world, &joining)))
        return false;
    bool fine = bench_step(o, world);
    yk_group_destroy(world);
    return fine;
}

int cli_cmd_bench(const char *name, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "scaling") == 0)
        return cli_bench_scaling("yoke bench scaling", argc - 1, argv + 1);
    bench_options o = {.arch = "resnet18-cifar",
                       .model = YK_MODEL_OPTIONS_INIT,
                       .batch_size = 128,
                       .image_size = 32,
                       .steps = 10};
    char *what;
    int operands, code = parse_bench_options(&o, name, argc, argv, &what, &operands);
    if (code >= 0)
        return code;
    if (operands == 0 || !cli_is_choice("all-reduce|all_reduce|step", what))
        return cli_usage_error(name, "expected all-reduce, step or scaling, found %s",
                               operands ? what : "nothing");
    bool step = strcmp(what, "step") == 0;
    code = step ? check_step_options(name, &o) : check_all_reduce_options(name, &o);
    if (code >= 0)
        return code;
    if (!step && o.nproc == 0 && !cli_is_rank())
        o.nproc = 2;
    code = cli_launch_self(name, o.nproc, 5, argc, argv);
    if (code >= 0)
        return code;
    return (step ? bench_step_on(&o) : cli_bench_all_reduce(o.backend)) ? CLI_EXIT_OK
                                                                        : CLI_EXIT_FAILED;
}
