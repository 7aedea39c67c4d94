/* See tensor_steps.h. */
#include "data/tensor_steps.h"

#include <math.h>
#include <string.h>

#include "image/planes.h"

/* ---- bytes to numbers ----------------------------------------------------------------------- */

/* Pixels that are taken apart at once; they stay in the nearest cache. */
enum { CHUNK = 512 };

static void reverse(uint8_t *bytes, size_t count)
{
    uint8_t *first = bytes, *last = bytes + count; /* what is not yet reversed */
    for (uint64_t a, b; last - first >= 16; first += 8) {
        last -= 8;
        memcpy(&a, first, sizeof a);
        memcpy(&b, last, sizeof b);
        a = __builtin_bswap64(a);
        b = __builtin_bswap64(b);
        memcpy(first, &b, sizeof b);
        memcpy(last, &a, sizeof a);
    }
    for (; last - first >= 2; first++) {
        uint8_t kept = *first;
        *first = *--last;
        *last = kept;
    }
}

/* One row of pixels -> the row at out + c * plane of each channel c, in elements of dtype. */
static void row_to_tensor(const yki_byte_tables *tables, const yki_picture *picture,
                          const uint8_t *row, bool mirrored, yk_dtype dtype, void *out,
                          size_t plane)
{
    uint8_t memory[3][CHUNK], *const planes[] = {memory[0], memory[1], memory[2]};
    size_t width = (size_t)picture->width, channels = (size_t)picture->channels;
    for (size_t x = 0; x < width; x += CHUNK) {
        size_t count = width - x < CHUNK ? width - x : CHUNK;
        const uint8_t *from = row + channels * (mirrored ? width - x - count : x);
        if (channels == 3)
            yki_planes_split(from, count, planes);
        else
            memcpy(memory[0], from, count);
        for (size_t c = 0; c < channels; c++) {
            if (mirrored)
                reverse(memory[c], count);
            if (dtype == YK_F64)
                yki_bytes_to_f64(tables, (int)c, memory[c], count, (double *)out + c * plane + x);
            else
                yki_bytes_to_f32(tables, (int)c, memory[c], count, (float *)out + c * plane + x);
        }
    }
}

void yki_to_tensor(const yki_byte_tables *tables, const yki_picture *picture, bool mirrored,
                   bool upside_down, yk_dtype dtype, void *out)
{
    size_t row_bytes = (size_t)picture->width * yk_dtype_size(dtype);
    size_t plane = (size_t)picture->width * (size_t)picture->height;
    for (int y = 0; y < picture->height; y++)
        row_to_tensor(tables, picture,
                      yki_picture_row(picture, upside_down ? picture->height - 1 - y : y), mirrored,
                      dtype, (char *)out + (size_t)y * row_bytes, plane);
}

/* ---- RandomErasing -------------------------------------------------------------------------- */

/* torchvision's draw: false when none of 10 attempts fits. */
static bool draw_box(const yk_transform_random_erasing *step, yki_draws *draws, int width,
                     int height, yki_box *box)
{
    double area = (double)width * height, logs[] = {log(step->ratio[0]), log(step->ratio[1])};
    for (int attempt = 0; attempt < 10; attempt++) {
        double erased = area * yki_draw_in(draws, step->scale);
        double aspect = exp(yki_draw_in(draws, logs));
        double h = rint(sqrt(erased * aspect)), w = rint(sqrt(erased / aspect));
        if (h < height && w < width) {
            int top = yki_draw_below(draws, height - (int)h + 1);
            int left = yki_draw_below(draws, width - (int)w + 1);
            *box = (yki_box){left, top, (int)w, (int)h};
            return true;
        }
    }
    return false;
}

void yki_erase(const yk_transform_random_erasing *step, const yk_transform_normalize *numbers,
               yki_draws *draws, const int64_t dims[3], yk_dtype dtype, void *out)
{
    int height = (int)dims[1], width = (int)dims[2];
    yki_box box;
    if (!yki_draw_chance(draws, step->p) || !draw_box(step, draws, width, height, &box))
        return;
    for (int c = 0; c < dims[0]; c++)
        for (int y = box.top; y < box.top + box.height; y++)
            for (int x = box.left; x < box.left + box.width; x++) {
                double value = step->random ? yki_draw_normal(draws) : step->value;
                if (numbers)
                    value = (value - numbers->mean[c]) / numbers->std[c];
                size_t at = ((size_t)c * (size_t)height + (size_t)y) * (size_t)width + (size_t)x;
                if (dtype == YK_F64)
                    ((double *)out)[at] = value;
                else
                    ((float *)out)[at] = (float)value;
            }
}
