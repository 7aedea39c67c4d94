/*
 * What `yoke train --tensorboard` records beside the numbers of metrics.jsonl: the options of the
 * run, the first batch as the network sees it, and the distributions of weights and gradients.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "png_file.h"
#include "setup.h"
#include "train/train.h"

/* ---- hyperparameters ------------------------------------------------------------------------- */

/* Those that every run has, then the options as given, which take precedence. */
static bool write_hyperparameters(const cli_training *t)
{
    const cli_train_options *o = &t->options;
    char lines[sizeof o->kept + 512];
    snprintf(lines, sizeof lines,
             "arch=%s\ndata=%s\noptimizer=%s\nlr=%.9g\nbatch-size=%lld\nseed=%llu\n"
             "amp=%s\nranks=%d\nthreads=%d\n%s",
             o->arch, o->data, cli_choice_name(CLI_OPTIMIZERS, (int)o->optimizer), t->lr,
             (long long)o->batch_size, (unsigned long long)o->model.seed,
             cli_amp_name(o->model.amp), yk_group_size(t->world), t->threads, o->kept);
    return cli_ok(yk_tensorboard_hyperparameters(t->board, lines));
}

/* ---- the first batch ------------------------------------------------------------------------- */

enum { GRID = 8, GAP = 2 }; /* images a row, and rows at most; pixels between them */

typedef struct image_grid {
    const float *pixels; /* (n, channels, height, width), normalised */
    int64_t n, channels, height, width;
    float low[3], scale[3]; /* of each channel, so that values fill 0 to 255 */
} image_grid;

/* Undoes the normalisation as far as it can be seen: a batch has black and white pixels. */
static void find_range(image_grid *g)
{
    int64_t plane = g->height * g->width;
    for (int64_t c = 0; c < g->channels; c++) {
        float low = INFINITY, high = -INFINITY;
        for (int64_t i = 0; i < g->n; i++)
            for (int64_t at = 0; at < plane; at++) {
                float value = g->pixels[(i * g->channels + c) * plane + at];
                low = fminf(low, value);
                high = fmaxf(high, value);
            }
        g->low[c] = low;
        g->scale[c] = high > low ? 255 / (high - low) : 0;
    }
}

static void draw_image(const image_grid *g, int64_t index, uint8_t *rgb, int64_t columns)
{
    int64_t plane = g->height * g->width, x = index % GRID * (g->width + GAP),
            y = index / GRID * (g->height + GAP);
    for (int64_t row = 0; row < g->height; row++)
        for (int64_t column = 0; column < g->width; column++)
            for (int64_t c = 0; c < 3; c++) {
                int64_t from = g->channels == 3 ? c : 0;
                float value =
                    g->pixels[(index * g->channels + from) * plane + row * g->width + column];
                rgb[3 * ((y + row) * columns + x + column) + c] =
                    (uint8_t)((value - g->low[from]) * g->scale[from] + 0.5f);
            }
}

static bool write_grid(const cli_training *t, image_grid *g)
{
    int64_t shown = g->n < GRID * GRID ? g->n : GRID * GRID, columns = shown < GRID ? shown : GRID;
    int64_t width = columns * (g->width + GAP) - GAP,
            height = (shown + GRID - 1) / GRID * (g->height + GAP) - GAP;
    uint8_t *rgb = calloc((size_t)(width * height), 3);
    yk_png png;
    if (!rgb)
        return cli_complain("out of memory");
    find_range(g);
    for (int64_t i = 0; i < shown; i++)
        draw_image(g, i, rgb, width);
    bool encoded = cli_png_encode(&png, rgb, (int)width, (int)height);
    free(rgb);
    if (!encoded)
        return cli_complain("the first batch cannot be encoded as a PNG picture");
    bool written = cli_ok(yk_tensorboard_image(t->board, "batch/first", 0, &png));
    free((void *)png.bytes);
    return written;
}

static bool is_pictures(const yk_tensor *images)
{
    return images->dtype == YK_F32 && images->ndim == 4 && images->dims[0] > 0 &&
           (images->dims[1] == 1 || images->dims[1] == 3);
}

/* Takes a batch from the loader, which then starts again. */
static bool write_first_batch(const cli_training *t)
{
    if (yk_trainer_state(t->trainer)->step > 0 || !cli_png_supported())
        return true;
    const yk_batch *batch = yk_loader_next(t->train);
    if (!batch)
        return cli_ok(yk_loader_status(t->train));
    bool fine = true;
    for (int i = 0; i < batch->count; i++) {
        const yk_tensor *images = &batch->tensors[i];
        if (strcmp(batch->names[i], "images") != 0 || !is_pictures(images))
            continue;
        image_grid grid = {.pixels = images->data,
                           .n = images->dims[0],
                           .channels = images->dims[1],
                           .height = images->dims[2],
                           .width = images->dims[3]};
        fine = write_grid(t, &grid);
    }
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
