/* See tensor_steps.h. */
#include "data/tensor_steps.h"

#include <math.h>

void yki_byte_tables_fill(yki_byte_tables *tables, const yk_transform_normalize *numbers)
{
    for (int c = 0; c < 3; c++) {
        float mean = numbers ? (float)numbers->mean[c] : 0;
        float std = numbers ? (float)numbers->std[c] : 1;
        for (int byte = 0; byte < 256; byte++) {
            tables->f32[c][byte] = ((float)byte / 255.0f - mean) / std;
            tables->f64[c][byte] = ((double)byte / 255.0 - (double)mean) / (double)std;
        }
    }
}

void yki_to_tensor(const yki_byte_tables *tables, const yki_picture *picture, bool mirrored,
                   bool upside_down, yk_dtype dtype, void *out)
{
    int width = picture->width, height = picture->height, channels = picture->channels;
    int step = mirrored ? -channels : channels;
    float *f32 = out;
    double *f64 = out;
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < height; y++) {
            const uint8_t *from = yki_picture_row(picture, upside_down ? height - 1 - y : y) + c;
            from += mirrored ? (size_t)(width - 1) * (size_t)channels : 0;
            if (dtype == YK_F64)
                for (int x = 0; x < width; x++, from += step)
                    *f64++ = tables->f64[c][*from];
            else
                for (int x = 0; x < width; x++, from += step)
                    *f32++ = tables->f32[c][*from];
        }
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
