/*
 * What the formats of this module share: a decoder with one reader per format, and a buffer for
 * pixels that grows to the largest picture.
 *
 * A format's functions return NULL on success, otherwise what is wrong (see image_module.h). Pixels
 * are those that Pillow's convert("RGB") gives: palettes are looked up, alpha is dropped, CMYK is
 * converted as in Pillow, orientation tags and colour profiles are ignored.
 */
#ifndef IMAGE_H
#define IMAGE_H

#include <yoke/image_module.h>

/* Pictures with more pixels are refused, as by Pillow (Image.MAX_IMAGE_PIXELS, twice). */
#define MAX_PIXELS 178956970

/* One format: how its files begin, and its functions, which share a decoder. */
typedef struct format format;

struct yk_image_decoder {
    const format *format; /* of the picture that is open, or NULL */
    const uint8_t *bytes;
    size_t size;
    int width, height;
    struct jpeg_reader *jpeg; /* NULL before the first picture of the format */
    struct png_reader *png;
    struct jpeg_writer *writer; /* NULL before the first picture that is encoded */
    uint8_t *pixels;
    size_t capacity;
    char error[256];
};

struct format {
    const char *name;
    int max_reduction;
    int (*recognises)(const uint8_t *bytes, size_t size);
    /* Sets the decoder's width and height. */
    const char *(*open)(yk_image_decoder *decoder);
    const char *(*read)(yk_image_decoder *decoder, const yk_image_region *region, int reduction,
                        const uint8_t **pixels, size_t *stride);
    void (*destroy)(yk_image_decoder *decoder);
};

extern const format jpeg_format, png_format, webp_format;

/* image_module.h's write_jpeg, and what it keeps. */
const char *jpeg_write(yk_image_decoder *decoder, const yk_image_pixels *pixels, int quality,
                       const uint8_t **bytes, size_t *size);
void jpeg_destroy_writer(yk_image_decoder *decoder);

/* image_module.h's write_png. */
const char *png_write(yk_image_decoder *decoder, const yk_image_pixels *pixels,
                      const uint8_t **bytes, size_t *size);

/* "NAME VERSION" of the library behind a format. */
void jpeg_version(char *text, size_t size);
void png_version(char *text, size_t size);
void webp_version(char *text, size_t size);

/* ---- decoder.c ------------------------------------------------------------------------------- */

/* Writes the decoder's error and returns it. */
const char *image_error(yk_image_decoder *decoder, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
/* Checks the limits of a picture's size. */
const char *image_check_size(yk_image_decoder *decoder, unsigned long width, unsigned long height);
/* Makes sure that the pixel buffer has room for rows * stride bytes. */
const char *image_reserve(yk_image_decoder *decoder, size_t rows, size_t stride);

#endif
