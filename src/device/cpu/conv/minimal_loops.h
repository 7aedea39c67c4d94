/*
 * What minimal_stride1.h and minimal_stride2.h share, for YKI_WIDTH lanes: windows of pixels, the
 * application of a matrix to both sides of a square, weights, and sums.
 */
#ifndef YKI_MINIMAL_LOOPS_H
#define YKI_MINIMAL_LOOPS_H

#include "device/cpu/apart.h"
#include "device/cpu/conv/minimal.h"
#include "device/cpu/loops/vector.h"

enum {
    TILE = YKI_MINIMAL_TILE,
    CLASSES = YKI_MINIMAL_CLASSES,
    SIDE = YKI_MINIMAL_SIDE,
    MATRIX = YKI_MINIMAL_MATRIX,
    TAPS = 3
};

typedef yki_lanes vec;

YKI_FORCE_INLINE vec load(const float *from)
{
    return *(const yki_lanes_at *)from;
}

YKI_FORCE_INLINE void store(float *to, vec a)
{
    *(yki_lanes_at *)to = a;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Pixels of a plane from a corner on; `all`: none of those that are read lies outside. */
typedef struct window {
    const yki_minimal_plane *plane;
    int64_t y, x;
    bool all;
} window;

YKI_FORCE_INLINE window window_at(const yki_minimal_plane *plane, int64_t y, int64_t x, int size)
{
    bool all = y >= 0 && x >= 0 && y + size <= plane->rows && x + size <= plane->columns;
    return (window){plane, y, x, all};
}

/* `size` pixels of one column, zero outside the plane. */
YKI_FORCE_INLINE void load_column(const window *w, int c, int size, yk_dtype dtype, vec *column)
{
    const yki_minimal_plane *p = w->plane;
    int64_t first = w->y * p->columns + w->x + c;
    bool across = w->x + c >= 0 && w->x + c < p->columns;
#pragma GCC unroll 9
    for (int r = 0; r < size; r++) {
        bool inside = w->all || (across && w->y + r >= 0 && w->y + r < p->rows);
        column[r] = (vec){0};
        if (inside)
            column[r] = yki_load_lanes(p->data, (first + r * p->columns) * YKI_WIDTH, dtype);
    }
}

YKI_FORCE_INLINE void store_pixel(const yki_minimal_plane *p, int64_t y, int64_t x, vec pixel,
                                  yk_dtype dtype)
{
    int64_t at = (y * p->columns + x) * YKI_WIDTH;
    if (dtype == YK_F32 && p->stream)
        yki_stream_lanes((float *)p->data + at, pixel);
    else
        yki_store_lanes(p->data, at, pixel, dtype);
}

/* Calls body(..., dtype) with the plane's dtype as a constant. */
#define BY_DTYPE(body, plane, ...) FOR_EACH_DTYPE(body, (plane)->dtype, plane, __VA_ARGS__)

/* A square of size x size pixels from window(plane, at) to points x points. */
#define TO_POINTS(name, window_of, side, size, points, store_points)                               \
    YKI_FORCE_INLINE void name##_as(const yki_minimal_plane *plane, const yki_minimal_tile *at,    \
                                    float *slab, yk_dtype dtype)                                   \
    {                                                                                              \
        window from = window_of(plane, at);                                                        \
        vec half[size][points];                                                                    \
        for (int c = 0; c < (size); c++) {                                                         \
            vec column[size];                                                                      \
            load_column(&from, c, size, dtype, column);                                            \
            side(column, half[c]);                                                                 \
        }                                                                                          \
        for (int a = 0; a < (points); a++) {                                                       \
            vec row[size], out[points];                                                            \
            for (int c = 0; c < (size); c++)                                                       \
                row[c] = half[c][a];                                                               \
            side(row, out);                                                                        \
            store_points(out, at->row, a, slab);                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name(const yki_minimal_plane *plane, const yki_minimal_tile *at, float *slab)      \
    {                                                                                              \
        BY_DTYPE(name##_as, plane, at, slab);                                                      \
    }

/* points x points to a square of size x size pixels, as far as it lies in the plane. */
#define TO_PIXELS(name, side, size, points, load_points)                                           \
    YKI_FORCE_INLINE void name##_as(const yki_minimal_plane *plane, const yki_minimal_tile *at,    \
                                    const float *slab, yk_dtype dtype)                             \
    {                                                                                              \
        vec half[points][size];                                                                    \
        for (int a = 0; a < (points); a++) {                                                       \
            vec row[points];                                                                       \
            load_points(slab, at->row, a, row);                                                    \
            side(row, half[a]);                                                                    \
        }                                                                                          \
        int64_t y = at->down * (size), x = at->across * (size);                                    \
        vec bias = {0};                                                                            \
        if (plane->bias)                                                                           \
            bias = load(plane->bias);                                                              \
        for (int c = 0; c < (size) && x + c < plane->columns; c++) {                               \
            vec column[points], pixels[size];                                                      \
            for (int a = 0; a < (points); a++)                                                     \
                column[a] = half[a][c];                                                            \
            side(column, pixels);                                                                  \
            for (int r = 0; r < (size) && y + r < plane->rows; r++)                                \
                store_pixel(plane, y + r, x + c, pixels[r] + bias, dtype);                         \
        }                                                                                          \
    }                                                                                              \
    static void name(const float *slab, const yki_minimal_plane *plane,                            \
                     const yki_minimal_tile *at)                                                   \
    {                                                                                              \
        BY_DTYPE(name##_as, plane, at, slab);                                                      \
    }

/* ---- weights --------------------------------------------------------------------------------- */

/* side: 3 -> 6 and 6 -> 3. */
#define WEIGHTS(name, side, gradient_side)                                                         \
    static void name(const float *weight, int64_t lane, int64_t count, bool turned,                \
                     float *matrices, int64_t matrix)                                              \
    {                                                                                              \
        yki_apart taps[YKI_APART_TAPS];                                                            \
        vec half[TAPS][CLASSES];                                                                   \
        load_taps(weight, lane, count, taps);                                                      \
        for (int c = 0; c < TAPS; c++) {                                                           \
            vec column[TAPS];                                                                      \
            for (int r = 0; r < TAPS; r++) {                                                       \
                int tap = r * TAPS + c;                                                            \
                column[r] = (vec)taps[turned ? YKI_APART_TAPS - 1 - tap : tap];                    \
            }                                                                                      \
            side(column, half[c]);                                                                 \
        }                                                                                          \
        for (int i = 0; i < CLASSES; i++) {                                                        \
            vec row[TAPS], out[CLASSES];                                                           \
            for (int c = 0; c < TAPS; c++)                                                         \
                row[c] = half[c][i];                                                               \
            side(row, out);                                                                        \
            for (int j = 0; j < CLASSES; j++)                                                      \
                store(matrices + (i * CLASSES + j) * matrix, out[j]);                              \
        }                                                                                          \
    }                                                                                              \
    static void name##_gradient(const float *sums, float *weight, int64_t lane, int64_t count)     \
    {                                                                                              \
        vec half[CLASSES][TAPS];                                                                   \
        for (int i = 0; i < CLASSES; i++) {                                                        \
            vec row[CLASSES];                                                                      \
            for (int j = 0; j < CLASSES; j++)                                                      \
                row[j] = load(sums + (i * CLASSES + j) * MATRIX);                                  \
            gradient_side(row, half[i]);                                                           \
        }                                                                                          \
        yki_apart taps[YKI_APART_TAPS];                                                            \
        for (int c = 0; c < TAPS; c++) {                                                           \
            vec column[CLASSES], out[TAPS];                                                        \
            for (int i = 0; i < CLASSES; i++)                                                      \
                column[i] = half[i][c];                                                            \
            gradient_side(column, out);                                                            \
            for (int r = 0; r < TAPS; r++)                                                         \
                taps[r * TAPS + c] = (yki_apart)out[r];                                            \
        }                                                                                          \
        store_taps(taps, weight, lane, count);                                                     \
    }

/* The taps of `count` kernels that are `lane` floats apart, then zeros. */
YKI_FORCE_INLINE void load_taps(const float *first, int64_t lane, int64_t count,
                                yki_apart taps[YKI_APART_TAPS])
{
    if (count >= YKI_WIDTH) {
        yki_apart_load_taps(first, lane, taps);
        return;
    }
    for (int tap = 0; tap < YKI_APART_TAPS; tap++) {
        vec lanes = {0};
        for (int l = 0; l < count; l++)
            lanes[l] = first[l * lane + tap];
        taps[tap] = (yki_apart)lanes;
    }
}

YKI_FORCE_INLINE void store_taps(const yki_apart taps[YKI_APART_TAPS], float *first, int64_t lane,
                                 int64_t count)
{
    if (count >= YKI_WIDTH) {
        yki_apart_store_taps(taps, first, lane);
        return;
    }
    for (int tap = 0; tap < YKI_APART_TAPS; tap++)
        for (int l = 0; l < count; l++)
            first[l * lane + tap] = ((vec)taps[tap])[l];
}

YKI_FORCE_INLINE void sum_pixels_as(const yki_minimal_plane *plane, float *sums, yk_dtype dtype)
{
    enum { AT_ONCE = 4 }; /* sums that do not wait for each other */
    vec sum[AT_ONCE] = {{0}};
    int64_t pixels = plane->rows * plane->columns, p = 0;
    for (; p + AT_ONCE <= pixels; p += AT_ONCE)
        for (int i = 0; i < AT_ONCE; i++)
            sum[i] += yki_load_lanes(plane->data, (p + i) * YKI_WIDTH, dtype);
    for (; p < pixels; p++)
        sum[0] += yki_load_lanes(plane->data, p * YKI_WIDTH, dtype);
    store(sums, load(sums) + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
}

static void sum_pixels(const yki_minimal_plane *plane, float *sums)
{
    BY_DTYPE(sum_pixels_as, plane, sums);
}

static void add_sums(const float *sums, int64_t columns, float *to)
{
    for (int64_t m = 0; m < YKI_MINIMAL_MATRICES; m++)
        for (int64_t row = 0; row < SIDE; row++)
            for (int64_t column = 0; column < columns; column += YKI_WIDTH) {
                int64_t at = m * MATRIX + row * SIDE + column;
                store(to + at, load(to + at) + load(sums + at));
            }
}

#endif
