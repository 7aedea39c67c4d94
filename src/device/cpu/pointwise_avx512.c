/*
 * 1x1 convolutions with AVX-512. CMake gives this file its flags; nothing here runs unless the
 * processor has them.
 *
 * A block of results stays in registers: 6 rows of 4 vectors, 8 of 3, or more of fewer. For each
 * number that is summed over, its vectors are loaded once and multiplied by one broadcast number of
 * each row. Rows that are left over form smaller blocks.
 */
#include "device/cpu/pointwise.h"

#if defined(__x86_64__)
#include <stddef.h>

#include "device/cpu/avx512.h"

enum { LANES = YKI_POINTWISE_LANES, VECTORS = YKI_POINTWISE_VECTORS, MAX_ROWS = 16 };

/* Before loops over rows and vectors: sums stay in registers only if these are unrolled. */
#define UNROLL _Pragma("GCC unroll 16")

/* ---- activations times weights --------------------------------------------------------------- */

YKI_FORCE_INLINE void store(float *to, yki_vec vector, bool stream)
{
    if (stream)
        _mm512_stream_ps(to, vector);
    else
        _mm512_storeu_ps(to, vector);
}

/*
 * The results of pixels [pixel, pixel + rows), whose number and that of the vectors are constants.
 * The pixels and sums that follow are fetched for the next block, and a part of the next weights.
 */
YKI_FORCE_INLINE void row_block(int rows, int vectors, const yki_pointwise_product *p,
                                int64_t pixel)
{
    yki_vec sum[MAX_ROWS][VECTORS];
    const int64_t width = vectors * LANES;
    float *sums = p->sums + pixel * width;
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++) {
        if (!p->start)
            _mm_prefetch((const char *)(sums + (rows + r) * width + v * LANES), _MM_HINT_T0);
        sum[r][v] = p->start ? _mm512_loadu_ps(p->start + v * LANES)
                             : _mm512_load_ps(sums + r * width + v * LANES);
    }
    const float *x = p->x + pixel * LANES, *weights = p->weights;
    const float *next = p->next + pixel / rows % vectors * p->depth * LANES;
    for (int64_t left = p->depth; left > 0; left -= LANES, x += p->x_block) {
        const int64_t count = left < LANES ? left : LANES;
        UNROLL
        for (int r = 0; r < rows; r++) {
            _mm_prefetch((const char *)(x + (rows + r) * LANES), _MM_HINT_T0);
            _mm_prefetch((const char *)(x + p->ahead + r * LANES), _MM_HINT_T1);
        }
#pragma GCC unroll 4
        for (int64_t k = 0; k < count; k++, weights += width, next += LANES) {
            _mm_prefetch((const char *)next, _MM_HINT_T1);
            yki_vec weight[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++)
                weight[v] = _mm512_load_ps(weights + v * LANES);
            UNROLL
            for (int r = 0; r < rows; r++) {
                yki_vec number = _mm512_set1_ps(x[r * LANES + k]);
                UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = _mm512_fmadd_ps(number, weight[v], sum[r][v]);
            }
        }
    }
    float *y = p->y + pixel * LANES;
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++) {
        if (p->y)
            store(y + v * p->y_block + r * LANES, sum[r][v], p->stream);
        else
            _mm512_store_ps(sums + r * width + v * LANES, sum[r][v]);
    }
}

/* `rows` at a time, then 8 if that is less, 4, 2 and 1. */
YKI_FORCE_INLINE void all_pixels(int rows, int vectors, const yki_pointwise_product *p)
{
    int64_t pixel = 0;
    for (; pixel + rows <= p->pixels; pixel += rows)
        row_block(rows, vectors, p, pixel);
    if (rows > 8 && pixel + 8 <= p->pixels) {
        row_block(8, vectors, p, pixel);
        pixel += 8;
    }
    if (pixel + 4 <= p->pixels) {
        row_block(4, vectors, p, pixel);
        pixel += 4;
    }
    if (pixel + 2 <= p->pixels) {
        row_block(2, vectors, p, pixel);
        pixel += 2;
    }
    if (pixel < p->pixels)
        row_block(1, vectors, p, pixel);
}

void yki_pointwise_multiply(const yki_pointwise_product *product)
{
    switch (product->vectors) {
    case 1:
        all_pixels(14, 1, product);
        break;
    case 2:
        all_pixels(14, 2, product);
        break;
    case 3:
        all_pixels(8, 3, product);
        break;
    default:
        all_pixels(6, 4, product);
        break;
    }
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

/* Lanes below `count`, which may be more than a vector has. */
YKI_FORCE_INLINE __mmask16 lanes_below(int count)
{
    return count >= LANES ? 0xffff : (__mmask16)((1u << count) - 1);
}

/* Rows [begin, begin + rows) of the sums. The first fetch what follows of dy, the next of x. */
YKI_FORCE_INLINE void gradient_block(int rows, int vectors, const yki_pointwise_gradient *g,
                                     int begin)
{
    yki_vec sum[MAX_ROWS][VECTORS];
    float *sums = g->sums + begin * g->row;
    const __mmask16 last = lanes_below(g->columns - (vectors - 1) * LANES);
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        sum[r][v] = g->first ? _mm512_setzero_ps()
                             : _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last,
                                                     sums + r * g->row + v * LANES);
    for (int64_t image = 0; image < g->images; image++) {
        const float *x = g->x + image * g->x_image, *dy = g->dy + image * g->dy_image + begin;
        const float *next =
            begin == 0 ? g->next_dy + image * g->dy_image : g->next_x + image * g->x_image;
#pragma GCC unroll 4
        for (int64_t p = 0; p < g->pixels; p++) {
            _mm_prefetch((const char *)(next + p * LANES), _MM_HINT_T1);
            yki_vec pixel[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++)
                pixel[v] = _mm512_loadu_ps(x + v * g->x_block + p * LANES);
            UNROLL
            for (int r = 0; r < rows; r++) {
                yki_vec slope = _mm512_set1_ps(dy[p * LANES + r]);
                UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = _mm512_fmadd_ps(slope, pixel[v], sum[r][v]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        _mm512_mask_storeu_ps(sums + r * g->row + v * LANES, v + 1 < vectors ? 0xffff : last,
                              sum[r][v]);
}

YKI_FORCE_INLINE void all_rows(int rows, int vectors, const yki_pointwise_gradient *g)
{
    int begin = 0;
    for (; begin + rows <= g->rows; begin += rows)
        gradient_block(rows, vectors, g, begin);
    if (rows > 8 && begin + 8 <= g->rows) {
        gradient_block(8, vectors, g, begin);
        begin += 8;
    }
    if (begin + 4 <= g->rows) {
        gradient_block(4, vectors, g, begin);
        begin += 4;
    }
    if (begin + 2 <= g->rows) {
        gradient_block(2, vectors, g, begin);
        begin += 2;
    }
    if (begin < g->rows)
        gradient_block(1, vectors, g, begin);
}

void yki_pointwise_add_gradient(const yki_pointwise_gradient *gradient)
{
    switch ((gradient->columns + LANES - 1) / LANES) {
    case 1:
        all_rows(16, 1, gradient);
        break;
    case 2:
        all_rows(8, 2, gradient);
        break;
    case 3:
        all_rows(8, 3, gradient);
        break;
    default:
        all_rows(6, 4, gradient);
        break;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

void yki_pointwise_pack(const yki_pointwise_weights *w, float *packed)
{
    const __m512i apart = yki_lanes_apart(w->column);
    for (int v = 0; v < w->vectors; v++) {
        const __mmask16 mask = lanes_below(w->columns - v * LANES);
        const float *from = w->weight + v * LANES * w->column;
        for (int64_t r = 0; r < w->rows; r++) {
            yki_vec row = w->column == 1
                              ? _mm512_maskz_loadu_ps(mask, from + r * w->row)
                              : _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, apart,
                                                         from + r * w->row, sizeof(float));
            _mm512_store_ps(packed + (r * w->vectors + v) * LANES, row);
        }
    }
}

#endif
