/*
 * The options of `yoke train`: one table, filled from the command line and, in a resumed run, from
 * what its checkpoint has stored. check.c checks whether they fit together.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "launch/launch.h"
#include "setup.h"
#include "train/train.h"

static const char summary[] =
    "Trains a network on images. With --nproc N it starts N local ranks; under `yoke run`,\n"
    "or any launcher that sets RANK and WORLD_SIZE, it runs as one of the ranks. At the end\n"
    "of each epoch it evaluates the network and writes a checkpoint to the output folder.";

static const char examples[] =
    "  yoke train --data synthetic --arch mlp --lr 0.01 --epochs 3\n"
    "  yoke train --data cifar10 --arch resnet18 --epochs 10 --nproc 2 --output runs/a\n"
    "  yoke train --data cifar10 --arch resnet18 --epochs 20 --nproc 2 --output runs/a \\\n"
    "             --resume auto";

/* only_kept: the words are a checkpoint's. */
static int parse(cli_train_options *o, int argc, char **argv, bool only_kept)
{
    const cli_option options[] = {
        CLI_GROUP_KEPT("Data and network"),
        CLI_TEXT(0, "data", "DATA",
                 "cifar10 (downloaded once), synthetic, or a folder\nwith CIFAR-10 [cifar10]",
                 &o->data, &o->given.data),
        CLI_CHOICE(0, "arch", cli_arch_choices(), "network to train [resnet18]", &o->arch,
                   &o->given.arch),
        CLI_GROUP_KEPT("Training"),
        CLI_INT(0, "epochs", "N", "passes over the data [10]", &o->epochs, NULL, 1, 1e6),
        CLI_INT('b', "batch-size", "GLOBAL", "images per step, over all ranks [128]",
                &o->batch_size, &o->given.batch_size, 1, CLI_MAX_BATCH),
        CLI_INT(0, "accumulate", "K",
                "accumulate gradients over K micro-batches per step;\nsaves memory, same "
                "gradients [1]",
                &o->accumulate, NULL, 1, 1e6),
        CLI_CHOICE(0, "amp", "off|bf16|fp16",
                   "mixed precision with f32 master weights; fp16 also\nscales the loss [off]",
                   &o->amp, NULL),
        CLI_REAL(0, "init-scale", "S", "initial loss scale for --amp fp16 [65536]", &o->init_scale,
                 &o->given.scaler, 1e-30, 1e30),
        CLI_INT(0, "growth-interval", "N",
                "steps without overflow before the loss scale\ndoubles [2000]", &o->growth_interval,
                &o->given.scaler, 1, 1e12),
        CLI_TEXT(0, "autocast", "OP=low|full|follow,...",
                 "exceptions to the mixed-precision policy; see\n`yoke info --autocast`",
                 &o->autocast, NULL),
        CLI_INT(0, "seed", "N", "seed for initial weights, order and augmentation [0]", &o->seed,
                &o->given.seed, 0, 4294967295.0),
        CLI_CHOICE(0, "device", "cpu|ref", "ref: slow, readable reference kernels [cpu]",
                   &o->device, NULL),
        CLI_SWITCH(0, "no-winograd", "do not use Winograd convolutions", &o->no_winograd),
        CLI_RECIPE_OPTIONS(&o->recipe),
        CLI_GROUP_KEPT("Distribution"),
        CLI_CHOICE(0, "parallel", "ddp|dp",
                   "dp: DataParallel, one process with a thread per\ndevice [ddp]", &o->parallel,
                   NULL),
        CLI_TEXT(0, "devices", "LIST",
                 "devices of --parallel dp: equal parts of the cores\n"
                 "(cpu:0,cpu:1) or given cores (cpu:0-3,cpu:4-7)\n"
                 "[cpu:0,cpu:1]",
                 &o->devices, NULL),
        CLI_INT(0, "virtual-ranks", "V",
                "bitwise the result of V ranks on any number of\nranks that divides V; 0: off "
                "[0]",
                &o->virtual_ranks, NULL, 0, 65535),
        CLI_SWITCH(0, "sync-bn", "SyncBatchNorm: compute batch statistics over all\nranks",
                   &o->sync_bn),
        CLI_CHOICE(
            0, "comm-hook", "none|bf16|fp16|powersgd",
            "compress gradients before communication: to 16 bits\nor to low-rank factors [none]",
            &o->comm_hook, NULL),
        CLI_INT(0, "powersgd-rank", "R", "rank of the PowerSGD factors [1]", &o->powersgd_rank,
                &o->given.powersgd, 1, 1e6),
        CLI_INT(0, "powersgd-start", "S", "steps before PowerSGD begins to compress [1000]",
                &o->powersgd_start, &o->given.powersgd, 1, 1e12),
        CLI_INT(0, "check-divergence", "K",
                "every K steps, compare hashes of all parameters and\nbuffers between ranks; "
                "0: never [0]",
                &o->check_divergence, NULL, 0, 1e12),
        CLI_GROUP("Processes and memory"),
        CLI_INT('n', "nproc", "N",
                "number of local ranks [1, in this process; when\nresuming, as many as before]",
                &o->nproc, &o->given.nproc, 1, CLI_MAX_RANKS),
        CLI_INT(0, "threads", "T",
                "kernel threads per rank [cores / local ranks; 1\nwith --virtual-ranks]",
                &o->threads, NULL, 1, CLI_MAX_THREADS),
        CLI_INT(0, "workers", "N", "data loader threads per rank [1]", &o->workers, NULL, 1, 256),
        CLI_SWITCH(0, "zero",
                   "ZeRO-1: shard the optimizer state over the ranks;\ndoes not change the results",
                   &o->zero),
        CLI_SWITCH(0, "memory-plan", "print how the memory of a step is used", &o->memory_plan),
        CLI_REAL(0, "timeout", "SECONDS", "how long ranks wait for each other [300]", &o->timeout_s,
                 NULL, 0.1, 1e6),
        CLI_GROUP_KEPT("Checkpoints"),
        CLI_INT(0, "save-every", "N",
                "also write a checkpoint every N steps; 0: only at\nthe end of each epoch [0]",
                &o->save_every, NULL, 0, 1e12),
        CLI_INT(0, "keep", "K", "number of newest checkpoints to keep; 0: all [3]", &o->keep, NULL,
                0, 1e6),
        CLI_GROUP("Output, resuming and stopping"),
        CLI_TEXT('o', "output", "FOLDER",
                 "folder for checkpoints and metrics.jsonl\n[runs/ARCH-DATE-TIME]", &o->output,
                 NULL),
        CLI_TEXT(0, "checkpoint", "FILE", "initial weights: a .pth or safetensors file",
                 &o->checkpoint, NULL),
        CLI_TEXT(
            0, "resume", "auto|FILE",
            "resume from a checkpoint and its options; auto: from\nthe newest one in the output "
            "folder, if any. Options\ngiven here take precedence",
            &o->resume, NULL),
        CLI_INT(0, "max-steps", "S", "stop after S steps in total; 0: no limit [0]", &o->max_steps,
                NULL, 0, 1e12),
        CLI_REAL(0, "grace", "SECONDS",
                 "how long writing a last checkpoint may take after\n^C, SIGTERM or SIGUSR1 [30]",
                 &o->grace_s, NULL, 0, 86400),
        CLI_TEXT(0, "trace", "FILE", "write a timeline of all ranks for\nhttps://ui.perfetto.dev",
                 &o->trace, NULL),
        CLI_TEXT(0, "trace-steps", "A:B", "steps in the timeline [the first 50]", &o->trace_steps,
                 NULL),
    };
    const cli_command command = {.name = argv[0],
                                 .operands = "",
                                 .summary = summary,
                                 .exit_codes = CLI_LAUNCH_EXIT_CODES,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .kept = o->kept,
                                 .kept_size = sizeof o->kept,
                                 .only_kept = only_kept};
    return cli_options_parse(&command, argc, argv, NULL, NULL);
}

static const cli_train_options defaults = {.data = "cifar10",
                                           .arch = "resnet18",
                                           .device = "cpu",
                                           .amp = "off",
                                           .init_scale = 65536,
                                           .growth_interval = 2000,
                                           .parallel = "ddp",
                                           .epochs = 10,
                                           .trace_window = YK_TRACE_OPTIONS_INIT,
                                           .batch_size = 128,
                                           .accumulate = 1,
                                           .comm_hook = "none",
                                           .powersgd_rank = 1,
                                           .powersgd_start = 1000,
                                           .workers = 1,
                                           .keep = 3,
                                           .grace_s = 30};

static void set_defaults(cli_train_options *options, int argc, char **argv)
{
    *options = defaults;
    options->recipe = cli_recipe_defaults;
    options->argc = argc;
    options->argv = argv;
}

/* A checkpoint stores where the data is for a run that is resumed from another folder. */
static bool make_data_absolute(cli_train_options *options)
{
    static char path[PATH_MAX];
    if (cli_is_choice("cifar10|synthetic", options->data) || !realpath(options->data, path))
        return true; /* a folder that is missing is found by the checks */
    options->data = path;
    if (cli_options_keep(options->kept, sizeof options->kept, "data", path))
        return true;
    cli_usage_error(options->argv[0], "--data: the path is too long: %s", path);
    return false;
}

/* Where nobody has said otherwise; then whether all of it fits together. */
static bool complete(cli_train_options *options, bool checkpoint_known)
{
    if (!make_data_absolute(options))
        return false;
    cli_recipe_complete(&options->recipe);
    return cli_train_options_check(options, checkpoint_known);
}

int cli_train_options_parse(cli_train_options *options, int argc, char **argv)
{
    set_defaults(options, argc, argv);
    int code = parse(options, argc, argv, false);
    if (code >= 0)
        return code;
    return complete(options, false) ? -1 : CLI_EXIT_USAGE;
}

bool cli_train_options_resume(cli_train_options *options, const char *stored)
{
    enum { MOST = 256 };
    static char text[2 * sizeof options->kept]; /* the options point into it */
    char *words[MOST] = {options->argv[0]};
    int count = 1, argc = options->argc;
    char **argv = options->argv;
    size_t used = 0;
    for (const char *line = stored; *line && count < MOST; line = strchr(line, '\n') + 1) {
        words[count++] = text + used;
        used += (size_t)snprintf(text + used, sizeof text - used, "--%.*s",
                                 (int)strcspn(line, "\n"), line) +
                1;
    }
    set_defaults(options, argc, argv);
    if (parse(options, count, words, true) >= 0)
        return false;
    cli_recipe saved = options->recipe;
    cli_recipe_complete(&saved);
    options->saved_momentum = saved.momentum;
    options->saved_no_decay_norms = saved.no_decay_norms;
    memset(&options->given, 0, sizeof options->given); /* those were the checkpoint's */
    memset(&options->recipe.given, 0, sizeof options->recipe.given);
    return parse(options, argc, argv, false) < 0 && complete(options, true);
}
