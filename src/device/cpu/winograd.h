/*
 * The inner loops of Winograd's convolution F(4x4, 3x3): 4x4 results from a 6x6 patch with
 * 36 products instead of 144 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
 * 2015, whose matrices A, B and G these are). In winograd_avx512.c, 16 channels to a vector.
 *
 * Transformed data is a slab: (36, 64 rows, 64 columns), where columns are channels. A slab has
 * 0.6 MB, so that three of them fit a core's second-level cache. Its 36 matrices are one cache line
 * further apart than they are long; otherwise the 36 stores of one patch would all go to the same
 * set of the cache.
 */
#ifndef YKI_WINOGRAD_H
#define YKI_WINOGRAD_H

#include <stdbool.h>

#include <yoke/tensor.h>

enum {
    YKI_WINOGRAD_TILE = 4,                       /* results a tile has on each side */
    YKI_WINOGRAD_POINTS = 36,                    /* matrices of a slab */
    YKI_WINOGRAD_SIDE = 64,                      /* rows and columns of each */
    YKI_WINOGRAD_MATRIX = 64 * 64 + 16,          /* floats from one to the next */
    YKI_WINOGRAD_SLAB = 36 * YKI_WINOGRAD_MATRIX /* floats of a slab */
};

/* 16 channels of one image: (rows, columns, 16), in f32, bf16 or f16; the arithmetic is f32. */
typedef struct yki_winograd_plane {
    void *data;
    yk_dtype dtype;
    int64_t rows, columns;
} yki_winograd_plane;

/* B' d B of the 6x6 patch whose corner is (y, x); pixels outside the plane count as zero. */
void yki_winograd_data(const yki_winograd_plane *plane, int64_t y, int64_t x, float *slab);
/* A' m A into the 4x4 tile at (y, x), as far as it lies in the plane. */
void yki_winograd_result(const float *slab, const yki_winograd_plane *plane, int64_t y, int64_t x);
/* A d A' of the 4x4 tile at (y, x), zero outside: a result's gradient. */
void yki_winograd_result_gradient(const yki_winograd_plane *plane, int64_t y, int64_t x,
                                  float *slab);
/* G g G' of 16 kernels of 3x3, `lane` floats apart, turned by 180 degrees where asked. */
void yki_winograd_weight(const float *weight, int64_t lane, bool turned, float *slab);
/* Adds columns of a slab, a multiple of 16, in 64 rows of all 36 matrices, to another's. */
void yki_winograd_add(const float *slab, int64_t columns, float *to);
/* G' u G into 16 kernels, `lane` floats apart. */
void yki_winograd_weight_gradient(const float *slab, float *weight, int64_t lane);

#endif
