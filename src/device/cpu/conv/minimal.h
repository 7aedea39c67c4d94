/*
 * The inner loops of 3x3 convolutions with padding 1 by minimal filtering, Winograd's algorithm
 * (minimal.c, minimal_weight.c), for each width of vectors: minimal_avx512.c and minimal_avx2.c
 * compile the bodies in minimal_loops.h.
 *
 * An algorithm cuts the results into tiles of 4x4, transforms the pixels that each tile depends on
 * to points, multiplies points by transformed weights, 36 matrices from input to output channels,
 * and transforms the products back.
 *
 * Stride 1 is F(4x4, 3x3): 6x6 points, and a matrix for each, instead of 144 products.
 *
 * Stride 2: in one dimension, result i is w0 x[2i - 1] + w1 x[2i] + w2 x[2i + 1], a convolution of
 * the odd pixels with two taps plus the even pixels times w1. F(4, 2) computes four results of the
 * first from five pixels with five products instead of eight; the second takes four products. A
 * tile takes 9x9 products instead of 144. The weights have six values a side, since the four even
 * pixels share w1: matrix (i, j) multiplies one point of a tile if i and j are less than 5, four if
 * one of them is 5, and sixteen if both are.
 *
 * Both gradients have the same form.
 *
 * A slab holds the points of some tiles in 64 channels: for each matrix the rows that it
 * multiplies, (tile, point), of 64 channels each. A cache line lies between matrices: otherwise the
 * stores of one tile would all go to a few sets of the cache. The 36 matrices of the weights, and
 * of the sums of their gradient, are (64 input channels, 64 output channels).
 */
#ifndef YKI_MINIMAL_H
#define YKI_MINIMAL_H

#include <stdbool.h>

#include <yoke/tensor.h>

enum {
    YKI_MINIMAL_SIDE = 64,  /* channels that a group has at most */
    YKI_MINIMAL_TILE = 4,   /* results that a tile has on each side */
    YKI_MINIMAL_SINGLE = 5, /* stride 2: matrices on each side that multiply one point each */
    YKI_MINIMAL_SHARED = 4, /* stride 2: points on each side that share the last matrix */
    YKI_MINIMAL_CLASSES = 6,
    YKI_MINIMAL_MATRICES = 36,
    YKI_MINIMAL_GAP = 16,              /* floats between matrices */
    YKI_MINIMAL_MATRIX = 64 * 64 + 16, /* floats from one matrix of weights to the next */
    YKI_MINIMAL_WEIGHTS = 36 * YKI_MINIMAL_MATRIX
};

/* As many channels of one image as a vector has lanes: (rows, columns, lanes), in f32, bf16 or f16;
 * the arithmetic is f32. */
typedef struct yki_minimal_plane {
    void *data;
    yk_dtype dtype;
    int64_t rows, columns;
    const float *bias; /* added to results, unless NULL */
    bool stream;       /* results are written past the caches: f32, aligned to cache lines */
} yki_minimal_plane;

/* A tile, counted in tiles, and its place in the slab. */
typedef struct yki_minimal_tile {
    int64_t down, across, row;
} yki_minimal_tile;

/* To points; `slab` begins at the plane's channels. */
typedef void yki_minimal_to_points(const yki_minimal_plane *plane, const yki_minimal_tile *at,
                                   float *slab);
/* To pixels, as far as they lie in the plane. */
typedef void yki_minimal_to_pixels(const float *slab, const yki_minimal_plane *plane,
                                   const yki_minimal_tile *at);

/* Of a product of matrices whose rows are 64 floats apart: those of c, its columns in vectors, and
 * the numbers that each is a sum of. */
typedef struct yki_minimal_size {
    int64_t rows, vectors, count;
} yki_minimal_size;

typedef struct yki_minimal {
    int lanes, stride;
    int tiles; /* of a slab */
    yki_minimal_to_points *data;
    yki_minimal_to_pixels *result;
    /* Of dy: for the weights' gradient, and for the gradient of x. */
    yki_minimal_to_points *result_gradient, *gradient_data;
    yki_minimal_to_pixels *gradient_result; /* the gradient of x */
    /* Adds the sum of a plane's pixels to as many sums as there are lanes. */
    void (*sum_pixels)(const yki_minimal_plane *plane, float *sums);
    /* `count` kernels of 3x3, at most one for each lane and `lane` floats apart, to the 36
     * matrices, `matrix` floats apart; the other lanes are zero. Turned by 180 degrees where asked.
     */
    void (*weight)(const float *weight, int64_t lane, int64_t count, bool turned, float *matrices,
                   int64_t matrix);
    /* The gradient of such kernels from the sums of the 36 matrices. */
    void (*weight_gradient)(const float *sums, float *weight, int64_t lane, int64_t count);
    /* Adds columns, a multiple of the lanes, of 36 sums to others. */
    void (*add)(const float *sums, int64_t columns, float *to);
    /* c = a b, and c = a' b, added to what is there unless `first`. */
    void (*multiply)(const float *a, const float *b, float *c, yki_minimal_size size, bool first);
    void (*multiply_transposed)(const float *a, const float *b, float *c, yki_minimal_size size,
                                bool first);
} yki_minimal;

extern const yki_minimal yki_minimal_halving_avx512, yki_minimal_halving_avx2,
    yki_minimal_halving_generic;
extern const yki_minimal yki_minimal_winograd_avx512, yki_minimal_winograd_avx2,
    yki_minimal_winograd_generic;

/* Points of a tile that a matrix multiplies. */
static inline int64_t yki_minimal_points(int64_t stride, int64_t matrix)
{
    if (stride == 1)
        return 1;
    int64_t i = matrix / YKI_MINIMAL_CLASSES, j = matrix % YKI_MINIMAL_CLASSES;
    return (i == YKI_MINIMAL_SINGLE ? YKI_MINIMAL_SHARED : 1) *
           (j == YKI_MINIMAL_SINGLE ? YKI_MINIMAL_SHARED : 1);
}

/* Where the rows of a matrix begin in a slab of this many tiles; 36 gives the slab's end. */
static inline int64_t yki_minimal_offset(int64_t stride, int64_t tiles, int64_t matrix)
{
    int64_t before = 0;
    for (int64_t m = 0; m < matrix; m++)
        before += yki_minimal_points(stride, m);
    return before * tiles * YKI_MINIMAL_SIDE + matrix * YKI_MINIMAL_GAP;
}

#endif
