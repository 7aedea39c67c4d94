/* See geometry.h. */
#include "image/geometry.h"

#include <math.h>
#include <string.h>

bool yki_box_is_inside(yki_box box, int width, int height)
{
    return box.left >= 0 && box.top >= 0 && box.width <= width - box.left &&
           box.height <= height - box.top;
}

static int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

yk_status yki_crop(const yki_picture *in, yki_box box, yki_picture *out)
{
    YK_TRY(yki_picture_reserve(out, box.width, box.height, in->channels));
    size_t channels = (size_t)in->channels;
    int left = clamp(-box.left, box.width); /* columns of out that lie before the picture */
    int right = clamp(in->width - box.left, box.width);
    for (int y = 0; y < box.height; y++) {
        uint8_t *row = yki_picture_row(out, y);
        int from = box.top + y;
        if (from < 0 || from >= in->height || left >= right) {
            memset(row, 0, out->stride);
            continue;
        }
        memset(row, 0, (size_t)left * channels);
        memcpy(row + (size_t)left * channels,
               yki_picture_row(in, from) + (size_t)(box.left + left) * channels,
               (size_t)(right - left) * channels);
        memset(row + (size_t)right * channels, 0, (size_t)(box.width - right) * channels);
    }
    return YK_OK;
}

yk_status yki_crop_reflected(const yki_picture *in, yki_box box, yki_picture *out)
{
    YK_TRY(yki_picture_reserve(out, box.width, box.height, in->channels));
    size_t channels = (size_t)in->channels;
    for (int y = 0; y < box.height; y++) {
        const uint8_t *from = yki_picture_row(in, yki_reflected(box.top + y, in->height));
        uint8_t *to = yki_picture_row(out, y);
        for (int x = 0; x < box.width; x++)
            memcpy(to + (size_t)x * channels,
                   from + (size_t)yki_reflected(box.left + x, in->width) * channels, channels);
    }
    return YK_OK;
}

static void mirror(const uint8_t *in, int width, int channels, uint8_t *out)
{
    if (channels == 1) {
        for (int x = 0; x < width; x++)
            out[x] = in[width - 1 - x];
        return;
    }
    size_t pixel = (size_t)channels;
    const uint8_t *from = in + pixel * (size_t)(width - 1);
    if (channels != 3) {
        for (int x = 0; x < width; x++, out += pixel, from -= pixel)
            memcpy(out, from, pixel);
        return;
    }
    for (int x = 0; x < width; x++, out += 3, from -= 3) {
        out[0] = from[0];
        out[1] = from[1];
        out[2] = from[2];
    }
}

yk_status yki_flip(const yki_picture *in, bool mirrored, bool upside_down, yki_picture *out)
{
    YK_TRY(yki_picture_reserve(out, in->width, in->height, in->channels));
    for (int y = 0; y < in->height; y++) {
        const uint8_t *from = yki_picture_row(in, upside_down ? in->height - 1 - y : y);
        if (mirrored)
            mirror(from, in->width, in->channels, yki_picture_row(out, y));
        else
            memcpy(yki_picture_row(out, y), from, out->stride);
    }
    return YK_OK;
}

static int64_t to_fixed(double value)
{
    return (int64_t)floor(value * 65536.0 + 0.5);
}

yk_status yki_affine(const yki_picture *in, const double m[6], yki_picture *out)
{
    YK_TRY(yki_picture_reserve(out, in->width, in->height, in->channels));
    int64_t x_x = to_fixed(m[0]), x_y = to_fixed(m[1]), y_x = to_fixed(m[3]), y_y = to_fixed(m[4]);
    int64_t row_x = to_fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
    int64_t row_y = to_fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    size_t channels = (size_t)in->channels;
    for (int y = 0; y < out->height; y++, row_x += x_y, row_y += y_y) {
        uint8_t *to = yki_picture_row(out, y);
        int64_t at_x = row_x, at_y = row_y;
        for (int x = 0; x < out->width; x++, to += channels, at_x += x_x, at_y += y_x) {
            int64_t from_x = at_x >> 16, from_y = at_y >> 16;
            if (from_x < 0 || from_x >= in->width || from_y < 0 || from_y >= in->height)
                memset(to, 0, channels);
            else
                memcpy(to, yki_picture_row(in, (int)from_y) + (size_t)from_x * channels, channels);
        }
    }
    return YK_OK;
}

/* To 15 decimal places, as Pillow rounds the entries of a rotation. */
static double round15(double value)
{
    return round(value * 1e15) / 1e15;
}

yk_status yki_rotate(const yki_picture *in, double degrees, yki_picture *out)
{
    const double pi = 3.14159265358979323846;
    double angle = -degrees * (pi / 180), x = in->width / 2.0, y = in->height / 2.0;
    double cosine = round15(cos(angle)), sine = round15(sin(angle));
    double m[] = {cosine, sine,   x - cosine * x - sine * y,
                  -sine,  cosine, y + sine * x - cosine * y};
    return yki_affine(in, m, out);
}
