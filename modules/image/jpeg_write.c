/* Encoding JPEG, through libjpeg-turbo's libjpeg interface, with its default arithmetic and 4:2:0,
 * as Pillow's save() does. Errors arrive through longjmp, as in jpeg.c. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "image.h"

enum { MCU = 16, HEADER_BYTES = 2048 }; /* of 4:2:0 */

typedef struct jpeg_writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    yk_image_decoder *decoder;
    jmp_buf failed;
} jpeg_writer;

static void report_error(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    jpeg_writer *writer = jpeg->client_data;
    jpeg->err->format_message(jpeg, text);
    image_error(writer->decoder, "cannot encode a JPEG: %.200s", text);
    longjmp(writer->failed, 1);
}

static void print_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

static const char *create_writer(yk_image_decoder *decoder)
{
    jpeg_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return image_error(decoder, "out of memory (%zu bytes)", sizeof *writer);
    writer->decoder = decoder;
    writer->jpeg.err = jpeg_std_error(&writer->errors);
    writer->errors.error_exit = report_error;
    writer->errors.output_message = print_nothing;
    writer->jpeg.client_data = writer;
    if (setjmp(writer->failed)) {
        free(writer);
        return decoder->error;
    }
    jpeg_create_compress(&writer->jpeg);
    decoder->writer = writer;
    return NULL;
}

/* More bytes than any JPEG of this size has (tjBufSize's bound), so that the library never moves
 * the buffer that it was given. */
static size_t most_bytes(const yk_image_pixels *pixels)
{
    size_t width = ((size_t)pixels->width + MCU - 1) / MCU * MCU;
    size_t height = ((size_t)pixels->height + MCU - 1) / MCU * MCU;
    return 3 * width * height + HEADER_BYTES;
}

static void compress(struct jpeg_compress_struct *jpeg, const yk_image_pixels *pixels, int quality)
{
    jpeg->image_width = (JDIMENSION)pixels->width;
    jpeg->image_height = (JDIMENSION)pixels->height;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = (uint8_t *)(uintptr_t)pixels->pixels + jpeg->next_scanline * pixels->stride;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
}

const char *jpeg_write(yk_image_decoder *decoder, const yk_image_pixels *pixels, int quality,
                       const uint8_t **bytes, size_t *size)
{
    size_t room = most_bytes(pixels);
    const char *wrong = decoder->writer ? NULL : create_writer(decoder);
    if (!wrong)
        wrong = image_reserve(decoder, 1, room);
    if (wrong)
        return wrong;
    jpeg_writer *writer = decoder->writer;
    unsigned char *buffer = decoder->pixels;
    unsigned long length = room;
    if (setjmp(writer->failed)) {
        jpeg_abort_compress(&writer->jpeg);
        return decoder->error;
    }
    jpeg_mem_dest(&writer->jpeg, &buffer, &length);
    compress(&writer->jpeg, pixels, quality);
    *bytes = buffer;
    *size = length;
    return NULL;
}

void jpeg_destroy_writer(yk_image_decoder *decoder)
{
    if (decoder->writer)
        jpeg_destroy_compress(&decoder->writer->jpeg);
    free(decoder->writer);
}
