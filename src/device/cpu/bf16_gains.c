/*
 * See bf16_gains.h. The limits were measured on a Zen 4, next to oneDNN's kernels.
 *
 * Forward and the gradient of x run at nine tenths of the peak of bf16 dot products there, and
 * leave out the products of padding, which are a third of all for images of 4x4. The f32 algorithms
 * also transform, so they gain only if their products take much less time. The gradient of the
 * weights runs at a third to two thirds of the peak.
 */
#include "device/cpu/bf16_gains.h"

enum {
    TAPS = 3,          /* a side of the kernel */
    TILE = 4,          /* a side of a tile of results */
    RATE = 2,          /* of bf16 products to f32 products */
    SHARE = 65,        /* percent of the time of the products in bf16 that those in f32 may take */
    LEAST_FILLED = 90, /* percent of the pixels of tiles that are in the image */
    LEAST_CHANNELS = 64,
    NARROW_COLUMNS = 8 /* oneDNN's gradient of the weights is slow on narrower images */
};

/* How many pairs of a result and a tap lie inside the image, along one side. */
static int64_t taps_inside(int64_t results, int64_t pixels, const yki_attrs *attrs)
{
    int64_t inside = 0;
    for (int64_t i = 0; i < results; i++)
        for (int64_t t = 0; t < TAPS; t++) {
            int64_t at = i * attrs->stride + t - attrs->padding;
            inside += at >= 0 && at < pixels;
        }
    return inside;
}

bool yki_gains_over_bf16(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                         const yki_operand *y, int64_t tiles, int64_t products)
{
    if (!yki_prefers_bf16(device, y))
        return true;
    int64_t direct = y->dims[0] * taps_inside(y->dims[2], x->dims[2], attrs) *
                     taps_inside(y->dims[3], x->dims[3], attrs);
    return x->dims[1] >= LEAST_CHANNELS && y->dims[1] >= LEAST_CHANNELS &&
           100 * RATE * products * tiles <= SHARE * direct;
}

bool yki_weight_gains_over_bf16(const yki_device *device, const yki_operand *dy)
{
    int64_t rows = dy->dims[2], columns = dy->dims[3];
    int64_t down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
    return !yki_prefers_bf16(device, dy) || columns < NARROW_COLUMNS ||
           100 * rows * columns >= LEAST_FILLED * TILE * TILE * down * across;
}
