/*
 * Patches of Winograd's transformations in registers, 16 channels to a vector. Only for files that
 * CMake compiles for AVX-512.
 */
#ifndef YKI_WINOGRAD_PATCH_H
#define YKI_WINOGRAD_PATCH_H
#if defined(__AVX512F__)

#define YKI_WIDTH 16
#include "device/cpu/apart.h"
#include "device/cpu/loops/vector.h"
#include "device/cpu/x86/avx512.h"
#include "device/cpu/x86/winograd.h"

enum {
    LANES = YKI_WINOGRAD_LANES,
    SIDE = YKI_WINOGRAD_SIDE,
    POINTS = YKI_WINOGRAD_POINTS,
    PATCH = 6
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

/* ---- where patches are ---------------------------------------------------------------------- */

/* A patch of 16 channels: the element of its corner, which may lie outside, and which of its rows
 * and columns are in the plane. */
typedef struct place {
    const void *data;
    int64_t corner, columns;
    unsigned rows_in, columns_in; /* bits */
} place;

/* Bits of the `size` numbers from `first` on that are in 0 .. count. */
YKI_FORCE_INLINE unsigned bits_inside(int64_t first, int64_t size, int64_t count)
{
    int64_t skip = first < 0 ? -first : 0, end = count - first < size ? count - first : size;
    return end <= skip ? 0 : ((1u << end) - 1) & ~((1u << skip) - 1);
}

typedef struct tile {
    int64_t image, y, x;
} tile;

YKI_FORCE_INLINE tile tile_of(const yki_winograd_tiles *a, int64_t index)
{
    int64_t in_image = index % (a->down * a->across);
    return (tile){.image = index / (a->down * a->across),
                  .y = in_image / a->across * YKI_WINOGRAD_TILE,
                  .x = in_image % a->across * YKI_WINOGRAD_TILE};
}

/* The tile after this one, without a division. */
YKI_FORCE_INLINE void move_on(const yki_winograd_tiles *a, tile *t)
{
    t->x += YKI_WINOGRAD_TILE;
    if (t->x < a->across * YKI_WINOGRAD_TILE)
        return;
    t->x = 0;
    t->y += YKI_WINOGRAD_TILE;
    if (t->y < a->down * YKI_WINOGRAD_TILE)
        return;
    t->y = 0;
    t->image++;
}

/* `part` of the channels of a group; `size` is 6 for a patch and 4 for a tile. */
YKI_FORCE_INLINE place place_of(const yki_winograd_tiles *a, tile at, int64_t group, int64_t part,
                                int size)
{
    const yki_panel_activation *of = &a->of;
    int64_t channels = (at.image * of->groups + group) * SIDE + part * LANES;
    int64_t y = at.y + a->offset, x = at.x + a->offset;
    return (place){.data = a->data,
                   .corner = channels * of->rows * of->columns + (y * of->columns + x) * LANES,
                   .columns = of->columns,
                   .rows_in = bits_inside(y, size, of->rows),
                   .columns_in = bits_inside(x, size, of->columns)};
}

/* ---- prefetching ---------------------------------------------------------------------------- */

enum { AHEAD = 8 /* tiles between a tile's prefetch and its use */ };

/* The tile that is prefetched: tiles change faster than planes, of 16 channels of an image each. */
typedef struct follower {
    tile at;
    int64_t plane, left; /* tiles until the next plane */
} follower;

YKI_FORCE_INLINE follower follower_of(const yki_winograd_tiles *a, yki_winograd_span tiles,
                                      int64_t group)
{
    int64_t count = tiles.end - tiles.begin, skipped = AHEAD < count ? AHEAD : 0;
    return (follower){tile_of(a, tiles.begin + skipped), group * YKI_WINOGRAD_PARTS,
                      count - skipped};
}

/* The last four rows of a tile's patch, which no patch above it has, into the second-level cache.
 * Rows below the plane are the first ones of the next, which has a patch like them. A tile that
 * reaches beyond the operand does no harm: a prefetch of memory that is not there is ignored. */
YKI_FORCE_INLINE void fetch_tile(const yki_winograd_tiles *a, const follower *f, int size,
                                 yk_dtype dtype)
{
    const yki_panel_activation *of = &a->of;
    const int64_t bytes = dtype == YK_F32 ? 4 : 2, line = 64 / (LANES * bytes);
    int64_t y = f->at.y + a->offset + size - YKI_WINOGRAD_TILE;
    int64_t channels = f->at.image * of->groups * YKI_WINOGRAD_PARTS + f->plane;
    const char *pixels =
        (const char *)a->data + ((channels * of->rows + y) * of->columns + f->at.x) * LANES * bytes;
    for (int r = 0; r < YKI_WINOGRAD_TILE; r++)
        for (int c = 0; c < YKI_WINOGRAD_TILE; c += line)
            _mm_prefetch(pixels + (r * of->columns + c) * LANES * bytes, _MM_HINT_T1);
}

/* Prefetches a tile and moves on to the next. */
YKI_FORCE_INLINE void follow(const yki_winograd_tiles *a, yki_winograd_span tiles, follower *f,
                             int size, yk_dtype dtype)
{
    fetch_tile(a, f, size, dtype);
    move_on(a, &f->at);
    if (--f->left > 0)
        return;
    f->at = tile_of(a, tiles.begin);
    f->plane++;
    f->left = tiles.end - tiles.begin;
}

/* ---- loads ---------------------------------------------------------------------------------- */

/* Zeros where the mask is; nothing is read there. */
YKI_FORCE_INLINE vec load_masked(const void *data, int64_t at, yk_dtype dtype, __mmask16 mask)
{
    if (dtype == YK_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)data + at);
    __m256i halves = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)data + at);
    if (dtype == YK_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* A row of a patch of size x size, zero outside the plane. `whole`, a constant: all of the patch is
 * in the plane; otherwise `inside` masks columns. */
YKI_FORCE_INLINE void load_row(const place *p, int size, int r, bool whole, const __mmask16 *inside,
                               yk_dtype dtype, vec *row)
{
    int64_t at = p->corner + r * p->columns * LANES;
    for (int c = 0; c < size; c++)
        if (whole)
            row[c] = yki_vec_load(p->data, at + c * LANES, dtype);
        else if (p->rows_in >> r & 1)
            row[c] = load_masked(p->data, at + c * LANES, dtype, inside[c]);
        else
            row[c] = _mm512_setzero_ps();
}

/* Applies a matrix to the rows of the patch at p: half[r][c]. Each branch does so itself, because a
 * patch that two branches load for what follows goes through memory once more. */
#define APPLY_TO_PATCH(apply, size, p, dtype, half)                                                \
    do {                                                                                           \
        __mmask16 inside_[size];                                                                   \
        vec row_[size];                                                                            \
        for (int c_ = 0; c_ < (size); c_++)                                                        \
            inside_[c_] = (__mmask16) - (int)((p)->columns_in >> c_ & 1);                          \
        if (((p)->rows_in & (p)->columns_in) == (1u << (size)) - 1)                                \
            for (int r_ = 0; r_ < (size); r_++) {                                                  \
                load_row(p, size, r_, true, inside_, dtype, row_);                                 \
                apply(row_, (half)[r_]);                                                           \
            }                                                                                      \
        else                                                                                       \
            for (int r_ = 0; r_ < (size); r_++) {                                                  \
                load_row(p, size, r_, false, inside_, dtype, row_);                                \
                apply(row_, (half)[r_]);                                                           \
            }                                                                                      \
    } while (0)

/* Applies a matrix of in -> out to the columns of a patch: half[c][r]. */
#define COLUMNS_OF(apply, in, out, patch, half)                                                    \
    do {                                                                                           \
        for (int c_ = 0; c_ < (in); c_++) {                                                        \
            vec column_[in];                                                                       \
            for (int r_ = 0; r_ < (in); r_++)                                                      \
                column_[r_] = (patch)[r_][c_];                                                     \
            apply(column_, (half)[c_]);                                                            \
        }                                                                                          \
    } while (0)

/* Then to row r of the result; or, after rows, to column c. */
#define ROW_OF(apply, in, half, r, result)                                                         \
    do {                                                                                           \
        vec row_[in];                                                                              \
        for (int c_ = 0; c_ < (in); c_++)                                                          \
            row_[c_] = (half)[c_][r];                                                              \
        apply(row_, result);                                                                       \
    } while (0)
#define COLUMN_OF ROW_OF

/* ---- weights -------------------------------------------------------------------------------- */

/* G g of 16 columns of one row. */
YKI_FORCE_INLINE void transform_weight_columns(const yki_winograd_weights *w, int64_t row,
                                               int64_t part, vec half[3][PATCH])
{
    enum { ROWS_AHEAD = 6 }; /* a row beyond the last does no harm */
    vec stored[YKI_APART_TAPS], taps[3][3];
    const float *first = w->at + row * w->row + part * LANES * w->column;
    for (int64_t lane = 0; lane < LANES; lane++)
        _mm_prefetch((const char *)(first + ROWS_AHEAD * w->row + lane * w->column), _MM_HINT_T0);
    yki_apart_load_taps(first, w->column, stored);
    for (int tap = 0; tap < YKI_APART_TAPS; tap++)
        taps[tap / 3][tap % 3] = stored[w->turned ? YKI_APART_TAPS - 1 - tap : tap];
    COLUMNS_OF(apply_g, 3, PATCH, taps, half);
}

#endif
#endif
