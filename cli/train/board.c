/*
 * What `yoke train --tensorboard` records beside the numbers of metrics.jsonl: the options of the
 * run, the first batch as the network sees it, and the distributions of weights and gradients.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "common/batch_picture.h"
#include "options/options.h"
#include "setup/setup.h"
#include "train/train.h"

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* Those that every run has, then the options as given, which take precedence and name the data. */
static bool write_hyperparameters(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    char lines[sizeof o->kept + 512];
    snprintf(lines, sizeof lines,
             "arch=%s\noptimizer=%s\nlr=%.9g\nbatch-size=%lld\nseed=%llu\n"
             "amp=%s\nranks=%d\nthreads=%d\n%s",
             o->arch, cli_choice_name(CLI_OPTIMIZERS, (int)o->optimizer), t->lr,
             (long long)o->batch_size, (unsigned long long)o->model.seed,
             cli_amp_name(o->model.amp), yk_group_size(t->world), t->threads, o->kept);
    return cli_ok(yk_tensorboard_hyperparameters(t->board, lines));
}

/* ---- the first batch ------------------------------------------------------------------------- */

enum { GRID = 8, GAP = 2 }; /* images a row, and rows at most; pixels between them */

static bool write_grid(const cli_training *t, const yk_tensor *images, const cli_batch_range *range)
{
    int64_t count = images->dims[0] < GRID * GRID ? images->dims[0] : GRID * GRID;
    int64_t columns = count < GRID ? count : GRID, rows = (count + GRID - 1) / GRID;
    int64_t across = images->dims[3] + GAP, down = images->dims[2] + GAP;
    int64_t width = columns * across - GAP, height = rows * down - GAP;
    uint8_t *rgb = calloc((size_t)(width * height), 3);
    yk_png png;
    if (!rgb)
        return cli_complain("out of memory");
    for (int64_t i = 0; i < count; i++)
        cli_batch_picture_draw(rgb, width, i % GRID * across, i / GRID * down, images, i, range);
    yk_status status = yk_png_encode(&png, rgb, (int)width, (int)height);
    free(rgb);
    if (status == YK_OK)
        status = yk_tensorboard_image(t->board, "batch/first", 0, &png);
    yk_png_free(&png);
    return cli_ok(status);
}

/* Images that may be in a device's memory; nothing is drawn of what are no pictures. */
static bool write_images(const cli_training *t, const yk_tensor *images)
{
    cli_batch_range range;
    yk_tensor host = *images;
    host.device = NULL;
    host.data = malloc(yk_tensor_bytes(images) + 1);
    if (!host.data)
        return cli_complain("out of memory");
    bool fine = cli_ok(yk_tensor_read(images, host.data));
    if (fine && cli_batch_range_find(&range, &host))
        fine = write_grid(t, &host, &range);
    free(host.data);
    return fine;
}

/* Takes a batch from the loader, which then starts again. */
static bool write_first_batch(const cli_training *t)
{
    if (yk_trainer_state(t->trainer)->step > 0 || !yk_image_formats())
        return true;
    const yk_batch *batch = yk_loader_next(t->train);
    if (!batch)
        return cli_ok(yk_loader_status(t->train));
    const yk_tensor *images = yk_batch_find(batch, "images");
    bool fine = !images || write_images(t, images);
    return fine && cli_ok(yk_loader_seek(t->train, 0, 0));
}

/* ---- histograms ------------------------------------------------------------------------------ */

static yk_status write_histograms(const cli_training *t, int64_t step)
{
    char tag[256];
    yk_status status = YK_OK;
    for (size_t i = 0; status == YK_OK && i < yk_model_parameter_count(t->model); i++) {
        yk_parameter_view parameter = yk_model_parameter(t->model, i);
        snprintf(tag, sizeof tag, "weights/%s", parameter.name);
        status = yk_tensorboard_histogram(t->board, tag, step, &parameter.value);
        snprintf(tag, sizeof tag, "gradients/%s", parameter.name);
        if (status == YK_OK && parameter.grad.data)
            status = yk_tensorboard_histogram(t->board, tag, step, &parameter.grad);
    }
    return status;
}

/* ---- between the reports --------------------------------------------------------------------- */

bool cli_board_open(cli_training *t)
{
    int64_t step = yk_trainer_state(t->trainer)->step;
    return cli_ok(yk_tensorboard_open(&t->board, t->output, step)) && write_hyperparameters(t) &&
           write_first_batch(t);
}

yk_status cli_board_epoch(const cli_training *t, const yk_epoch_record *record)
{
    yk_status status = yk_tensorboard_epoch(t->board, record);
    return status == YK_OK && t->options.histograms ? write_histograms(t, record->step) : status;
}
