/* `yoke predict`: the classes of pictures, by a trained network. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "common/json.h"
#include "common/terminal.h"
#include "options/options.h"
#include "options/paths.h"
#include "setup/setup.h"

enum { MOST_PICTURES = 65536, BATCH = 32, LEAST_ROOM = 1 << 16, MOST_BYTES = 1 << 30 };

static const char summary[] =
    "Prints the most probable classes of each IMAGE, a JPEG, PNG or WebP file. CHECKPOINT is a\n"
    ".pth file written by yoke or PyTorch, a safetensors file, or the output folder of a training\n"
    "run, whose newest checkpoint is then used. Files written by yoke record their network, the\n"
    "names of the classes, and how pictures are transformed in evaluation, as they are here.\n"
    "Damaged pictures are reported and skipped, and so are those for which the network computes\n"
    "something that is not finite (NaN); the exit status is then 1.";

static const char examples[] = "  yoke predict runs/a cat.jpg dog.png\n"
                               "  yoke predict --top 5 --json resnet50.pth *.jpg | jq .";

typedef struct predict_options {
    const char *arch; /* NULL: the file's */
    yk_model_options model;
    int64_t image_size; /* 0: that of the training run */
    int64_t top;
    bool json, ema;
} predict_options;

/* ---- the pictures, as a data set ------------------------------------------------------------- */

typedef struct pictures {
    char **paths;
} pictures;

/* All that a file or a pipe holds, in *bytes, to be freed. */
static yk_status read_whole(FILE *file, uint8_t **bytes, size_t *size)
{
    size_t room = 0;
    *bytes = NULL;
    *size = 0;
    while (*size == room && room < MOST_BYTES) {
        room = room ? 2 * room : LEAST_ROOM;
        uint8_t *larger = realloc(*bytes, room);
        if (!larger)
            return yk_set_error(YK_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes", room);
        *bytes = larger;
        *size += fread(*bytes + *size, 1, room - *size, file);
    }
    if (ferror(file))
        return yk_set_error(YK_ERROR_IO, "%s", strerror(errno));
    if (*size == 0)
        return yk_set_error(YK_ERROR_FORMAT, "the file is empty");
    return *size < MOST_BYTES ? YK_OK : yk_set_error(YK_ERROR_FORMAT, "it has 1 GiB or more");
}

static yk_status read_file(FILE *file, yk_field_buffer *buffer)
{
    uint8_t *bytes;
    size_t size;
    yk_status status = read_whole(file, &bytes, &size);
    void *room = bytes && status == YK_OK ? yk_field_buffer_reserve(buffer, size) : NULL;
    if (room) /* otherwise the library reports it */
        memcpy(room, bytes, size);
    free(bytes);
    return status;
}

static yk_status read_picture(void *data, void *worker, int64_t index, yk_field_buffer *buffers)
{
    const char *path = ((pictures *)data)->paths[index];
    (void)worker;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return yk_set_error(YK_ERROR_IO, "%s", strerror(errno));
    yk_status status = read_file(file, buffers);
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

/* ---- the answers ----------------------------------------------------------------------------- */

/* In place: logits become probabilities; NaN where they are not finite. */
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

/* Whether the row has probabilities. */
static bool is_answer(const float *row, int64_t classes)
{
    for (int64_t c = 0; c < classes; c++)
        if (!isfinite(row[c]))
            return false;
    return true;
}

static void print_as_text(const cli_trained *t, const char *path, float *row, int64_t top)
{
    cli_print_name(stdout, path);
    putchar(':');
    for (int64_t i = 0; i < top; i++) {
        double probability;
        int64_t class = take_largest(row, t->classes, &probability);
        fputs(i ? ", " : " ", stdout);
        if (t->info && t->info->class_names)
            cli_print_name(stdout, t->info->class_names[class]);
        else
            printf("class %lld", (long long)class);
        printf(" %.2f %%", 100 * probability);
    }
    printf("\n");
}

static void print_as_json(const cli_trained *t, const char *path, float *row, int64_t top)
{
    printf("{\"file\": ");
    cli_json_string(stdout, path);
    printf(", \"predictions\": [");
    for (int64_t i = 0; i < top; i++) {
        double probability;
        int64_t class = take_largest(row, t->classes, &probability);
        printf("%s{\"class\": %lld", i ? ", " : "", (long long)class);
        if (t->info && t->info->class_names) {
            printf(", \"name\": ");
            cli_json_string(stdout, t->info->class_names[class]);
        }
        printf(", \"probability\": %.6g}", probability);
    }
    printf("]}\n");
}

/* Prints what the batch's pictures are, and counts those of which the network has nothing to say.
 * They come in order; where one is damaged, the loader has warned of it and put another one into
 * its place. */
static bool predict_batch(const predict_options *o, const cli_trained *t, const yk_batch *batch,
                          int64_t first, char **paths, int64_t *unanswered)
{
    yk_tensor logits;
    int64_t top = o->top < t->classes ? o->top : t->classes;
    if (!cli_ok(yk_model_forward(t->model, batch)) || !cli_ok(yk_model_output(t->model, &logits)))
        return false;
    for (int64_t i = 0; i < batch->size; i++) {
        float *row = (float *)logits.data + i * t->classes;
        if (batch->indices[i] != first + i)
            continue;
        softmax(row, t->classes);
        if (is_answer(row, t->classes)) {
            (o->json ? print_as_json : print_as_text)(t, paths[first + i], row, top);
        } else {
            cli_complain("%s: the network's answer is not finite: left out", paths[first + i]);
            ++*unanswered;
        }
    }
    return true;
}

/* What is wrong with the only picture, without its number. */
static bool complain_of_picture(void)
{
    static const char number[] = "sample 0, ";
    const char *reason = cli_reason(), *found = strstr(reason, number);
    return cli_complain("%s", found ? found + sizeof number - 1 : reason);
}

/* The loader gives up where none can be read, or a thousand in a row cannot; each has been named.
 */
static bool complain_of_all(int count)
{
    enum { MOST_IN_A_ROW = 1000 };
    return count > MOST_IN_A_ROW
               ? cli_complain("%d pictures in a row could not be read: stopped", MOST_IN_A_ROW)
               : cli_complain("none of %d pictures could be read", count);
}

/* Of `count` pictures; one alone has been named. */
static bool complain_of_some(int64_t some, int count, const char *what)
{
    return count > 1 ? cli_complain("%lld of %d pictures %s", (long long)some, count, what) : false;
}

/* Damaged pictures, and those without an answer, are left out; false if there are any. */
static bool predict_all(const predict_options *o, const cli_trained *t, const yk_dataset *dataset,
                        char **paths, int count)
{
    yk_loader *loader;
    const yk_batch *batch;
    int64_t done = 0, unanswered = 0;
    bool fine = true;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    options.batch_size = count < BATCH ? count : BATCH;
    options.exact = true;
    options.transforms = t->transforms;
    options.skip_damaged = count > 1;
    if (!cli_ok(yk_loader_create(&loader, dataset, &options)))
        return false;
    for (; fine && (batch = yk_loader_next(loader)); done += batch->size)
        fine = predict_batch(o, t, batch, done, paths, &unanswered);
    yk_status ended = yk_loader_status(loader);
    if (fine && ended != YK_OK)
        fine = count > 1 && yk_sample_is_damaged(ended) ? complain_of_all(count)
                                                        : complain_of_picture();
    int64_t damaged = yk_loader_skipped(loader);
    if (fine && damaged > 0)
        fine = complain_of_some(damaged, count, "could not be read");
    if (unanswered > 0)
        fine = complain_of_some(unanswered, count, "have no answer that is finite");
    yk_loader_destroy(loader);
    return fine;
}

/* Pictures in files are brought to one channel or to three. */
static bool takes_pictures(const cli_trained *t)
{
    if (!cli_check_pictures(t->path, t->info))
        return false;
    return t->size[0] == 1 || t->size[0] == 3 ||
           cli_complain("%s: a network for images of %lld channels; pictures have 1 or 3", t->path,
                        (long long)t->size[0]);
}

static bool predict(const predict_options *o, const char *checkpoint, char **paths, int count)
{
    pictures all = {paths};
    cli_trained trained;
    yk_dataset *dataset = NULL;
    bool fine = cli_trained_open(&trained, checkpoint, o->arch, o->image_size) &&
                takes_pictures(&trained) && cli_trained_load(&trained, &o->model, o->ema) &&
                open_pictures(&dataset, &all, count) &&
                predict_all(o, &trained, dataset, paths, count);
    yk_dataset_destroy(dataset);
    cli_trained_close(&trained);
    return fine;
}

/* A folder is not. */
static bool is_picture(const char *name, const char *path)
{
    struct stat info;
    if (stat(path, &info) || !S_ISDIR(info.st_mode))
        return true;
    cli_usage_error(name, "%s: is a folder: name the pictures in it", path);
    return false;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Returns -1, or the exit code of a usage error. */
static int check_predict_options(const char *name, const predict_options *o, char **operands,
                                 int count)
{
    if (count < 2)
        return cli_usage_error(name, "expected CHECKPOINT and one IMAGE or more");
    for (int i = 0; i < count; i++)
        if (!cli_check_readable(name, "", operands[i]) || (i && !is_picture(name, operands[i])))
            return CLI_EXIT_USAGE;
    return cli_check_model_options(name, &o->model) ? -1 : CLI_EXIT_USAGE;
}

int cli_cmd_predict(const char *name, int argc, char **argv)
{
    predict_options o = {.model = YK_MODEL_OPTIONS_INIT, .top = 1};
    const cli_option options[] = {
        CLI_INT(0, "top", "K", "print the K most probable classes [1]", &o.top, NULL, 1, 1e6),
        CLI_SWITCH(0, "json", "print one JSON object per picture", &o.json),
        CLI_INT(0, "image-size", "N",
                "sides of the pictures in the network [as in the training\nrun; else 224, or 32 "
                "for networks for small images]",
                &o.image_size, NULL, 8, 4096),
        CLI_ARCH("network in the file [read from the file]", &o.arch, NULL),
        CLI_SWITCH(0, "ema", "use the averaged weights that --ema has saved", &o.ema),
        CLI_AMP("mixed precision [off]", &o.model.amp, NULL),
        CLI_DEVICE(&o.model.device, NULL),
        CLI_INT(0, "threads", "T", "kernel threads [all cores]", &o.model.threads, NULL, 1,
                CLI_MAX_THREADS),
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
    if (code < 0)
        code = check_predict_options(name, &o, operands, count);
    if (code < 0)
        code = predict(&o, operands[0], operands + 1, count - 1) ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    free(operands);
    return code;
}
