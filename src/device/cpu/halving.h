/*
 * The inner loops of 3x3 convolutions of stride 2 and padding 1 by Winograd's algorithm
 * (halving.c). In halving_avx512.c, 16 channels to a vector.
 *
 * In one dimension, result i is w0 x[2i - 1] + w1 x[2i] + w2 x[2i + 1]: a convolution of the odd
 * pixels with two taps, plus the even pixels times w1. Winograd's F(4, 2) computes four results of
 * the first from five pixels with five products instead of eight; the second takes four products.
 * A tile of 4x4 results therefore takes 9x9 products instead of 144. These are the points of the
 * tile. Both gradients have the same form.
 *
 * The weights have six values a side, since the four even pixels share w1, and so 36 matrices in
 * two dimensions. Those of index (i, j) multiply one point of a tile if i and j are less than 5,
 * four if one of them is 5, and sixteen if both are.
 *
 * A slab holds the points of up to 24 tiles in 64 channels: for each of the 36 matrices the rows
 * that it multiplies, (tile, point), of 64 channels each. A cache line lies between matrices:
 * otherwise the stores of one tile would all go to a few sets of the cache. Weights, and the sums
 * of their gradient, are laid out as in winograd.h, with 36 matrices of (64, 64).
 */
#ifndef YKI_HALVING_H
#define YKI_HALVING_H

#include "device/cpu/winograd.h"

enum {
    YKI_HALVING_TILE = 4, /* results that a tile has on each side; of x it has twice as many */
    YKI_HALVING_TILES = 24,
    YKI_HALVING_SINGLE = 5, /* matrices on each side that multiply one point each */
    YKI_HALVING_SHARED = 4, /* points on each side that share the last matrix */
    YKI_HALVING_CLASSES = 6,
    YKI_HALVING_POINTS = 9, /* on each side */
    YKI_HALVING_GAP = 16,   /* floats between matrices */
    YKI_HALVING_SIDE = 64,
    YKI_HALVING_SLAB = 81 * YKI_HALVING_TILES * YKI_HALVING_SIDE + 36 * YKI_HALVING_GAP
};

/* Points of a tile that matrix (i, j) multiplies. */
static inline int64_t yki_halving_points(int i, int j)
{
    return (i == YKI_HALVING_SINGLE ? YKI_HALVING_SHARED : 1) *
           (j == YKI_HALVING_SINGLE ? YKI_HALVING_SHARED : 1);
}

/* Where the rows of matrix (i, j) begin in a slab. */
static inline int64_t yki_halving_offset(int i, int j)
{
    int64_t before = (int64_t)i * YKI_HALVING_POINTS + j * yki_halving_points(i, 0);
    return before * YKI_HALVING_TILES * YKI_HALVING_SIDE +
           (i * YKI_HALVING_CLASSES + j) * YKI_HALVING_GAP;
}

/* A tile, counted in tiles, and its place in the slab. `slab` begins at the channels of the plane.
 */
typedef struct yki_halving_tile {
    int64_t down, across, row;
} yki_halving_tile;

/* The points of x, of which the plane holds 16 channels. */
void yki_halving_data(const yki_winograd_plane *x, const yki_halving_tile *at, float *slab);
/* Results from their points. */
void yki_halving_result(const float *slab, const yki_winograd_plane *y, const yki_halving_tile *at);
/* The points of dy for the weights' gradient. */
void yki_halving_result_gradient(const yki_winograd_plane *dy, const yki_halving_tile *at,
                                 float *slab);
/* The points of dy for the gradient of x, and that gradient from its points. */
void yki_halving_spread_data(const yki_winograd_plane *dy, const yki_halving_tile *at, float *slab);
void yki_halving_spread_result(const float *slab, const yki_winograd_plane *dx,
                               const yki_halving_tile *at);

/* 16 kernels of 3x3, `lane` floats apart, to the 36 matrices, `matrix` floats apart; turned by 180
 * degrees where asked. */
void yki_halving_weight(const float *weight, int64_t lane, bool turned, float *matrices,
                        int64_t matrix);
/* The gradient of 16 kernels from the sums of the 36 matrices. */
void yki_halving_weight_gradient(const float *sums, float *weight, int64_t lane);

#endif
