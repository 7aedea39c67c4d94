/* The memory of pictures, and their two layouts. */
#include "image/picture.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "image/planes.h"

yk_status yki_picture_reserve(yki_picture *picture, int width, int height, int channels)
{
    assert(width > 0 && width <= YKI_PICTURE_SIDE_MAX && height > 0 &&
           height <= YKI_PICTURE_SIDE_MAX && channels > 0 && channels <= YKI_PICTURE_CHANNELS_MAX);
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

yki_planes yki_planes_of(const uint8_t *pixels, yki_picture_size size)
{
    size_t width = (size_t)size.width, plane = width * (size_t)size.height;
    return (yki_planes){pixels, size.width, size.height, size.channels, width, plane};
}

yki_planes yki_planes_part(const yki_planes *planes, yki_box box)
{
    yki_planes part = *planes;
    part.pixels += (size_t)box.top * planes->stride + (size_t)box.left;
    part.width = box.width;
    part.height = box.height;
    return part;
}

/* One plane's row -> channel c of interleaved pixels. */
static void put_channel(const uint8_t *plane, int count, int channels, int c, uint8_t *row)
{
    for (int x = 0; x < count; x++)
        row[x * channels + c] = plane[x];
}

yk_status yki_picture_interleave(yki_picture *picture, const yki_planes *planes)
{
    size_t width = (size_t)planes->width, plane = planes->plane;
    const uint8_t *row = planes->pixels;
    YK_TRY(yki_picture_reserve(picture, planes->width, planes->height, planes->channels));
    for (int y = 0; y < planes->height; y++, row += planes->stride)
        if (planes->channels == 3)
            yki_planes_join((const uint8_t *const[]){row, row + plane, row + 2 * plane}, width,
                            yki_picture_row(picture, y));
        else
            for (int c = 0; c < planes->channels; c++)
                put_channel(row + (size_t)c * plane, planes->width, planes->channels, c,
                            yki_picture_row(picture, y));
    return YK_OK;
}

void yki_picture_to_planes(const yki_picture *picture, uint8_t *planes)
{
    size_t width = (size_t)picture->width, plane = width * (size_t)picture->height;
    for (int y = 0; y < picture->height; y++, planes += width) {
        const uint8_t *row = yki_picture_row(picture, y);
        if (picture->channels == 3)
            yki_planes_split(row, width,
                             (uint8_t *const[]){planes, planes + plane, planes + 2 * plane});
        else
            for (int c = 0; c < picture->channels; c++)
                yki_planes_take(row, width, picture->channels, c, planes + (size_t)c * plane);
    }
}

void yki_picture_free(yki_picture *picture)
{
    if (picture->capacity)
        free(picture->pixels);
    *picture = (yki_picture){0};
}
