/*
 * JPEG, through libjpeg-turbo's libjpeg interface, with its default (accurate) arithmetic, which is
 * also Pillow's. A picture can be decoded at 1/2, 1/4 and 1/8 of its size, where the inverse DCT
 * costs accordingly less. Rows above a region and columns on either side of it are decompressed but
 * not transformed; rows below it are not even decompressed.
 *
 * The library reports errors through longjmp. Nothing but the decoder's own memory is held by the
 * functions that it returns to.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "image.h"

/* More scans make a file slow to read for its size; encoders write about ten. */
enum { MAX_SCANS = 200, ROWS_AT_ONCE = 16 };

/* Next to a region, how many columns the smoothing of colours looks at. */
enum { SMOOTHED_COLUMNS = 2 };

/* Where a warning was given. */
typedef enum phase { PHASE_HEADER, PHASE_PIXELS } phase;

typedef struct jpeg_reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    yk_image_decoder *decoder;
    phase phase;
    jmp_buf failed;
} jpeg_reader;

/* ---- the library's calls --------------------------------------------------------------------- */

static jpeg_reader *reader_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

static void report_error(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    jpeg_reader *reader = reader_of(jpeg);
    jpeg->err->format_message(jpeg, text);
    image_error(reader->decoder, "damaged JPEG: %.200s", text);
    longjmp(reader->failed, 1);
}

/* A picture with a single scan is complete even if the file lacks the marker that ends it. */
static int may_end(jpeg_reader *reader)
{
    return reader->phase == PHASE_PIXELS && !jpeg_has_multiple_scans(&reader->jpeg);
}

/*
 * The library repairs what it can and warns. A picture that lacks some of its data is damaged;
 * superfluous bytes and unusual markers do no harm.
 */
static void report_warning(j_common_ptr jpeg, int level)
{
    if (level >= 0)
        return;
    switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
        if (may_end(reader_of(jpeg)))
            return;
        break;
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        break;
    default:
        return;
    }
    report_error(jpeg);
}

static void check_scans(j_common_ptr jpeg)
{
    jpeg_reader *reader = reader_of(jpeg);
    if (reader->jpeg.input_scan_number <= MAX_SCANS)
        return;
    image_error(reader->decoder, "a JPEG with more than %d scans", MAX_SCANS);
    longjmp(reader->failed, 1);
}

static void print_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static const char *create_reader(yk_image_decoder *decoder)
{
    jpeg_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return image_error(decoder, "out of memory (%zu bytes)", sizeof *reader);
    reader->decoder = decoder;
    reader->jpeg.err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = report_error;
    reader->errors.emit_message = report_warning;
    reader->errors.output_message = print_nothing;
    reader->jpeg.client_data = reader;
    if (setjmp(reader->failed)) {
        free(reader);
        return decoder->error;
    }
    jpeg_create_decompress(&reader->jpeg);
    reader->progress.progress_monitor = check_scans;
    reader->jpeg.progress = &reader->progress;
    decoder->jpeg = reader;
    return NULL;
}

/* ---- the header ------------------------------------------------------------------------------ */

static int recognises(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

static const char *open_jpeg(yk_image_decoder *decoder)
{
    const char *wrong = decoder->jpeg ? NULL : create_reader(decoder);
    if (wrong)
        return wrong;
    jpeg_reader *reader = decoder->jpeg;
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    if (setjmp(reader->failed)) {
        jpeg_abort_decompress(jpeg);
        return decoder->error;
    }
    jpeg_abort_decompress(jpeg); /* the picture before may not have been read */
    reader->phase = PHASE_HEADER;
    jpeg_mem_src(jpeg, decoder->bytes, decoder->size);
    jpeg_read_header(jpeg, TRUE);
    wrong = image_check_size(decoder, jpeg->image_width, jpeg->image_height);
    /* A block of 8 x 8 pixels takes one bit at least. */
    if (!wrong && (size_t)decoder->width * (size_t)decoder->height / 512 > decoder->size)
        wrong = image_error(decoder, "damaged JPEG: %zu bytes are too few for %d x %d pixels",
                            decoder->size, decoder->width, decoder->height);
    return wrong;
}

/* ---- the pixels ------------------------------------------------------------------------------ */

/* a * b / 255, rounded: Pillow's MULDIV255. */
static int multiply(int a, int b)
{
    int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/* Turns inverted CMYK, as Adobe's programs write it, into RGB in place, as Pillow does. */
static void convert_cmyk(uint8_t *row, int width)
{
    uint8_t *to = row;
    for (int x = 0; x < width; x++, row += 4, to += 3) {
        int black = row[3];
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)(black - multiply(255 - row[c], black));
    }
}

/* Starts decompression at a reduced size, at the region's first row. Decoded rows begin with column
 * *left; they have jpeg->output_width pixels. */
static void start(struct jpeg_decompress_struct *jpeg, const yk_image_region *region, int reduction,
                  JDIMENSION *left)
{
    bool cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned)reduction;
    jpeg_start_decompress(jpeg);
    JDIMENSION first = (JDIMENSION)region->left, last = first + (JDIMENSION)region->width;
    first = first > SMOOTHED_COLUMNS ? first - SMOOTHED_COLUMNS : 0;
    last =
        last + SMOOTHED_COLUMNS < jpeg->output_width ? last + SMOOTHED_COLUMNS : jpeg->output_width;
    JDIMENSION width = last - first;
    if (width < jpeg->output_width)
        jpeg_crop_scanline(jpeg, &first, &width);
    if (region->top > 0)
        jpeg_skip_scanlines(jpeg, (JDIMENSION)region->top);
    *left = first;
}

static void read_rows(struct jpeg_decompress_struct *jpeg, uint8_t *pixels, size_t stride,
                      int height)
{
    for (int y = 0; y < height;) {
        JSAMPROW rows[ROWS_AT_ONCE];
        int count = height - y < ROWS_AT_ONCE ? height - y : ROWS_AT_ONCE;
        for (int i = 0; i < count; i++)
            rows[i] = pixels + (size_t)(y + i) * stride;
        y += (int)jpeg_read_scanlines(jpeg, rows, (JDIMENSION)count);
    }
}

static const char *read_jpeg(yk_image_decoder *decoder, const yk_image_region *region,
                             int reduction, const uint8_t **pixels, size_t *stride)
{
    jpeg_reader *reader = decoder->jpeg;
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    JDIMENSION left;
    if (setjmp(reader->failed)) {
        jpeg_abort_decompress(jpeg);
        return decoder->error;
    }
    reader->phase = PHASE_PIXELS;
    start(jpeg, region, reduction, &left);
    size_t row_bytes = (size_t)jpeg->output_width * (size_t)jpeg->output_components;
    const char *wrong = image_reserve(decoder, (size_t)region->height, row_bytes);
    if (!wrong) {
        read_rows(jpeg, decoder->pixels, row_bytes, region->height);
        if (jpeg->out_color_space == JCS_CMYK)
            for (int y = 0; y < region->height; y++)
                convert_cmyk(decoder->pixels + (size_t)y * row_bytes, (int)jpeg->output_width);
        *pixels = decoder->pixels + 3 * ((size_t)region->left - left);
        *stride = row_bytes;
    }
    jpeg_abort_decompress(jpeg);
    return wrong;
}

/* ---- the format ------------------------------------------------------------------------------ */

static void destroy_reader(yk_image_decoder *decoder)
{
    if (decoder->jpeg)
        jpeg_destroy_decompress(&decoder->jpeg->jpeg);
    free(decoder->jpeg);
}

#define VERSION_TEXT(number)  VERSION_TEXT_(number)
#define VERSION_TEXT_(number) #number

void jpeg_version(char *text, size_t size)
{
    snprintf(text, size, "libjpeg-turbo %s", VERSION_TEXT(LIBJPEG_TURBO_VERSION));
}

const format jpeg_format = {.name = "JPEG",
                            .max_reduction = 8,
                            .recognises = recognises,
                            .open = open_jpeg,
                            .read = read_jpeg,
                            .destroy = destroy_reader};
