/*
 * Winograd's transformations with AVX-512. CMake gives this file its flags; nothing here runs
 * unless the processor has them.
 */
#include "device/cpu/winograd.h"

#if defined(__x86_64__)
#include "device/cpu/avx512.h"

enum { LANES = 16, MATRIX = YKI_WINOGRAD_MATRIX };

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

/* ---- the matrices, each applied to a column ------------------------------------------------- */

/* B' d: 6 -> 6 */
YKI_FORCE_INLINE void apply_b(const vec *d, vec *out)
{
    vec p = multiply_add(-4, d[2], d[4]), q = multiply_add(-4, d[1], d[3]);
    vec r = _mm512_sub_ps(d[4], d[2]), s = mul(2, _mm512_sub_ps(d[3], d[1]));
    out[0] = multiply_add(4, d[0], multiply_add(-5, d[2], d[4]));
    out[1] = _mm512_add_ps(p, q);
    out[2] = _mm512_sub_ps(p, q);
    out[3] = _mm512_add_ps(r, s);
    out[4] = _mm512_sub_ps(r, s);
    out[5] = multiply_add(4, d[1], multiply_add(-5, d[3], d[5]));
}

/* A' m: 6 -> 4 */
YKI_FORCE_INLINE void apply_a(const vec *m, vec *out)
{
    vec p = _mm512_add_ps(m[1], m[2]), q = _mm512_sub_ps(m[1], m[2]);
    vec r = _mm512_add_ps(m[3], m[4]), s = _mm512_sub_ps(m[3], m[4]);
    out[0] = _mm512_add_ps(_mm512_add_ps(m[0], p), r);
    out[1] = multiply_add(2, s, q);
    out[2] = multiply_add(4, r, p);
    out[3] = multiply_add(8, s, _mm512_add_ps(q, m[5]));
}

/* A d: 4 -> 6 */
YKI_FORCE_INLINE void apply_a_transposed(const vec *d, vec *out)
{
    vec p = _mm512_add_ps(d[0], d[2]), q = _mm512_add_ps(d[1], d[3]);
    vec r = multiply_add(4, d[2], d[0]), s = multiply_add(8, d[3], mul(2, d[1]));
    out[0] = d[0];
    out[1] = _mm512_add_ps(p, q);
    out[2] = _mm512_sub_ps(p, q);
    out[3] = _mm512_add_ps(r, s);
    out[4] = _mm512_sub_ps(r, s);
    out[5] = d[3];
}

/* G g: 3 -> 6 */
YKI_FORCE_INLINE void apply_g(const vec *g, vec *out)
{
    vec p = mul(-1.0f / 6, _mm512_add_ps(g[0], g[2])), q = mul(-1.0f / 6, g[1]);
    vec r = multiply_add(1.0f / 24, g[0], mul(1.0f / 6, g[2])), s = mul(1.0f / 12, g[1]);
    out[0] = mul(0.25f, g[0]);
    out[1] = _mm512_add_ps(p, q);
    out[2] = _mm512_sub_ps(p, q);
    out[3] = _mm512_add_ps(r, s);
    out[4] = _mm512_sub_ps(r, s);
    out[5] = g[2];
}

/* G' u: 6 -> 3 */
YKI_FORCE_INLINE void apply_g_transposed(const vec *u, vec *out)
{
    vec p = mul(1.0f / 6, _mm512_add_ps(u[1], u[2])), q = _mm512_sub_ps(u[2], u[1]);
    vec r = _mm512_add_ps(u[3], u[4]), s = _mm512_sub_ps(u[3], u[4]);
    out[0] = multiply_add(0.25f, u[0], multiply_add(1.0f / 24, r, mul(-1, p)));
    out[1] = multiply_add(1.0f / 6, q, mul(1.0f / 12, s));
    out[2] = _mm512_add_ps(multiply_add(1.0f / 6, r, mul(-1, p)), u[5]);
}

/* ---- transformations ------------------------------------------------------------------------ */

/* The patch of size x size at (y, x), row by row, zero outside the plane. */
YKI_FORCE_INLINE void load_patch(const yki_winograd_plane *plane, int64_t y, int64_t x, int size,
                                 yk_dtype dtype, vec *patch)
{
    int64_t corner = y * plane->columns + x;
    bool all = y >= 0 && x >= 0 && y + size <= plane->rows && x + size <= plane->columns;
    for (int r = 0; r < size; r++)
        for (int c = 0; c < size; c++) {
            bool inside =
                all || (y + r >= 0 && y + r < plane->rows && x + c >= 0 && x + c < plane->columns);
            int64_t pixel = corner + r * plane->columns + c;
            patch[r * size + c] =
                inside ? yki_vec_load(plane->data, pixel * LANES, dtype) : _mm512_setzero_ps();
        }
}

/* Applies a matrix of in -> out to both sides of a patch. */
#define BOTH_SIDES(apply, in, out, patch, result)                                                  \
    do {                                                                                           \
        vec half_[in][out];                                                                        \
        for (int c_ = 0; c_ < (in); c_++) {                                                        \
            vec column_[in];                                                                       \
            for (int r_ = 0; r_ < (in); r_++)                                                      \
                column_[r_] = (patch)[r_][c_];                                                     \
            apply(column_, half_[c_]);                                                             \
        }                                                                                          \
        for (int r_ = 0; r_ < (out); r_++) {                                                       \
            vec row_[in];                                                                          \
            for (int c_ = 0; c_ < (in); c_++)                                                      \
                row_[c_] = half_[c_][r_];                                                          \
            apply(row_, (result)[r_]);                                                             \
        }                                                                                          \
    } while (0)

YKI_FORCE_INLINE void load_slab(const float *slab, vec patch[6][6])
{
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            patch[r][c] = _mm512_load_ps(slab + (r * 6 + c) * MATRIX);
}

YKI_FORCE_INLINE void store_slab(vec patch[6][6], float *slab)
{
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            _mm512_store_ps(slab + (r * 6 + c) * MATRIX, patch[r][c]);
}

/* Calls `loop` with the plane's dtype as a constant. */
#define BY_DTYPE(loop, plane, y, x, slab)                                                          \
    do {                                                                                           \
        if ((plane)->dtype == YK_F32)                                                              \
            loop(plane, y, x, YK_F32, slab);                                                       \
        else if ((plane)->dtype == YK_BF16)                                                        \
            loop(plane, y, x, YK_BF16, slab);                                                      \
        else                                                                                       \
            loop(plane, y, x, YK_F16, slab);                                                       \
    } while (0)

YKI_FORCE_INLINE void data(const yki_winograd_plane *plane, int64_t y, int64_t x, yk_dtype dtype,
                           float *slab)
{
    vec patch[6][6], out[6][6];
    load_patch(plane, y, x, 6, dtype, patch[0]);
    BOTH_SIDES(apply_b, 6, 6, patch, out);
    store_slab(out, slab);
}

void yki_winograd_data(const yki_winograd_plane *plane, int64_t y, int64_t x, float *slab)
{
    BY_DTYPE(data, plane, y, x, slab);
}

YKI_FORCE_INLINE void result(const yki_winograd_plane *plane, int64_t y, int64_t x, yk_dtype dtype,
                             const float *slab)
{
    vec patch[6][6], out[4][4];
    load_slab(slab, patch);
    BOTH_SIDES(apply_a, 6, 4, patch, out);
    int64_t corner = y * plane->columns + x;
    for (int r = 0; r < 4 && y + r < plane->rows; r++)
        for (int c = 0; c < 4 && x + c < plane->columns; c++)
            yki_vec_store(plane->data, (corner + r * plane->columns + c) * LANES, out[r][c], dtype);
}

void yki_winograd_result(const float *slab, const yki_winograd_plane *plane, int64_t y, int64_t x)
{
    BY_DTYPE(result, plane, y, x, slab);
}

YKI_FORCE_INLINE void result_gradient(const yki_winograd_plane *plane, int64_t y, int64_t x,
                                      yk_dtype dtype, float *slab)
{
    vec patch[4][4], out[6][6];
    load_patch(plane, y, x, 4, dtype, patch[0]);
    BOTH_SIDES(apply_a_transposed, 4, 6, patch, out);
    store_slab(out, slab);
}

void yki_winograd_result_gradient(const yki_winograd_plane *plane, int64_t y, int64_t x,
                                  float *slab)
{
    BY_DTYPE(result_gradient, plane, y, x, slab);
}

void yki_winograd_weight(const float *weight, int64_t lane, bool turned, float *slab)
{
    vec patch[3][3], out[6][6];
    __m512i lanes = yki_lanes_apart(lane);
    for (int tap = 0; tap < 9; tap++) {
        int at = turned ? 8 - tap : tap;
        patch[at / 3][at % 3] = _mm512_i32gather_ps(lanes, weight + tap, sizeof(float));
    }
    BOTH_SIDES(apply_g, 3, 6, patch, out);
    store_slab(out, slab);
}

void yki_winograd_add(const float *slab, int64_t columns, float *to)
{
    for (int64_t point = 0; point < YKI_WINOGRAD_POINTS; point++)
        for (int64_t row = 0; row < YKI_WINOGRAD_SIDE; row++)
            for (int64_t column = 0; column < columns; column += LANES) {
                int64_t at = point * MATRIX + row * YKI_WINOGRAD_SIDE + column;
                _mm512_store_ps(to + at,
                                _mm512_add_ps(_mm512_load_ps(to + at), _mm512_load_ps(slab + at)));
            }
}

void yki_winograd_weight_gradient(const float *slab, float *weight, int64_t lane)
{
    vec patch[6][6], out[3][3];
    load_slab(slab, patch);
    BOTH_SIDES(apply_g_transposed, 6, 3, patch, out);
    __m512i lanes = yki_lanes_apart(lane);
    for (int tap = 0; tap < 9; tap++)
        _mm512_i32scatter_ps(weight + tap, lanes, out[tap / 3][tap % 3], sizeof(float));
}

#endif
