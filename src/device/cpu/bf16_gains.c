/*
 * See bf16_gains.h. The limits were measured on a Zen 4, next to oneDNN's kernels.
 *
 * Forward and the gradient of x run at nine tenths of the peak of bf16 dot products there, and
 * leave out the products of padding, which are a third of all for images of 4x4. The f32 algorithms
 * also transform, which takes longer in comparison where channels are few, and the weights as well,
 * which takes as long as some tiles. The gradient of the weights runs at a third to four fifths of
 * the peak, most where rows are long.
 */
#include "device/cpu/bf16_gains.h"

enum {
    TAPS = 3,      /* a side of the kernel */
    TILE = 4,      /* a side of a tile of results */
    RATE = 2,      /* of bf16 products to f32 products */
    SHARE = 94,    /* percent of the time of the products in bf16 that f32 may take */
    CHANNELS = 48, /* whose products take as long as the transformation of a tile's pixels */
    FILLED = 90,   /* percent of the pixels of tiles that are in the image, at least */
    LEAST_CHANNELS = 64,
    NARROW_COLUMNS = 8,  /* oneDNN's gradient of the weights is slow on narrower images */
    STRIDED_COLUMNS = 16 /* ... and with stride 2, where it sorts columns, on these */
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

int64_t yki_direct_products(const yki_attrs *attrs, const yki_operand *x, const yki_operand *y)
{
    return y->dims[0] * taps_inside(y->dims[2], x->dims[2], attrs) *
           taps_inside(y->dims[3], x->dims[3], attrs);
}

bool yki_gains_over_bf16(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                         const yki_operand *y, int64_t tiles, int64_t products)
{
    if (!yki_prefers_bf16(device, y))
        return true;
    int64_t channels = x->dims[1] < y->dims[1] ? x->dims[1] : y->dims[1];
    int64_t count = RATE * products * (tiles + YKI_WEIGHT_TILES);
    return channels >= LEAST_CHANNELS && 100 * count * (channels + CHANNELS) <=
                                             SHARE * yki_direct_products(attrs, x, y) * channels;
}

bool yki_weight_gains_over_bf16(const yki_device *device, const yki_attrs *attrs,
                                const yki_operand *dy)
{
    int64_t rows = dy->dims[2], columns = dy->dims[3];
    int64_t down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
    bool fills = 100 * rows * columns >= FILLED * TILE * TILE * down * across;
    if (!yki_prefers_bf16(device, dy))
        return true;
    return attrs->stride == 1 ? columns < NARROW_COLUMNS || fills
                              : columns <= STRIDED_COLUMNS && fills;
}
