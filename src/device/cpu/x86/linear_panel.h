/*
 * The inner loops of linear layers on few samples (linear_panel.c), which linear_panel_avx512.c
 * implements. The weights are a matrix that is read from memory once, where it lies, 64 by 64
 * or 128 numbers at a time. Samples are the columns of what it is multiplied by, and of the
 * results.
 */
#ifndef YKI_LINEAR_PANEL_H
#define YKI_LINEAR_PANEL_H

#include "device/cpu/x86/panel.h"

/* Columns of weights that are multiplied at a time: fewer where rows are not contiguous, so that
 * both matrices fit the first-level cache. */
enum { YKI_LINEAR_DEPTH = 128, YKI_LINEAR_DEPTH_TRANSPOSED = 64 };

/* 64 rows of weights: number (r, k) is at[r * row + k * step]. If row is 1 they have
 * YKI_LINEAR_DEPTH_TRANSPOSED columns; otherwise step is 1, and they have YKI_LINEAR_DEPTH. */
typedef struct yki_linear_weights {
    const float *at;
    int64_t row, step;
} yki_linear_weights;

/*
 * c (64, 64) = weights b, of b (columns, 64), added to what is there unless `first`. Only the first
 * `vectors` columns, times 16, of b and c are used. `next`, which has the same strides, is fetched
 * into the second-level cache meanwhile.
 */
void yki_linear_multiply(const yki_linear_weights *weights, const float *next, const float *b,
                         float *c, int vectors, bool first);

/* panel (r, n) = a[r + n * sample], for 64 rows and `samples` of its 64 columns; the others are
 * zero. */
void yki_linear_read_samples(const float *a, int64_t sample, int64_t samples, float *panel);

/* c (64, 64) = a' b, of a and b (samples, 64). Row r of c begins at c[r * row]. `stream` stores
 * past the caches. The panel that follows b in memory is fetched meanwhile. */
void yki_linear_outer(const float *a, const float *b, float *c, int64_t row, int64_t samples,
                      bool stream);

#endif
