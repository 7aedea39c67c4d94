/* `yoke predict`: the classes of pictures, by a trained network. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "options.h"
#include "setup.h"

enum { PATH_SIZE = 4096, MOST_PICTURES = 65536, BATCH = 32 };

static const char summary[] =
    "Prints the most probable classes of each IMAGE, a JPEG, PNG or WebP file. CHECKPOINT is a\n"
    ".pth file written by yoke or PyTorch, a safetensors file, or the output folder of a training\n"
    "run, whose newest checkpoint is then used. Files written by yoke record their network, the\n"
    "names of the classes and what was done to pictures in evaluation, which is done here as "
    "well.\n"
    "Pictures that cannot be read are named and left out; the exit status is then 1.";

static const char examples[] = "  yoke predict runs/a cat.jpg dog.png\n"
                               "  yoke predict --top 5 --json resnet50.pth *.jpg | jq .";

typedef struct predict_options {
    const char *arch;
    yk_model_options model;
    int64_t image_size, top;
    bool json, ema, arch_given, size_given;
} predict_options;

/* ---- the pictures, as a data set ------------------------------------------------------------- */

typedef struct pictures {
    char **paths;
} pictures;

static yk_status read_file(FILE *file, const char *path, yk_field_buffer *buffer)
{
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size <= 0)
        return yk_set_error(YK_ERROR_IO, "%s: is empty or cannot be read", path);
    void *room = yk_field_buffer_reserve(buffer, (size_t)size);
    rewind(file);
    if (!room)
        return YK_OK; /* the library reports it */
    if (fread(room, 1, (size_t)size, file) != (size_t)size)
        return yk_set_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    return YK_OK;
}

static yk_status read_picture(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const char *path = ((pictures *)data)->paths[index];
    (void)worker;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return yk_set_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
    yk_status status = read_file(file, path, buffers);
    fclose(file);
    return status;
}

static void name_picture(void *data, int64_t index, char *name, size_t size)
{
    snprintf(name, size, "%s", ((pictures *)data)->paths[index]);
}

static bool open_pictures(yk_dataset **dataset, pictures *all, int count)
{
    const yk_field field = {
        "images", YK_FIELD_ENCODED_IMAGE, YK_U8, 3, {3, YK_ANY_SIZE, YK_ANY_SIZE}};
    yk_dataset_ops ops = YK_DATASET_OPS_INIT;
    ops.name = "pictures";
    ops.count = count;
    ops.field_count = 1;
    ops.fields = &field;
    ops.read = read_picture;
    ops.sample_name = name_picture;
    return cli_ok(yk_dataset_create(dataset, &ops, all));
}

/* ---- the network ----------------------------------------------------------------------------- */

typedef struct predictor {
    const predict_options *options;
    char path[PATH_SIZE], transforms[CLI_TRANSFORMS_TEXT];
    const char *arch;
    int64_t classes, size[3]; /* (C, H, W) of what the network sees */
    yk_tensor_file *file;     /* kept open for the names of the classes */
    const yk_model_info *info;
    yk_model *model;
} predictor;

static int64_t usual_side(const char *arch)
{
    bool small = strcmp(arch, "mlp") == 0 || strcmp(arch, "resnet9") == 0 || strstr(arch, "cifar");
    return small ? 32 : 224;
}

/* The size of the network's pictures: as asked for, or as trained, or as is usual. */
static void choose_size(predictor *p)
{
    const int64_t *trained = p->info && p->info->image_size[0] ? p->info->image_size : NULL;
    p->size[0] = trained ? trained[0] : 3;
    p->size[1] = trained ? trained[1] : usual_side(p->arch);
    p->size[2] = trained ? trained[2] : usual_side(p->arch);
    if (p->options->size_given)
        p->size[1] = p->size[2] = p->options->image_size;
}

/* Large pictures are cut out of slightly larger ones, as in torchvision's evaluation. */
static void bring_to_size(const predictor *p, char *text, size_t room)
{
    long long height = p->size[1], width = p->size[2], side = height > width ? height : width;
    snprintf(text, room, "Resize(%lld),CenterCrop((%lld,%lld)),%s",
             side >= 64 ? side * 256 / 224 : side, height, width,
             p->size[0] == 1 ? "Grayscale," : "");
}

/* Whether the list makes pictures of the network's size out of any. */
static bool fits_any_picture(const predictor *p, const yk_transforms *list)
{
    int64_t made[3];
    return yk_transforms_output_size(list, (int64_t[]){3, YK_ANY_SIZE, YK_ANY_SIZE}, made) ==
               YK_OK &&
           memcmp(made, p->size, sizeof made) == 0;
}

/*
 * What the run did to the pictures that it evaluated. Where these were all of one size already, or
 * another size is asked for, pictures are brought to it first.
 */
static bool choose_transforms(predictor *p)
{
    const char *trained = p->info ? p->info->transforms : NULL;
    char normalize[256] = "", sized[128];
    yk_transforms *list = NULL;
    choose_size(p);
    if (trained && !cli_ok(yk_transforms_parse(&list, trained)))
        return cli_complain("%s: its description has these transforms: %s", p->path, trained);
    bool fits = list && fits_any_picture(p, list);
    yk_transforms_destroy(list);
    if (fits) {
        snprintf(p->transforms, sizeof p->transforms, "%s", trained);
        return true;
    }
    if (!cli_normalize_as(normalize, sizeof normalize, p->info))
        snprintf(normalize, sizeof normalize, "Normalize(%s)",
                 p->size[1] >= 64 ? "imagenet" : "cifar10");
    bring_to_size(p, sized, sizeof sized);
    snprintf(p->transforms, sizeof p->transforms, "%s%s", sized, normalize);
    return true;
}

/* What the file is of, from its description or else from its tensors. */
static bool read_description(predictor *p)
{
    const char *found = NULL;
    if (!cli_ok(yk_tensor_file_open(&p->file, p->path)) ||
        !cli_ok(yk_tensor_file_info(p->file, &p->info)))
        return false;
    p->arch = p->options->arch_given ? p->options->arch : p->info ? p->info->arch : NULL;
    p->classes = p->info ? p->info->classes : 0;
    if ((!p->arch || !p->classes) &&
        !cli_ok(yk_tensor_file_find_arch(p->file, &found, &p->classes)))
        return false;
    p->arch = p->arch ? p->arch : found;
    return choose_transforms(p);
}

static bool make_predictor(predictor *p, const char *checkpoint)
{
    const char *source;
    if (!cli_find_checkpoint(p->path, sizeof p->path, checkpoint) || !read_description(p))
        return false;
    cli_model_setup setup = {.arch = p->arch,
                             .options = p->options->model,
                             .classes = p->classes,
                             .inference = true,
                             .images = {"images", YK_FIELD_IMAGE, YK_U8, 3, {3}}};
    memcpy(setup.images.dims, p->size, sizeof p->size);
    setup.options.threads = cli_threads(p->options->model.threads, 1, &source);
    return cli_build_model(&p->model, &setup) &&
           cli_ok((p->options->ema ? yk_model_load_ema : yk_model_load)(p->model, p->path));
}

/* ---- the answers ----------------------------------------------------------------------------- */

/* In place: logits become probabilities. */
static void softmax(float *row, int64_t classes)
{
    float largest = row[0], sum = 0;
    for (int64_t c = 1; c < classes; c++)
        largest = fmaxf(largest, row[c]);
    for (int64_t c = 0; c < classes; c++)
        sum += row[c] = expf(row[c] - largest);
    for (int64_t c = 0; c < classes; c++)
        row[c] /= sum;
}

/* The largest of the row, which is then taken out of it. */
static int64_t take_largest(float *row, int64_t classes, double *probability)
{
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[best])
            best = c;
    *probability = (double)row[best];
    row[best] = -1;
    return best;
}

static void print_as_text(const predictor *p, const char *path, float *row, int64_t top)
{
    printf("%s:", path);
    for (int64_t i = 0; i < top; i++) {
        double probability;
        int64_t class = take_largest(row, p->classes, &probability);
        if (p->info && p->info->class_names)
            printf("%s %s", i ? "," : "", p->info->class_names[class]);
        else
            printf("%s class %lld", i ? "," : "", (long long)class);
        printf(" %.2f %%", 100 * probability);
    }
    printf("\n");
}

static void print_as_json(const predictor *p, const char *path, float *row, int64_t top)
{
    printf("{\"file\": ");
    cli_json_string(stdout, path);
    printf(", \"predictions\": [");
    for (int64_t i = 0; i < top; i++) {
        double probability;
        int64_t class = take_largest(row, p->classes, &probability);
        printf("%s{\"class\": %lld", i ? ", " : "", (long long)class);
        if (p->info && p->info->class_names) {
            printf(", \"name\": ");
            cli_json_string(stdout, p->info->class_names[class]);
        }
        printf(", \"probability\": %.6g}", probability);
    }
    printf("]}\n");
}

/* Prints what the batch's pictures are. They come in order; where one is damaged, the loader has
 * warned of it and put another one into its place. */
static bool predict_batch(const predictor *p, const yk_batch *batch, int64_t first, char **paths)
{
    yk_tensor logits;
    int64_t top = p->options->top < p->classes ? p->options->top : p->classes;
    if (!cli_ok(yk_model_forward(p->model, batch)) || !cli_ok(yk_model_output(p->model, &logits)))
        return false;
    for (int64_t i = 0; i < batch->size; i++) {
        float *row = (float *)logits.data + i * p->classes;
        if (batch->indices[i] != first + i)
            continue;
        softmax(row, p->classes);
        (p->options->json ? print_as_json : print_as_text)(p, paths[first + i], row, top);
    }
    return true;
}

/* Damaged pictures are left out; false if there are any. */
static bool predict_all(const predictor *p, const yk_dataset *dataset, char **paths, int count)
{
    yk_loader *loader;
    const yk_batch *batch;
    int64_t done = 0;
    bool fine = true;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.batch_size = count < BATCH ? count : BATCH;
    options.exact = true;
    options.transforms = p->transforms;
    options.skip_damaged = count > 1;
    if (!cli_ok(yk_loader_create(&loader, dataset, &options)))
        return false;
    for (; fine && (batch = yk_loader_next(loader)); done += batch->size)
        fine = predict_batch(p, batch, done, paths);
    fine = fine && cli_ok(yk_loader_status(loader));
    int64_t damaged = yk_loader_skipped(loader);
    if (fine && damaged > 0)
        fine = cli_complain("%lld of %d pictures could not be read", (long long)damaged, count);
    yk_loader_destroy(loader);
    return fine;
}

static bool predict(predictor *p, const char *checkpoint, char **paths, int count)
{
    pictures all = {paths};
    yk_dataset *dataset = NULL;
    bool fine = make_predictor(p, checkpoint) && open_pictures(&dataset, &all, count) &&
                predict_all(p, dataset, paths, count);
    yk_dataset_destroy(dataset);
    yk_model_destroy(p->model);
    yk_tensor_file_close(p->file);
    return fine;
}

/* ---- the command ----------------------------------------------------------------------------- */

int cli_cmd_predict(const char *name, int argc, char **argv)
{
    predict_options o = {.arch = "resnet18", .model = YK_MODEL_OPTIONS_INIT, .top = 1};
    const cli_option options[] = {
        CLI_GROUP("Options"),
        CLI_INT(0, "top", "K", "print the K most probable classes [1]", &o.top, NULL, 1, 1e6),
        CLI_SWITCH(0, "json", "print one JSON object per picture", &o.json),
        CLI_INT(0, "image-size", "N",
                "sides of the pictures in the network [as in the training\nrun; else 224, or 32 "
                "for networks for small images]",
                &o.image_size, &o.size_given, 8, 4096),
        CLI_ARCH("network in the file [read from the file]", &o.arch, &o.arch_given),
        CLI_SWITCH(0, "ema", "use the averaged weights that --ema has saved", &o.ema),
        CLI_AMP("mixed precision [off]", &o.model.amp, NULL),
        CLI_DEVICE(&o.model.device, NULL),
        CLI_INT(0, "threads", "T", "kernel threads [all cores]", &o.model.threads, NULL, 1, 4096),
    };
    const cli_command command = {.name = name,
                                 .operands = "CHECKPOINT IMAGE...",
                                 .summary = summary,
                                 .examples = examples,
                                 .options = options,
                                 .option_count = sizeof options / sizeof *options,
                                 .max_operands = MOST_PICTURES};
    char **operands = calloc(MOST_PICTURES, sizeof *operands);
    int count = 0, code;
    if (!operands)
        return cli_complain("out of memory") ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    code = cli_options_parse(&command, argc, argv, operands, &count);
    if (code < 0 && count < 2)
        code = cli_usage_error(name, "expected CHECKPOINT and one IMAGE or more");
    for (int i = 0; code < 0 && i < count; i++)
        if (!cli_check_readable(name, "", operands[i]))
            code = CLI_EXIT_USAGE;
    if (code < 0) {
        predictor p = {.options = &o};
        code = predict(&p, operands[0], operands + 1, count - 1) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    }
    free(operands);
    return code;
}
