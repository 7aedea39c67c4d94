/* See mistakes.h. */
#define _GNU_SOURCE
#include "report/mistakes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/batch_picture.h"
#include "setup/data_kinds.h"
#include "setup/setup.h"

enum { PATH_SIZE = 4096, BATCH = 128 };

/* What an evaluation needs; released in the opposite order. */
typedef struct evaluation {
    yk_group *world;
    yk_dataset *test;
    yk_model *model;
    yk_loader *loader;
    char checkpoint[PATH_SIZE], data[CLI_DATA_PATH];
} evaluation;

/* Nothing is downloaded for a report: data is looked for where an earlier download put it. */
static bool find_data(evaluation *e, const cli_run *run)
{
    struct stat info;
    const char *detail, *data = run->history->header.data;
    const cli_data_kind *kind = data ? cli_data_kind_of(data, &detail) : NULL;
    if (!data)
        return false;
    snprintf(e->data, sizeof e->data, "%s", data);
    if (!kind)
        return stat(data, &info) == 0 && S_ISDIR(info.st_mode);
    if (!cli_data_is_download(kind, detail))
        return true;
    char path[CLI_DATA_PATH - 64];
    if (yk_download_find(path, sizeof path, kind->name) != YK_OK)
        return false;
    snprintf(e->data, sizeof e->data, "%s:%s", kind->name, path);
    return true;
}

static bool open_data(evaluation *e, const cli_run *run)
{
    int stop_signal;
    const char *split = cli_run_setting(run, "val-split");
    const cli_data_setup setup = {.data = e->data, .val_split = split ? atof(split) : 0};
    return cli_open_data(NULL, &e->test, e->world, &setup, &stop_signal);
}

/* What the run did to images for its own evaluation. */
static bool choose_transforms(cli_transforms *transforms, const evaluation *e, const cli_run *run)
{
    const char *side = cli_run_setting(run, "image-size");
    cli_augment augment = {.preset = cli_run_setting(run, "augment"),
                           .evaluation = cli_run_setting(run, "eval-transforms"),
                           .image_size = side ? atoi(side) : 0};
    return cli_choose_transforms(transforms, &augment, e->test);
}

/* The records of a run may have been changed: its network takes memory only if its checkpoint has
 * weights of this size. */
static bool check_weights(const evaluation *e, const cli_model_setup *setup)
{
    yk_tensor_file *file;
    bool fine = yk_tensor_file_open(&file, e->checkpoint) == YK_OK &&
                cli_check_weights(file, setup) == YK_OK;
    yk_tensor_file_close(file);
    return fine;
}

static bool open_evaluation(evaluation *e, const cli_run *run)
{
    const char *source;
    cli_transforms transforms;
    cli_model_setup setup = {.arch = run->history->header.arch, .options = YK_MODEL_OPTIONS_INIT};
    yk_loader_options loading = YK_LOADER_OPTIONS_INIT;
    loading.batch_size = BATCH;
    loading.exact = true;
    const char *skips = cli_run_setting(run, "skip-damaged");
    loading.skip_damaged = skips && strcmp(skips, "true") == 0;
    setup.options.threads = cli_threads(YK_THREADS_AUTO, 1, &source);
    if (yk_group_init(&e->world, NULL) != YK_OK || !open_data(e, run) ||
        !cli_find_images(&setup.images, e->test) || !choose_transforms(&transforms, e, run) ||
        !cli_apply_transforms(&setup.images, &transforms))
        return false;
    loading.transforms = transforms.eval;
    setup.probabilities = transforms.mixes;
    const char *classes = cli_run_setting(run, "classes");
    setup.classes = classes ? atoll(classes) : yk_dataset_classes(e->test);
    if (!check_weights(e, &setup) || !cli_build_model(&e->model, &setup))
        return false;
    yk_model_eval(e->model);
    return yk_model_load(e->model, e->checkpoint) == YK_OK &&
           yk_loader_create(&e->loader, e->test, &loading) == YK_OK;
}

static void close_evaluation(evaluation *e)
{
    yk_loader_destroy(e->loader);
    yk_model_destroy(e->model);
    yk_dataset_destroy(e->test);
    yk_group_destroy(e->world);
}

/* ---- one batch ------------------------------------------------------------------------------- */

static int64_t largest_of(const float *row, int64_t classes)
{
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        best = row[c] > row[best] ? c : best;
    return best;
}

/* Where training mixes images, labels are probabilities: in evaluation, a single one. */
static int64_t label_of(const yk_tensor *labels, int64_t i)
{
    return labels->ndim == 1
               ? ((const int32_t *)labels->data)[i]
               : largest_of((const float *)labels->data + i * labels->dims[1], labels->dims[1]);
}

/* The class with the largest of the logits, and its probability. */
static int64_t guess_of(const float *logits, int64_t classes, double *confidence)
{
    int64_t best = largest_of(logits, classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - (double)logits[best]);
    *confidence = 1 / sum;
    return best;
}

/* Where a mistake of this confidence goes, the last place being given up for it; NULL where none
 * is less confident. */
static cli_mistake *make_place(cli_mistakes *m, int most, double confidence)
{
    int at = m->count;
    while (at > 0 && m->items[at - 1].confidence < confidence)
        at--;
    if (at == most)
        return NULL;
    if (m->count == most)
        yk_png_free(&m->items[--m->count].png);
    memmove(&m->items[at + 1], &m->items[at], (size_t)(m->count - at) * sizeof *m->items);
    m->count++;
    m->items[at] = (cli_mistake){.confidence = confidence};
    return &m->items[at];
}

static void copy_name(char name[64], const yk_dataset *dataset, int64_t label)
{
    const char *known = yk_dataset_class_name(dataset, label);
    if (known)
        snprintf(name, 64, "%s", known);
    else
        snprintf(name, 64, "class %lld", (long long)label);
}

static bool keep_mistakes(cli_mistakes *m, int most, const evaluation *e, const yk_batch *batch,
                          int64_t *wrong)
{
    yk_tensor logits;
    const yk_tensor *images = yk_batch_find(batch, "images"),
                    *labels = yk_batch_find(batch, "labels");
    cli_batch_range range;
    if (yk_model_output(e->model, &logits) != YK_OK || logits.dtype != YK_F32 || !labels)
        return false;
    if (!cli_batch_range_find(&range, images)) {
        yk_set_error(YK_ERROR_UNSUPPORTED, "its data are not pictures of 1 or 3 channels");
        return false;
    }
    for (int64_t i = 0; i < batch->size; i++) {
        double confidence;
        int64_t label = label_of(labels, i);
        int64_t guess =
            guess_of((const float *)logits.data + i * logits.dims[1], logits.dims[1], &confidence);
        *wrong += guess != label;
        cli_mistake *place = guess != label ? make_place(m, most, confidence) : NULL;
        if (!place)
            continue;
        copy_name(place->truth, e->test, label);
        copy_name(place->guess, e->test, guess);
        yk_dataset_sample_name(e->test, batch->indices[i], place->name, sizeof place->name);
        if (!cli_batch_picture_encode(&place->png, images, i, &range))
            return false;
    }
    return true;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool evaluate(cli_mistakes *m, int most, const evaluation *e)
{
    const yk_batch *batch;
    int64_t wrong = 0, all = 0;
    while ((batch = yk_loader_next(e->loader))) {
        if (yk_model_forward(e->model, batch) != YK_OK || !keep_mistakes(m, most, e, batch, &wrong))
            return false;
        all += batch->size;
    }
    const char *slash = strrchr(e->checkpoint, '/');
    snprintf(m->note, sizeof m->note, "%s classifies %lld of %lld test images wrongly%s.",
             slash ? slash + 1 : e->checkpoint, (long long)wrong, (long long)all,
             wrong > m->count ? "; these are the ones it was most certain of" : "");
    return yk_loader_status(e->loader) == YK_OK;
}

void cli_mistakes_find(cli_mistakes *mistakes, const cli_run *run, int most)
{
    evaluation e = {.world = NULL};
    const char *trouble = NULL;
    mistakes->count = 0;
    if (!yk_image_formats())
        trouble = cli_reason();
    else if (yk_checkpoint_dir_latest(run->folder, e.checkpoint, sizeof e.checkpoint) != YK_OK)
        trouble = "the run has no checkpoint";
    else if (!find_data(&e, run))
        trouble = "its data is not here";
    else if (!open_evaluation(&e, run) || !evaluate(mistakes, most, &e))
        trouble = *yk_last_error() ? cli_reason() : "its network cannot be evaluated";
    if (trouble) {
        snprintf(mistakes->note, sizeof mistakes->note, "No pictures: %s.", trouble);
        cli_mistakes_release(mistakes); /* those before the trouble */
    }
    close_evaluation(&e);
}

void cli_mistakes_release(cli_mistakes *mistakes)
{
    for (int i = 0; i < mistakes->count; i++)
        yk_png_free(&mistakes->items[i].png);
    mistakes->count = 0;
}
