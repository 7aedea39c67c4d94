/* The options of `yoke train`: one table, then the contradictions. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "setup.h"
#include "train/train.h"

static const char summary[] =
    "Trains a network on images. With --nproc N it starts N local ranks itself; under\n"
    "`yoke run`, or anything else that sets RANK and WORLD_SIZE, it is one of them. Each\n"
    "epoch ends with an evaluation and a checkpoint in the output folder.";

static const char examples[] =
    "  yoke train --data synthetic --arch mlp --lr 0.01 --epochs 3\n"
    "  yoke train --data cifar10 --arch resnet18 --epochs 10 --nproc 2 --output runs/a\n"
    "  yoke train --data cifar10 --arch resnet18 --epochs 20 --nproc 2 --output runs/a \\\n"
    "             --resume auto";

/* only_kept: the words are a checkpoint's. */
static int parse(yki_train_options *o, int argc, char **argv, bool only_kept)
{
    const yki_option options[] = {
        YKI_GROUP_KEPT("What to learn"),
        YKI_TEXT(0, "data", "DATA",
                 "cifar10 (fetched once), synthetic, or a folder of\nCIFAR-10 [cifar10]", &o->data,
                 NULL),
        YKI_CHOICE(0, "arch", yki_arch_choices(), "the network [resnet18]", &o->arch,
                   &o->given.arch),
        YKI_GROUP_KEPT("How"),
        YKI_INT(0, "epochs", "N", "passes over the data [10]", &o->epochs, NULL, 1, 1e6),
        YKI_INT('b', "batch-size", "GLOBAL", "images a step, over all ranks [128]", &o->batch_size,
                &o->given.batch_size, 1, 1e7),
        YKI_INT(0, "accumulate", "K",
                "micro-batches that a rank's share of a step is cut into:\nless memory, the same "
                "gradients [1]",
                &o->accumulate, NULL, 1, 1e6),
        YKI_CHOICE(0, "amp", "off|bf16|fp16",
                   "mixed precision, f32 master weights; fp16\nscales the loss against underflow "
                   "[off]",
                   &o->amp, NULL),
        YKI_REAL(0, "init-scale", "S", "GradScaler's first scale of fp16's loss [65536]",
                 &o->init_scale, &o->given.scaler, 1e-30, 1e30),
        YKI_INT(0, "growth-interval", "N",
                "steps in a row without an infinity before that\nscale doubles [2000]",
                &o->growth_interval, &o->given.scaler, 1, 1e12),
        YKI_TEXT(0, "autocast", "OP=low|full|follow,...",
                 "exceptions to the policy that\n`yoke info --autocast` lists", &o->autocast, NULL),
        YKI_INT(0, "seed", "N", "of weights, order and augmentation [0]", &o->seed, &o->given.seed,
                0, 4294967295.0),
        YKI_CHOICE(0, "device", "cpu|ref", "ref: slow, readable reference kernels [cpu]",
                   &o->device, NULL),
        YKI_SWITCH(0, "no-winograd", "direct convolutions only", &o->no_winograd),
        YKI_RECIPE_OPTIONS(&o->recipe),
        YKI_GROUP_KEPT("How ranks work together"),
        YKI_CHOICE(0, "parallel", "ddp|dp",
                   "dp: DataParallel, one process, a thread a device [ddp]", &o->parallel, NULL),
        YKI_TEXT(0, "devices", "LIST",
                 "of --parallel dp: cpu:0,cpu:1 parts of the cores, or\n"
                 "cpu:0-3,cpu:4-7 these cores [cpu:0,cpu:1]",
                 &o->devices, NULL),
        YKI_INT(
            0, "virtual-ranks", "V",
            "train what V ranks would, to the bit, on 1, 2 ... V\nranks; a multiple of them; 0: "
            "off [0]",
            &o->virtual_ranks, NULL, 0, 65535),
        YKI_SWITCH(0, "sync-bn",
                   "SyncBatchNorm: statistics over the batch of all\nranks, not of each alone",
                   &o->sync_bn),
        YKI_CHOICE(0, "comm-hook", "none|bf16|fp16|powersgd",
                   "how gradients travel: as they are, in 16 bits, or\nas low-rank factors [none]",
                   &o->comm_hook, NULL),
        YKI_INT(0, "powersgd-rank", "R", "of the factors [1]", &o->powersgd_rank,
                &o->given.powersgd, 1, 1e6),
        YKI_INT(0, "powersgd-start", "S", "steps before compression begins [1000]",
                &o->powersgd_start, &o->given.powersgd, 1, 1e12),
        YKI_INT(0, "check-divergence", "K",
                "every K steps compare a hash of all parameters and\nbuffers over the ranks; "
                "0: never [0]",
                &o->check_divergence, NULL, 0, 1e12),
        YKI_GROUP("Where it runs"),
        YKI_INT('n', "nproc", "N", "local ranks to start [1, in this process]", &o->nproc, NULL, 1,
                1024),
        YKI_INT(0, "threads", "T",
                "kernel threads of a rank [cores / local ranks; 1 with\n--virtual-ranks]",
                &o->threads, NULL, 1, 4096),
        YKI_INT(0, "workers", "N", "threads of a rank that prepare batches [1]", &o->workers, NULL,
                1, 256),
        YKI_SWITCH(0, "zero",
                   "ZeRO-1: each rank keeps its part of the optimizer's\nstate alone; the results "
                   "are the same",
                   &o->zero),
        YKI_SWITCH(0, "memory-plan", "print what a step's memory is for", &o->memory_plan),
        YKI_REAL(0, "timeout", "SECONDS", "how long ranks wait for each other [300]", &o->timeout_s,
                 NULL, 0.1, 1e6),
        YKI_GROUP("Beginning, stopping, going on"),
        YKI_TEXT('o', "output", "FOLDER",
                 "for checkpoints and metrics.jsonl\n[runs/ARCH-DATE-TIME]", &o->output, NULL),
        YKI_TEXT(0, "checkpoint", "FILE", "start from the weights in FILE, .pth or safetensors",
                 &o->checkpoint, NULL),
        YKI_TEXT(0, "resume", "auto|FILE",
                 "go on from a checkpoint, with its options where no\nothers are given; auto: the "
                 "newest in the output\nfolder, if any",
                 &o->resume, NULL),
        YKI_INT(0, "save-every", "N",
                "a checkpoint every N steps too, not only every\nepoch; 0: no [0]", &o->save_every,
                NULL, 0, 1e12),
        YKI_INT(0, "keep", "K", "checkpoints to keep, the newest; 0: all [3]", &o->keep, NULL, 0,
                1e6),
        YKI_INT(0, "max-steps", "S", "end after S steps in all; 0: at the last epoch [0]",
                &o->max_steps, NULL, 0, 1e12),
        YKI_REAL(0, "grace", "SECONDS",
                 "time to stop in order, with a checkpoint, after ^C,\nSIGTERM or SIGUSR1 [30]",
                 &o->grace_s, NULL, 0, 86400),
        YKI_TEXT(0, "trace", "FILE",
                 "a timeline of steps on all ranks, for\nhttps://ui.perfetto.dev", &o->trace, NULL),
        YKI_TEXT(0, "trace-steps", "A:B", "the steps it shows [the first 50]", &o->trace_steps,
                 NULL),
    };
    const yki_command command = {.name = argv[0],
                                 .operands = "",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .kept = o->kept,
                                 .kept_size = sizeof o->kept,
                                 .only_kept = only_kept};
    return yki_options_parse(&command, argc, argv, NULL, NULL);
}

int64_t yki_shares_of_batch(const yki_train_options *o, int64_t ranks)
{
    return o->virtual_ranks ? o->virtual_ranks : ranks;
}

bool yki_train_options_check_batch(const yki_train_options *o)
{
    const char *name = o->argv[0];
    int64_t ranks = yki_ranks_expected(o->nproc), shares = yki_shares_of_batch(o, ranks);
    int64_t parts = shares * o->accumulate;
    char words[96];
    int length = snprintf(words, sizeof words, "%lld%s rank%s", (long long)shares,
                          o->virtual_ranks ? " virtual" : "", shares == 1 ? "" : "s");
    if (o->accumulate > 1)
        snprintf(words + length, sizeof words - (size_t)length, " x %lld micro-batches",
                 (long long)o->accumulate);
    if (o->batch_size < parts)
        yki_usage_error(name, "--batch-size %lld is less than one image for each of %s",
                        (long long)o->batch_size, words);
    else if (o->batch_size % parts)
        yki_usage_error(name, "--batch-size %lld cannot be shared equally by %s; %lld or %lld can",
                        (long long)o->batch_size, words, (long long)(o->batch_size / parts * parts),
                        (long long)((o->batch_size / parts + 1) * parts));
    else
        return true;
    return false;
}

/* "A:B", both from 1 on. */
static bool parse_trace_steps(yk_trace_options *window, const char *text)
{
    long long first, last;
    int length = 0;
    if (sscanf(text, "%lld:%lld%n", &first, &last, &length) != 2 || text[length] || first < 1 ||
        last < first)
        return false;
    *window = (yk_trace_options){.first_step = first, .last_step = last};
    return true;
}

/* Where the timeline goes may be the output folder, which is made later. */
static bool check_trace_file(const char *name, const yki_train_options *o)
{
    bool in_output = o->trace && o->output && strncmp(o->trace, o->output, strlen(o->output)) == 0;
    return in_output || yki_check_writable(name, "--trace", o->trace);
}

static int check_trace(const char *name, yki_train_options *o)
{
    if (!check_trace_file(name, o))
        return YKI_EXIT_USAGE;
    if (!o->trace_steps)
        return -1;
    if (!o->trace)
        return yki_usage_error(name, "--trace-steps chooses the steps of a timeline: say where it "
                                     "goes with --trace");
    if (!parse_trace_steps(&o->trace_window, o->trace_steps))
        return yki_usage_error(name,
                               "--trace-steps %s: expected A:B, the first and the last step, "
                               "e.g. 10:19",
                               o->trace_steps);
    return -1;
}

/* An option given that one process has no use for, or NULL. */
static const char *between_ranks(const yki_train_options *o)
{
    return o->sync_bn                          ? "--sync-bn"
           : strcmp(o->comm_hook, "none") != 0 ? "--comm-hook"
           : o->zero                           ? "--zero"
           : o->check_divergence               ? "--check-divergence"
                                               : NULL;
}

/* DataParallel is one process's; its devices are checked before anything starts. */
static bool check_parallel(const char *name, const yki_train_options *o)
{
    int count;
    int64_t ranks = yki_ranks_expected(o->nproc);
    bool dp = strcmp(o->parallel, "dp") == 0;
    if (o->devices && !dp)
        yki_usage_error(name, "--devices are DataParallel's: add --parallel dp");
    else if (dp && ranks > 1)
        yki_usage_error(name, "--parallel dp is one process, but there are %lld ranks: use ddp",
                        (long long)ranks);
    else if (dp && between_ranks(o))
        yki_usage_error(name, "%s works between ranks: not with --parallel dp", between_ranks(o));
    else if (dp && yk_data_parallel_check(o->devices, &count) != YK_OK)
        yki_usage_error(name, "--devices: %s", strstr(yk_last_error(), ": ") + 2);
    else
        return true;
    return false;
}

static int check_virtual_ranks(const char *name, const yki_train_options *o)
{
    int64_t ranks = yki_ranks_expected(o->nproc);
    if (o->virtual_ranks % ranks)
        return yki_usage_error(name, "--virtual-ranks %lld cannot be shared equally by %lld ranks",
                               (long long)o->virtual_ranks, (long long)ranks);
    if (o->virtual_ranks && o->accumulate > 1)
        return yki_usage_error(name, "--virtual-ranks accumulates already: give more of them "
                                     "instead of --accumulate");
    if (o->virtual_ranks && o->sync_bn)
        return yki_usage_error(name, "--sync-bn needs all shares of a batch at once, "
                                     "--virtual-ranks works them off in order: choose one");
    if (o->virtual_ranks && strcmp(o->comm_hook, "none") != 0)
        return yki_usage_error(name, "--virtual-ranks adds gradients in an order of its own: no "
                                     "--comm-hook goes with it");
    if (o->virtual_ranks && strcmp(o->parallel, "dp") == 0)
        return yki_usage_error(name, "--virtual-ranks is DDP's: not with --parallel dp");
    return -1;
}

static int check(const char *name, const yki_train_options *o)
{
    if (o->resume && o->checkpoint)
        return yki_usage_error(name, "--resume goes on with a run, --checkpoint starts a new one "
                                     "from its weights: give one of them");
    if (o->resume && strcmp(o->resume, "auto") == 0 && !o->output)
        return yki_usage_error(name, "--resume auto looks in the output folder: name it with "
                                     "--output");
    if (o->given.powersgd && !o->resume && strcmp(o->comm_hook, "powersgd") != 0)
        return yki_usage_error(name,
                               "--powersgd-rank and --powersgd-start are --comm-hook "
                               "powersgd's, not %s's",
                               o->comm_hook);
    if (o->given.scaler && !o->resume && strcmp(o->amp, "fp16") != 0)
        return yki_usage_error(
            name, "--init-scale and --growth-interval are --amp fp16's; it is %s", o->amp);
    if (!check_parallel(name, o))
        return YKI_EXIT_USAGE;
    /* Where a checkpoint may say what the batch is, that is looked at first. */
    if (!(o->resume && !o->given.batch_size) && !yki_train_options_check_batch(o))
        return YKI_EXIT_USAGE;
    if (!o->resume && !yki_recipe_check(name, &o->recipe, o->epochs))
        return YKI_EXIT_USAGE;
    const char *resume = o->resume && strcmp(o->resume, "auto") != 0 ? o->resume : NULL;
    if (!yki_check_data(name, "--data", o->data) || !yki_check_readable(name, "--resume", resume) ||
        !yki_check_readable(name, "--checkpoint", o->checkpoint) ||
        !yki_check_folder(name, "--output", o->output))
        return YKI_EXIT_USAGE;
    yki_model_setup setup = {
        .arch = o->arch, .device = o->device, .amp = o->amp, .autocast = o->autocast};
    return yki_check_model(name, &setup) ? -1 : YKI_EXIT_USAGE;
}

static const yki_train_options defaults = {.data = "cifar10",
                                           .arch = "resnet18",
                                           .device = "cpu",
                                           .amp = "off",
                                           .init_scale = 65536,
                                           .growth_interval = 2000,
                                           .parallel = "ddp",
                                           .epochs = 10,
                                           .batch_size = 128,
                                           .accumulate = 1,
                                           .comm_hook = "none",
                                           .powersgd_rank = 1,
                                           .powersgd_start = 1000,
                                           .workers = 1,
                                           .keep = 3,
                                           .grace_s = 30};

static void set_defaults(yki_train_options *options, int argc, char **argv)
{
    *options = defaults;
    options->recipe = yki_recipe_defaults;
    options->argc = argc;
    options->argv = argv;
}

/* Where nobody has said otherwise; then whether all of it fits together. */
static int complete(yki_train_options *options)
{
    yki_recipe_complete(&options->recipe);
    int code = check_trace(options->argv[0], options);
    if (code < 0)
        code = check_virtual_ranks(options->argv[0], options);
    return code >= 0 ? code : check(options->argv[0], options);
}

int yki_train_options_parse(yki_train_options *options, int argc, char **argv)
{
    set_defaults(options, argc, argv);
    int code = parse(options, argc, argv, false);
    if (code >= 0)
        return code;
    return complete(options);
}

bool yki_train_options_go_on(yki_train_options *options, char *kept)
{
    enum { MOST = 256 };
    char *words[MOST] = {options->argv[0]};
    int count = 1, argc = options->argc;
    char **argv = options->argv;
    for (char *line = strtok(kept, "\n"); line && count < MOST; line = strtok(NULL, "\n"))
        words[count++] = line;
    set_defaults(options, argc, argv);
    if (parse(options, count, words, true) >= 0)
        return false;
    memset(&options->given, 0, sizeof options->given); /* that was the run before */
    memset(&options->recipe.given, 0, sizeof options->recipe.given);
    if (parse(options, argc, argv, false) >= 0)
        return false;
    return complete(options) < 0 && yki_recipe_check(argv[0], &options->recipe, options->epochs);
}
