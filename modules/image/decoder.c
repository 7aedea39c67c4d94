/* What the formats share of a decoder: its error, its limits and its buffer for pixels. */
#include "image.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *image_error(yk_image_decoder *decoder, const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(decoder->error, sizeof decoder->error, text, arguments);
    va_end(arguments);
    return decoder->error;
}

const char *image_check_size(yk_image_decoder *decoder, unsigned long width, unsigned long height)
{
    if (width < 1 || height < 1 || width > 65535 || height > 65535)
        return image_error(decoder, "a picture of %lu x %lu pixels; sides from 1 to 65535 are read",
                           width, height);
    if (width * height > MAX_PIXELS)
        return image_error(decoder, "a picture of %lu x %lu pixels; at most %d pixels are read",
                           width, height, MAX_PIXELS);
    decoder->width = (int)width;
    decoder->height = (int)height;
    return NULL;
}

const char *image_reserve(yk_image_decoder *decoder, size_t rows, size_t stride)
{
    size_t bytes = rows * stride;
    if (bytes <= decoder->capacity)
        return NULL;
    free(decoder->pixels);
    decoder->pixels = malloc(bytes);
    decoder->capacity = decoder->pixels ? bytes : 0;
    return decoder->pixels ? NULL : image_error(decoder, "out of memory (%zu bytes)", bytes);
}
