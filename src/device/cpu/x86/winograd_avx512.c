/*
 * Winograd's transformations and products in f32, with AVX-512. CMake gives this file its flags;
 * nothing here runs unless the processor has them.
 *
 * Tiles change faster than channels, so that the rows of neighbouring tiles are read and written as
 * long runs, which the processor fetches ahead.
 */
#include "device/cpu/x86/winograd.h"

#include "device/cpu/x86/winograd_patch.h"

/* ---- transformations ------------------------------------------------------------------------ */

YKI_FORCE_INLINE float *row_of(yki_winograd_slab slab, int64_t row, int64_t part)
{
    return slab.at + row * SIDE + part * LANES;
}

YKI_FORCE_INLINE void store_row(const vec row[PATCH], int r, float *at, int64_t stride)
{
    for (int c = 0; c < PATCH; c++)
        _mm512_store_ps(at + (r * PATCH + c) * stride, row[c]);
}

/* Column c of a transformed patch. Two pointers and multiples of the stride reach all points; the
 * compiler, left alone, keeps 36 multiples in memory and loads one for each store. */
YKI_FORCE_INLINE void store_column(const vec column[PATCH], int c, float *at, int64_t stride)
{
    float *upper = at + c * stride;
    __asm__("" : "+r"(upper));
    float *lower = upper + 3 * PATCH * stride;
    __asm__("" : "+r"(lower));
    for (int r = 0; r < 3; r++) {
        _mm512_store_ps(upper + r * PATCH * stride, column[r]);
        _mm512_store_ps(lower + r * PATCH * stride, column[3 + r]);
    }
}

YKI_FORCE_INLINE void transform_data(const yki_winograd_tiles *x, yki_winograd_span tiles,
                                     int64_t group, yki_winograd_slab to, yk_dtype dtype)
{
    follower ahead = follower_of(x, tiles, group);
    for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++) {
        tile at = tile_of(x, tiles.begin);
        for (int64_t t = tiles.begin; t < tiles.end; t++, move_on(x, &at)) {
            follow(x, tiles, &ahead, PATCH, dtype);
            place p = place_of(x, at, group, part, PATCH);
            float *out = row_of(to, t - tiles.begin, part);
            vec half[PATCH][PATCH], column[PATCH];
            APPLY_TO_PATCH(apply_b, PATCH, &p, dtype, half);
            for (int c = 0; c < PATCH; c++) {
                COLUMN_OF(apply_b, PATCH, half, c, column);
                store_column(column, c, out, to.stride);
            }
        }
    }
}

static void data(const yki_winograd_tiles *x, yki_winograd_span tiles, int64_t group,
                 yki_winograd_slab to)
{
    FOR_EACH_DTYPE(transform_data, x->of.dtype, x, tiles, group, to);
}

YKI_FORCE_INLINE void transform_result_gradient(const yki_winograd_tiles *dy,
                                                yki_winograd_span tiles, int64_t group,
                                                yki_winograd_slab to, yk_dtype dtype)
{
    follower ahead = follower_of(dy, tiles, group);
    for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++) {
        tile at = tile_of(dy, tiles.begin);
        for (int64_t t = tiles.begin; t < tiles.end; t++, move_on(dy, &at)) {
            follow(dy, tiles, &ahead, YKI_WINOGRAD_TILE, dtype);
            place p = place_of(dy, at, group, part, YKI_WINOGRAD_TILE);
            float *out = row_of(to, t - tiles.begin, part);
            vec half[4][PATCH], column[PATCH];
            APPLY_TO_PATCH(apply_a_transposed, YKI_WINOGRAD_TILE, &p, dtype, half);
            for (int c = 0; c < PATCH; c++) {
                COLUMN_OF(apply_a_transposed, 4, half, c, column);
                store_column(column, c, out, to.stride);
            }
        }
    }
}

static void result_gradient(const yki_winograd_tiles *dy, yki_winograd_span tiles, int64_t group,
                            yki_winograd_slab to)
{
    FOR_EACH_DTYPE(transform_result_gradient, dy->of.dtype, dy, tiles, group, to);
}

static void weight(const yki_winograd_weights *w, yki_winograd_slab to)
{
    for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++)
        for (int64_t r = 0; r < SIDE; r++) {
            vec half[3][PATCH], row[PATCH];
            transform_weight_columns(w, r, part, half);
            for (int i = 0; i < PATCH; i++) {
                ROW_OF(apply_g, 3, half, i, row);
                store_row(row, i, row_of(to, r, part), to.stride);
            }
        }
}

/* ---- products ------------------------------------------------------------------------------- */

static void multiply(const yki_winograd_product *p)
{
    for (int64_t group = 0; group < p->groups; group++)
        yki_panel_multiply(p->a + group * p->a_step, p->b + group * p->b_step, p->c, p->rows,
                           p->first && group == 0);
}

static void multiply_transposed(const yki_winograd_product *p)
{
    for (int64_t group = 0; group < p->groups; group++)
        yki_panel_multiply_transposed(p->a + group * p->a_step, p->b + group * p->b_step, p->c,
                                      p->rows, p->first && group == 0);
}

const yki_winograd_form yki_winograd_f32 = {.rows = 1,
                                            .products = 1,
                                            .in_place = true,
                                            .data = data,
                                            .weight = weight,
                                            .multiply = multiply,
                                            .left = data,
                                            .right = result_gradient,
                                            .multiply_transposed = multiply_transposed};

/* ---- and back -------------------------------------------------------------------------------- */

YKI_FORCE_INLINE void load_columns(const float *sums, int64_t stride, vec patch[PATCH][PATCH])
{
    for (int r = 0; r < PATCH; r++)
        for (int c = 0; c < PATCH; c++)
            patch[r][c] = _mm512_load_ps(sums + (r * PATCH + c) * stride);
}

YKI_FORCE_INLINE void write_tile(const place *p, const float *sums, int64_t stride, bool stream,
                                 yk_dtype dtype)
{
    vec patch[PATCH][PATCH], half[PATCH][4], row[4];
    load_columns(sums, stride, patch);
    COLUMNS_OF(apply_a, PATCH, 4, patch, half);
    for (int r = 0; r < 4; r++) {
        if (!(p->rows_in >> r & 1))
            continue;
        ROW_OF(apply_a, PATCH, half, r, row);
        for (int c = 0; c < 4; c++) {
            int64_t at = p->corner + (r * p->columns + c) * LANES;
            if (!(p->columns_in >> c & 1))
                continue;
            if (stream)
                yki_vec_stream((float *)(uintptr_t)p->data + at, row[c]);
            else
                yki_vec_store((void *)(uintptr_t)p->data, at, row[c], dtype);
        }
    }
}

YKI_FORCE_INLINE void write_tiles(yki_winograd_slab slab, const yki_winograd_tiles *y,
                                  yki_winograd_span tiles, int64_t group, yk_dtype dtype)
{
    for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++) {
        tile at = tile_of(y, tiles.begin);
        for (int64_t t = tiles.begin; t < tiles.end; t++, move_on(y, &at)) {
            place p = place_of(y, at, group, part, YKI_WINOGRAD_TILE);
            const float *row = slab.at + (t - tiles.begin) * SIDE + part * LANES;
            write_tile(&p, row, slab.stride, dtype == YK_F32 && y->stream, dtype);
        }
    }
}

void yki_winograd_result(yki_winograd_slab slab, const yki_winograd_tiles *y,
                         yki_winograd_span tiles, int64_t group)
{
    FOR_EACH_DTYPE(write_tiles, y->of.dtype, slab, y, tiles, group);
}

void yki_winograd_add(yki_winograd_slab slab, int64_t columns, yki_winograd_slab to)
{
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t row = 0; row < SIDE; row++)
            for (int64_t column = 0; column < columns; column += LANES) {
                float *at = to.at + point * to.stride + row * SIDE + column;
                const float *from = slab.at + point * slab.stride + row * SIDE + column;
                _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), _mm512_load_ps(from)));
            }
}

void yki_winograd_weight_gradient(yki_winograd_slab slab, int64_t column, float *weight,
                                  int64_t row_step, int64_t column_step)
{
    for (int64_t r = 0; r < SIDE; r++) {
        vec patch[PATCH][PATCH], half[PATCH][3], taps[YKI_APART_TAPS];
        load_columns(slab.at + r * SIDE + column, slab.stride, patch);
        COLUMNS_OF(apply_g_transposed, PATCH, 3, patch, half);
        for (int i = 0; i < 3; i++)
            ROW_OF(apply_g_transposed, PATCH, half, i, taps + 3 * i);
        yki_apart_store_taps(taps, weight + r * row_step, column_step);
    }
}
