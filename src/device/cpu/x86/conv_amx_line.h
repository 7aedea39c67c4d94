/*
 * Convolutions on AMX for which the pixels of all images are flattened into one line. The line has
 * zeros where rows and images are padded: after each row as many as the padding is wide, which
 * serve as the end of one row and the beginning of the next, and after each image as many rows of
 * them. A tap of the kernel therefore reads at the same distance from every output pixel.
 *
 * Convolutions whose output is as large as their input have that form. So do 1x1 kernels without
 * padding, whose line needs no zeros. With stride 2, x is split into four lines (planes), one for
 * each combination of even or odd rows and columns, and each tap reads one of them.
 */
#ifndef YKI_CONV_AMX_LINE_H
#define YKI_CONV_AMX_LINE_H

#include "device/cpu/x86/amx_line.h"
#include "device/cpu/x86/conv_amx.h"

enum { YKI_AMX_LINE_TAPS = YKI_AMX_MOST_TAPS * YKI_AMX_MOST_TAPS, YKI_AMX_LINE_PLANES = 4 };

/* An activation, or a plane of it, as a line. */
typedef struct yki_amx_line {
    int64_t images, channels, blocks, groups; /* blocks of 16 channels, and groups of 32 */
    int64_t rows, columns;                    /* of an image, without padding */
    int64_t first;                            /* elements in memory before its first pixel */
    int64_t image_step, row_step, step;       /* elements in memory to the next image, row, pixel */
    int64_t block_step;                       /* and block of channels */
    int64_t line_image, line_row;             /* pixels of the line to the next image, row */
} yki_amx_line;

/* The lines of a convolution of x to y. Output pixel i reads pixel i + shift of x for each tap. */
typedef struct yki_amx_lines {
    yki_amx_line x[YKI_AMX_LINE_PLANES], y;
    int planes, read; /* the planes of x, and how many of them (the first) the taps read */
    int64_t taps;
    int64_t shifts[YKI_AMX_LINE_TAPS]; /* from y to x, in pixels of the line, for each tap */
    int plane[YKI_AMX_LINE_TAPS];      /* the plane that each tap reads */
    int64_t reach;                     /* the largest shift in either direction */
} yki_amx_lines;

/* Whether a convolution of these activations can be computed in this way on this device. */
bool yki_conv_amx_line_supports(const yki_device *device, const yki_attrs *attrs,
                                const yki_operand *x, const yki_operand *y,
                                const yki_operand *weight);
/* Whether this is expected to be faster than conv_amx.c, which needs many images, and
 * conv/narrow.c, which multiplies no zeros. */
bool yki_conv_amx_line_gains(const yki_attrs *attrs, const yki_operand *x,
                             const yki_operand *weight);

yki_amx_lines yki_amx_lines_of(const yki_attrs *attrs, const yki_operand *x, const yki_operand *y,
                               const yki_operand *weight);

int64_t yki_amx_line_pixels(const yki_amx_line *line);

/* The stretch of so many pixels from `begin` on, which may reach beyond the line; `runs` is memory
 * for as many runs as pixels. */
yki_amx_stretch yki_amx_stretch_of(const yki_amx_line *line, int64_t begin, int64_t pixels,
                                   yki_amx_run *runs);

/* A block of 16 channels in memory, or NULL if there are not so many. */
static inline uint16_t *yki_amx_line_block(const yki_amx_line *line, const void *data,
                                           int64_t block)
{
    return block < line->blocks ? (uint16_t *)(uintptr_t)data + block * line->block_step : NULL;
}

#endif
