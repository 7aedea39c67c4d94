/*
 * Resizing as in Pillow's Resample.c: a filter's weights are computed in double, normalised, and
 * rounded to 22 bits after the point; a pass sums in int32 and rounds to a byte. The sums do not
 * depend on their order, so that every width of vectors gives the same bits.
 */
#include "image/resize.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LOW_MASK = (1 << YKI_WEIGHT_SPLIT) - 1, OVERREAD = 32 /* bytes of a row, with AVX2 */ };

/* ---- filters -------------------------------------------------------------------------------- */

static double triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys' cubic convolution with a = -0.5. */
static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

typedef struct filter {
    double (*weight)(double x);
    double support;
} filter;

static filter filter_of(yk_interpolation interpolation)
{
    return interpolation == YK_INTERPOLATION_BICUBIC ? (filter){cubic, 2} : (filter){triangle, 1};
}

/* ---- weights -------------------------------------------------------------------------------- */

static yk_status reserve_axis(yki_resize_axis *axis, int pixels, int taps)
{
    size_t weights = (size_t)pixels * (size_t)taps;
    size_t bytes = 2 * (size_t)pixels * sizeof(int) + 2 * weights * sizeof(int16_t);
    if (bytes > axis->capacity) {
        free(axis->memory);
        *axis = (yki_resize_axis){.memory = calloc(1, bytes)};
        if (!axis->memory)
            return yki_error_memory(bytes, "the weights of a resized picture");
        axis->capacity = bytes;
    }
    axis->taps = taps;
    axis->first = axis->memory;
    axis->count = axis->first + pixels;
    axis->high = (int16_t *)(void *)(axis->count + pixels);
    axis->low = axis->high + weights;
    return YK_OK;
}

/* The weights of one pixel around `centre`, where the source has `size` pixels. */
static void weigh(yki_resize_axis *axis, int pixel, filter f, double centre, double stretch,
                  int size, double *scratch)
{
    double support = f.support * stretch, sum = 0;
    int first = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
    first = first < 0 ? 0 : first;
    end = end > size ? size : end;
    int16_t *high = axis->high + (size_t)pixel * (size_t)axis->taps;
    int16_t *low = axis->low + (size_t)pixel * (size_t)axis->taps;
    axis->first[pixel] = first;
    axis->count[pixel] = end - first;
    for (int i = 0; i < end - first; i++)
        sum += scratch[i] = f.weight((i + first - centre + 0.5) * (1.0 / stretch));
    for (int i = 0; i < axis->taps; i++) {
        double weight = i < end - first ? scratch[i] / (sum != 0 ? sum : 1) : 0;
        int fixed = (int)((weight < 0 ? -0.5 : 0.5) + weight * (1 << YKI_WEIGHT_BITS));
        high[i] = (int16_t)(fixed >> YKI_WEIGHT_SPLIT);
        low[i] = (int16_t)(fixed & LOW_MASK);
    }
}

/* Pixels [from, from + pixels) of `full`, which the source's [start, start + length) becomes. */
static yk_status prepare_axis(yki_resize_axis *axis, filter f, double start, double length,
                              int size, int full, int from, int pixels)
{
    double scale = length / full, stretch = scale < 1 ? 1 : scale;
    int taps = (2 * (int)ceil(f.support * stretch) + 1 + 3) & ~3;
    YK_TRY(reserve_axis(axis, pixels, taps));
    double *scratch = malloc((size_t)taps * sizeof *scratch);
    if (!scratch)
        return yki_error_memory((size_t)taps * sizeof *scratch, "the weights of a resized picture");
    for (int i = 0; i < pixels; i++)
        weigh(axis, i, f, start + (from + i + 0.5) * scale, stretch, size, scratch);
    free(scratch);
    return YK_OK;
}

/* ---- the passes ----------------------------------------------------------------------------- */

static uint8_t to_byte(int32_t sum)
{
    sum >>= YKI_WEIGHT_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void yki_resize_row_generic(const yki_resize_axis *x, int pixels, int channels, const uint8_t *in,
                            uint8_t *out)
{
    for (int i = 0; i < pixels; i++) {
        const int16_t *high = x->high + (size_t)i * (size_t)x->taps;
        const int16_t *low = x->low + (size_t)i * (size_t)x->taps;
        const uint8_t *from = in + (size_t)x->first[i] * (size_t)channels;
        for (int c = 0; c < channels; c++) {
            int32_t sum = 1 << (YKI_WEIGHT_BITS - 1);
            for (int t = 0; t < x->count[i]; t++)
                sum += from[t * channels + c] * (high[t] * (1 << YKI_WEIGHT_SPLIT) + low[t]);
            *out++ = to_byte(sum);
        }
    }
}

void yki_resize_column_generic(const yki_resize_axis *y, int i, const uint8_t *in, size_t stride,
                               size_t bytes, uint8_t *out)
{
    const int16_t *high = y->high + (size_t)i * (size_t)y->taps;
    const int16_t *low = y->low + (size_t)i * (size_t)y->taps;
    for (size_t b = 0; b < bytes; b++) {
        int32_t sum = 1 << (YKI_WEIGHT_BITS - 1);
        for (int t = 0; t < y->count[i]; t++)
            sum += in[(size_t)t * stride + b] * (high[t] * (1 << YKI_WEIGHT_SPLIT) + low[t]);
        out[b] = to_byte(sum);
    }
}

static yki_resize_row_fn choose_row(int channels)
{
#if defined(__x86_64__)
    if (channels == 3 && __builtin_cpu_supports("avx2"))
        return yki_resize_row_avx2;
#endif
    (void)channels;
    return yki_resize_row_generic;
}

static yki_resize_column_fn choose_column(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return yki_resize_column_avx2;
#endif
    return yki_resize_column_generic;
}

/* Row y of the source; the last ones from a copy that may be read beyond its end. */
static const uint8_t *readable_row(yki_resizer *self, const yki_picture *in, int y)
{
    size_t bytes = (size_t)in->width * (size_t)in->channels;
    const uint8_t *row = yki_picture_row(in, y);
    if ((size_t)(in->height - 1 - y) * in->stride >= OVERREAD)
        return row;
    memcpy(self->row, row, bytes);
    memset(self->row + bytes, 0, OVERREAD);
    return self->row;
}

static yk_status reserve_row(yki_resizer *self, size_t bytes)
{
    if (bytes <= self->row_capacity)
        return YK_OK;
    free(self->row);
    self->row = malloc(bytes);
    self->row_capacity = self->row ? bytes : 0;
    return self->row ? YK_OK : yki_error_memory(bytes, "a row of a picture");
}

/* The first pass, over rows [top, bottom) of the source. */
static yk_status resize_rows(yki_resizer *self, const yki_picture *in, int top, int bottom,
                             int pixels)
{
    /* A row more, because a pixel is written as 4 bytes. */
    YK_TRY(yki_picture_reserve(&self->rows, pixels, bottom - top + 1, in->channels));
    YK_TRY(reserve_row(self, (size_t)in->width * (size_t)in->channels + OVERREAD));
    yki_resize_row_fn row = choose_row(in->channels);
    for (int y = top; y < bottom; y++)
        row(&self->x, pixels, in->channels, readable_row(self, in, y),
            yki_picture_row(&self->rows, y - top));
    return YK_OK;
}

static bool is_whole(double start, double length, int size, int full)
{
    return start == 0 && length == size && full == size;
}

static yk_status filtered(yki_resizer *self, const yki_picture *in, const yki_resize_job *job,
                          yki_picture *out)
{
    filter f = filter_of(job->interpolation);
    yki_box window = job->window;
    YK_TRY(prepare_axis(&self->y, f, job->top, job->height, in->height, job->full_height,
                        window.top, window.height));
    int last = window.height - 1, top = self->y.first[0];
    int bottom = self->y.first[last] + self->y.count[last];
    yki_picture rows = yki_picture_part(in, (yki_box){window.left, top, window.width, 1});
    if (!is_whole(job->left, job->width, in->width, job->full_width)) {
        YK_TRY(prepare_axis(&self->x, f, job->left, job->width, in->width, job->full_width,
                            window.left, window.width));
        YK_TRY(resize_rows(self, in, top, bottom, window.width));
        rows = self->rows;
    }
    yki_resize_column_fn column = choose_column();
    size_t bytes = (size_t)window.width * (size_t)in->channels;
    for (int y = 0; y < window.height; y++)
        column(&self->y, y, rows.pixels + (size_t)(self->y.first[y] - top) * rows.stride,
               rows.stride, bytes, yki_picture_row(out, y));
    return YK_OK;
}

/* ---- nearest -------------------------------------------------------------------------------- */

/* The source pixel of each of `pixels`: as Pillow, the position is a running sum. */
static void nearest_axis(int *source, double start, double length, int size, int full, int from,
                         int pixels)
{
    double step = length / full, at = start + step * 0.5;
    for (int i = 0; i < from + pixels; i++, at += step)
        if (i >= from)
            source[i - from] = (int)at < size ? (int)at : size - 1;
}

static yk_status nearest(yki_resizer *self, const yki_picture *in, const yki_resize_job *job,
                         yki_picture *out)
{
    yki_box window = job->window;
    YK_TRY(reserve_axis(&self->x, window.width, 1));
    YK_TRY(reserve_axis(&self->y, window.height, 1));
    nearest_axis(self->x.first, job->left, job->width, in->width, job->full_width, window.left,
                 window.width);
    nearest_axis(self->y.first, job->top, job->height, in->height, job->full_height, window.top,
                 window.height);
    for (int y = 0; y < window.height; y++) {
        const uint8_t *from = yki_picture_row(in, self->y.first[y]);
        uint8_t *to = yki_picture_row(out, y);
        for (int x = 0; x < window.width; x++, to += in->channels)
            memcpy(to, from + self->x.first[x] * in->channels, (size_t)in->channels);
    }
    return YK_OK;
}

/* --------------------------------------------------------------------------------------------- */

yk_status yki_resize(yki_resizer *resizer, const yki_picture *in, const yki_resize_job *job,
                     yki_picture *out)
{
    assert(job->left >= 0 && job->left + job->width <= in->width && job->top >= 0 &&
           job->top + job->height <= in->height);
    YK_TRY(yki_picture_reserve(out, job->window.width, job->window.height, in->channels));
    if (job->interpolation == YK_INTERPOLATION_NEAREST)
        return nearest(resizer, in, job, out);
    return filtered(resizer, in, job, out);
}

void yki_resizer_free(yki_resizer *resizer)
{
    free(resizer->x.memory);
    free(resizer->y.memory);
    yki_picture_free(&resizer->rows);
    free(resizer->row);
    *resizer = (yki_resizer){.row = NULL};
}
