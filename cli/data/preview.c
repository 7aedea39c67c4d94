/*
 * See preview.h. Images are shown on a dark background, small ones enlarged to whole multiples of
 * their size, large ones averaged down.
 */
#include "data/preview.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/font.h"
#include "common/png_file.h"
#include "data/info.h"
#include "setup/setup.h"

enum { MAX_CLASSES = 1000, FONT_ZOOM = 2, SMALL_CELL = 64, LARGE_CELL = 128, GAP = 6, MARGIN = 14 };
enum { MAX_HEIGHT = 65500 };                     /* of a PNG: see yk_png_encode */
static const size_t MAX_BYTES = (size_t)1 << 30; /* of the sheet */
static const uint8_t background[3] = {24, 26, 30}, ink[3] = {214, 218, 224};

typedef struct contact_sheet {
    uint8_t *rgb; /* (height, width, 3) */
    int width, height;
    int first_x;       /* left edge of the images, right of the names */
    int columns, cell; /* cell: the side of the square that an image lies in */
} contact_sheet;

static void set_pixel(contact_sheet *sheet, int x, int y, const uint8_t rgb[3])
{
    memcpy(sheet->rgb + 3 * ((size_t)y * (size_t)sheet->width + (size_t)x), rgb, 3);
}

static void draw_text(contact_sheet *sheet, int x, int y, const char *text)
{
    for (; *text; text++) {
        if (!cli_font_begins(*text))
            continue;
        for (int dy = 0; dy < CLI_FONT_HEIGHT * FONT_ZOOM; dy++)
            for (int dx = 0; dx < CLI_FONT_WIDTH * FONT_ZOOM; dx++)
                if (cli_font_dot(*text, dx / FONT_ZOOM, dy / FONT_ZOOM))
                    set_pixel(sheet, x + dx, y + dy, ink);
        x += CLI_FONT_ADVANCE * FONT_ZOOM;
    }
}

static size_t count_characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += cli_font_begins(*text);
    return count;
}

/* The rows or columns of an image, `size` of them, that its shown row or column `at` covers. */
typedef struct span {
    int64_t from, to;
} span;

static span source_span(int64_t size, int64_t shown, int64_t at)
{
    span s = {at * size / shown, (at + 1) * size / shown};
    if (s.to == s.from)
        s.to++;
    return s;
}

/* The mean over rows and columns of one channel, of the plane (height, width). */
static uint8_t mean_of(const uint8_t *plane, int64_t width, span rows, span columns)
{
    uint64_t sum = 0;
    for (int64_t y = rows.from; y < rows.to; y++)
        for (int64_t x = columns.from; x < columns.to; x++)
            sum += plane[y * width + x];
    uint64_t count = (uint64_t)((rows.to - rows.from) * (columns.to - columns.from));
    return (uint8_t)((sum + count / 2) / count);
}

/* The size at which an image of this size is shown in the sheet's cells. */
static void shown_size(const contact_sheet *sheet, int64_t width, int64_t height, int64_t *w,
                       int64_t *h)
{
    int64_t larger = width > height ? width : height;
    int64_t longer = larger > 0 ? larger : 1;
    int64_t zoom = sheet->cell / longer;
    *w = zoom ? zoom * width : (width * sheet->cell + longer - 1) / longer;
    *h = zoom ? zoom * height : (height * sheet->cell + longer - 1) / longer;
}

/* image (C, H, W), in the middle of the cell at (x, y); grey where it has fewer than 3 channels. */
static void draw_image(contact_sheet *sheet, int x, int y, const yk_tensor *image)
{
    int64_t height = image->dims[1], width = image->dims[2], w, h;
    const uint8_t *pixels = image->data;
    if (height < 1 || width < 1)
        return;
    shown_size(sheet, width, height, &w, &h);
    x += (sheet->cell - (int)w) / 2;
    y += (sheet->cell - (int)h) / 2;
    for (int64_t row = 0; row < h; row++)
        for (int64_t column = 0; column < w; column++) {
            span rows = source_span(height, h, row), columns = source_span(width, w, column);
            uint8_t rgb[3];
            for (int64_t c = 0; c < 3; c++)
                rgb[c] = mean_of(pixels + (image->dims[0] < 3 ? 0 : c) * height * width, width,
                                 rows, columns);
            set_pixel(sheet, x + (int)column, y + (int)row, rgb);
        }
}

static int row_y(const contact_sheet *sheet, int64_t row)
{
    return MARGIN + (int)row * (sheet->cell + GAP);
}

static int names_width(const yk_dataset *dataset)
{
    size_t longest = 0;
    for (int64_t label = 0; label < yk_dataset_classes(dataset); label++) {
        size_t length = count_characters(cli_class_text(dataset, label));
        longest = length > longest ? length : longest;
    }
    return (int)longest * CLI_FONT_ADVANCE * FONT_ZOOM;
}

static void draw_names(contact_sheet *sheet, const yk_dataset *dataset)
{
    for (int64_t label = 0; label < yk_dataset_classes(dataset); label++)
        draw_text(sheet, MARGIN,
                  row_y(sheet, label) + (sheet->cell - CLI_FONT_HEIGHT * FONT_ZOOM) / 2,
                  cli_class_text(dataset, label));
}

/* ---- where images come from ------------------------------------------------------------------ */

/* The data set's images in their order: as they are, or transformed. */
typedef struct source {
    int images, labels; /* fields; labels is -1 without classes */
    yk_reader *reader;  /* NULL with transforms */
    yk_loader *loader;  /* of one image a batch; NULL without transforms */
    uint8_t *pixels;    /* of one transformed image */
    yk_field shown;     /* what the images are like */
    bool skip_damaged;
} source;

/* The list without what makes pictures of it unlike those of the data. */
static yk_status without_normalisation(yk_transforms **shown, const char *text)
{
    yk_transforms *all;
    *shown = NULL;
    yk_status status = yk_transforms_parse(&all, text);
    int count = 0, of = yk_transforms_count(all);
    yk_transform_step *steps = calloc((size_t)of + 1, sizeof *steps);
    for (int i = 0; steps && i < of; i++) {
        const yk_transform_step *step = yk_transforms_step(all, i);
        bool mixes = step->kind == YK_TRANSFORM_MIXUP || step->kind == YK_TRANSFORM_CUTMIX ||
                     step->kind == YK_TRANSFORM_ONE_HOT;
        if (step->kind != YK_TRANSFORM_NORMALIZE && !mixes)
            steps[count++] = *step;
    }
    if (status == YK_OK)
        status = steps ? yk_transforms_create(shown, steps, count) : YK_ERROR_OUT_OF_MEMORY;
    free(steps);
    yk_transforms_destroy(all);
    return status;
}

static bool open_loader(source *from, const yk_dataset *dataset, const char *text)
{
    yk_transforms *shown;
    yk_loader_options options = YK_LOADER_OPTIONS_INIT;
    int64_t *dims = from->shown.dims;
    bool fine = cli_ok(without_normalisation(&shown, text)) &&
                cli_ok(yk_transforms_output_size(shown, dims, dims));
    if (fine) {
        options.transforms = yk_transforms_text(shown);
        options.skip_damaged = from->skip_damaged;
        from->pixels = malloc((size_t)(dims[0] * dims[1] * dims[2]));
        fine = from->pixels ? cli_ok(yk_loader_create(&from->loader, dataset, &options))
                            : cli_complain("preview: out of memory");
    }
    yk_transforms_destroy(shown);
    return fine;
}

static bool open_source(source *from, const yk_dataset *dataset, const char *transforms,
                        bool skip_damaged)
{
    int labels = cli_field_index(dataset, "labels");
    *from = (source){.skip_damaged = skip_damaged,
                     .images = cli_field_index(dataset, "images"),
                     .labels = yk_dataset_classes(dataset) > 0 ? labels : -1};
    from->shown = *yk_dataset_field(dataset, from->images);
    return transforms ? open_loader(from, dataset, transforms)
                      : cli_ok(yk_reader_create(&from->reader, dataset));
}

static void close_source(source *from)
{
    yk_reader_destroy(from->reader);
    yk_loader_destroy(from->loader);
    free(from->pixels);
}

/* From a loader's image to the bytes that it was made of. */
static void to_pixels(source *from, yk_tensor *image)
{
    const float *values = image->data;
    for (int64_t at = 0; at < yk_tensor_count(image); at++)
        from->pixels[at] = (uint8_t)(255 * fminf(fmaxf(values[at], 0), 1) + 0.5f);
    *image = (yk_tensor){.data = from->pixels, .dtype = YK_U8, .ndim = 3};
    memcpy(image->dims, from->shown.dims, 3 * sizeof *image->dims);
}

/* The fields of image number i, after i - 1; NULL with YK_OK for one that is left out. A loader
 * replaces it by the next image, which has its own turn. */
static yk_status next_fields(source *from, int64_t i, const yk_tensor **fields)
{
    if (from->loader) {
        int64_t skipped = yk_loader_skipped(from->loader);
        const yk_batch *batch = yk_loader_next(from->loader);
        bool replaced = yk_loader_skipped(from->loader) > skipped;
        *fields = batch && !replaced ? batch->tensors : NULL;
        return yk_loader_status(from->loader);
    }
    yk_status status = yk_reader_read(from->reader, i, fields);
    return cli_data_leave_out(status, from->skip_damaged) ? YK_OK : status;
}

/* Image number i, after i - 1, and its label, 0 without classes and -1 for one that is left out. */
static bool next_image(source *from, int64_t i, yk_tensor *image, int32_t *label)
{
    const yk_tensor *fields;
    if (!cli_ok(next_fields(from, i, &fields)))
        return false;
    *label = -1;
    if (!fields)
        return true;
    *image = fields[from->images];
    *label = from->labels >= 0 ? *(const int32_t *)fields[from->labels].data : 0;
    if (from->loader)
        to_pixels(from, image);
    return true;
}

/* ---- the sheet ------------------------------------------------------------------------------- */

/* Draws images in their order until every row is full. Without classes there is one row. */
static bool draw_images(contact_sheet *sheet, source *from, int64_t images, int64_t rows)
{
    int drawn[MAX_CLASSES] = {0};
    int64_t missing = rows * sheet->columns;
    bool fine = true;
    for (int64_t i = 0; fine && i < images && missing > 0; i++) {
        yk_tensor image;
        int32_t label;
        fine = next_image(from, i, &image, &label);
        if (!fine || label < 0 || label >= rows || drawn[label] == sheet->columns)
            continue;
        draw_image(sheet, sheet->first_x + drawn[label]++ * (sheet->cell + GAP),
                   row_y(sheet, label), &image);
        missing--;
    }
    return fine;
}

/* Cells are small enough for the rows to fit into a PNG. Small images of one size fill theirs
 * exactly. */
static int choose_cell(const yk_field *images, int64_t rows)
{
    int64_t longer = images->dims[1] > images->dims[2] ? images->dims[1] : images->dims[2];
    bool any = images->dims[1] == YK_ANY_SIZE || images->dims[2] == YK_ANY_SIZE;
    bool large = any || longer > SMALL_CELL;
    int64_t most = (MAX_HEIGHT - 2 * MARGIN + GAP) / rows - GAP;
    int64_t cell = large ? LARGE_CELL : SMALL_CELL;
    cell = cell < most ? cell : most;
    return (int)(large || longer > cell ? cell : cell / longer * longer);
}

static bool check_images(const yk_dataset *dataset)
{
    const yk_field *images = yk_dataset_find_field(dataset, "images");
    if (yk_dataset_classes(dataset) > MAX_CLASSES)
        return cli_complain("preview: %lld classes are more than %d",
                            (long long)yk_dataset_classes(dataset), MAX_CLASSES);
    if (!images || images->kind == YK_FIELD_TENSOR)
        return cli_complain("preview: %s has no pictures", yk_dataset_name(dataset));
    return true;
}

static bool write_sheet(source *from, const yk_dataset *dataset, const char *path, int columns)
{
    int64_t rows = yk_dataset_classes(dataset) > 0 ? yk_dataset_classes(dataset) : 1;
    contact_sheet sheet = {.first_x = MARGIN + names_width(dataset) + GAP, .columns = columns};
    sheet.cell = choose_cell(&from->shown, rows);
    sheet.width = sheet.first_x + columns * (sheet.cell + GAP) - GAP + MARGIN;
    sheet.height = row_y(&sheet, rows) - GAP + MARGIN;
    size_t pixels = (size_t)sheet.width * (size_t)sheet.height;
    if (pixels > MAX_BYTES / 3)
        return cli_complain("preview: the picture would have %d x %d pixels: choose fewer columns",
                            sheet.width, sheet.height);
    sheet.rgb = malloc(3 * pixels);
    if (!sheet.rgb)
        return cli_complain("preview: out of memory");
    for (size_t i = 0; i < pixels; i++)
        memcpy(sheet.rgb + 3 * i, background, 3);
    draw_names(&sheet, dataset);
    bool written = draw_images(&sheet, from, yk_dataset_size(dataset), rows) &&
                   cli_png_write(path, sheet.rgb, sheet.width, sheet.height);
    free(sheet.rgb);
    return written;
}

bool cli_preview_write(const yk_dataset *dataset, const char *path, int columns,
                       const char *transforms, bool skip_damaged)
{
    source from;
    if (!check_images(dataset))
        return false;
    bool written = open_source(&from, dataset, transforms, skip_damaged) &&
                   write_sheet(&from, dataset, path, columns);
    close_source(&from);
    return written;
}
