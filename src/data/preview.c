/*
 * The contact sheet: a row a class with its name in front, each image doubled in size, on a dark
 * ground. Written under a temporary name and renamed, so that nobody sees half a picture.
 */
#define _GNU_SOURCE
#include "data/dataset.h"

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/font.h"
#include "io/atomic_file.h"

enum {
    ZOOM = 2,
    CELL = YKI_IMAGE_SIDE * ZOOM,
    GAP = 6,
    MARGIN = 14,
    COLUMNS = 12,     /* the default */
    MAX_COLUMNS = 256 /* 18,000 pixels wide */
};
static const uint8_t ground[3] = {24, 26, 30}, ink[3] = {214, 218, 224};

typedef struct sheet {
    uint8_t *rgb; /* (height, width, 3) */
    int width, height;
} sheet;

static void set_block(sheet *paper, int x, int y, const uint8_t rgb[3])
{
    for (int dy = 0; dy < ZOOM; dy++)
        for (int dx = 0; dx < ZOOM; dx++)
            memcpy(paper->rgb + 3 * ((size_t)(y + dy) * (size_t)paper->width + (size_t)(x + dx)),
                   rgb, 3);
}

static void draw_text(sheet *paper, int x, int y, const char *text)
{
    for (; *text; text++, x += YKI_FONT_ADVANCE * ZOOM)
        for (int dy = 0; dy < YKI_FONT_HEIGHT; dy++)
            for (int dx = 0; dx < YKI_FONT_WIDTH; dx++)
                if (yki_font_dot(*text, dx, dy))
                    set_block(paper, x + dx * ZOOM, y + dy * ZOOM, ink);
}

static void draw_image(sheet *paper, int x, int y, const uint8_t *pixels)
{
    for (int row = 0; row < YKI_IMAGE_SIDE; row++)
        for (int column = 0; column < YKI_IMAGE_SIDE; column++) {
            const uint8_t *red = pixels + row * YKI_IMAGE_SIDE + column;
            uint8_t rgb[3] = {red[0], red[YKI_IMAGE_PLANE], red[2 * YKI_IMAGE_PLANE]};
            set_block(paper, x + column * ZOOM, y + row * ZOOM, rgb);
        }
}

static int name_width(const yk_dataset *dataset)
{
    size_t longest = 0;
    for (int label = 0; label < YKI_CLASSES; label++) {
        size_t length = strlen(yk_dataset_class_name(dataset, label));
        longest = length > longest ? length : longest;
    }
    return (int)longest * YKI_FONT_ADVANCE * ZOOM;
}

static yk_status draw_sheet(sheet *paper, const yk_dataset *dataset, int columns, int first_x)
{
    for (size_t i = 0; i < (size_t)paper->width * (size_t)paper->height; i++)
        memcpy(paper->rgb + 3 * i, ground, 3);
    for (int label = 0; label < YKI_CLASSES; label++) {
        int y = MARGIN + label * (CELL + GAP);
        draw_text(paper, MARGIN, y + (CELL - YKI_FONT_HEIGHT * ZOOM) / 2,
                  yk_dataset_class_name(dataset, label));
        int column = 0;
        for (int64_t i = 0; i < dataset->count && column < columns; i++) {
            uint8_t pixels[YKI_IMAGE_BYTES];
            if (dataset->images[i].label != label)
                continue;
            YK_TRY(yk_dataset_image(dataset, i, pixels, NULL));
            draw_image(paper, first_x + column++ * (CELL + GAP), y, pixels);
        }
    }
    return YK_OK;
}

static yk_status write_png(const sheet *paper, const char *path)
{
    char temporary[4096];
    YK_TRY(yki_check_replaceable(path));
    if (snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid()) >=
        (int)sizeof temporary)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "%.64s...: a path too long", path);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)paper->width,
                       .height = (png_uint_32)paper->height,
                       .format = PNG_FORMAT_RGB};
    errno = 0;
    if (!png_image_write_to_file(&image, temporary, 0, paper->rgb, 0, NULL)) {
        int error = errno;
        unlink(temporary);
        return yki_error(YK_ERROR_IO, "%s: %s", path, error ? strerror(error) : image.message);
    }
    if (rename(temporary, path) != 0) {
        yki_error(YK_ERROR_IO, "%s: %s", path, strerror(errno));
        unlink(temporary);
        return YK_ERROR_IO;
    }
    return YK_OK;
}

yk_status yk_dataset_preview(const yk_dataset *dataset, const char *png_path, int columns)
{
    if (columns < 0 || columns > MAX_COLUMNS)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "preview: %d columns: expected 0 to %d",
                         columns, MAX_COLUMNS);
    if (!columns)
        columns = COLUMNS;
    int first_x = MARGIN + name_width(dataset) + GAP;
    sheet paper = {.width = first_x + columns * (CELL + GAP) - GAP + MARGIN,
                   .height = 2 * MARGIN + YKI_CLASSES * (CELL + GAP) - GAP};
    size_t bytes = 3 * (size_t)paper.width * (size_t)paper.height;
    paper.rgb = malloc(bytes);
    if (!paper.rgb)
        return yki_error_memory(bytes, "a contact sheet");
    yk_status status = draw_sheet(&paper, dataset, columns, first_x);
    if (status == YK_OK)
        status = write_png(&paper, png_path);
    free(paper.rgb);
    return status;
}
