/*
 * 3x3 convolutions of stride 1 whose groups are narrower than a vector, in f32 arithmetic, and the
 * gradient of their weights: included by table.h alone.
 *
 * A pixel is permuted into `width` vectors, each with channel k of every group: 9 * width
 * multiply-adds for a vector of results.
 */

enum {
    NARROW_STRIP = YKI_WIDTH == 16 ? YKI_NARROW_STRIP : YKI_NARROW_STRIP / 2,
    SIDE = 3,
    NARROW_DEPTH = YKI_WIDTH == 16 ? 4 : 2, /* sums of so many channels fit the registers as well */
    NARROW_DELAY = 3, /* columns between the taps of a row: no sum waits for its last addition */
    NARROW_AHEAD = 2  /* rows that are fetched before they are read: a strip's rows are short */
};

#include "device/cpu/loops/narrow.h"

YKI_FORCE_INLINE int64_t narrow_vectors(const yki_narrow *n)
{
    return n->width;
}

/* Many are permuted when they are multiplied: those of three rows would leave little of the
 * first-level cache for anything else. */
YKI_FORCE_INLINE bool narrow_permutes(const yki_narrow *n)
{
    return n->width > 2;
}

YKI_FORCE_INLINE int64_t narrow_planes(const yki_narrow *n)
{
    return narrow_permutes(n) ? 1 : n->width;
}

YKI_FORCE_INLINE yki_lanes narrow_add(yki_lanes sum, yki_lanes pixel, yki_lanes weight)
{
    return sum + pixel * weight;
}

/* Lane l of the result is lane from[l] of x. */
YKI_FORCE_INLINE yki_lanes narrow_pick(yki_lanes x, yki_bits from)
{
#if YKI_WIDTH == 16
    return (yki_lanes)_mm512_permutexvar_ps((__m512i)from, (__m512)x);
#elif YKI_WIDTH == 8
    return (yki_lanes)_mm256_permutevar8x32_ps((__m256)x, (__m256i)from);
#else
    yki_lanes picked = x;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        picked[lane] = x[from[lane]];
    return picked;
#endif
}

/* What is permuted here has more than 2 channels in a group: in a vector of 4 lanes it is one
 * group, of which each lane takes the same channel. */
YKI_FORCE_INLINE yki_lanes narrow_load(const float *at, yki_bits from, bool permutes)
{
    if (YKI_WIDTH == 4 && permutes)
        return yki_splat(at[from[0]]);
    yki_lanes pixel = *(const yki_lanes_at *)at;
    return permutes ? narrow_pick(pixel, from) : pixel;
}

/* One row of x, permuted unless the width is 1. It is a constant. */
YKI_FORCE_INLINE void narrow_read_as(const yki_narrow *n, const void *row, int64_t left,
                                     int64_t span, float *to, int width, yk_dtype dtype)
{
    const int64_t plane = narrow_plane(width, n->stride);
    const size_t pixel_bytes = YKI_WIDTH * yki_size_of(dtype);
    const char *ahead = (const char *)row + (size_t)(NARROW_AHEAD * n->columns) * pixel_bytes;
    yki_window_range inside = narrow_inside(n, left, span);
    yki_bits group;
    for (int lane = 0; lane < YKI_WIDTH; lane++)
        group[lane] = (uint32_t)(lane / width * width);
    bool whole = inside.begin == 0 && inside.end == span;
    for (int k = 0; k < width && !whole; k++)
        narrow_clear_outside(to + k * plane * YKI_WIDTH, inside, span);
    for (int64_t i = inside.begin; i < inside.end; i++) {
        yki_lanes pixel = yki_load_pixel(row, left + i, dtype);
        __builtin_prefetch(ahead + (size_t)(left + i) * pixel_bytes);
        for (int k = 0; k < width; k++)
            *(yki_lanes_at *)(to + (k * plane + i) * YKI_WIDTH) =
                width == 1 ? pixel : narrow_pick(pixel, group + (uint32_t)k);
    }
}

YKI_FORCE_INLINE void narrow_read_width(const yki_narrow *n, const void *x, int64_t row,
                                        int64_t left, int64_t span, float *to, int64_t planes,
                                        yk_dtype dtype)
{
    const char *from =
        (const char *)x + (size_t)(row * n->columns) * YKI_WIDTH * yki_size_of(dtype);
    if (planes == 1)
        narrow_read_as(n, from, left, span, to, 1, dtype);
    else if (planes == 2)
        narrow_read_as(n, from, left, span, to, 2, dtype);
    else if (planes == 4)
        narrow_read_as(n, from, left, span, to, 4, dtype);
    else if (YKI_WIDTH > 4) /* groups are narrower than a vector */
        narrow_read_as(n, from, left, span, to, 8, dtype);
}

/* Row `row` of x, columns [left, left + span). */
YKI_FORCE_INLINE void narrow_read(const yki_narrow *n, const void *x, int64_t row, int64_t left,
                                  int64_t span, float *to, int64_t planes)
{
    FOR_EACH_DTYPE(narrow_read_width, n->dtype, n, x, row, left, span, to, planes);
}

/* Stride 2 is for groups whose pixels are permuted when they are multiplied. */
YKI_FORCE_INLINE void narrow_row_of(const yki_narrow *n, const narrow_ring *ring,
                                    const float *const *rows, const float *weights, void *y,
                                    int64_t element, int stride, bool permutes, yk_dtype dtype)
{
    narrow_row_as(n, ring, rows, weights, y, element, (narrow_way){SIDE, stride, permutes, dtype});
}

YKI_FORCE_INLINE void narrow_row(const yki_narrow *n, const narrow_ring *ring,
                                 const float *const *rows, const float *weights, void *y,
                                 int64_t element)
{
    if (n->stride == 2)
        FOR_EACH_DTYPE(narrow_row_of, n->dtype, n, ring, rows, weights, y, element, 2, true);
    else if (narrow_permutes(n))
        FOR_EACH_DTYPE(narrow_row_of, n->dtype, n, ring, rows, weights, y, element, 1, true);
    else
        FOR_EACH_DTYPE(narrow_row_of, n->dtype, n, ring, rows, weights, y, element, 1, false);
}

/* ---- the gradient of the weights ------------------------------------------------------------- */

/* Adds the products of a strip of dy with three rows of x to the sums of the taps. The strip stays
 * in registers, and each pixel is read once for the three taps of its row. Constants are the
 * ring's plane, the number of columns, and `depth`, the channels of each group whose sums are in
 * registers at a time. */
YKI_FORCE_INLINE void narrow_add_strip(const yki_narrow *n, int64_t plane, const float *const *rows,
                                       const float *dy, float *to, int columns, int depth)
{
    yki_lanes gradient[NARROW_STRIP];
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++) {
        gradient[c] = *(const yki_lanes_at *)(dy + c * YKI_WIDTH);
        YKI_KEEP_IN_REGISTER(gradient[c]);
    }
    for (int64_t i = 0; i < SIDE * n->width; i += depth) {
        const float *pixels = rows[i / n->width];
        float *taps = to + i * SIDE * YKI_WIDTH;
        yki_lanes s[NARROW_DEPTH * SIDE];
        if (!pixels)
            continue;
        pixels += i % n->width * plane * YKI_WIDTH;
#pragma GCC unroll 12
        for (int t = 0; t < depth * SIDE; t++)
            s[t] = *(const yki_lanes_at *)(taps + t * YKI_WIDTH);
#pragma GCC unroll 16
        for (int at = 0; at < columns + SIDE - 1; at++)
#pragma GCC unroll 4
            for (int k = 0; k < depth; k++) {
                const float *from = pixels + (k * plane + at) * YKI_WIDTH;
                yki_lanes pixel = *(const yki_lanes_at *)from;
                YKI_KEEP_IN_REGISTER(pixel); /* or the compiler loads it for every use */
#pragma GCC unroll 3
                for (int t = 0; t < SIDE; t++)
                    if (at >= t && at - t < columns)
                        s[k * SIDE + t] += gradient[at - t] * pixel;
            }
#pragma GCC unroll 12
        for (int t = 0; t < depth * SIDE; t++)
            *(yki_lanes_at *)(taps + t * YKI_WIDTH) = s[t];
    }
}

#define NARROW_ADD_CASE(columns)                                                                   \
    case columns:                                                                                  \
        narrow_add_strip(n, plane, rows, dy, to, columns, depth);                                  \
        break

YKI_FORCE_INLINE void narrow_add_row(const yki_narrow *n, int64_t plane, const float *const *rows,
                                     const float *dy, int64_t columns, float *to, int depth)
{
    switch (columns) {
        NARROW_ADD_CASE(1);
        NARROW_ADD_CASE(2);
        NARROW_ADD_CASE(3);
        NARROW_ADD_CASE(4);
        NARROW_ADD_CASE(5);
        NARROW_ADD_CASE(6);
        NARROW_ADD_CASE(7);
#if YKI_WIDTH == 16
        NARROW_ADD_CASE(8);
        NARROW_ADD_CASE(9);
        NARROW_ADD_CASE(10);
        NARROW_ADD_CASE(11);
        NARROW_ADD_CASE(12);
        NARROW_ADD_CASE(13);
        NARROW_ADD_CASE(14);
#endif
    default:
        break;
    }
}

YKI_FORCE_INLINE void narrow_copy(const yki_narrow *n, const void *dy, int64_t pixel,
                                  int64_t columns, float *to, yk_dtype dtype)
{
    const size_t pixel_bytes = YKI_WIDTH * yki_size_of(dtype);
    const char *ahead =
        (const char *)dy + (size_t)(pixel + NARROW_AHEAD * n->y_columns) * pixel_bytes;
    for (int64_t c = 0; c < columns; c++) {
        *(yki_lanes_at *)(to + c * YKI_WIDTH) = yki_load_pixel(dy, pixel + c, dtype);
        __builtin_prefetch(ahead + (size_t)c * pixel_bytes);
    }
}

/* Adds the products of a row of a band, whose first result is pixel `first` of dy; `own` has memory
 * for a strip. */
YKI_FORCE_INLINE void narrow_add_band(const yki_narrow *n, const narrow_ring *ring,
                                      const float *const *rows, const void *dy, int64_t first,
                                      float *to, float *own)
{
    for (int64_t c = 0; c < ring->columns; c += ring->strip) {
        const float *at[SIDE];
        int64_t columns = narrow_strip_at(n, ring, c, rows, at);
        FOR_EACH_DTYPE(narrow_copy, n->dtype, n, dy, first + c, columns, own);
        if (n->width >= 4)
            narrow_add_row(n, narrow_plane(4, 1), at, own, columns, to, NARROW_DEPTH);
        else
            narrow_add_row(n, narrow_plane(2, 1), at, own, columns, to, 2);
    }
}

/* Adds the products of one image; `own` holds a strip of dy before the ring. */
static void narrow_add_image(const yki_narrow *n, const void *x, const void *dy, float *to,
                             float *own)
{
    int64_t bands = narrow_parts(n->y_columns, narrow_band(n->width));
    for (int64_t band = 0; band < bands; band++) {
        narrow_ring ring = narrow_ring_of(n, band, 0, n->width, own + NARROW_STRIP * YKI_WIDTH);
        for (int64_t row = 0; row < n->y_rows; row++) {
            const float *rows[SIDE];
            narrow_advance(n, x, &ring, row, rows);
            narrow_add_band(n, &ring, rows, dy, narrow_first(n, &ring, row) / YKI_WIDTH, to, own);
        }
    }
}

static void narrow_gradient(const yki_narrow *n, const void *x, const void *dy, int64_t images,
                            float *total, float *own)
{
    const int64_t count = SIDE * n->width * SIDE * YKI_WIDTH;
    size_t size = yki_size_of(n->dtype);
    float part[SIDE * YKI_NARROW_WIDTH * SIDE * YKI_WIDTH] = {0};
    int64_t held = 0;
    for (int64_t image = 0; image < images; image++) {
        narrow_add_image(n, (const char *)x + (size_t)(image * n->image) * size,
                         (const char *)dy + (size_t)(image * n->y_image) * size, part, own);
        held += n->y_rows * n->y_columns;
        if (held < SUM_PIXELS && image + 1 < images)
            continue;
        held = 0;
        for (int64_t i = 0; i < count; i++) {
            total[i] += part[i];
            part[i] = 0;
        }
    }
}
