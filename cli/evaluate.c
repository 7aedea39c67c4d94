/* `yoke evaluate`: the loss and accuracy of a checkpoint, yoke's or PyTorch's. */
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "options.h"
#include "setup.h"

enum { PATH_SIZE = 4096 };

typedef struct evaluate_options {
    const char *data, *arch, *device, *amp;
    int64_t batch_size, nproc, threads, workers;
    double timeout_s;
    bool arch_given, ema;
} evaluate_options;

static int parse(evaluate_options *o, int argc, char **argv, char **checkpoint, int *operands)
{
    const cli_option options[] = {
        CLI_GROUP("What"),
        CLI_TEXT(0, "data", "DATA",
                 "cifar10, synthetic, or a folder of CIFAR-10; its\ntest images count [cifar10]",
                 &o->data, NULL),
        CLI_CHOICE(0, "arch", cli_arch_choices(), "the network [what the checkpoint says]",
                   &o->arch, &o->arch_given),
        CLI_SWITCH(0, "ema", "the averaged weights of a training with --ema", &o->ema),
        CLI_GROUP("How"),
        CLI_INT('b', "batch-size", "GLOBAL", "images at a time, over all ranks [256]",
                &o->batch_size, NULL, 1, 1e7),
        CLI_CHOICE(0, "amp", "off|bf16|fp16", "mixed precision [off]", &o->amp, NULL),
        CLI_CHOICE(0, "device", "cpu|ref", "ref: slow, readable reference kernels [cpu]",
                   &o->device, NULL),
        CLI_INT('n', "nproc", "N", "local ranks to start [1, in this process]", &o->nproc, NULL, 1,
                1024),
        CLI_INT(0, "threads", "T", "kernel threads of a rank [cores / local ranks]", &o->threads,
                NULL, 1, 4096),
        CLI_INT(0, "workers", "N", "threads of a rank that prepare batches [1]", &o->workers, NULL,
                1, 256),
        CLI_REAL(0, "timeout", "SECONDS", "how long ranks wait for each other [300]", &o->timeout_s,
                 NULL, 0.1, 1e6),
    };
    const cli_command command = {
        .name = argv[0],
        .operands = "CHECKPOINT",
        .summary =
            "Measures loss and accuracy of CHECKPOINT on the test images, each counted once:\n"
            "a .pth file of yoke or of PyTorch, safetensors, or the output folder of a training,\n"
            "whose newest checkpoint is taken.",
        .examples = "  yoke evaluate runs/a\n"
                    "  yoke evaluate --nproc 2 --arch resnet18 --data ~/cifar10 model.pth",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .max_operands = 1};
    return cli_options_parse(&command, argc, argv, checkpoint, operands);
}

/* The file that is meant, and the network in it. */
static bool find_checkpoint(char path[PATH_SIZE], yk_training_state *state, evaluate_options *o)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        char folder[PATH_SIZE];
        memcpy(folder, path, PATH_SIZE);
        if (!cli_ok(yk_checkpoint_dir_latest(folder, path, PATH_SIZE)))
            return false;
    }
    if (o->arch_given)
        return true;
    yk_status status = yk_checkpoint_read_state(path, state);
    if (status != YK_OK && status != YK_ERROR_NOT_FOUND)
        return cli_ok(status);
    if (status == YK_ERROR_NOT_FOUND || !state->arch[0])
        return cli_complain("%s does not say which network it is of: name it with --arch", path);
    o->arch = state->arch;
    return true;
}

static bool evaluate(const char *checkpoint, const evaluate_options *options, yk_group *world)
{
    char path[PATH_SIZE];
    evaluate_options o = *options; /* the network may come from the checkpoint */
    yk_training_state state = {.epoch = 0};
    yk_dataset *train = NULL, *test = NULL;
    yk_model *model = NULL;
    yk_loader *loader = NULL;
    yk_evaluation result;
    const char *source;
    snprintf(path, sizeof path, "%s", checkpoint);
    bool fine = find_checkpoint(path, &state, &o) && cli_open_data(&train, &test, world, o.data);
    if (fine) {
        cli_model_setup setup = {.arch = o.arch,
                                 .device = o.device,
                                 .amp = o.amp,
                                 .threads =
                                     cli_threads(o.threads, yk_group_local_size(world), &source),
                                 .classes = yk_dataset_classes(test)};
        yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
        loading.group = world;
        loading.batch_size = o.batch_size / yk_group_size(world);
        loading.exact = true;
        loading.transform = yk_cifar10_normalize;
        loading.workers = (int)o.workers;
        yk_evaluate_options evaluating = YK_EVALUATE_OPTIONS_INIT;
        evaluating.group = world;
        fine = cli_build_model(&model, &setup) &&
               cli_ok((o.ema ? yk_model_load_ema : yk_model_load)(model, path)) &&
               cli_ok(yk_loader_create(&loader, test, &loading)) &&
               cli_ok(yk_evaluate(&result, model, loader, &evaluating));
    }
    if (fine && yk_group_rank(world) == 0)
        printf("%s: %s on %s: loss %.4f, accuracy %.2f %% (%lld of %lld)\n", path, o.arch,
               yk_dataset_name(test), result.loss, 100 * result.accuracy, (long long)result.correct,
               (long long)result.count);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(test);
    yk_dataset_destroy(train);
    return fine;
}

static int check(const char *name, const evaluate_options *o, const char *checkpoint, int operands)
{
    int64_t ranks = cli_ranks_expected(o->nproc);
    if (operands == 0)
        return cli_usage_error(name, "which checkpoint?");
    if (!cli_check_readable(name, "", checkpoint) || !cli_check_data(name, "--data", o->data))
        return CLI_EXIT_USAGE;
    if (o->batch_size < ranks)
        return cli_usage_error(name,
                               "--batch-size %lld is less than one image for each of %lld "
                               "ranks",
                               (long long)o->batch_size, (long long)ranks);
    cli_model_setup setup = {.arch = o->arch, .device = o->device, .amp = o->amp};
    return cli_check_model(name, &setup) ? -1 : CLI_EXIT_USAGE;
}

int cli_cmd_evaluate(int argc, char **argv)
{
    evaluate_options o = {.data = "cifar10",
                          .arch = "resnet18",
                          .device = "cpu",
                          .amp = "off",
                          .batch_size = 256,
                          .workers = 1};
    char *checkpoint = NULL;
    int operands, code = parse(&o, argc, argv, &checkpoint, &operands);
    if (code < 0)
        code = check(argv[0], &o, checkpoint, operands);
    if (code < 0)
        code = cli_launch_self(argv[0], o.nproc, 5, argc, argv);
    if (code >= 0)
        return code;
    yk_group *world;
    yk_group_options joining = YK_GROUP_OPTIONS_INIT;
    if (o.timeout_s > 0) /* given */
        joining.timeout_s = o.timeout_s;
    if (!cli_ok(yk_group_init(&world, &joining)))
        return CLI_EXIT_FAILED;
    bool fine = evaluate(checkpoint, &o, world);
    yk_group_destroy(world);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
