/*
 * Panels: f32 matrices of up to 64 rows and 64 columns (16 KiB), the unit in which our own
 * convolutions compute (winograd.c, conv/minimal.c, conv_strided.c). Columns are 64 channels; rows
 * are pixels, tiles or the channels of a weight. Implemented in panel_avx512.c.
 */
#ifndef YKI_PANEL_H
#define YKI_PANEL_H

#include "device/device.h"

enum { YKI_PANEL_SIDE = 64, YKI_PANEL = 64 * 64 /* floats */, YKI_PANEL_LANES = 16 };

/*
 * Whether an activation can be read into panels on this device: it takes AVX-512, the blocked
 * layout, a multiple of 64 channels, and f32, f16, or bf16 if oneDNN's own dot products are slow
 * (see staged.c).
 */
bool yki_panel_takes(const yki_device *device, const yki_operand *activation);

/* Such an activation: images of `groups` times 64 channels. */
typedef struct yki_panel_activation {
    yk_dtype dtype;
    int64_t groups, rows, columns;
} yki_panel_activation;

yki_panel_activation yki_panel_activation_of(const yki_operand *activation);

/*
 * Both functions prefetch the panel that follows b in memory, so a caller should store panels in
 * the order in which it multiplies by them. `rows` may be any number, also more than 64.
 */
/* c (rows, 64) = a (rows, 64) b (64, 64), added to what is there unless `first`, where c may be a:
 * a row is read before it is written. */
void yki_panel_multiply(const float *a, const float *b, float *c, int64_t rows, bool first);
/* c (64, 64) = a' b, of a and b (rows, 64), added to what is there unless `first`. */
void yki_panel_multiply_transposed(const float *a, const float *b, float *c, int64_t rows,
                                   bool first);

/* 64 channels of blocked images: 4 blocks of 16, `block` elements from one to the next. */
typedef struct yki_panel_pixels {
    void *data;
    yk_dtype dtype;
    int64_t block;
} yki_panel_pixels;

/* Row r is the pixel at element at[r]; zeros where at[r] is negative. */
void yki_panel_read(const yki_panel_pixels *pixels, const int64_t *at, int64_t rows, float *panel);
void yki_panel_write(const float *panel, int64_t rows, const yki_panel_pixels *pixels,
                     const int64_t *at);

/* `taps` panels: number (r, c) of panel t is weight[r * row + c * column + t]. */
void yki_panel_read_weight(const float *weight, int64_t row, int64_t column, int64_t taps,
                           float *panels);

#endif
