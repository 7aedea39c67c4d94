/* `yoke evaluate`: the loss and accuracy of a checkpoint, yoke's or PyTorch's. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "common/progress.h"
#include "common/terminal.h"
#include "options/options.h"
#include "setup/setup.h"

enum { PATH_SIZE = 4096 };

typedef struct evaluate_options {
    const char *data, *arch;
    yk_group_options group; /* the timeout */
    yk_model_options model; /* device, mixed precision and threads */
    int64_t image_size, batch_size, nproc;
    int workers;
    bool arch_given, data_given, ema, skip_damaged, per_class, confusion;
    yk_tta tta;
    double tta_confidence;
} evaluate_options;

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

static int parse_evaluate_options(evaluate_options *o, const char *name, int argc, char **argv,
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
        CLI_INT('n', "nproc", "N", "number of local ranks [1, in this process]", &o->nproc, NULL, 1,
                1024),
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

/* What is evaluated: options, completed by what the file and its run say. */
typedef struct subject {
    evaluate_options options;
    char path[PATH_SIZE]; /* the file */
    char arch[64], data[PATH_SIZE];
    cli_augment augment; /* as in the training run; its texts are these */
    char preset[CLI_TRANSFORMS_TEXT], evaluation[CLI_TRANSFORMS_TEXT], normalize[256];
    double val_split, label_smoothing; /* as in the training run */
    int64_t classes;                   /* of the network; 0: those of the data */
    bool recognised;                   /* the network, by its tensors */
    bool of_a_run;                     /* the file records the options of its run */
    yk_tensor_file *file;
    const yk_model_info *info; /* what the file says, or NULL; its own */
} subject;

/* The value of a setting in lines "NAME=VALUE" (or "--NAME=VALUE", as checkpoints of earlier
 * versions have them); false where there is none. */
static bool find_setting(const char *lines, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = strncmp(line, "--", 2) == 0 ? line + 2 : line;
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        at += length + 1;
        snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
        return true;
    }
    return false;
}

/* The classes of the network that --arch names or, without it, which network it is by its tensors:
 * it may be none. */
static bool recognise(subject *s, const char **arch)
{
    yk_status status = s->options.arch_given
                           ? yk_tensor_file_count_classes(s->file, s->options.arch, &s->classes)
                           : yk_tensor_file_find_arch(s->file, arch, &s->classes);
    s->recognised = *arch != NULL;
    return status == YK_ERROR_NOT_FOUND || cli_ok(status);
}

/* The network and the normalisation, from the description in the file. */
static bool read_description(subject *s)
{
    if (!cli_ok(yk_tensor_file_open(&s->file, s->path)) ||
        !cli_ok(yk_tensor_file_info(s->file, &s->info)))
        return false;
    const char *arch = s->info ? s->info->arch : NULL;
    s->classes = s->info ? s->info->classes : 0;
    if (!arch && !recognise(s, &arch))
        return false;
    if (arch)
        snprintf(s->arch, sizeof s->arch, "%s", arch);
    if (cli_normalize_as(s->normalize, sizeof s->normalize, s->info))
        s->augment.normalize = s->normalize;
    return true;
}

/* The network and the data, from the state of the run that saved the file; where it has none they
 * stay as they are. */
static bool read_run(subject *s)
{
    yk_training_state state;
    char part[64];
    yk_status status = yk_checkpoint_read_state(s->path, &state);
    if (status == YK_ERROR_NOT_FOUND)
        return true;
    if (!cli_ok(status))
        return false;
    s->of_a_run = state.program[0] != '\0';
    if (yk_arch_find(state.arch))
        snprintf(s->arch, sizeof s->arch, "%s", state.arch);
    if (find_setting(state.program, "augment", s->preset, sizeof s->preset))
        s->augment.preset = s->preset;
    if (find_setting(state.program, "eval-transforms", s->evaluation, sizeof s->evaluation))
        s->augment.evaluation = s->evaluation;
    if (find_setting(state.program, "image-size", part, sizeof part))
        s->augment.image_size = atoi(part);
    if (find_setting(state.program, "label-smoothing", part, sizeof part))
        s->label_smoothing = atof(part);
    if (find_setting(state.program, "skip-damaged", part, sizeof part))
        s->options.skip_damaged |= strcmp(part, "true") == 0;
    if (s->options.data_given)
        return true;
    if (find_setting(state.program, "data", s->data, sizeof s->data))
        s->options.data = s->data;
    if (find_setting(state.program, "val-split", part, sizeof part))
        s->val_split = atof(part);
    return true;
}

/* Without --data nothing is downloaded: data is looked for where an earlier download put it. */
static bool find_data(subject *s, const yk_group *world)
{
    struct stat info;
    char path[CLI_DATA_PATH - 64];
    const char *detail, *data = s->options.data;
    const cli_data_kind *kind = cli_data_kind_of(data, &detail);
    bool downloads = cli_data_is_download(kind, detail), found = true, recorded = data == s->data;
    const char *name = kind ? kind->name : "";
    if (s->options.data_given)
        return true;
    if (!kind)
        found = stat(data, &info) == 0 && S_ISDIR(info.st_mode);
    else if (downloads && (found = yk_download_find(path, sizeof path, name) == YK_OK))
        s->options.data = s->data;
    if (downloads && found)
        snprintf(s->data, sizeof s->data, "%s:%s", name, path);
    if (!found && yk_group_rank(world) == 0)
        cli_complain(
            "the data of this evaluation, %s%s, is not here: name a folder with --data%s%s", data,
            recorded ? "" : " (the default: the checkpoint names none)",
            downloads ? ", or download it with --data " : "", downloads ? name : "");
    return found;
}

/* Completes the options. Ranks on one file system find the same. */
static bool find_subject(subject *s, const char *checkpoint, const yk_group *world)
{
    if (!cli_find_checkpoint(s->path, sizeof s->path, checkpoint) || !read_description(s) ||
        !read_run(s) || !find_data(s, world))
        return false;
    if (s->options.arch_given)
        return true;
    if (!s->arch[0])
        return cli_complain("%s does not say which network it is of, and its tensors fit none: "
                            "name it with --arch",
                            s->path);
    s->options.arch = s->arch;
    return true;
}

/* A network may know more classes than the data has. */
static int64_t classes_of(const subject *s, const yk_dataset *test)
{
    int64_t classes = yk_dataset_classes(test);
    return s->classes > classes ? s->classes : classes;
}

/* Labels are numbers: where both have names, those of the data must be those of the network. */
static bool check_classes(const subject *s, const yk_dataset *test)
{
    int64_t known = s->info && s->info->class_names ? s->info->classes : 0;
    for (int64_t label = 0; label < known && label < yk_dataset_classes(test); label++) {
        const char *name = yk_dataset_class_name(test, label);
        const char *learnt = s->info->class_names[label];
        if (name && strcmp(name, learnt) != 0)
            return cli_complain("%s: class %lld is \"%s\", which the network of %s knows as "
                                "\"%s\": expected the classes that it was trained on",
                                yk_dataset_name(test), (long long)label, name, s->path, learnt);
    }
    return true;
}

/* Labels are numbers: where names do not tell, a network for more classes may know others than the
 * data has. A run's own data may have fewer, though (--classes). */
static void warn_of_classes(const subject *s, const yk_dataset *test)
{
    int64_t there = yk_dataset_classes(test);
    bool named = s->info && s->info->class_names && yk_dataset_class_name(test, 0);
    bool own = s->of_a_run && !s->options.data_given;
    if (s->classes > there && !named && !own)
        cli_complain("the network of %s knows %lld classes, %s has %lld: labels are taken for the "
                     "first of these classes; if they are others, the accuracy means nothing",
                     s->path, (long long)s->classes, yk_dataset_name(test), (long long)there);
}

/*
 * Where the file records no run, or another size is asked for, pictures become what `yoke predict`
 * makes of them; pictures of one size stay as they are if the file says nothing about them.
 */
static bool choose_transforms(cli_transforms *made, const subject *s, const yk_dataset *test)
{
    const yk_field *images = yk_dataset_find_field(test, "images");
    bool pictures = images->kind != YK_FIELD_TENSOR;
    bool described = (s->info && s->info->transforms) || images->dims[1] == YK_ANY_SIZE;
    cli_augment augment = s->augment;
    cli_trained t = {.arch = s->options.arch, .info = s->info, .image_size = s->options.image_size};
    if (pictures && (t.image_size || (!s->of_a_run && described))) {
        snprintf(t.path, sizeof t.path, "%s", s->path);
        if (!cli_trained_choose_transforms(&t, images->dims))
            return false;
        augment = (cli_augment){.preset = t.transforms, .evaluation = t.transforms};
    }
    return cli_choose_transforms(made, &augment, test);
}

static void show_batch(void *context, int64_t done, int64_t batches)
{
    cli_progress_evaluation(context, 0, done, batches);
}

static bool run_evaluation(yk_evaluation *result, int64_t *confusion, yk_model *model,
                           yk_loader *loader, yk_group *world, const evaluate_options *o)
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
static bool make_confusion(int64_t **confusion, const subject *s, const yk_dataset *test)
{
    size_t classes = (size_t)classes_of(s, test);
    if (!s->options.per_class && !s->options.confusion)
        return true;
    *confusion = calloc(classes * classes, sizeof **confusion);
    return *confusion || cli_complain("out of memory");
}

/* The model with the file's weights, the loader of the test images, and what they make of each
 * other; the caller destroys them and frees the counts, on failure too. */
static bool measure_subject(yk_evaluation *result, int64_t **confusion, yk_model **model,
                            yk_loader **loader, const subject *s, const yk_dataset *test,
                            yk_group *world)
{
    const evaluate_options *o = &s->options;
    const char *source;
    cli_model_setup setup = {.arch = o->arch,
                             .options = o->model,
                             .label_smoothing = s->label_smoothing,
                             .classes = classes_of(s, test)};
    cli_transforms transforms;
    if (!cli_find_images(&setup.images, test) || !choose_transforms(&transforms, s, test) ||
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

/* The name of a class, or its number. */
static const char *class_text(const yk_dataset *test, int64_t label)
{
    static char number[24];
    const char *name = yk_dataset_class_name(test, label);
    snprintf(number, sizeof number, "%lld", (long long)label);
    return name ? name : number;
}

/* All of them take as much room as the longest. */
static void print_class(const yk_dataset *test, int64_t label)
{
    int longest = 14;
    const char *name = class_text(test, label);
    int own = cli_text_width(name);
    fputs("  ", stdout);
    cli_print_name(stdout, name);
    for (int64_t other = 0; other < yk_dataset_classes(test); other++) {
        int width = cli_text_width(class_text(test, other));
        longest = width > longest ? width : longest;
    }
    printf("%*s", longest - own + 2, "");
}

static void print_per_class(const yk_dataset *test, const int64_t *confusion, int64_t classes)
{
    for (int64_t label = 0; label < yk_dataset_classes(test); label++) {
        const int64_t *row = confusion + label * classes;
        int64_t count = 0;
        for (int64_t c = 0; c < classes; c++)
            count += row[c];
        print_class(test, label);
        if (count)
            printf("%6.2f %% (%lld of %lld)\n", 100 * (double)row[label] / (double)count,
                   (long long)row[label], (long long)count);
        else
            printf("     no image\n");
    }
}

static void print_confusion(const yk_dataset *test, const int64_t *confusion, int64_t classes)
{
    for (int64_t label = 0; label < yk_dataset_classes(test); label++) {
        print_class(test, label);
        for (int64_t c = 0; c < classes; c++)
            printf(" %6lld", (long long)confusion[label * classes + c]);
        printf("\n");
    }
}

static void print_result(const subject *s, const yk_dataset *test, const yk_evaluation *result,
                         const int64_t *confusion)
{
    if (s->recognised)
        printf("%s: recognised by its tensors as %s for %lld classes\n", s->path, s->options.arch,
               (long long)s->classes);
    printf("%s: %s on %s: loss %.4f, accuracy %.2f %% (%lld of %lld)", s->path, s->options.arch,
           yk_dataset_name(test), result->loss, 100 * result->accuracy, (long long)result->correct,
           (long long)result->count);
    if (classes_of(s, test) > 5)
        printf(", top-5 %.2f %%", 100 * result->top5);
    if (s->options.tta != YK_TTA_NONE)
        printf(", with test-time augmentation %.2f %%", 100 * result->tta_accuracy);
    printf("\n");
    if (confusion && s->options.per_class)
        print_per_class(test, confusion, classes_of(s, test));
    if (confusion && s->options.confusion)
        print_confusion(test, confusion, classes_of(s, test));
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

static bool open_data(yk_dataset **test, const subject *s, yk_group *world)
{
    int stop_signal; /* nothing is saved that a stop could lose: signals end the process */
    cli_data_setup setup = {.data = s->options.data, .val_split = s->val_split};
    return cli_open_data(NULL, test, world, &setup, &stop_signal);
}

static bool evaluate(const char *checkpoint, const evaluate_options *options, yk_group *world)
{
    subject s = {.options = *options};
    yk_dataset *test = NULL;
    yk_model *model = NULL;
    yk_loader *loader = NULL;
    yk_evaluation result;
    int64_t *confusion = NULL;
    bool fine = find_subject(&s, checkpoint, world) && open_data(&test, &s, world) &&
                check_classes(&s, test);
    if (fine && yk_group_rank(world) == 0)
        warn_of_classes(&s, test);
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

static int check_evaluate_options(const char *name, const evaluate_options *o,
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
    evaluate_options o = {.data = "cifar10",
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
    code = cli_launch_self(name, o.nproc, 5, argc, argv);
    if (code >= 0)
        return code;
    if (!cli_ok(yk_group_init(&world, &o.group)))
        return CLI_EXIT_FAILED;
    bool fine = evaluate(checkpoint, &o, world);
    yk_group_destroy(world);
    return fine ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}
