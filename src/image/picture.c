/* The memory of pictures. */
#include "image/picture.h"

#include <assert.h>
#include <stdlib.h>

yk_status yki_picture_reserve(yki_picture *picture, int width, int height, int channels)
{
    assert(width > 0 && width <= YKI_PICTURE_SIDE_MAX && height > 0 &&
           height <= YKI_PICTURE_SIDE_MAX && (channels == 1 || channels == 3));
    size_t stride = (size_t)width * (size_t)channels, bytes = stride * (size_t)height;
    if (bytes > picture->capacity) {
        if (picture->capacity)
            free(picture->pixels);
        *picture = (yki_picture){.pixels = malloc(bytes)};
        if (!picture->pixels)
            return yki_error_memory(bytes, "a picture");
        picture->capacity = bytes;
    }
    picture->width = width;
    picture->height = height;
    picture->channels = channels;
    picture->stride = stride;
    return YK_OK;
}

void yki_picture_free(yki_picture *picture)
{
    if (picture->capacity)
        free(picture->pixels);
    *picture = (yki_picture){0};
}
