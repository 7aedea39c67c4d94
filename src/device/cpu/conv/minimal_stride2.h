/* Stride 2, see minimal.h: F(4, 2) of the odd pixels, the even pixels as they are. */

enum {
    SINGLE = YKI_MINIMAL_SINGLE,
    SHARED = YKI_MINIMAL_SHARED,
    POINTS = SINGLE + SHARED, /* of a tile on each side */
    SPREAD = 2 * TILE,        /* pixels of x that a tile has on each side */
    HALVING_TILES = 24        /* of a slab, half a megabyte */
};

/* ---- F(4, 2): the matrices, each applied to a column ----------------------------------------- */

/* B' d: 5 -> 5, for the points 0, 1, -1, 2 and infinity. */
YKI_FORCE_INLINE void pair_b(const vec *d, vec *out)
{
    vec p = d[3] - d[1];
    out[0] = 2 * (d[0] - d[2]) + p;
    out[1] = p - (d[1] + d[2]);
    out[2] = 3 * (d[1] - d[2]) + p;
    out[3] = p;
    out[4] = (d[4] - d[2]) - 2 * p;
}

/* A' m: 5 -> 4 */
YKI_FORCE_INLINE void pair_a(const vec *m, vec *out)
{
    vec p = m[1] + m[2], q = m[1] - m[2];
    out[0] = m[0] + m[3] + p;
    out[1] = 2 * m[3] + q;
    out[2] = 4 * m[3] + p;
    out[3] = 8 * m[3] + q + m[4];
}

/* ---- sides ----------------------------------------------------------------------------------- */

/* 9 pixels of x -> 9 points. */
YKI_FORCE_INLINE void halving_data_side(const vec *d, vec *out)
{
    vec odd[SINGLE];
    for (int i = 0; i < SINGLE; i++)
        odd[i] = d[2 * i];
    pair_b(odd, out);
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[2 * i + 1];
}

/* 9 points -> 4 results. */
YKI_FORCE_INLINE void halving_result_side(const vec *m, vec *out)
{
    pair_a(m, out);
    for (int i = 0; i < SHARED; i++)
        out[i] += m[SINGLE + i];
}

/* The gradient of 4 results -> 9 points. */
YKI_FORCE_INLINE void halving_result_gradient_side(const vec *d, vec *out)
{
    vec p = d[0] + d[2], q = d[1] + d[3];
    vec r = 4 * d[2] + d[0], s = 8 * d[3] + 2 * d[1];
    out[0] = d[0];
    out[1] = p + q;
    out[2] = p - q;
    out[3] = r + s;
    out[4] = d[3];
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[i];
}

/* 5 pixels of dy -> 9 points. */
YKI_FORCE_INLINE void halving_gradient_data_side(const vec *d, vec *out)
{
    pair_b(d, out);
    for (int i = 0; i < SHARED; i++)
        out[SINGLE + i] = d[i];
}

/* 9 points -> 8 pixels of dx, of which the first is even. */
YKI_FORCE_INLINE void halving_gradient_result_side(const vec *m, vec *out)
{
    vec odd[TILE];
    pair_a(m, odd);
    for (int i = 0; i < TILE; i++) {
        out[2 * i] = m[SINGLE + i];
        out[2 * i + 1] = odd[i];
    }
}

/* 3 taps -> 6: G of the outer two, and the middle one. */
YKI_FORCE_INLINE void halving_weight_side(const vec *g, vec *out)
{
    out[0] = 0.5f * g[0];
    out[1] = -0.5f * (g[0] + g[2]);
    out[2] = (1.0f / 6) * (g[2] - g[0]);
    out[3] = (1.0f / 6) * g[0] + (1.0f / 3) * g[2];
    out[4] = g[2];
    out[5] = g[1];
}

YKI_FORCE_INLINE void halving_weight_gradient_side(const vec *u, vec *out)
{
    out[0] = 0.5f * (u[0] - u[1]) + (1.0f / 6) * (u[3] - u[2]);
    out[1] = u[5];
    out[2] = -0.5f * u[1] + ((1.0f / 6) * u[2] + ((1.0f / 3) * u[3] + u[4]));
}

/* ---- points ---------------------------------------------------------------------------------- */

/* The places of a tile's nine points in one row: five in matrices of their own, four together. */
typedef struct halving_row {
    float *single, *shared;
    int64_t step;
} halving_row;

YKI_FORCE_INLINE halving_row halving_row_at(const float *slab, int64_t tile, int a)
{
    const int64_t tile_points = (int64_t)HALVING_TILES * SIDE;
    int i = a < SINGLE ? a : SINGLE;
    int64_t points = i == SINGLE ? SHARED : 1, row = tile * points + a - i;
    float *matrices =
        (float *)(uintptr_t)slab + i * (POINTS * tile_points + (int64_t)CLASSES * YKI_MINIMAL_GAP);
    int64_t step = points * tile_points + YKI_MINIMAL_GAP;
    return (halving_row){.single = matrices + row * SIDE,
                         .shared = matrices + SINGLE * step + row * SHARED * SIDE,
                         .step = step};
}

YKI_FORCE_INLINE void halving_load(const float *slab, int64_t tile, int a, vec *points)
{
    halving_row at = halving_row_at(slab, tile, a);
#pragma GCC unroll 5
    for (int b = 0; b < SINGLE; b++)
        points[b] = load(at.single + b * at.step);
#pragma GCC unroll 4
    for (int b = 0; b < SHARED; b++)
        points[SINGLE + b] = load(at.shared + b * SIDE);
}

YKI_FORCE_INLINE void halving_store(const vec *points, int64_t tile, int a, float *slab)
{
    halving_row at = halving_row_at(slab, tile, a);
#pragma GCC unroll 5
    for (int b = 0; b < SINGLE; b++)
        store(at.single + b * at.step, points[b]);
#pragma GCC unroll 4
    for (int b = 0; b < SHARED; b++)
        store(at.shared + b * SIDE, points[SINGLE + b]);
}

/* ---- transformations ------------------------------------------------------------------------- */

YKI_FORCE_INLINE window halving_data_window(const yki_minimal_plane *x, const yki_minimal_tile *at)
{
    return window_at(x, at->down * SPREAD - 1, at->across * SPREAD - 1, POINTS);
}

YKI_FORCE_INLINE window halving_result_window(const yki_minimal_plane *dy,
                                              const yki_minimal_tile *at)
{
    return window_at(dy, at->down * TILE, at->across * TILE, TILE);
}

YKI_FORCE_INLINE window halving_gradient_window(const yki_minimal_plane *dy,
                                                const yki_minimal_tile *at)
{
    return window_at(dy, at->down * TILE, at->across * TILE, TILE + 1);
}

TO_POINTS(halving_data, halving_data_window, halving_data_side, POINTS, POINTS, halving_store)
TO_POINTS(halving_result_gradient, halving_result_window, halving_result_gradient_side, TILE,
          POINTS, halving_store)
TO_POINTS(halving_gradient_data, halving_gradient_window, halving_gradient_data_side, TILE + 1,
          POINTS, halving_store)
TO_PIXELS(halving_result, halving_result_side, TILE, POINTS, halving_load)
TO_PIXELS(halving_gradient_result, halving_gradient_result_side, SPREAD, POINTS, halving_load)
WEIGHTS(halving_weight, halving_weight_side, halving_weight_gradient_side)
