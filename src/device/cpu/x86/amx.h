/*
 * Products of bf16 matrices on AMX, from which conv_amx.c and conv_amx_weight.c compute direct
 * convolutions of activations in bf16. Products of two bf16 are exact, and are added in f32.
 *
 * The unit is a brick: 32 rows of 32 bf16, as two tiles of 16 rows of 64 bytes. A brick has one
 * pixel of up to 32 images, and 32 channels. Rows of a product are images, so every pixel of the
 * output has tiles of its own, and a tap that falls outside the image is left out rather than
 * multiplied by zeros; stride and dilation only change which pixel a tap reads.
 *
 * Implemented in amx.c, which CMake compiles for AMX, and which other processors run only in tests,
 * with simulated tiles (tests/amx).
 */
#ifndef YKI_AMX_H
#define YKI_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum {
    YKI_AMX_SIDE = 32,                  /* images of a block, and channels of a group */
    YKI_AMX_LANES = 16,                 /* channels of a block in memory */
    YKI_AMX_BRICK = 2 * 16 * 64,        /* bytes */
    YKI_AMX_PIXEL = YKI_AMX_BRICK + 64, /* bytes from one pixel to the next: with a power of two,
                                           pixels would share the sets of the cache */
    YKI_AMX_SUMS = 2 * 32 * 16 + 16,    /* floats of a pixel's sums, likewise */
    YKI_AMX_MOST_TAPS = 5               /* on each side of a kernel */
};

/* Whether kernels may use AMX: the processor and the system have it, and ONEDNN_MAX_CPU_ISA does
 * not exclude it. */
bool yki_amx_is_usable(void);

/* Multiplies tiles alone, without loading any: returns the floating-point operations. */
double yki_amx_multiply_alone(int64_t rounds);

/* Configures the calling thread's tiles for products of so many images (2 to 32), and releases
 * them. */
void yki_amx_begin(int64_t images);
void yki_amx_end(void);

/* A row of pixels in memory: a group of 32 channels is two blocks of 16, or one. */
typedef struct yki_amx_row {
    const uint16_t *at;             /* of the first image */
    int64_t image_step, block_step; /* elements */
    int64_t images, columns;
    int blocks;
} yki_amx_row;

/* Writes a brick for each pixel; missing channels are zeros. A brick's rows are images ... */
void yki_amx_read(const yki_amx_row *row, char *to);
/* ... or pairs of images, each a tile of 16 pairs and 16 channels for each block: a right factor,
 * whose inner dimension is the images; or a left factor, whose rows are channels. Missing images
 * are zeros. */
void yki_amx_read_right(const yki_amx_row *row, char *to);
void yki_amx_read_left(const yki_amx_row *row, char *to);

/* Up to 32 x 32 kernels, or their gradients: tap t of kernel (o, i) is at[o * step + i * taps + t].
 * In a grouped convolution (width < ins), output channel o has kernels only for the `width` input
 * channels of its own group, which begin at at[o * step]; all others are zeros. */
typedef struct yki_amx_weights {
    float *at;
    int64_t outs, ins, width, step;
    int taps;
} yki_amx_weights;

/* Writes a brick for each tap, whose rows are input channels and columns output channels, or the
 * reverse if `transposed`. Missing channels are zeros. */
void yki_amx_read_weights(const yki_amx_weights *weights, bool transposed, char *to);

/* The taps that reach the image from one row or column of the output. */
typedef struct yki_amx_taps {
    int count;
    struct {
        int tap;    /* its number in the kernel */
        int64_t at; /* the row or column of the input */
    } of[YKI_AMX_MOST_TAPS];
} yki_amx_taps;

/* A row of the output: sums over taps and groups of input channels. */
typedef struct yki_amx_sum {
    const char *rows[YKI_AMX_MOST_TAPS]; /* bricks of the input, for each tap of the column */
    int taps[YKI_AMX_MOST_TAPS];         /* numbers of their first weights */
    int row_count;
    const yki_amx_taps *across; /* of each column of the output */
    int64_t columns;
    int64_t groups, group_step; /* of the input, bytes */
    const char *weight;         /* bricks by group and tap */
    int64_t weight_step;        /* bytes from one group to the next */
    int64_t images;             /* as in yki_amx_begin */
    bool first;                 /* sums begin with zero */
} yki_amx_sum;

/* Adds to the sums of each column, for 32 output channels. */
void yki_amx_multiply(const yki_amx_sum *sum, float *sums);

/* Writes the sums of a row, with the bias of 32 channels unless it is NULL, as bf16: `row` says
 * where, as for reading. */
void yki_amx_write(const float *sums, const float *bias, const yki_amx_row *row);

/* Pixels of x and dy, whose products are summed. */
typedef struct yki_amx_span {
    const char *x, *dy; /* left and right factors */
    int64_t x_step;     /* bytes; those of dy follow each other */
    int64_t count;
} yki_amx_span;

/* Adds the products of the pixels to the sums (32 channels of x, 32 of dy) of one tap. */
void yki_amx_multiply_weight(const yki_amx_span *spans, int count, float *sums);

/* A row of pixels of dy, each of which three neighbouring taps multiply by three pixels of x. */
typedef struct yki_amx_three {
    const char *x, *dy; /* column 0 of the row of x, and the first pixel of dy */
    int64_t first;      /* the column of x that the first tap reads for it, inside x or not */
    int64_t columns;    /* of x */
    int64_t count;      /* pixels of dy */
} yki_amx_three;

/* Adds to the sums of three taps, which follow each other in memory. Each pixel is loaded for all
 * of them. From one pixel of dy to the next there are `step` columns of x. */
void yki_amx_multiply_three(const yki_amx_three *rows, int count, int64_t step, float *sums);

/* Adds `parts` sums of all taps, part_step floats apart, in order, and writes the gradients. */
void yki_amx_write_weights(const float *sums, int64_t parts, int64_t part_step,
                           const yki_amx_weights *weights);

#endif
