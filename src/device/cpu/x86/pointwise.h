/*
 * The inner loops of 1x1 convolutions with stride 1 (conv_pointwise.c), and of those whose windows
 * do not overlap (conv_patches.c), which pointwise_avx512.c implements. The former are one product
 * of matrices, pixels by channels, the latter one for each tap. These functions read and write
 * activations where they lie, in blocks of 16 channels: a block holds the pixels of an image one
 * after the other.
 */
#ifndef YKI_POINTWISE_H
#define YKI_POINTWISE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    YKI_POINTWISE_LANES = 16,
    YKI_POINTWISE_VECTORS = 4,         /* most vectors of a row of results */
    YKI_POINTWISE_GRADIENT_VECTORS = 3 /* ... of the gradient of the weights */
};

static inline int64_t yki_pointwise_vectors(int64_t channels)
{
    return (channels + YKI_POINTWISE_LANES - 1) / YKI_POINTWISE_LANES;
}

/* The columns of results are divided evenly into groups of at most `most` vectors. */
typedef struct yki_pointwise_columns {
    int64_t first;
    int vectors;
} yki_pointwise_columns;

static inline int64_t yki_pointwise_groups(int64_t channels, int64_t most)
{
    return (yki_pointwise_vectors(channels) + most - 1) / most;
}

static inline yki_pointwise_columns yki_pointwise_group(int64_t channels, int64_t most,
                                                        int64_t group)
{
    const int64_t groups = yki_pointwise_groups(channels, most);
    const int64_t vectors = yki_pointwise_vectors(channels);
    const int64_t begin = vectors * group / groups, end = vectors * (group + 1) / groups;
    return (yki_pointwise_columns){.first = begin * YKI_POINTWISE_LANES,
                                   .vectors = (int)(end - begin)};
}

/* The bias of a group of columns, with zeros for padding channels. */
static inline void yki_pointwise_read_bias(const float *bias, int64_t first, int64_t channels,
                                           float *start)
{
    for (int64_t c = 0; c < YKI_POINTWISE_VECTORS * YKI_POINTWISE_LANES; c++)
        start[c] = bias && first + c < channels ? bias[first + c] : 0;
}

/* Whether at most half of the last vector of so many columns is filled. */
static inline bool yki_pointwise_half(int64_t columns)
{
    int64_t last = columns % YKI_POINTWISE_LANES;
    return last > 0 && last <= YKI_POINTWISE_LANES / 2;
}

/*
 * results (pixels, 16 vectors) = x (pixels, depth) weights (depth, 16 vectors)
 *
 * Neighbouring blocks of 16 channels are `x_block` and `y_block` floats apart. Where the depth is
 * cut into several products, `sums` (pixels, 16 vectors) keeps the results from one to the next.
 */
typedef struct yki_pointwise_product {
    const float *x, *weights;
    const float *next;  /* as many floats as weights, which are prefetched */
    const float *start; /* 16 vectors, added to each row; NULL: continues from the sums */
    float *sums;        /* NULL if there is only one product */
    float *y;           /* NULL: the results stay in the sums */
    int64_t x_block, y_block, pixels, depth;
    int64_t y_step; /* floats from a pixel of y to the next: 16 where they are neighbours */
    int64_t ahead;  /* floats from x to the pixels that are prefetched */
    int vectors;
    bool half;   /* the upper half of the last vector is zero */
    bool stream; /* y is written past the caches */
} yki_pointwise_product;

void yki_pointwise_multiply(const yki_pointwise_product *product);

/*
 * sums (rows, columns) += dy' x, over the same pixels of some images: the gradient of the weights
 * between up to 16 channels of dy, which are one block, and up to 48 of x.
 */
typedef struct yki_pointwise_gradient {
    const float *x, *dy;           /* of the first image */
    const float *next_x, *next_dy; /* one block of 16 channels each, which are prefetched */
    int64_t images, pixels;
    int64_t x_image, dy_image, x_block; /* floats from one to the next */
    float *sums;
    int64_t row; /* floats from one row of sums to the next */
    int rows, columns;
    bool first; /* sums are set rather than added to */
} yki_pointwise_gradient;

void yki_pointwise_add_gradient(const yki_pointwise_gradient *gradient);

/*
 * packed (rows, 16 vectors): number (r, c) is weight[r * row + c * column]; zero from `columns` on.
 */
typedef struct yki_pointwise_weights {
    const float *weight;
    int64_t row, column, rows;
    int columns, vectors;
} yki_pointwise_weights;

void yki_pointwise_pack(const yki_pointwise_weights *weights, float *packed);

#endif
