/* The module: recognises formats by their first bytes and calls their functions. */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const format *const formats[] = {&jpeg_format, &png_format, &webp_format};

enum { FORMATS = sizeof formats / sizeof *formats };

static yk_image_decoder *create(void)
{
    return calloc(1, sizeof(yk_image_decoder));
}

static void destroy(yk_image_decoder *decoder)
{
    if (!decoder)
        return;
    for (int i = 0; i < FORMATS; i++)
        formats[i]->destroy(decoder);
    jpeg_destroy_writer(decoder);
    free(decoder->pixels);
    free(decoder);
}

/* ---- formats --------------------------------------------------------------------------------- */

/* Formats that users may well have, and which are not read. */
static const struct {
    const char *name, *start;
} unread_formats[] = {{"a GIF", "GIF8"},  {"a BMP", "BM"},          {"a TIFF", "II*"},
                      {"a TIFF", "MM"},   {"a PPM", "P6"},          {"a PGM", "P5"},
                      {"an SVG", "<svg"}, {"an HTML page", "<htm"}, {"an HTML page", "<!DO"}};

static const char *unknown_format(yk_image_decoder *decoder, const uint8_t *bytes, size_t size)
{
    static const char wanted[] = "JPEG, PNG and WebP are read";
    uint8_t first[4] = {0};
    if (size == 0)
        return image_error(decoder, "empty; %s", wanted);
    for (size_t i = 0; i < sizeof unread_formats / sizeof *unread_formats; i++) {
        size_t length = strlen(unread_formats[i].start);
        if (size >= length && memcmp(bytes, unread_formats[i].start, length) == 0)
            return image_error(decoder, "%s; %s", unread_formats[i].name, wanted);
    }
    memcpy(first, bytes, size < sizeof first ? size : sizeof first);
    return image_error(decoder, "not a picture: it begins with %02x %02x %02x %02x; %s", first[0],
                       first[1], first[2], first[3], wanted);
}

static const char *open_picture(yk_image_decoder *decoder, const uint8_t *bytes, size_t size,
                                yk_image_header *header)
{
    decoder->format = NULL;
    decoder->bytes = bytes;
    decoder->size = size;
    for (int i = 0; i < FORMATS; i++) {
        if (!formats[i]->recognises(bytes, size))
            continue;
        const char *wrong = formats[i]->open(decoder);
        if (wrong)
            return wrong;
        decoder->format = formats[i];
        *header = (yk_image_header){formats[i]->name, decoder->width, decoder->height,
                                    formats[i]->max_reduction};
        return NULL;
    }
    return unknown_format(decoder, bytes, size);
}

static const char *read_picture(yk_image_decoder *decoder, const yk_image_region *region,
                                int reduction, const uint8_t **pixels, size_t *stride)
{
    const format *open = decoder->format;
    decoder->format = NULL;
    if (!open)
        return image_error(decoder, "no picture is open");
    int width = (decoder->width + reduction - 1) / reduction;
    int height = (decoder->height + reduction - 1) / reduction;
    if (reduction < 1 || reduction > open->max_reduction || (reduction & (reduction - 1)) != 0)
        return image_error(decoder, "%s is not reduced by %d", open->name, reduction);
    if (region->left < 0 || region->top < 0 || region->width < 1 || region->height < 1 ||
        region->width > width - region->left || region->height > height - region->top)
        return image_error(decoder, "the region is outside the picture of %d x %d pixels", width,
                           height);
    return open->read(decoder, region, reduction, pixels, stride);
}

/* ---- the table ------------------------------------------------------------------------------- */

static char format_names[128];

__attribute__((constructor)) static void name_formats(void)
{
    char jpeg[40], png[40], webp[40];
    jpeg_version(jpeg, sizeof jpeg);
    png_version(png, sizeof png);
    webp_version(webp, sizeof webp);
    snprintf(format_names, sizeof format_names, "JPEG (%s), PNG (%s), WebP (%s)", jpeg, png, webp);
}

const yk_image_module yk_image_decoders = {
    .version = YK_IMAGE_MODULE_VERSION,
    .size = sizeof(yk_image_module),
    .formats = format_names,
    .create = create,
    .destroy = destroy,
    .open = open_picture,
    .read = read_picture,
    .write_jpeg = jpeg_write,
    .write_png = png_write,
};
