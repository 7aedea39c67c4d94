/*
 * Panels with AVX-512. CMake gives this file its flags; nothing here runs unless the processor has
 * them.
 *
 * The products keep a block of c, 6 rows of 64 columns, in 24 registers: for each k four vectors of
 * b and six broadcast numbers of a are read for 24 multiply-adds.
 */
#include "device/cpu/x86/panel.h"

#include <stddef.h>

#include "device/cpu/x86/avx512.h"

enum { LANES = 16, SIDE = YKI_PANEL_SIDE, ROWS = 6, VECTORS = 4 };

/* ---- products ------------------------------------------------------------------------------- */

/*
 * `rows` rows of c; a's numbers are at a[r * row + k * step]. The first three arguments are
 * constants. Each k fetches one line of the next block of c and one of what is wanted next: more at
 * once would delay the loads.
 */
YKI_FORCE_INLINE void block(int rows, int64_t row, int64_t step, const float *a, const float *b,
                            float *c, int64_t count, bool first, const float *next)
{
    yki_vec sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = first ? _mm512_setzero_ps() : _mm512_load_ps(c + r * SIDE + v * LANES);
#pragma GCC unroll 4
    for (int64_t k = 0; k < count; k++) {
        if (next) {
            _mm_prefetch((const char *)(next + k * LANES), _MM_HINT_T1);
            _mm_prefetch((const char *)(c + ROWS * SIDE + k * LANES), _MM_HINT_T0);
        }
        yki_vec of_b[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            of_b[v] = _mm512_load_ps(b + k * SIDE + v * LANES);
        for (int r = 0; r < rows; r++) {
            yki_vec of_a = _mm512_set1_ps(a[r * row + k * step]);
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = _mm512_fmadd_ps(of_a, of_b[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            _mm512_store_ps(c + r * SIDE + v * LANES, sum[r][v]);
}

/* All rows of c, ROWS at a time. The first four blocks fetch a quarter of the next panel each. */
YKI_FORCE_INLINE void multiply(int64_t rows, int64_t row, int64_t step, const float *a,
                               const float *b, float *c, int64_t count, bool first)
{
    const float *next = b + YKI_PANEL;
    for (int quarter = 0; rows >= ROWS; rows -= ROWS, quarter++) {
        block(ROWS, row, step, a, b, c, count, first, next + quarter % 4 * (YKI_PANEL / 4));
        a += ROWS * row;
        c += (int64_t)ROWS * SIDE;
    }
    switch (rows) {
    case 5:
        block(5, row, step, a, b, c, count, first, NULL);
        break;
    case 4:
        block(4, row, step, a, b, c, count, first, NULL);
        break;
    case 3:
        block(3, row, step, a, b, c, count, first, NULL);
        break;
    case 2:
        block(2, row, step, a, b, c, count, first, NULL);
        break;
    case 1:
        block(1, row, step, a, b, c, count, first, NULL);
        break;
    default:
        break;
    }
}

void yki_panel_multiply(const float *a, const float *b, float *c, int64_t rows, bool first)
{
    multiply(rows, SIDE, 1, a, b, c, SIDE, first);
}

void yki_panel_multiply_transposed(const float *a, const float *b, float *c, int64_t rows,
                                   bool first)
{
    multiply(SIDE, 1, SIDE, a, b, c, rows, first);
}

/* ---- memory --------------------------------------------------------------------------------- */

YKI_FORCE_INLINE void read_rows(const yki_panel_pixels *pixels, const int64_t *at, int64_t rows,
                                yk_dtype dtype, float *panel)
{
    for (int64_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            yki_vec channels = at[r] < 0
                                   ? _mm512_setzero_ps()
                                   : yki_vec_load(pixels->data, at[r] + v * pixels->block, dtype);
            _mm512_store_ps(panel + r * SIDE + v * LANES, channels);
        }
}

void yki_panel_read(const yki_panel_pixels *pixels, const int64_t *at, int64_t rows, float *panel)
{
    if (pixels->dtype == YK_F32)
        read_rows(pixels, at, rows, YK_F32, panel);
    else if (pixels->dtype == YK_BF16)
        read_rows(pixels, at, rows, YK_BF16, panel);
    else
        read_rows(pixels, at, rows, YK_F16, panel);
}

YKI_FORCE_INLINE void write_rows(const float *panel, int64_t rows, const yki_panel_pixels *pixels,
                                 const int64_t *at, yk_dtype dtype)
{
    for (int64_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            yki_vec_store(pixels->data, at[r] + v * pixels->block,
                          _mm512_load_ps(panel + r * SIDE + v * LANES), dtype);
}

void yki_panel_write(const float *panel, int64_t rows, const yki_panel_pixels *pixels,
                     const int64_t *at)
{
    if (pixels->dtype == YK_F32)
        write_rows(panel, rows, pixels, at, YK_F32);
    else if (pixels->dtype == YK_BF16)
        write_rows(panel, rows, pixels, at, YK_BF16);
    else
        write_rows(panel, rows, pixels, at, YK_F16);
}

void yki_panel_read_weight(const float *weight, int64_t row, int64_t column, int64_t taps,
                           float *panels)
{
    __m512i lanes = yki_lanes_apart(column);
    for (int v = 0; v < VECTORS; v++)
        for (int r = 0; r < SIDE; r++)
            for (int64_t t = 0; t < taps; t++) { /* innermost: they share cache lines */
                const float *first = weight + r * row + v * LANES * column + t;
                _mm512_store_ps(panels + t * YKI_PANEL + r * SIDE + v * LANES,
                                _mm512_i32gather_ps(lanes, first, sizeof(float)));
            }
}
