/* `yoke bench`: its measurements are in the other files of this folder. */
#define _GNU_SOURCE
#include <string.h>

#include "bench/all_reduce.h"
#include "bench/scaling.h"
#include "bench/step.h"
#include "cli.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

typedef struct bench_options {
    cli_step_options step;
    bool is_private; /* buffers of all-reduce */
    bool step_given; /* whether an option that applies to step only was given */
} bench_options;

static int parse_bench_options(bench_options *o, const char *name, int argc, char **argv,
                               char **what, int *operands)
{
    const cli_option options[] = {
        CLI_GROUP("Options for all-reduce and step"),
        CLI_RANKS("nproc",
                  "number of local ranks; auto or cpu starts one per\ncore, gpu one per GPU "
                  "[all-reduce 2, step 1]",
                  &o->step.nproc, NULL, 1024),
        CLI_TEXT(0, "backend", "NAME[,NAME...]",
                 "what moves data: shm, tcp, mpi, ...; all-reduce measures\nseveral in turns "
                 "[by where the ranks are]",
                 &o->step.backend, NULL),
        CLI_TEXT(0, "json", "FILE", "write the result (of step with the profile) as JSON",
                 &o->step.json, NULL),
        CLI_GROUP("Options for all-reduce"),
        CLI_SWITCH(0, "private", "measure buffers that only their own rank can reach",
                   &o->is_private),
        CLI_GROUP("Options for step"),
        CLI_ARCH("network to train [resnet18-cifar]", &o->step.arch, &o->step_given),
        CLI_INT('b', "batch-size", "GLOBAL", "images per step, over all ranks [128]",
                &o->step.batch_size, &o->step_given, 1, 1e7),
        CLI_INT(0, "image-size", "N", "width and height of the images [32]", &o->step.image_size,
                &o->step_given, 1, 16384),
        CLI_AMP("mixed precision [off]", &o->step.model.amp, &o->step_given),
        CLI_DEVICE(&o->step.model.device, &o->step_given),
        CLI_SWITCH_ON("winograd", "do not use Winograd convolutions", &o->step.model.winograd,
                      &o->step_given),
        {.type = CLI_OPTION_SWITCH,
         .name = "benchmark-kernels",
         .help = "measure the kernels that can run a convolution and use\nthe fastest",
         .value = &o->step.model.benchmark,
         .given = &o->step_given},
        {.type = CLI_OPTION_SWITCH,
         .name = "recompute",
         .help = "recompute cheap values in backward instead of keeping them",
         .value = &o->step.model.recompute,
         .given = &o->step_given},
        CLI_INT(0, "threads", "T", "kernel threads per rank [cores / local ranks]",
                &o->step.model.threads, &o->step_given, 1, CLI_MAX_THREADS),
        CLI_INT(0, "steps", "N", "steps to measure, after 2 warm-up steps [10]", &o->step.steps,
                &o->step_given, 1, CLI_STEP_REPEATS),
        {.type = CLI_OPTION_SWITCH,
         .name = "profile",
         .help = "show where the time goes, kernel by kernel, next to what the\ndevice and its "
                 "memory can do",
         .value = &o->step.profile,
         .given = &o->step_given},
    };
    const cli_command command = {.name = name,
                                 .operands = "all-reduce|step|scaling",
                                 .summary = "Measures all-reduce from 4 B to 64 MiB, a whole "
                                            "training step, or how training\nscales with the "
                                            "number of ranks. For the options of scaling, run\n"
                                            "`yoke bench scaling --help`.",
                                 .examples = "  yoke bench all-reduce --nproc 2\n"
                                             "  yoke bench step --arch resnet18-cifar --amp bf16\n"
                                             "  yoke bench step --profile --json step.json\n"
                                             "  yoke bench scaling --svg scaling.svg",
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 1};
    return cli_options_parse(&command, argc, argv, what, operands);
}

static int check_step_options(const char *name, const bench_options *o)
{
    if (o->is_private)
        return cli_usage_error(name, "--private applies to all-reduce only");
    int64_t ranks = cli_ranks_expected(o->step.nproc);
    if (o->step.batch_size % ranks)
        return cli_usage_error(name, "--batch-size %lld cannot be shared equally by %lld ranks",
                               (long long)o->step.batch_size, (long long)ranks);
    return cli_check_writable_result(name, "--json", o->step.json) &&
                   cli_check_model_options(name, &o->step.model)
               ? -1
               : CLI_EXIT_USAGE;
}

static int check_all_reduce_options(const char *name, const bench_options *o)
{
    if (o->step_given)
        return cli_usage_error(name,
                               "all-reduce takes only --nproc, --backend, --private and --json; "
                               "the other options apply to step");
    return cli_check_writable_result(name, "--json", o->step.json) ? -1 : CLI_EXIT_USAGE;
}

int cli_cmd_bench(const char *name, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "scaling") == 0)
        return cli_bench_scaling("yoke bench scaling", argc - 1, argv + 1);
    bench_options o = {.step = {.arch = "resnet18-cifar",
                                .model = YK_MODEL_OPTIONS_INIT,
                                .batch_size = 128,
                                .image_size = 32,
                                .steps = 10}};
    char *what;
    int operands, code = parse_bench_options(&o, name, argc, argv, &what, &operands);
    if (code >= 0)
        return code;
    if (operands && strcmp(what, "scaling") == 0)
        return cli_usage_error(name, "scaling has options of its own, which follow it: "
                                     "yoke bench scaling [OPTION...]");
    if (operands == 0 || !cli_is_choice("all-reduce|step", what))
        return cli_usage_error(name, "expected all-reduce, step or scaling, found %s",
                               operands ? what : "nothing");
    bool step = strcmp(what, "step") == 0;
    code = step ? check_step_options(name, &o) : check_all_reduce_options(name, &o);
    if (code >= 0)
        return code;
    if (!cli_check_backends(name, o.step.backend))
        return CLI_EXIT_USAGE;
    if (!step && o.step.nproc.count == 0 && !cli_is_rank())
        o.step.nproc.count = 2;
    code = cli_launch_self(name, o.step.nproc, 5, true, argc, argv);
    if (code >= 0)
        return code;
    cli_all_reduce_options all_reduce = {o.step.backend, o.is_private, o.step.json};
    bool fine = step ? cli_bench_step(&o.step) : cli_bench_all_reduce(&all_reduce);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
