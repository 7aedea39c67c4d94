/* Encoding PNG, through libpng's simplified interface, which reports errors by return values. */

#include <png.h>

#include "image.h"

const char *png_write(yk_image_decoder *decoder, const yk_image_pixels *pixels,
                      const uint8_t **bytes, size_t *size)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)pixels->width,
                       .height = (png_uint_32)pixels->height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t length = PNG_IMAGE_PNG_SIZE_MAX(image);
    const char *wrong = image_reserve(decoder, 1, length);
    if (wrong)
        return wrong;
    if (!png_image_write_to_memory(&image, decoder->pixels, &length, 0, pixels->pixels,
                                   (png_int_32)pixels->stride, NULL))
        return image_error(decoder, "cannot encode a PNG: %.200s", image.message);
    *bytes = decoder->pixels;
    *size = length;
    return NULL;
}
