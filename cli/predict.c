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
    "names of the classes and how images are normalised.";

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
    char path[PATH_SIZE], transforms[256];
    const char *arch;
    int64_t classes, side;
    yk_tensor_file *file; /* kept open for the names of the classes */
    const yk_model_info *info;
    yk_model *model;
} predictor;

static int64_t usual_side(const char *arch)
{
    bool small = strcmp(arch, "mlp") == 0 || strcmp(arch, "resnet9") == 0 || strstr(arch, "cifar");
    return small ? 32 : 224;
}

/* Large pictures are cut out of slightly larger ones, as in torchvision's evaluation. */
static void choose_transforms(predictor *p)
{
    const yk_model_info *info = p->info;
    long long side = p->side, resized = side >= 64 ? side * 256 / 224 : side;
    int length = snprintf(p->transforms, sizeof p->transforms, "Resize(%lld),CenterCrop(%lld),",
                          resized, side);
    char *at = p->transforms + length;
    size_t room = sizeof p->transforms - (size_t)length;
    if (info && info->channels == 3 && info->mean && info->std)
        snprintf(at, room, "Normalize((%.9g,%.9g,%.9g),(%.9g,%.9g,%.9g))", (double)info->mean[0],
                 (double)info->mean[1], (double)info->mean[2], (double)info->std[0],
                 (double)info->std[1], (double)info->std[2]);
    else
        snprintf(at, room, "Normalize(%s)", side >= 64 ? "imagenet" : "cifar10");
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
    p->side = p->options->size_given ? p->options->image_size : usual_side(p->arch);
    choose_transforms(p);
    return true;
}

static bool make_predictor(predictor *p, const char *checkpoint)
{
    const char *source;
    if (!cli_find_checkpoint(p->path, sizeof p->path, checkpoint) || !read_description(p))
        return false;
    cli_model_setup setup = {.arch = p->arch,
                             .options = p->options->model,
                             .classes = p->classes,
                             .images = {"images", YK_FIELD_IMAGE, YK_U8, 3, {3, p->side, p->side}}};
    setup.options.threads = cli_threads(p->options->model.threads, 1, &source);
    if (!cli_build_model(&p->model, &setup))
        return false;
    yk_model_eval(p->model);
    return cli_ok((p->options->ema ? yk_model_load_ema : yk_model_load)(p->model, p->path));
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

static bool predict_batch(const predictor *p, const yk_batch *batch, char **paths)
{
    yk_tensor logits;
    int64_t top = p->options->top < p->classes ? p->options->top : p->classes;
    if (!cli_ok(yk_model_forward(p->model, batch)) || !cli_ok(yk_model_output(p->model, &logits)))
        return false;
    for (int64_t i = 0; i < batch->size; i++) {
        float *row = (float *)logits.data + i * p->classes;
        softmax(row, p->classes);
        (p->options->json ? print_as_json : print_as_text)(p, paths[batch->indices[i]], row, top);
    }
    return true;
}

static bool predict(predictor *p, const char *checkpoint, char **paths, int count)
{
    pictures all = {paths};
    yk_dataset *dataset = NULL;
    yk_loader *loader = NULL;
    const yk_batch *batch;
    bool fine = make_predictor(p, checkpoint) && open_pictures(&dataset, &all, count);
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.batch_size = count < BATCH ? count : BATCH;
    options.exact = true;
    options.transforms = p->transforms;
    fine = fine && cli_ok(yk_loader_create(&loader, dataset, &options));
    while (fine && (batch = yk_loader_next(loader)))
        fine = predict_batch(p, batch, paths);
    fine = fine && cli_ok(yk_loader_status(loader));
    yk_loader_destroy(loader);
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
                "sides of the pictures in the network [224; 32 for\nnetworks for small images]",
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
