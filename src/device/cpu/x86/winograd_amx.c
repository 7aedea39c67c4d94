/*
 * Winograd's transformations and products in pairs of bf16, with AMX, whose tiles multiply bf16 at
 * 16 times the rate at which AVX-512 multiplies f32. CMake gives this file its flags; nothing here
 * runs unless the processor has them.
 *
 * An f32 number is split: rounded to bf16 it has the first 8 bits, and what is left, rounded
 * likewise, the next 8. With x = h + l in both factors, the products hh, hl and lh are summed, each
 * exactly, into f32. What is left out is less than 2^-16 of a product.
 *
 * A brick has what a series of AMX products takes: 32 rows (of a left factor) or columns (of a
 * right one) of 32 numbers of the inner dimension. It has both splits, each of two tiles of 16 rows
 * of 64 bytes, and a row has 16 pairs of bf16. In a left factor a tile's row is a row of the
 * matrix; in a right factor it has, for 16 columns, a pair of rows. Pairs are numbers that are 16
 * apart in the inner dimension, so that they come from the same lanes of two registers.
 */
#include "device/cpu/x86/winograd.h"

#include <string.h>

#include "device/cpu/x86/amx_tile.h"
#include "device/cpu/x86/winograd_patch.h"

enum {
    ROW = YKI_TILE_ROW,
    AMX_TILE = YKI_TILE,
    SPLIT = 2 * AMX_TILE,
    BRICK = 2 * SPLIT,
    BRICK_SIDE = 32
};

/* ---- tiles ---------------------------------------------------------------------------------- */

static void begin(void)
{
    yki_tiles_configure((uint8_t[8]){16, 16, 16, 16, 16, 16, 16, 16});
}

static void end(void)
{
    _tile_release();
}

/* A slab's memory, and bytes from one point to the next. */
YKI_FORCE_INLINE char *bytes_of(yki_winograd_slab slab)
{
    return (char *)(void *)slab.at;
}

YKI_FORCE_INLINE int64_t point_step(yki_winograd_slab slab)
{
    return slab.stride * (int64_t)sizeof(float);
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* A number rounded to the bf16 in its upper half; NaN stays NaN. */
YKI_FORCE_INLINE __m512i high_part(vec a)
{
    __m512i bits = _mm512_castps_si512(a);
    __mmask16 number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    bits = _mm512_mask_add_epi32(bits, number, bits, _mm512_set1_epi32(0x8000));
    return _mm512_and_si512(bits, _mm512_set1_epi32((int)0xffff0000));
}

YKI_FORCE_INLINE vec without(vec a, __m512i part)
{
    return _mm512_sub_ps(a, _mm512_castsi512_ps(part));
}

YKI_FORCE_INLINE __m512i pairs_of(__m512i first, __m512i second)
{
    return _mm512_or_si512(_mm512_srli_epi32(first, 16), second);
}

/* Splits two vectors into rows of pairs. */
YKI_FORCE_INLINE void store_split(vec a, vec b, char *at)
{
    __m512i high_a = high_part(a), high_b = high_part(b);
    _mm512_store_si512(at, pairs_of(high_a, high_b));
    _mm512_store_si512(at + SPLIT,
                       pairs_of(high_part(without(a, high_a)), high_part(without(b, high_b))));
}

/* Column c of two transformed patches. */
YKI_FORCE_INLINE void store_columns(const vec a[PATCH], const vec b[PATCH], int c, char *at,
                                    int64_t stride)
{
    for (int r = 0; r < PATCH; r++)
        store_split(a[r], b[r], at + (r * PATCH + c) * stride);
}

/* Row r of two transformed patches. */
YKI_FORCE_INLINE void store_rows(const vec a[PATCH], const vec b[PATCH], int r, char *at,
                                 int64_t stride)
{
    for (int c = 0; c < PATCH; c++)
        store_split(a[c], b[c], at + (r * PATCH + c) * stride);
}

/* B' d B of two patches. */
YKI_FORCE_INLINE void split_data(const place two[2], char *at, int64_t stride, yk_dtype dtype)
{
    vec half[2][PATCH][PATCH], column[2][PATCH];
    for (int i = 0; i < 2; i++) {
        APPLY_TO_PATCH(apply_b, PATCH, &two[i], dtype, half[i]);
    }
    for (int c = 0; c < PATCH; c++) {
        COLUMN_OF(apply_b, PATCH, half[0], c, column[0]);
        COLUMN_OF(apply_b, PATCH, half[1], c, column[1]);
        store_columns(column[0], column[1], c, at, stride);
    }
}

/* A d A' of two tiles. */
YKI_FORCE_INLINE void split_result_gradient(const place two[2], char *at, int64_t stride,
                                            yk_dtype dtype)
{
    vec half[2][4][PATCH], column[2][PATCH];
    for (int i = 0; i < 2; i++) {
        APPLY_TO_PATCH(apply_a_transposed, 4, &two[i], dtype, half[i]);
    }
    for (int c = 0; c < PATCH; c++) {
        COLUMN_OF(apply_a_transposed, 4, half[0], c, column[0]);
        COLUMN_OF(apply_a_transposed, 4, half[1], c, column[1]);
        store_columns(column[0], column[1], c, at, stride);
    }
}

/* ---- factors of convolutions ---------------------------------------------------------------- */

/* Bricks of 32 tiles and 32 channels; the channels' change first. */
YKI_FORCE_INLINE void transform_data(const yki_winograd_tiles *x, yki_winograd_span tiles,
                                     int64_t group, yki_winograd_slab to, yk_dtype dtype)
{
    for (int pair = 0; pair < 2; pair++) {
        tile at = tile_of(x, tiles.begin);
        for (int64_t row = 0; row < tiles.end - tiles.begin; row++, move_on(x, &at)) {
            const place two[] = {place_of(x, at, group, 2 * pair, PATCH),
                                 place_of(x, at, group, 2 * pair + 1, PATCH)};
            split_data(
                two, bytes_of(to) + (row / BRICK_SIDE * 2 + pair) * BRICK + row % BRICK_SIDE * ROW,
                point_step(to), dtype);
        }
    }
}

static void data(const yki_winograd_tiles *x, yki_winograd_span tiles, int64_t group,
                 yki_winograd_slab to)
{
    FOR_EACH_DTYPE(transform_data, x->of.dtype, x, tiles, group, to);
}

/* Bricks of 32 output and 32 input channels; the input channels' change first. */
static void weight(const yki_winograd_weights *w, yki_winograd_slab to)
{
    for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++)
        for (int64_t pair = 0; pair < SIDE / 2; pair++) {
            int64_t k = pair / 16, r = pair % 16, first = k * BRICK_SIDE + r;
            char *at = bytes_of(to) + (part / 2 * 2 + k) * BRICK + part % 2 * AMX_TILE + r * ROW;
            vec half[2][3][PATCH], row[2][PATCH];
            transform_weight_columns(w, first, part, half[0]);
            transform_weight_columns(w, first + 16, part, half[1]);
            for (int i = 0; i < PATCH; i++) {
                ROW_OF(apply_g, 3, half[0], i, row[0]);
                ROW_OF(apply_g, 3, half[1], i, row[1]);
                store_rows(row[0], row[1], i, at, point_step(to));
            }
        }
}

/* ---- factors of weights' gradients ---------------------------------------------------------- */

/* A tile of a span, or one outside its plane where the span has ended: zeros. */
YKI_FORCE_INLINE place place_in(const yki_winograd_tiles *a, yki_winograd_span tiles, int64_t t,
                                int64_t group, int64_t part, int size)
{
    if (t >= tiles.end)
        return (place){.data = a->data};
    return place_of(a, tile_of(a, t), group, part, size);
}

/* Where the tiles t and t + 16 of a brick's 32 go: bricks of 32 tiles and 32 channels. */
YKI_FORCE_INLINE char *pair_at(yki_winograd_slab to, int64_t brick, int64_t pair, int64_t part)
{
    return bytes_of(to) + (brick * 2 + part / 2) * BRICK + part % 2 * AMX_TILE + pair * ROW;
}

/* The bricks of 32 tiles and 64 channels become left factors: their rows are channels. */
static void transpose_bricks(char *at, int64_t stride)
{
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t i = 0; i < 2 * BRICK / AMX_TILE; i++)
            yki_tile_transpose(at + point * stride + i * AMX_TILE);
}

YKI_FORCE_INLINE void transform_left(const yki_winograd_tiles *x, yki_winograd_span tiles,
                                     int64_t group, yki_winograd_slab to, yk_dtype dtype)
{
    for (int64_t brick = 0; tiles.begin + brick * BRICK_SIDE < tiles.end; brick++) {
        for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++) {
            for (int64_t pair = 0; pair < 16; pair++) {
                int64_t t = tiles.begin + brick * BRICK_SIDE + pair;
                const place two[] = {place_in(x, tiles, t, group, part, PATCH),
                                     place_in(x, tiles, t + 16, group, part, PATCH)};
                split_data(two, pair_at(to, brick, pair, part), point_step(to), dtype);
            }
        }
        transpose_bricks(bytes_of(to) + 2 * brick * BRICK, point_step(to));
    }
}

static void left(const yki_winograd_tiles *x, yki_winograd_span tiles, int64_t group,
                 yki_winograd_slab to)
{
    FOR_EACH_DTYPE(transform_left, x->of.dtype, x, tiles, group, to);
}

YKI_FORCE_INLINE void transform_right(const yki_winograd_tiles *dy, yki_winograd_span tiles,
                                      int64_t group, yki_winograd_slab to, yk_dtype dtype)
{
    for (int64_t brick = 0; tiles.begin + brick * BRICK_SIDE < tiles.end; brick++)
        for (int64_t part = 0; part < YKI_WINOGRAD_PARTS; part++) {
            for (int64_t pair = 0; pair < 16; pair++) {
                int64_t t = tiles.begin + brick * BRICK_SIDE + pair;
                const place two[] = {place_in(dy, tiles, t, group, part, YKI_WINOGRAD_TILE),
                                     place_in(dy, tiles, t + 16, group, part, YKI_WINOGRAD_TILE)};
                split_result_gradient(two, pair_at(to, brick, pair, part), point_step(to), dtype);
            }
        }
}

static void right(const yki_winograd_tiles *dy, yki_winograd_span tiles, int64_t group,
                  yki_winograd_slab to)
{
    FOR_EACH_DTYPE(transform_right, dy->of.dtype, dy, tiles, group, to);
}

/* ---- products ------------------------------------------------------------------------------- */

/* How bricks follow each other, in bytes: in the outer dimension and in the inner one. */
typedef struct brick_order {
    int64_t outer, inner;
} brick_order;

/* Two tiles of a are tiles 4 and 5, and of b 6 and 7. */
YKI_FORCE_INLINE void load_a(const char *brick, int split)
{
    _tile_loadd(4, brick + (ptrdiff_t)split * SPLIT, ROW);
    _tile_loadd(5, brick + (ptrdiff_t)split * SPLIT + AMX_TILE, ROW);
}

YKI_FORCE_INLINE void load_b(const char *brick, int split)
{
    _tile_loadd(6, brick + (ptrdiff_t)split * SPLIT, ROW);
    _tile_loadd(7, brick + (ptrdiff_t)split * SPLIT + AMX_TILE, ROW);
}

/* The three products of two bricks, in an order in which one factor stays from each to the next. */
YKI_FORCE_INLINE void multiply_bricks(const char *a, const char *b)
{
    enum { HIGH, LOW };
    load_a(a, HIGH);
    load_b(b, LOW);
    yki_tiles_multiply();
    load_b(b, HIGH);
    yki_tiles_multiply();
    load_a(a, LOW);
    yki_tiles_multiply();
}

YKI_FORCE_INLINE const char *brick_at(const float *factor, int64_t floats, int64_t bytes)
{
    return (const char *)(const void *)(factor + floats) + bytes;
}

/* c, `outer` bricks by 2, summed over `inner` bricks of each group. */
YKI_FORCE_INLINE void multiply_all(const yki_winograd_product *p, int64_t outer, int64_t inner,
                                   brick_order a, brick_order b)
{
    enum { RIGHT = 16, BELOW = 16 * SIDE, C_ROW = SIDE * sizeof(float) };
    yki_tiles_fence();
    for (int64_t n = 0; n < 2; n++)
        for (int64_t m = 0; m < outer; m++) {
            float *c = p->c + m * BRICK_SIDE * SIDE + n * BRICK_SIDE;
            if (p->first)
                yki_tiles_clear_sums();
            else
                yki_tiles_load_sums(c, RIGHT, BELOW, C_ROW);
            for (int64_t group = 0; group < p->groups; group++)
                for (int64_t k = 0; k < inner; k++)
                    multiply_bricks(brick_at(p->a, group * p->a_step, m * a.outer + k * a.inner),
                                    brick_at(p->b, group * p->b_step, n * b.outer + k * b.inner));
            yki_tiles_store_sums(c, RIGHT, BELOW, C_ROW);
        }
}

static void multiply(const yki_winograd_product *p)
{
    const brick_order order = {.outer = 2 * BRICK, .inner = BRICK};
    multiply_all(p, (p->rows + BRICK_SIDE - 1) / BRICK_SIDE, SIDE / BRICK_SIDE, order, order);
}

static void multiply_transposed(const yki_winograd_product *p)
{
    const brick_order order = {.outer = BRICK, .inner = 2 * BRICK};
    multiply_all(p, SIDE / BRICK_SIDE, (p->rows + BRICK_SIDE - 1) / BRICK_SIDE, order, order);
}

const yki_winograd_form yki_winograd_amx = {.rows = BRICK_SIDE,
                                            .products = 3,
                                            .begin = begin,
                                            .end = end,
                                            .data = data,
                                            .weight = weight,
                                            .multiply = multiply,
                                            .left = left,
                                            .right = right,
                                            .multiply_transposed = multiply_transposed};
