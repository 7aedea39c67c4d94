/*
 * See bf16_gains.h. The limits were measured on a Zen 4, next to oneDNN's kernels.
 *
 * Forward and the gradient of x run at nine tenths of the peak of bf16 dot products there, and
 * leave out the products of padding, which are a third of all for images of 4x4. The f32 algorithms
 * also transform: pixels, which takes longer in comparison where channels are few, and the weights,
 * which takes as long as the products of some tiles. The gradient of the weights runs at a third to
 * four fifths of the peak, and slowest where rows are short.
 */
#include "device/cpu/conv/bf16_gains.h"

enum {
    TAPS = 3,    /* a side of the kernel */
    TILE = 4,    /* a side of a tile of results */
    POINTS = 36, /* products of a tile */
    RATE = 2,    /* of bf16 products to f32 products */

    /* Forward and the gradient of x. */
    SHARE = 97,       /* percent of the time of the products in bf16 that f32 may take */
    CHANNELS = 28,    /* whose products take as long as the transformation of a tile's pixels */
    WEIGHT_TILES = 9, /* whose products take as long as the transformation of the weights */

    /* The gradient of the weights. */
    WEIGHT_SHARE = 80,
    NARROW_COLUMNS = 4, /* oneDNN takes several times as long as its products do on these */

    /* ... with stride 2, where oneDNN sorts columns. */
    STRIDED_COLUMNS = 16,
    FILLED = 90 /* percent of the pixels of tiles that are in the image, at least */
};

/* How many pairs of a result and a tap lie inside the image, along one side. */
static int64_t taps_inside(int64_t results, int64_t pixels, const yki_attrs *attrs)
{
    int64_t inside = 0;
    for (int64_t i = 0; i < results; i++)
        for (int64_t t = 0; t < TAPS; t++) {
            int64_t at = i * attrs->stride[0] + t - attrs->padding[0];
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
    int64_t pairs = x->dims[1] * y->dims[1], channels = x->dims[1] + y->dims[1];
    int64_t count = RATE * products * (tiles + WEIGHT_TILES);
    return 100 * count * (2 * pairs + CHANNELS * channels) <=
           SHARE * yki_direct_products(attrs, x, y) * 2 * pairs;
}

bool yki_weight_gains_over_bf16(const yki_device *device, const yki_attrs *attrs,
                                const yki_operand *x, const yki_operand *dy)
{
    int64_t images = dy->dims[0], rows = dy->dims[2], columns = dy->dims[3];
    int64_t tiles = images * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
    if (!yki_prefers_bf16(device, dy))
        return true;
    if (attrs->stride[0] == 1)
        return columns <= NARROW_COLUMNS ||
               100 * RATE * POINTS * tiles <= WEIGHT_SHARE * yki_direct_products(attrs, x, dy);
    return columns <= STRIDED_COLUMNS &&
           100 * images * rows * columns >= FILLED * TILE * TILE * tiles;
}
