/*
 * Winograd's convolution F(4x4, 3x3): 4x4 results from a 6x6 patch with 36 products instead of 144
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, whose matrices A, B
 * and G these are). Each of the 36 points is a product of matrices.
 *
 * Transformed data is a slab: a matrix for each point, with 64 columns, which are channels. Its
 * matrices are one cache line further apart than they are long; otherwise the 36 stores of one
 * patch would all go to the same set of the cache.
 */
#ifndef YKI_WINOGRAD_H
#define YKI_WINOGRAD_H

#include <stdbool.h>

#include "device/cpu/x86/panel.h"

enum {
    YKI_WINOGRAD_TILE = 4,    /* results a tile has on each side */
    YKI_WINOGRAD_POINTS = 36, /* matrices of a slab */
    YKI_WINOGRAD_SIDE = 64,   /* channels of a group */
    YKI_WINOGRAD_LANES = 16,  /* channels of a part of a group */
    YKI_WINOGRAD_PARTS = 4
};

/* An activation that is cut into tiles. */
typedef struct yki_winograd_tiles {
    void *data;
    yki_panel_activation of;
    int64_t down, across; /* tiles of an image */
    int64_t offset;       /* from a tile's corner to its patch's, on both sides */
    bool stream;          /* results are written past the caches: f32, aligned to cache lines */
} yki_winograd_tiles;

typedef struct yki_winograd_span {
    int64_t begin, end;
} yki_winograd_span;

typedef struct yki_winograd_slab {
    float *at;
    int64_t stride; /* floats from one point to the next */
} yki_winograd_slab;

/* 64 x 64 weights: number (r, c) of tap t is weight[r * row + c * column + t]. */
typedef struct yki_winograd_weights {
    const float *at;
    int64_t row, column;
    bool turned; /* by 180 degrees */
} yki_winograd_weights;

/* c (rows, 64), or (64, 64), is a sum of products of `groups` matrices, a_step and b_step floats
 * apart; it is added to what is there unless `first`. */
typedef struct yki_winograd_product {
    const float *a, *b;
    float *c;
    int64_t groups, a_step, b_step;
    int64_t rows; /* tiles */
    bool first;
} yki_winograd_product;

/* How transformed data is written and multiplied. A slab takes as much memory in either form; what
 * is in it only the form knows. Results and sums of products are f32 in both. */
typedef struct yki_winograd_form {
    int64_t rows;  /* a slab's rows are a multiple of this */
    int products;  /* that take the place of one of f32 */
    bool in_place; /* results may overwrite the data that they are made of */
    /* On each thread, before and after products; may be NULL. */
    void (*begin)(void);
    void (*end)(void);
    /* Convolution: B' d B of the tiles' patches in 64 channels of x; rows are tiles. */
    void (*data)(const yki_winograd_tiles *x, yki_winograd_span tiles, int64_t group,
                 yki_winograd_slab to);
    /* G g G' of 64 x 64 kernels */
    void (*weight)(const yki_winograd_weights *weights, yki_winograd_slab to);
    /* c = sum of a b */
    void (*multiply)(const yki_winograd_product *product);
    /* The weights' gradient: B' d B of x, A d A' of the tiles of dy, and c = sum of a' b */
    void (*left)(const yki_winograd_tiles *x, yki_winograd_span tiles, int64_t group,
                 yki_winograd_slab to);
    void (*right)(const yki_winograd_tiles *dy, yki_winograd_span tiles, int64_t group,
                  yki_winograd_slab to);
    void (*multiply_transposed)(const yki_winograd_product *product);
} yki_winograd_form;

extern const yki_winograd_form yki_winograd_f32; /* winograd_avx512.c */
/* Each number is the sum of two bf16, and has 16 of an f32's 24 bits: for activations that are kept
 * in 16 bits and have fewer. In winograd_amx.c. */
extern const yki_winograd_form yki_winograd_amx;

/* A' m A into the tiles of 64 channels, as far as they lie in the plane. */
void yki_winograd_result(yki_winograd_slab slab, const yki_winograd_tiles *y,
                         yki_winograd_span tiles, int64_t group);
/* Adds columns of a slab of 64 rows, a multiple of 16, to another's. */
void yki_winograd_add(yki_winograd_slab slab, int64_t columns, yki_winograd_slab to);
/* G' u G of 16 columns, which are those of `weight`, of a slab of 64 rows. */
void yki_winograd_weight_gradient(yki_winograd_slab slab, int64_t column, float *weight,
                                  int64_t row_step, int64_t column_step);

#endif
