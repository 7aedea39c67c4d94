/*
 * Antialiased resizing with the pixels of Pillow's Image.resize(), which is what torchvision's
 * Resize and RandomResizedCrop do to PIL images: two passes, first along rows, then along columns,
 * with weights in fixed point. Only what the caller wants of the result is computed.
 */
#ifndef YKI_RESIZE_H
#define YKI_RESIZE_H

#include <yoke/transforms.h>

#include "image/picture.h"

typedef struct yki_resize_job {
    double left, top, width, height; /* the region of the source, in its pixels */
    int full_width, full_height;     /* what the region becomes */
    yki_box window;                  /* the part of that which is wanted */
    yk_interpolation interpolation;
} yki_resize_job;

/* Weights are in fixed point, split in two: (high * 2^YKI_WEIGHT_SPLIT + low) / 2^YKI_WEIGHT_BITS.
 */
enum { YKI_WEIGHT_BITS = 22, YKI_WEIGHT_SPLIT = 12 };

/* The weights of the source's pixels in each pixel of one side. */
typedef struct yki_resize_axis {
    int *first, *count; /* (pixels): which source pixels have weights */
    int taps;           /* weights of each pixel, a multiple of 4, zeros after its count */
    int16_t *high;      /* (pixels, taps) */
    int16_t *low;
    void *memory;
    size_t capacity;
} yki_resize_axis;

/* Memory that is kept from one picture to the next; start from zeros. One thread at a time. */
typedef struct yki_resizer {
    yki_resize_axis x, y;
    yki_picture rows; /* what the first pass writes */
    uint8_t *row;     /* the last rows of a source, with room to read beyond their end */
    size_t row_capacity;
} yki_resizer;

void yki_resizer_free(yki_resizer *resizer);
/* in and out are different pictures of as many channels; out gets the size of job->window. */
yk_status yki_resize(yki_resizer *resizer, const yki_picture *in, const yki_resize_job *job,
                     yki_picture *out);

/*
 * The two passes over rows: *_generic in plain C, the others with AVX2, to the same bits.
 *
 * yki_resize_row: one row of `pixels` of 1 or 3 channels (AVX2: 3). AVX2 reads up to 16 bytes and
 * writes 1 byte beyond the end.
 * yki_resize_column: one row of `bytes` from y->count[i] rows, the first of which is `in`.
 */
typedef void (*yki_resize_row_fn)(const yki_resize_axis *x, int pixels, int channels,
                                  const uint8_t *in, uint8_t *out);
typedef void (*yki_resize_column_fn)(const yki_resize_axis *y, int i, const uint8_t *in,
                                     size_t stride, size_t bytes, uint8_t *out);
void yki_resize_row_generic(const yki_resize_axis *x, int pixels, int channels, const uint8_t *in,
                            uint8_t *out);
void yki_resize_column_generic(const yki_resize_axis *y, int i, const uint8_t *in, size_t stride,
                               size_t bytes, uint8_t *out);
#if defined(__x86_64__)
void yki_resize_row_avx2(const yki_resize_axis *x, int pixels, int channels, const uint8_t *in,
                         uint8_t *out);
void yki_resize_column_avx2(const yki_resize_axis *y, int i, const uint8_t *in, size_t stride,
                            size_t bytes, uint8_t *out);
#endif

#endif
