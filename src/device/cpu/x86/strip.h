/*
 * The inner loops of conv_strips.c, which strip_avx512.c implements, for channels in blocks of 16.
 * Forward, in f32, is a product of strips, which are up to 14 neighbouring results of an image, and
 * the weights of 32 output channels.
 */
#ifndef YKI_STRIP_H
#define YKI_STRIP_H

#include <stdbool.h>
#include <stdint.h>

#include <yoke/tensor.h>

enum {
    YKI_STRIP = 14,       /* results; with those of 32 channels, 28 of the 32 registers */
    YKI_STRIP_LANES = 16, /* channels of a block */
    YKI_STRIP_OUT = 32,   /* output channels of a product */
    YKI_STRIP_TAPS = 9,
    YKI_STRIP_DY_BLOCKS = 2 /* at most, of a gradient */
};

/* Neighbouring results of an image, and the pixel that each reads for the first tap. */
typedef struct yki_strip {
    int count;
    int32_t down[YKI_STRIP_LANES], across[YKI_STRIP_LANES];
} yki_strip;

/* The blocks of an image that are read. */
typedef struct yki_strip_image {
    const float *x;
    int32_t rows, columns;
    int64_t blocks;
    int64_t ahead; /* floats from a pixel to the one that is prefetched when it is read; 0: none */
} yki_strip_image;

/* matrix (blocks, count, 16): the pixels that many rows and columns after those of the first tap,
 * zeros where they lie outside the image. */
void yki_strip_read(const yki_strip *strip, const yki_strip_image *image, int32_t down,
                    int32_t across, float *matrix);

/*
 * y (count, 32) = start + matrix (depth, count) weights (depth, 32)
 *
 * What the strip reads is in blocks of 16 channels, (depth / 16, count, 16), and so is y, of which
 * the second block begins `y_block` floats after the first.
 */
typedef struct yki_strip_product {
    const float *matrix, *weights;
    const float *start; /* 32 numbers, or NULL: zeros */
    float *y;
    int64_t y_block, depth;
    int count;
    bool stream; /* y is written past the caches */
} yki_strip_product;

void yki_strip_multiply(const yki_strip_product *product);

/*
 * packed (9, inputs, 32): the 3x3 kernels of 32 filters, each of which has `inputs` kernels,
 * weight (32, inputs, 9).
 */
void yki_strip_pack(const float *weight, int64_t inputs, float *packed);

/*
 * sums (9, dy_blocks, 16, 16) += x' dy over an image: the gradient of the weights between a block
 * of inputs and one or two of outputs, of which the second follows the first.
 */
typedef struct yki_strip_gradient {
    const void *x, *dy;
    const void *next_x, *next_dy; /* as much memory, which is prefetched; NULL: none */
    yk_dtype dtype;
    int32_t rows, columns; /* of x */
    int32_t dy_blocks, dy_rows, dy_columns;
    int32_t stride, padding, dilation;
} yki_strip_gradient;

/* Floats of `own` memory, for the pixels of both in f32. */
int64_t yki_strip_gradient_floats(const yki_strip_gradient *gradient);
void yki_strip_add_gradient(const yki_strip_gradient *gradient, float *sums, float *own);

/* And these as the gradients of kernels: that of input i and output o is at
 * weight[(o inputs + i) 9]. */
void yki_strip_unpack(const float *sums, int64_t dy_blocks, int64_t inputs, float *weight);

#endif
