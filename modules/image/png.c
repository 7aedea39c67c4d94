/*
 * PNG, through libpng. Rows above a region are decompressed, those below it are not read. The
 * library reports errors through longjmp.
 *
 * Grey of 16 bits is clipped to 255, as Pillow does, although that turns most such pictures white;
 * colours of 16 bits lose their low byte.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "image.h"

/* The most that deflate compresses anything. */
enum { MAX_COMPRESSION = 1032 };

typedef struct png_reader {
    png_structp png; /* NULL when no picture is open: libpng needs a new one for each */
    png_infop info;
    size_t at; /* in the decoder's bytes */
    bool grey16;
} png_reader;

/* ---- the library's calls --------------------------------------------------------------------- */

static void report_error(png_structp png, png_const_charp text)
{
    image_error(png_get_error_ptr(png), "damaged PNG: %.200s", text);
    png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    yk_image_decoder *decoder = png_get_io_ptr(png);
    png_reader *reader = decoder->png;
    if (count > decoder->size - reader->at)
        png_error(png, "the file ends before the picture does");
    memcpy(to, decoder->bytes + reader->at, count);
    reader->at += count;
}

static void close_png(png_reader *reader)
{
    png_destroy_read_struct(&reader->png, &reader->info, NULL);
}

static const char *create_reader(yk_image_decoder *decoder)
{
    if (!decoder->png)
        decoder->png = calloc(1, sizeof *decoder->png);
    png_reader *reader = decoder->png;
    if (!reader)
        return image_error(decoder, "out of memory (%zu bytes)", sizeof *reader);
    close_png(reader); /* the picture before may not have been read */
    reader->at = 0;
    reader->png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, decoder, report_error, ignore_warning);
    reader->info = reader->png ? png_create_info_struct(reader->png) : NULL;
    if (!reader->info) {
        close_png(reader);
        return image_error(decoder, "out of memory for libpng");
    }
    return NULL;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int recognises(const uint8_t *bytes, size_t size)
{
    return size >= 8 && png_sig_cmp(bytes, 0, 8) == 0;
}

/* Has libpng give rows of RGB, or of 16-bit grey, which is converted afterwards. */
static void choose_conversions(png_reader *reader)
{
    png_structp png = reader->png;
    int color = png_get_color_type(png, reader->info), depth = png_get_bit_depth(png, reader->info);
    reader->grey16 = color == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (reader->grey16)
        return;
    if (depth == 16)
        png_set_strip_16(png);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (color == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (!(color & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
}

static const char *check_header(yk_image_decoder *decoder)
{
    const png_reader *reader = decoder->png;
    size_t packed = png_get_rowbytes(reader->png, reader->info);
    const char *wrong = image_check_size(decoder, png_get_image_width(reader->png, reader->info),
                                         png_get_image_height(reader->png, reader->info));
    if (!wrong && packed * (size_t)decoder->height / MAX_COMPRESSION > decoder->size)
        wrong = image_error(decoder, "damaged PNG: %zu bytes are too few for %d x %d pixels",
                            decoder->size, decoder->width, decoder->height);
    return wrong;
}

static const char *open_png(yk_image_decoder *decoder)
{
    const char *wrong = create_reader(decoder);
    if (wrong)
        return wrong;
    png_reader *reader = decoder->png;
    if (setjmp(png_jmpbuf(reader->png))) {
        close_png(reader);
        return decoder->error;
    }
    png_set_user_limits(reader->png, 65535, 65535);
    png_set_chunk_malloc_max(reader->png, 8 << 20);
    /* libpng clears memory for a whole text before it reads it, whatever the limit above. Chunks
     * that do not change pixels are skipped instead. */
    png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(reader->png, decoder, read_bytes);
    png_read_info(reader->png, reader->info);
    wrong = check_header(decoder);
    if (wrong)
        close_png(reader);
    else
        choose_conversions(reader);
    return wrong;
}

/* ---- the pixels ------------------------------------------------------------------------------ */

/* Two bytes a pixel become three in place, from the end. */
static void convert_grey16(uint8_t *row, int width)
{
    for (int x = width - 1; x >= 0; x--) {
        uint8_t grey = row[2 * x] ? 255 : row[2 * x + 1];
        row[3 * x] = row[3 * x + 1] = row[3 * x + 2] = grey;
    }
}

/* Rows of an interlaced picture are complete only after the last pass over all of them. */
static const char *read_interlaced(yk_image_decoder *decoder, int passes, size_t stride)
{
    png_reader *reader = decoder->png;
    const char *wrong = image_reserve(decoder, (size_t)decoder->height, stride);
    for (int pass = 0; !wrong && pass < passes; pass++)
        for (int y = 0; y < decoder->height; y++)
            png_read_row(reader->png, decoder->pixels + (size_t)y * stride, NULL);
    return wrong;
}

static const char *read_in_order(yk_image_decoder *decoder, const yk_image_region *region,
                                 size_t stride)
{
    png_reader *reader = decoder->png;
    const char *wrong = image_reserve(decoder, (size_t)region->height, stride);
    for (int y = 0; !wrong && y < region->top; y++)
        png_read_row(reader->png, decoder->pixels, NULL);
    for (int y = 0; !wrong && y < region->height; y++)
        png_read_row(reader->png, decoder->pixels + (size_t)y * stride, NULL);
    return wrong;
}

static const char *read_png(yk_image_decoder *decoder, const yk_image_region *region, int reduction,
                            const uint8_t **pixels, size_t *stride)
{
    (void)reduction;
    png_reader *reader = decoder->png;
    if (setjmp(png_jmpbuf(reader->png))) {
        close_png(reader);
        return decoder->error;
    }
    int passes = png_set_interlace_handling(reader->png);
    png_read_update_info(reader->png, reader->info);
    size_t row_bytes = 3 * (size_t)decoder->width;
    const char *wrong = passes > 1 ? read_interlaced(decoder, passes, row_bytes)
                                   : read_in_order(decoder, region, row_bytes);
    if (!wrong) {
        uint8_t *first = decoder->pixels + (passes > 1 ? (size_t)region->top * row_bytes : 0);
        for (int y = 0; reader->grey16 && y < region->height; y++)
            convert_grey16(first + (size_t)y * row_bytes, decoder->width);
        *pixels = first + 3 * (size_t)region->left;
        *stride = row_bytes;
    }
    close_png(reader);
    return wrong;
}

/* ---- the format ------------------------------------------------------------------------------ */

static void destroy_reader(yk_image_decoder *decoder)
{
    if (decoder->png)
        close_png(decoder->png);
    free(decoder->png);
}

void png_version(char *text, size_t size)
{
    snprintf(text, size, "libpng %s", png_get_libpng_ver(NULL));
}

const format png_format = {.name = "PNG",
                           .max_reduction = 1,
                           .recognises = recognises,
                           .open = open_png,
                           .read = read_png,
                           .destroy = destroy_reader};
