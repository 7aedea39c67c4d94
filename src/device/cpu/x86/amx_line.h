/*
 * Products of bf16 matrices on AMX whose rows, or whose inner dimension, are pixels: for
 * convolutions of few images and for 1x1 kernels. conv_amx_line.h describes the line into which the
 * pixels of all images are flattened.
 *
 * Implemented in amx_line.c, which CMake compiles for AMX. Nothing there runs on other processors.
 */
#ifndef YKI_AMX_LINE_H
#define YKI_AMX_LINE_H

#include "device/cpu/x86/amx.h"

enum {
    YKI_AMX_TILE_PIXELS = 32, /* pixels of a product: two tiles of rows, or one of columns */
    YKI_AMX_PIXEL_BYTES = 64  /* bytes of a pixel's 32 channels */
};

/* Pixels that follow each other in a line and in memory. `from` is the offset of the first one in
 * memory, in elements; it is negative where the line has zeros. */
typedef struct yki_amx_run {
    int64_t count, from;
} yki_amx_run;

/* A stretch of a line. Pixels and channels that do not exist are zeros. */
typedef struct yki_amx_stretch {
    const yki_amx_run *runs;
    int count;
    int64_t step;   /* elements from one pixel of a run to the next */
    int64_t pixels; /* of all runs */
    int64_t ahead;  /* bytes to the same pixels of the next block, which are prefetched */
} yki_amx_stretch;

/* Writes 64 bytes for each pixel: the channels of two blocks of 16. `second` may be NULL. */
void yki_amx_line_read(const yki_amx_stretch *stretch, const uint16_t *first,
                       const uint16_t *second, char *to);

/* Writes a block of 16 channels as factors whose inner dimension is the pixels. The right one has
 * 64 bytes for each pair of pixels, and adds the pixels to `totals` of the channels; the left one
 * has a row for each channel, `pitch` bytes apart. `own` is memory for 32 bytes a pixel. */
void yki_amx_line_right(const yki_amx_stretch *stretch, const uint16_t *block, char *own, char *to,
                        float *totals);
void yki_amx_line_left(const yki_amx_stretch *stretch, const uint16_t *block, char *own, char *to,
                       int64_t pitch);

/* Sums over groups of 32 input channels, and over taps, each of which reads another pixel. */
typedef struct yki_amx_line_sum {
    const char *in; /* of the first pixel and group, from yki_amx_line_read */
    int64_t groups, group_step;
    const int64_t *shifts, *bricks; /* of the taps, in bytes: what they read, and their weights */
    int64_t taps;
    const char *weight; /* of the first group */
    int64_t weight_step;
    int64_t pixels; /* a multiple of 32 */
    int64_t half;   /* floats from 16 output channels to the next 16, in the sums */
    bool first;     /* sums begin with zero */
} yki_amx_line_sum;

/* Configures the calling thread's tiles for what follows; release them with yki_amx_end. */
void yki_amx_line_begin(void);

/* Adds to the sums of each pixel, for 32 output channels. */
void yki_amx_line_multiply(const yki_amx_line_sum *sum, float *sums);

/* Writes the sums of 16 channels as bf16, with their bias unless it is NULL; past the caches if it
 * `streams` and the pixels of a run are next to each other in memory. */
void yki_amx_line_write(const yki_amx_stretch *stretch, const float *sums, const float *bias,
                        bool streams, uint16_t *block);

/* Adds the products of so many pixels to the sums of one tap (32 channels of each side). `left` has
 * rows `pitch` bytes apart; the blocks of `right` are right_step bytes apart. */
void yki_amx_line_multiply_weight(const char *left, int64_t pitch, const char *right,
                                  int64_t right_step, int64_t pixels, float *sums, bool first);

#endif
