/*
 * The transformations of halving.h with AVX-512. CMake gives this file its flags; nothing here runs
 * unless the processor has them.
 */
#include "device/cpu/halving.h"

#if defined(__x86_64__)
#include "device/cpu/avx512.h"

enum {
    LANES = 16,
    TILE = YKI_HALVING_TILE,
    SINGLE = YKI_HALVING_SINGLE,
    SHARED = YKI_HALVING_SHARED,
    POINTS = YKI_HALVING_POINTS,
    CLASSES = YKI_HALVING_CLASSES,
    SIDE = YKI_HALVING_SIDE,
    SPREAD = 2 * TILE, /* pixels of x that a tile has on each side */
    TAPS = 3
};

typedef yki_vec vec;

YKI_FORCE_INLINE vec mul(float factor, vec a)
{
    return _mm512_mul_ps(_mm512_set1_ps(factor), a);
}

/* c + factor a */
YKI_FORCE_INLINE vec multiply_add(float factor, vec a, vec c)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(factor), a, c);
}

/* ---- F(4, 2): the matrices, each applied to a column ---------------------------------------- */

/* B' d: 5 -> 5, for the points 0, 1, -1, 2 and infinity. */
YKI_FORCE_INLINE void apply_b(const vec *d, vec *out)
{
    vec p = _mm512_sub_ps(d[3], d[1]);
    out[0] = multiply_add(2, _mm512_sub_ps(d[0], d[2]), p);
    out[1] = _mm512_sub_ps(p, _mm512_add_ps(d[1], d[2]));
    out[2] = multiply_add(3, _mm512_sub_ps(d[1], d[2]), p);
    out[3] = p;
    out[4] = multiply_add(-2, p, _mm512_sub_ps(d[4], d[2]));
}

/* A' m: 5 -> 4 */
YKI_FORCE_INLINE void apply_a(const vec *m, vec *out)
{
    vec p = _mm512_add_ps(m[1], m[2]), q = _mm512_sub_ps(m[1], m[2]);
    out[0] = _mm512_add_ps(_mm512_add_ps(m[0], m[3]), p);
    out[1] = multiply_add(2, m[3], q);
    out[2] = multiply_add(4, m[3], p);
    out[3] = _mm512_add_ps(multiply_add(8, m[3], q), m[4]);
}

/* ---- sides: F(4, 2) of the odd pixels, the even pixels as they are --------------------------- */

/* 9 pixels of x -> 9 points. */
YKI_FORCE_INLINE void data_side(const vec *d, vec *out)
{
    vec odd[SINGLE];
    for (int i = 0; i < SINGLE; i++)
        odd[i] = d[2 * i];
    apply_b(odd, out);
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[2 * i + 1];
}

/* 9 points -> 4 results. */
YKI_FORCE_INLINE void result_side(const vec *m, vec *out)
{
    apply_a(m, out);
    for (int i = 0; i < SHARED; i++)
        out[i] = _mm512_add_ps(out[i], m[SINGLE + i]);
}

/* The gradient of 4 results -> 9 points. */
YKI_FORCE_INLINE void result_gradient_side(const vec *d, vec *out)
{
    vec p = _mm512_add_ps(d[0], d[2]), q = _mm512_add_ps(d[1], d[3]);
    vec r = multiply_add(4, d[2], d[0]), s = multiply_add(8, d[3], mul(2, d[1]));
    out[0] = d[0];
    out[1] = _mm512_add_ps(p, q);
    out[2] = _mm512_sub_ps(p, q);
    out[3] = _mm512_add_ps(r, s);
    out[4] = d[3];
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[i];
}

/* 5 pixels of dy -> 9 points. */
YKI_FORCE_INLINE void spread_data_side(const vec *d, vec *out)
{
    apply_b(d, out);
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[i];
}

/* 9 points -> 8 pixels of dx, of which the first is even. */
YKI_FORCE_INLINE void spread_result_side(const vec *m, vec *out)
{
    vec odd[TILE];
    apply_a(m, odd);
    for (int i = 0; i < TILE; i++) {
        out[2 * i] = m[SINGLE + i];
        out[2 * i + 1] = odd[i];
    }
}

/* 3 taps -> 6: G of the outer two, and the middle one. */
YKI_FORCE_INLINE void weight_side(const vec *g, vec *out)
{
    out[0] = mul(0.5f, g[0]);
    out[1] = mul(-0.5f, _mm512_add_ps(g[0], g[2]));
    out[2] = mul(1.0f / 6, _mm512_sub_ps(g[2], g[0]));
    out[3] = multiply_add(1.0f / 6, g[0], mul(1.0f / 3, g[2]));
    out[4] = g[2];
    out[5] = g[1];
}

YKI_FORCE_INLINE void weight_gradient_side(const vec *u, vec *out)
{
    out[0] =
        multiply_add(0.5f, _mm512_sub_ps(u[0], u[1]), mul(1.0f / 6, _mm512_sub_ps(u[3], u[2])));
    out[1] = u[5];
    out[2] =
        multiply_add(-0.5f, u[1], multiply_add(1.0f / 6, u[2], multiply_add(1.0f / 3, u[3], u[4])));
}

/* ---- pixels and points ----------------------------------------------------------------------- */

/* Pixels of a plane from a corner on; `all`: none of those that are read lies outside. */
typedef struct window {
    const yki_winograd_plane *plane;
    int64_t y, x;
    bool all;
} window;

YKI_FORCE_INLINE window window_at(const yki_winograd_plane *plane, int64_t y, int64_t x, int size)
{
    bool all = y >= 0 && x >= 0 && y + size <= plane->rows && x + size <= plane->columns;
    return (window){plane, y, x, all};
}

/* `size` pixels of one column, zero outside the plane. */
YKI_FORCE_INLINE void load_column(const window *w, int c, int size, yk_dtype dtype, vec *column)
{
    const yki_winograd_plane *p = w->plane;
    int64_t first = w->y * p->columns + w->x + c;
    bool across = w->x + c >= 0 && w->x + c < p->columns;
#pragma GCC unroll 9
    for (int r = 0; r < size; r++) {
        bool inside = w->all || (across && w->y + r >= 0 && w->y + r < p->rows);
        column[r] = inside ? yki_vec_load(p->data, (first + r * p->columns) * LANES, dtype)
                           : _mm512_setzero_ps();
    }
}

/* The places of a tile's nine points in one row: five in matrices of their own, four together. */
typedef struct points_row {
    float *single, *shared;
    int64_t step;
} points_row;

YKI_FORCE_INLINE points_row points_row_at(const float *slab, int64_t tile, int a)
{
    int i = a < SINGLE ? a : SINGLE;
    int64_t row = tile * yki_halving_points(i, 0) + a - i;
    float *matrices = (float *)(uintptr_t)slab + yki_halving_offset(i, 0);
    int64_t step = yki_halving_offset(i, 1) - yki_halving_offset(i, 0);
    return (points_row){.single = matrices + row * SIDE,
                        .shared = matrices + SINGLE * step + row * SHARED * SIDE,
                        .step = step};
}

YKI_FORCE_INLINE void load_points(const float *slab, int64_t tile, int a, vec *points)
{
    points_row at = points_row_at(slab, tile, a);
#pragma GCC unroll 5
    for (int b = 0; b < SINGLE; b++)
        points[b] = _mm512_load_ps(at.single + b * at.step);
#pragma GCC unroll 4
    for (int b = 0; b < SHARED; b++)
        points[SINGLE + b] = _mm512_load_ps(at.shared + b * SIDE);
}

YKI_FORCE_INLINE void store_points(const vec *points, int64_t tile, int a, float *slab)
{
    points_row at = points_row_at(slab, tile, a);
#pragma GCC unroll 5
    for (int b = 0; b < SINGLE; b++)
        _mm512_store_ps(at.single + b * at.step, points[b]);
#pragma GCC unroll 4
    for (int b = 0; b < SHARED; b++)
        _mm512_store_ps(at.shared + b * SIDE, points[SINGLE + b]);
}

/* ---- transformations ------------------------------------------------------------------------- */

/* A square of size x size pixels to 9x9 points. */
#define TO_POINTS(name, side, size)                                                                \
    YKI_FORCE_INLINE void name##_points(const window *from, yk_dtype dtype, int64_t tile,          \
                                        float *slab)                                               \
    {                                                                                              \
        vec half[size][POINTS];                                                                    \
        for (int c = 0; c < (size); c++) {                                                         \
            vec column[size];                                                                      \
            load_column(from, c, size, dtype, column);                                             \
            side(column, half[c]);                                                                 \
        }                                                                                          \
        for (int a = 0; a < POINTS; a++) {                                                         \
            vec row[size], points[POINTS];                                                         \
            for (int c = 0; c < (size); c++)                                                       \
                row[c] = half[c][a];                                                               \
            side(row, points);                                                                     \
            store_points(points, tile, a, slab);                                                   \
        }                                                                                          \
    }                                                                                              \
    void yki_halving_##name(const yki_winograd_plane *plane, const yki_halving_tile *at,           \
                            float *slab)                                                           \
    {                                                                                              \
        window from = name##_window(plane, at);                                                    \
        if (plane->dtype == YK_F32)                                                                \
            name##_points(&from, YK_F32, at->row, slab);                                           \
        else if (plane->dtype == YK_BF16)                                                          \
            name##_points(&from, YK_BF16, at->row, slab);                                          \
        else                                                                                       \
            name##_points(&from, YK_F16, at->row, slab);                                           \
    }

YKI_FORCE_INLINE window data_window(const yki_winograd_plane *x, const yki_halving_tile *at)
{
    return window_at(x, at->down * SPREAD - 1, at->across * SPREAD - 1, POINTS);
}

YKI_FORCE_INLINE window result_gradient_window(const yki_winograd_plane *dy,
                                               const yki_halving_tile *at)
{
    return window_at(dy, at->down * TILE, at->across * TILE, TILE);
}

YKI_FORCE_INLINE window spread_data_window(const yki_winograd_plane *dy, const yki_halving_tile *at)
{
    return window_at(dy, at->down * TILE, at->across * TILE, TILE + 1);
}

TO_POINTS(data, data_side, POINTS)
TO_POINTS(result_gradient, result_gradient_side, TILE)
TO_POINTS(spread_data, spread_data_side, TILE + 1)

/* 9x9 points to a square of size x size pixels, as far as it lies in the plane. */
#define FROM_POINTS(name, side, size)                                                              \
    YKI_FORCE_INLINE void name##_pixels(const float *slab, const yki_winograd_plane *plane,        \
                                        yk_dtype dtype, const yki_halving_tile *at)                \
    {                                                                                              \
        vec half[POINTS][size];                                                                    \
        for (int a = 0; a < POINTS; a++) {                                                         \
            vec points[POINTS];                                                                    \
            load_points(slab, at->row, a, points);                                                 \
            side(points, half[a]);                                                                 \
        }                                                                                          \
        int64_t y = at->down * (size), x = at->across * (size);                                    \
        for (int c = 0; c < (size) && x + c < plane->columns; c++) {                               \
            vec column[POINTS], pixels[size];                                                      \
            for (int a = 0; a < POINTS; a++)                                                       \
                column[a] = half[a][c];                                                            \
            side(column, pixels);                                                                  \
            for (int r = 0; r < (size) && y + r < plane->rows; r++)                                \
                yki_vec_store(plane->data, ((y + r) * plane->columns + x + c) * LANES, pixels[r],  \
                              dtype);                                                              \
        }                                                                                          \
    }                                                                                              \
    void yki_halving_##name(const float *slab, const yki_winograd_plane *plane,                    \
                            const yki_halving_tile *at)                                            \
    {                                                                                              \
        if (plane->dtype == YK_F32)                                                                \
            name##_pixels(slab, plane, YK_F32, at);                                                \
        else if (plane->dtype == YK_BF16)                                                          \
            name##_pixels(slab, plane, YK_BF16, at);                                               \
        else                                                                                       \
            name##_pixels(slab, plane, YK_F16, at);                                                \
    }

FROM_POINTS(result, result_side, TILE)
FROM_POINTS(spread_result, spread_result_side, SPREAD)

/* ---- weights --------------------------------------------------------------------------------- */

void yki_halving_weight(const float *weight, int64_t lane, bool turned, float *matrices,
                        int64_t matrix)
{
    vec half[TAPS][CLASSES];
    __m512i lanes = yki_lanes_apart(lane);
    for (int c = 0; c < TAPS; c++) {
        vec column[TAPS];
        for (int r = 0; r < TAPS; r++) {
            int tap = r * TAPS + c, at = turned ? TAPS * TAPS - 1 - tap : tap;
            column[r] = _mm512_i32gather_ps(lanes, weight + at, sizeof(float));
        }
        weight_side(column, half[c]);
    }
    for (int i = 0; i < CLASSES; i++) {
        vec row[TAPS], out[CLASSES];
        for (int c = 0; c < TAPS; c++)
            row[c] = half[c][i];
        weight_side(row, out);
        for (int j = 0; j < CLASSES; j++)
            _mm512_store_ps(matrices + (i * CLASSES + j) * matrix, out[j]);
    }
}

void yki_halving_weight_gradient(const float *sums, float *weight, int64_t lane)
{
    vec half[CLASSES][TAPS];
    __m512i lanes = yki_lanes_apart(lane);
    for (int i = 0; i < CLASSES; i++) {
        vec row[CLASSES];
        for (int j = 0; j < CLASSES; j++)
            row[j] = _mm512_load_ps(sums + (i * CLASSES + j) * YKI_WINOGRAD_MATRIX);
        weight_gradient_side(row, half[i]);
    }
    for (int c = 0; c < TAPS; c++) {
        vec column[CLASSES], out[TAPS];
        for (int i = 0; i < CLASSES; i++)
            column[i] = half[i][c];
        weight_gradient_side(column, out);
        for (int r = 0; r < TAPS; r++)
            _mm512_i32scatter_ps(weight + r * TAPS + c, lanes, out[r], sizeof(float));
    }
}

#endif
