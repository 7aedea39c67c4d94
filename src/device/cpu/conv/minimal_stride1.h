/*
 * Stride 1, see minimal.h: F(4x4, 3x3), with the matrices of Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2015. The gradient of x is a convolution with turned weights.
 */

enum {
    PATCH = 6,          /* pixels, and points, of a tile on each side */
    WINOGRAD_TILES = 48 /* of a slab, half a megabyte */
};

/* ---- the matrices, each applied to a column -------------------------------------------------- */

/* B' d: 6 -> 6 */
YKI_FORCE_INLINE void winograd_data_side(const vec *d, vec *out)
{
    vec p = d[4] - 4 * d[2], q = d[3] - 4 * d[1];
    vec r = d[4] - d[2], s = 2 * (d[3] - d[1]);
    out[0] = 4 * d[0] + (d[4] - 5 * d[2]);
    out[1] = p + q;
    out[2] = p - q;
    out[3] = r + s;
    out[4] = r - s;
    out[5] = 4 * d[1] + (d[5] - 5 * d[3]);
}

/* A' m: 6 -> 4 */
YKI_FORCE_INLINE void winograd_result_side(const vec *m, vec *out)
{
    vec p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
    out[0] = m[0] + p + r;
    out[1] = 2 * s + q;
    out[2] = 4 * r + p;
    out[3] = 8 * s + (q + m[5]);
}

/* A d: 4 -> 6 */
YKI_FORCE_INLINE void winograd_result_gradient_side(const vec *d, vec *out)
{
    vec p = d[0] + d[2], q = d[1] + d[3];
    vec r = 4 * d[2] + d[0], s = 8 * d[3] + 2 * d[1];
    out[0] = d[0];
    out[1] = p + q;
    out[2] = p - q;
    out[3] = r + s;
    out[4] = r - s;
    out[5] = d[3];
}

/* G g: 3 -> 6 */
YKI_FORCE_INLINE void winograd_weight_side(const vec *g, vec *out)
{
    vec p = (-1.0f / 6) * (g[0] + g[2]), q = (-1.0f / 6) * g[1];
    vec r = (1.0f / 24) * g[0] + (1.0f / 6) * g[2], s = (1.0f / 12) * g[1];
    out[0] = 0.25f * g[0];
    out[1] = p + q;
    out[2] = p - q;
    out[3] = r + s;
    out[4] = r - s;
    out[5] = g[2];
}

/* G' u: 6 -> 3 */
YKI_FORCE_INLINE void winograd_weight_gradient_side(const vec *u, vec *out)
{
    vec p = (1.0f / 6) * (u[1] + u[2]), q = u[2] - u[1], r = u[3] + u[4], s = u[3] - u[4];
    out[0] = 0.25f * u[0] + ((1.0f / 24) * r - p);
    out[1] = (1.0f / 6) * q + (1.0f / 12) * s;
    out[2] = ((1.0f / 6) * r - p) + u[5];
}

/* ---- points ---------------------------------------------------------------------------------- */

enum { WINOGRAD_STEP = WINOGRAD_TILES * SIDE + YKI_MINIMAL_GAP };

YKI_FORCE_INLINE void winograd_load(const float *slab, int64_t tile, int a, vec *points)
{
    const float *row = slab + (int64_t)a * PATCH * WINOGRAD_STEP + tile * SIDE;
    for (int b = 0; b < PATCH; b++)
        points[b] = load(row + (int64_t)b * WINOGRAD_STEP);
}

YKI_FORCE_INLINE void winograd_store(const vec *points, int64_t tile, int a, float *slab)
{
    float *row = slab + (int64_t)a * PATCH * WINOGRAD_STEP + tile * SIDE;
    for (int b = 0; b < PATCH; b++)
        store(row + (int64_t)b * WINOGRAD_STEP, points[b]);
}

/* ---- transformations ------------------------------------------------------------------------- */

YKI_FORCE_INLINE window winograd_data_window(const yki_minimal_plane *x, const yki_minimal_tile *at)
{
    return window_at(x, at->down * TILE - 1, at->across * TILE - 1, PATCH);
}

YKI_FORCE_INLINE window winograd_result_window(const yki_minimal_plane *dy,
                                               const yki_minimal_tile *at)
{
    return window_at(dy, at->down * TILE, at->across * TILE, TILE);
}

TO_POINTS(winograd_data, winograd_data_window, winograd_data_side, PATCH, PATCH, winograd_store)
TO_POINTS(winograd_result_gradient, winograd_result_window, winograd_result_gradient_side, TILE,
          PATCH, winograd_store)
TO_PIXELS(winograd_result, winograd_result_side, TILE, PATCH, winograd_load)
WEIGHTS(winograd_weight, winograd_weight_side, winograd_weight_gradient_side)
