/* See batch_picture.h. */
#include "common/batch_picture.h"

#include <math.h>
#include <stdlib.h>

static bool is_pictures(const yk_tensor *images)
{
    return images && images->dtype == YK_F32 && images->ndim == 4 && images->dims[0] > 0 &&
           (images->dims[1] == 1 || images->dims[1] == 3);
}

bool cli_batch_range_find(cli_batch_range *range, const yk_tensor *images)
{
    if (!is_pictures(images))
        return false;
    int64_t channels = images->dims[1], plane = images->dims[2] * images->dims[3];
    for (int64_t c = 0; c < channels; c++) {
        float low = INFINITY, high = -INFINITY;
        for (int64_t i = 0; i < images->dims[0]; i++) {
            const float *values = (const float *)images->data + (i * channels + c) * plane;
            for (int64_t at = 0; at < plane; at++) {
                bool counts = isfinite(values[at]);
                low = counts && values[at] < low ? values[at] : low;
                high = counts && values[at] > high ? values[at] : high;
            }
        }
        range->low[c] = low;
        range->scale[c] = high > low ? 255 / (high - low) : 0;
    }
    return true;
}

/* 0 for NaN; what is infinite is as dark or bright as can be. */
static uint8_t brightness_of(float value, float low, float scale)
{
    return (uint8_t)(fminf(fmaxf((value - low) * scale, 0), 255) + 0.5f);
}

void cli_batch_picture_draw(uint8_t *rgb, int64_t columns, int64_t x, int64_t y,
                            const yk_tensor *images, int64_t index, const cli_batch_range *range)
{
    int64_t channels = images->dims[1], height = images->dims[2], width = images->dims[3];
    const float *values = (const float *)images->data + index * channels * height * width;
    for (int64_t row = 0; row < height; row++)
        for (int64_t column = 0; column < width; column++)
            for (int64_t c = 0; c < 3; c++) {
                int64_t from = channels == 3 ? c : 0;
                float value = values[(from * height + row) * width + column];
                rgb[3 * ((y + row) * columns + x + column) + c] =
                    brightness_of(value, range->low[from], range->scale[from]);
            }
}

bool cli_batch_picture_encode(yk_png *png, const yk_tensor *images, int64_t index,
                              const cli_batch_range *range)
{
    int64_t height = images->dims[2], width = images->dims[3];
    uint8_t *rgb = malloc((size_t)(3 * height * width));
    *png = (yk_png){.size = 0};
    if (!rgb)
        return false;
    cli_batch_picture_draw(rgb, width, 0, 0, images, index, range);
    bool encoded = yk_png_encode(png, rgb, (int)width, (int)height) == YK_OK;
    free(rgb);
    return encoded;
}
