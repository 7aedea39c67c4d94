/* The memory of pictures, and their two layouts. */
#include "image/picture.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static void interleave_row(const uint8_t *const planes[3], int width, uint8_t *restrict row)
{
    for (int x = 0; x < width; x++) {
        row[3 * x] = planes[0][x];
        row[3 * x + 1] = planes[1][x];
        row[3 * x + 2] = planes[2][x];
    }
}

yk_status yki_picture_interleave(yki_picture *picture, const uint8_t *planes, yki_picture_size size)
{
    size_t width = (size_t)size.width, plane = width * (size_t)size.height;
    YK_TRY(yki_picture_reserve(picture, size.width, size.height, size.channels));
    if (size.channels == 1) {
        memcpy(picture->pixels, planes, plane);
        return YK_OK;
    }
    for (size_t y = 0; y < (size_t)size.height; y++) {
        const uint8_t *row = planes + y * width;
        interleave_row((const uint8_t *const[]){row, row + plane, row + 2 * plane}, size.width,
                       yki_picture_row(picture, (int)y));
    }
    return YK_OK;
}

void yki_picture_to_planes(const yki_picture *picture, uint8_t *planes)
{
    size_t channels = (size_t)picture->channels;
    for (size_t c = 0; c < channels; c++)
        for (int y = 0; y < picture->height; y++) {
            const uint8_t *row = yki_picture_row(picture, y);
            for (size_t x = 0; x < (size_t)picture->width; x++)
                *planes++ = row[x * channels + c];
        }
}

void yki_picture_free(yki_picture *picture)
{
    if (picture->capacity)
        free(picture->pixels);
    *picture = (yki_picture){0};
}
