/* See tensor_steps.h. */
#include "data/transforms/tensor_steps.h"

#include <math.h>
#include <string.h>

#include "image/planes.h"

/* ---- bytes to numbers ----------------------------------------------------------------------- */

/* Pixels that are taken apart at once; they stay in the nearest cache. */
enum { CHUNK = 512 };

/* bytes of one channel -> out, from element `first` on. */
static void to_numbers(const yki_byte_tables *tables, size_t channel, const uint8_t *bytes,
                       size_t count, bool mirrored, yk_dtype dtype, void *out, size_t first)
{
    if (dtype == YK_F64)
        yki_bytes_to_f64(tables, (int)channel, bytes, count, mirrored, (double *)out + first);
    else
        yki_bytes_to_f32(tables, (int)channel, bytes, count, mirrored, (float *)out + first);
}

/* One row of pixels -> the rows at elements at, at + plane, ... of out, one for each channel. */
static void row_of_channels(const yki_byte_tables *tables, const uint8_t *row, size_t width,
                            int channels, bool mirrored, yk_dtype dtype, void *out, size_t at,
                            size_t plane)
{
    uint8_t taken[CHUNK];
    size_t pixel = (size_t)channels;
    for (size_t x = 0; x < width; x += CHUNK) {
        size_t count = width - x < CHUNK ? width - x : CHUNK;
        const uint8_t *from = row + pixel * (mirrored ? width - x - count : x);
        for (int c = 0; c < channels; c++) {
            yki_planes_take(from, count, channels, c, taken);
            to_numbers(tables, (size_t)c, taken, count, mirrored, dtype, out,
                       at + (size_t)c * plane + x);
        }
    }
}

/* The same for RGB, in vectors. */
static void row_to_tensor(const yki_byte_tables *tables, const uint8_t *row, size_t width,
                          bool mirrored, yk_dtype dtype, void *out, size_t at, size_t plane)
{
    uint8_t memory[3][CHUNK], *const planes[] = {memory[0], memory[1], memory[2]};
    for (size_t x = 0; x < width; x += CHUNK) {
        size_t count = width - x < CHUNK ? width - x : CHUNK;
        yki_planes_split(row + 3 * (mirrored ? width - x - count : x), count, planes);
        for (size_t c = 0; c < 3; c++)
            to_numbers(tables, c, memory[c], count, mirrored, dtype, out, at + c * plane + x);
    }
}

void yki_planes_to_tensor(const yki_byte_tables *tables, const yki_planes *planes, bool mirrored,
                          bool upside_down, yk_dtype dtype, void *out)
{
    size_t width = (size_t)planes->width, height = (size_t)planes->height, at = 0;
    for (size_t c = 0; c < (size_t)planes->channels; c++)
        for (size_t y = 0; y < height; y++, at += width) {
            size_t row = upside_down ? height - 1 - y : y;
            to_numbers(tables, c, planes->pixels + c * planes->plane + row * planes->stride, width,
                       mirrored, dtype, out, at);
        }
}

void yki_to_tensor(const yki_byte_tables *tables, const yki_picture *picture, bool mirrored,
                   bool upside_down, yk_dtype dtype, void *out)
{
    size_t width = (size_t)picture->width, plane = width * (size_t)picture->height;
    if (picture->channels == 1) {
        yki_planes only = {picture->pixels, picture->width, picture->height, 1, picture->stride, 0};
        yki_planes_to_tensor(tables, &only, mirrored, upside_down, dtype, out);
        return;
    }
    for (int y = 0; y < picture->height; y++) {
        const uint8_t *row = yki_picture_row(picture, upside_down ? picture->height - 1 - y : y);
        size_t at = (size_t)y * width;
        if (picture->channels == 3)
            row_to_tensor(tables, row, width, mirrored, dtype, out, at, plane);
        else
            row_of_channels(tables, row, width, picture->channels, mirrored, dtype, out, at, plane);
    }
}

/* ---- RandomErasing -------------------------------------------------------------------------- */

/* torchvision's draw: all zeros when none of 10 attempts fits. */
static yki_picture_box draw_box(const yk_transform_random_erasing *step, yki_draws *draws,
                                int width, int height)
{
    double area = (double)width * height, logs[] = {log(step->ratio[0]), log(step->ratio[1])};
    for (int attempt = 0; attempt < 10; attempt++) {
        double erased = area * yki_draw_in(draws, step->scale);
        double aspect = exp(yki_draw_in(draws, logs));
        double h = rint(sqrt(erased * aspect)), w = rint(sqrt(erased / aspect));
        if (h < height && w < width) {
            int top = yki_draw_below(draws, height - (int)h + 1);
            int left = yki_draw_below(draws, width - (int)w + 1);
            return (yki_picture_box){top, left, top + (int)h, left + (int)w, draws->state};
        }
    }
    return (yki_picture_box){0};
}

yki_picture_box yki_draw_erasing(const yk_transform_random_erasing *step, yki_draws draws,
                                 const int64_t dims[3])
{
    return yki_draw_chance(&draws, step->p) ? draw_box(step, &draws, (int)dims[2], (int)dims[1])
                                            : (yki_picture_box){0};
}

yki_picture_erasing yki_erasing_of(const yk_transform_random_erasing *step,
                                   const yk_transform_normalize *numbers)
{
    yki_picture_erasing erasing = {.value = step->value, .random = step->random};
    for (int c = 0; c < YKI_PICTURE_CHANNELS; c++) {
        erasing.mean[c] = numbers ? numbers->mean[c] : 0;
        erasing.std[c] = numbers ? numbers->std[c] : 1;
    }
    return erasing;
}

void yki_erase(const yki_picture_erasing *erasing, const yki_picture_box *box,
               const int64_t dims[3], yk_dtype dtype, void *out)
{
    for (int c = 0; c < dims[0]; c++)
        for (int y = box->top; y < box->bottom; y++)
            for (int x = box->left; x < box->right; x++) {
                double number = yki_picture_erased(erasing, box, c, y, x);
                int64_t at = (c * dims[1] + y) * dims[2] + x;
                if (dtype == YK_F64)
                    ((double *)out)[at] = number;
                else
                    ((float *)out)[at] = (float)number;
            }
}
