/* `yoke evaluate`: the loss and accuracy of a checkpoint, yoke's or PyTorch's. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "common/plural.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "evaluate/subject.h"
#include "options/options.h"
#include "options/paths.h"

static const char summary[] =
    "Measures the loss and accuracy of CHECKPOINT on the test images, each counted once.\n"
    "CHECKPOINT is a .pth file written by yoke or PyTorch, a safetensors file, or the output\n"
    "folder of a training run, whose newest checkpoint is then used. Files written by yoke\n"
    "record their network, others are recognised by their tensors; checkpoints also record\n"
    "the data they were trained on, and the label smoothing of the loss. Nothing is\n"
    "downloaded unless --data cifar10 is given.";

static const char examples[] =
    "  yoke evaluate runs/a\n"
    "  yoke evaluate --data ~/cifar10 runs/a/model.pth\n"
    "  yoke evaluate --arch resnet18-cifar --data ~/cifar10 from_pytorch.pth";

static int parse_evaluate_options(cli_evaluate_options *o, const char *name, int argc, char **argv,
                                  char **checkpoint, int *operands)
{
    const cli_option options[] = {
        CLI_GROUP("Model and data"),
        CLI_TEXT(0, "data", "DATA",
                 "cifar10, synthetic, a folder, ...: see `yoke data --help`;\nits test images are "
                 "used [the data of the training run]",
                 &o->data, &o->data_given),
        CLI_ARCH("network in the file [read from the file]", &o->arch, &o->arch_given),
        CLI_INT(0, "image-size", "N",
                "sides of the pictures in the network [as in the training\nrun; else the data's "
                "own, or those that yoke predict uses]",
                &o->image_size, NULL, 1, 8192),
        CLI_SWITCH(0, "ema", "evaluate the averaged weights that --ema has saved", &o->ema),
        CLI_SWITCH(0, "skip-damaged",
                   "replace a damaged image by the next one instead of stopping\n[as in the "
                   "training run]",
                   &o->skip_damaged),
        CLI_ENUM(0, "tta", CLI_TTA,
                 "also with test-time augmentation: average the logits of\nan image and its mirror "
                 "image; translate: also of both\nshifted by a pixel [none]",
                 &o->tta, NULL),
        CLI_REAL(0, "tta-confidence", "P",
                 "skip it for images whose predicted class already has at\nleast probability P; "
                 "0.9 saves most of the time [1]",
                 &o->tta_confidence, NULL, 0, 1),
        CLI_SWITCH(0, "per-class", "also print the accuracy of each class", &o->per_class),
        CLI_SWITCH(0, "confusion",
                   "also print how many images of each class (rows) were\ntaken for each class "
                   "(columns)",
                   &o->confusion),
        CLI_GROUP("Execution"),
        CLI_INT('b', "batch-size", "GLOBAL", "images per batch, over all ranks [256]",
                &o->batch_size, NULL, 1, 1e7),
        CLI_AMP("mixed precision [off]", &o->model.amp, NULL),
        CLI_DEVICE(&o->model.device, NULL),
        CLI_RANKS("nproc",
                  "number of local ranks; auto or cpu starts one per\ncore, gpu one per GPU [1, in "
                  "this process]",
                  &o->nproc, NULL, 1024),
        CLI_INT(0, "threads", "T", "kernel threads per rank [cores / local ranks]",
                &o->model.threads, NULL, 1, CLI_MAX_THREADS),
        CLI_INT(0, "workers", "N", "data loader threads per rank [1]", &o->workers, NULL, 1, 256),
        CLI_REAL(0, "timeout", "SECONDS", "how long ranks wait for each other [300]",
                 &o->group.timeout_s, NULL, 0.1, 1e6),
    };
    const cli_command command = {.name = name,
                                 .operands = "CHECKPOINT",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = 1};
    return cli_options_parse(&command, argc, argv, checkpoint, operands);
}

static void show_batch(void *context, int64_t done, int64_t batches)
{
    cli_progress_evaluation(context, 0, done, batches);
}

static bool run_evaluation(yk_evaluation *result, int64_t *confusion, yk_model *model,
                           yk_loader *loader, yk_group *world, const cli_evaluate_options *o)
{
    yk_evaluate_options options = YK_EVALUATE_OPTIONS_INIT;
    cli_progress *progress = yk_group_rank(world) == 0 ? cli_progress_create(0, 0, YK_NEVER) : NULL;
    options.group = world;
    options.confusion = confusion;
    options.tta = o->tta;
    options.tta_confidence = o->tta_confidence;
    options.on_batch = show_batch;
    options.context = progress;
    yk_status status = yk_evaluate(result, model, loader, &options);
    cli_progress_destroy(progress);
    return cli_ok(status);
}

/* Counts of (label, prediction) where they are asked for; NULL otherwise. */
static bool make_confusion(int64_t **confusion, const cli_subject *s, const yk_dataset *test)
{
    size_t classes = (size_t)cli_subject_classes(s, test);
    if (!s->options.per_class && !s->options.confusion)
        return true;
    *confusion = calloc(classes * classes, sizeof **confusion);
    return *confusion || cli_complain("out of memory");
}

/* The model with the file's weights, the loader of the test images, and what they make of each
 * other; the caller destroys them and frees the counts, on failure too. */
static bool measure_subject(yk_evaluation *result, int64_t **confusion, yk_model **model,
                            yk_loader **loader, const cli_subject *s, const yk_dataset *test,
                            yk_group *world)
{
    const cli_evaluate_options *o = &s->options;
    const char *source;
    cli_model_setup setup = {.arch = o->arch,
                             .options = o->model,
                             .label_smoothing = s->label_smoothing,
                             .classes = cli_subject_classes(s, test)};
    cli_transforms transforms;
    if (!cli_find_images(&setup.images, test) ||
        !cli_subject_choose_transforms(&transforms, s, test) ||
        !cli_apply_transforms(&setup.images, &transforms))
        return false;
    setup.probabilities = transforms.mixes;
    setup.options.threads = cli_threads(o->model.threads, yk_group_local_size(world), &source);
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    loading.group = world;
    loading.batch_size = o->batch_size / yk_group_size(world);
    loading.exact = true;
    loading.classes = setup.classes;
    loading.transforms = transforms.eval;
    loading.workers = o->workers;
    loading.skip_damaged = o->skip_damaged;
    if (!cli_weights_loaded(cli_check_weights(s->file, &setup), s->path, o->arch) ||
        !make_confusion(confusion, s, test) || !cli_build_model(model, &setup))
        return false;
    loading.model = *model;
    loading.cache_bytes = 0; /* each picture is needed once */
    return cli_weights_loaded((o->ema ? yk_model_load_ema : yk_model_load)(*model, s->path),
                              s->path, o->arch) &&
           cli_ok(yk_loader_create(loader, test, &loading)) &&
           run_evaluation(result, *confusion, *model, *loader, world, o);
}

/* Columns that the names of all classes fit into. */
static int widest_class(const yk_dataset *test)
{
    int widest = 14;
    for (int64_t label = 0; label < yk_dataset_classes(test); label++) {
        int width = cli_text_width(cli_class_text(test, label));
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void print_class(const yk_dataset *test, int64_t label, int columns)
{
    const char *name = cli_class_text(test, label);
    fputs("  ", stdout);
    cli_print_name(stdout, name);
    printf("%*s", columns - cli_text_width(name) + 2, "");
}

static void print_per_class(const yk_dataset *test, const int64_t *confusion, int64_t classes)
{
    int columns = widest_class(test);
    for (int64_t label = 0; label < yk_dataset_classes(test); label++) {
        const int64_t *row = confusion + label * classes;
        int64_t count = 0;
        for (int64_t c = 0; c < classes; c++)
            count += row[c];
        print_class(test, label, columns);
        if (count)
            printf("%6.2f %% (%lld of %lld)\n", 100 * (double)row[label] / (double)count,
                   (long long)row[label], (long long)count);
        else
            printf("     no image\n");
    }
}

static void print_confusion(const yk_dataset *test, const int64_t *confusion, int64_t classes)
{
    int columns = widest_class(test);
    for (int64_t label = 0; label < yk_dataset_classes(test); label++) {
        print_class(test, label, columns);
        for (int64_t c = 0; c < classes; c++)
            printf(" %6lld", (long long)confusion[label * classes + c]);
        printf("\n");
    }
}

static void print_result(const cli_subject *s, const yk_dataset *test, const yk_evaluation *result,
                         const int64_t *confusion)
{
    if (s->recognised)
        printf("%s: recognised by its tensors as %s for %lld %s\n", s->path, s->options.arch,
               (long long)s->classes, cli_plural(s->classes, "class", "classes"));
    printf("%s: %s on %s: loss %.4f, accuracy %.2f %% (%lld of %lld)", s->path, s->options.arch,
           yk_dataset_name(test), result->loss, 100 * result->accuracy, (long long)result->correct,
           (long long)result->count);
    if (cli_subject_classes(s, test) > 5)
        printf(", top-5 %.2f %%", 100 * result->top5);
    if (s->options.tta != YK_TTA_NONE)
        printf(", with test-time augmentation %.2f %%", 100 * result->tta_accuracy);
    printf("\n");
    if (confusion && s->options.per_class)
        print_per_class(test, confusion, cli_subject_classes(s, test));
    if (confusion && s->options.confusion)
        print_confusion(test, confusion, cli_subject_classes(s, test));
}

/* Says how many damaged images all ranks have skipped. */
static bool print_skipped(const yk_loader *loader, yk_group *world)
{
    int64_t skipped = yk_loader_skipped(loader);
    if (!cli_ok(yk_all_reduce(world, &skipped, 1, YK_I64, YK_REDUCE_SUM, NULL)))
        return false;
    if (skipped > 0 && yk_group_rank(world) == 0)
        printf("damaged images skipped: %lld\n", (long long)skipped);
    return true;
}

static bool open_data(yk_dataset **test, const cli_subject *s, yk_group *world)
{
    int stop_signal; /* nothing is saved that a stop could lose: signals end the process */
    cli_data_setup setup = {.data = s->options.data, .val_split = s->val_split};
    return cli_open_data(NULL, test, world, &setup, &stop_signal);
}

static bool evaluate(const char *checkpoint, const cli_evaluate_options *options, yk_group *world)
{
    cli_subject s = {.options = *options};
    yk_dataset *test = NULL;
    yk_model *model = NULL;
    yk_loader *loader = NULL;
    yk_evaluation result;
    int64_t *confusion = NULL;
    bool fine = cli_subject_find(&s, checkpoint, world) && open_data(&test, &s, world) &&
                cli_subject_check_classes(&s, test);
    if (fine && yk_group_rank(world) == 0)
        cli_subject_warn_of_classes(&s, test);
    fine = fine && measure_subject(&result, &confusion, &model, &loader, &s, test, world);
    if (fine && yk_group_rank(world) == 0)
        print_result(&s, test, &result, confusion);
    fine = fine && (!s.options.skip_damaged || print_skipped(loader, world));
    free(confusion);
    yk_loader_destroy(loader);
    yk_model_destroy(model);
    yk_dataset_destroy(test);
    yk_tensor_file_close(s.file);
    return fine;
}

static int check_evaluate_options(const char *name, const cli_evaluate_options *o,
                                  const char *checkpoint, int operands)
{
    int64_t ranks = cli_ranks_expected(o->nproc);
    if (operands == 0)
        return cli_usage_error(name, "missing CHECKPOINT");
    if (!cli_check_readable(name, "", checkpoint) || !cli_check_data(name, "--data", o->data))
        return CLI_EXIT_USAGE;
    if (o->batch_size < ranks)
        return cli_usage_error(name,
                               "--batch-size %lld is less than one image for each of %lld "
                               "ranks",
                               (long long)o->batch_size, (long long)ranks);
    return cli_check_model_options(name, &o->model) ? -1 : CLI_EXIT_USAGE;
}

int cli_cmd_evaluate(const char *name, int argc, char **argv)
{
    cli_evaluate_options o = {.data = "cifar10",
                              .arch = "resnet18-cifar",
                              .group = YK_GROUP_OPTIONS_INIT,
                              .model = YK_MODEL_OPTIONS_INIT,
                              .batch_size = 256,
                              .workers = 1,
                              .tta_confidence = 1};
    char *checkpoint = NULL;
    yk_group *world;
    int operands, code = parse_evaluate_options(&o, name, argc, argv, &checkpoint, &operands);
    if (code >= 0)
        return code;
    code = check_evaluate_options(name, &o, checkpoint, operands);
    if (code >= 0)
        return code;
    code = cli_launch_self(name, o.nproc, 5, true, argc, argv);
    if (code >= 0)
        return code;
    if (!cli_ok(yk_group_init(&world, &o.group)))
        return CLI_EXIT_FAILED;
    bool fine = evaluate(checkpoint, &o, world);
    yk_group_destroy(world);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
