/* See preview.h. Images are shown at twice their size on a dark background. */
#include "preview.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "font.h"
#include "png_file.h"
#include "setup.h"

enum {
    SIDE = 32, /* of an image */
    PLANE = SIDE * SIDE,
    MAX_CLASSES = 1000,
    ZOOM = 2,
    CELL = SIDE * ZOOM,
    GAP = 6,
    MARGIN = 14
};
static const uint8_t background[3] = {24, 26, 30}, ink[3] = {214, 218, 224};

typedef struct contact_sheet {
    uint8_t *rgb; /* (height, width, 3) */
    int width, height;
    int first_x; /* left edge of the images, right of the names */
    int columns;
} contact_sheet;

static void set_block(contact_sheet *sheet, int x, int y, const uint8_t rgb[3])
{
    for (int dy = 0; dy < ZOOM; dy++)
        for (int dx = 0; dx < ZOOM; dx++)
            memcpy(sheet->rgb + 3 * ((size_t)(y + dy) * (size_t)sheet->width + (size_t)(x + dx)),
                   rgb, 3);
}

static void draw_text(contact_sheet *sheet, int x, int y, const char *text)
{
    for (; *text; text++, x += CLI_FONT_ADVANCE * ZOOM)
        for (int dy = 0; dy < CLI_FONT_HEIGHT; dy++)
            for (int dx = 0; dx < CLI_FONT_WIDTH; dx++)
                if (cli_font_dot(*text, dx, dy))
                    set_block(sheet, x + dx * ZOOM, y + dy * ZOOM, ink);
}

/* pixels: (3, 32, 32), red then green then blue. */
static void draw_image(contact_sheet *sheet, int x, int y, const uint8_t *pixels)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            const uint8_t *red = pixels + row * SIDE + column;
            uint8_t rgb[3] = {red[0], red[PLANE], red[2 * PLANE]};
            set_block(sheet, x + column * ZOOM, y + row * ZOOM, rgb);
        }
}

static int row_y(int64_t label)
{
    return MARGIN + (int)label * (CELL + GAP);
}

static int names_width(const yk_dataset *dataset)
{
    size_t longest = 0;
    for (int64_t label = 0; label < yk_dataset_classes(dataset); label++) {
        size_t length = strlen(yk_dataset_class_name(dataset, label));
        longest = length > longest ? length : longest;
    }
    return (int)longest * CLI_FONT_ADVANCE * ZOOM;
}

static void draw_names(contact_sheet *sheet, const yk_dataset *dataset)
{
    for (int64_t label = 0; label < yk_dataset_classes(dataset); label++)
        draw_text(sheet, MARGIN, row_y(label) + (CELL - CLI_FONT_HEIGHT * ZOOM) / 2,
                  yk_dataset_class_name(dataset, label));
}

/* Reads images in their order until every row is full. */
static bool draw_images(contact_sheet *sheet, const yk_dataset *dataset)
{
    int drawn[MAX_CLASSES] = {0};
    int64_t missing = yk_dataset_classes(dataset) * sheet->columns;
    int images = cli_field_index(dataset, "images"), labels = cli_field_index(dataset, "labels");
    yk_reader *reader;
    const yk_tensor *fields;
    bool fine = cli_ok(yk_reader_create(&reader, dataset));
    for (int64_t i = 0; fine && i < yk_dataset_size(dataset) && missing > 0; i++) {
        fine = cli_ok(yk_reader_read(reader, i, &fields));
        int32_t label = fine ? *(const int32_t *)fields[labels].data : 0;
        if (!fine || drawn[label] == sheet->columns)
            continue;
        draw_image(sheet, sheet->first_x + drawn[label]++ * (CELL + GAP), row_y(label),
                   fields[images].data);
        missing--;
    }
    yk_reader_destroy(reader);
    return fine;
}

bool cli_preview_write(const yk_dataset *dataset, const char *path, int columns)
{
    int64_t classes = yk_dataset_classes(dataset);
    if (classes > MAX_CLASSES)
        return cli_complain("preview: %lld classes are more than %d", (long long)classes,
                            MAX_CLASSES);
    contact_sheet sheet = {.first_x = MARGIN + names_width(dataset) + GAP, .columns = columns};
    sheet.width = sheet.first_x + columns * (CELL + GAP) - GAP + MARGIN;
    sheet.height = row_y(classes) - GAP + MARGIN;
    size_t pixels = (size_t)sheet.width * (size_t)sheet.height;
    sheet.rgb = malloc(3 * pixels);
    if (!sheet.rgb)
        return cli_complain("preview: out of memory");
    for (size_t i = 0; i < pixels; i++)
        memcpy(sheet.rgb + 3 * i, background, 3);
    draw_names(&sheet, dataset);
    bool written =
        draw_images(&sheet, dataset) && cli_png_write(path, sheet.rgb, sheet.width, sheet.height);
    free(sheet.rgb);
    return written;
}
