/*
 * 1x1 convolutions with AVX-512. CMake gives this file its flags; nothing here runs unless the
 * processor has them.
 *
 * A block of results stays in registers: 6 rows of 4 vectors, 8 of 3, or more of fewer. For each
 * number that is summed over, its vectors are loaded once and multiplied by one broadcast number of
 * each row. Rows that are left over form smaller blocks.
 *
 * Where at most half of the last vector is filled (`half`), only that half is multiplied. Units
 * that are 256 bits wide, like those of Zen 4, take half the time for it.
 */
#include "device/cpu/x86/pointwise.h"

#include "device/cpu/x86/avx512.h"

enum { LANES = YKI_POINTWISE_LANES, VECTORS = YKI_POINTWISE_VECTORS, MAX_ROWS = 16 };

/* Before loops over rows and vectors: sums stay in registers only if these are unrolled. */
#define UNROLL _Pragma("GCC unroll 16")

/* ---- activations times weights --------------------------------------------------------------- */

/* A row of sums: whole vectors, followed by half a vector if there is one. */
typedef struct row_sums {
    yki_vec whole[VECTORS];
    __m256 half;
} row_sums;

/* sums += number (one number in all lanes) times a row of numbers; both constants are known to the
 * compiler. */
YKI_FORCE_INLINE void add_product(row_sums *sums, yki_vec number, const yki_vec *row, int vectors,
                                  bool half)
{
    UNROLL
    for (int v = 0; v < vectors - half; v++)
        sums->whole[v] = _mm512_fmadd_ps(number, row[v], sums->whole[v]);
    if (half)
        sums->half = _mm256_fmadd_ps(_mm512_castps512_ps256(number),
                                     _mm512_castps512_ps256(row[vectors - 1]), sums->half);
}

/* The v-th vector of a row of sums. */
YKI_FORCE_INLINE yki_vec vector_of(const row_sums *sums, int v, int vectors, bool half)
{
    bool last = half && v + 1 == vectors;
    return last ? _mm512_zextps256_ps512(sums->half) : sums->whole[v];
}

YKI_FORCE_INLINE void set_vector(row_sums *sums, int v, int vectors, bool half, yki_vec value)
{
    if (half && v + 1 == vectors)
        sums->half = _mm512_castps512_ps256(value);
    else
        sums->whole[v] = value;
}

YKI_FORCE_INLINE void store(float *to, yki_vec vector, bool stream)
{
    if (stream)
        yki_vec_stream(to, vector);
    else
        _mm512_storeu_ps(to, vector);
}

/*
 * The results of pixels [pixel, pixel + rows), whose number and that of the vectors are constants.
 * The pixels and sums that follow are fetched for the next block, and a part of the next weights.
 */
YKI_FORCE_INLINE void row_block(int rows, int vectors, bool half, const yki_pointwise_product *p,
                                int64_t pixel)
{
    row_sums sum[MAX_ROWS];
    const int64_t width = vectors * LANES;
    float *sums = p->sums + pixel * width;
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++) {
        if (!p->start)
            _mm_prefetch((const char *)(sums + (rows + r) * width + v * LANES), _MM_HINT_T0);
        set_vector(&sum[r], v, vectors, half,
                   p->start ? _mm512_loadu_ps(p->start + v * LANES)
                            : _mm512_load_ps(sums + r * width + v * LANES));
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
            for (int r = 0; r < rows; r++)
                add_product(&sum[r], _mm512_set1_ps(x[r * LANES + k]), weight, vectors, half);
        }
    }
    float *y = p->y + pixel * p->y_step;
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++) {
        yki_vec made = vector_of(&sum[r], v, vectors, half);
        if (p->y)
            store(y + v * p->y_block + r * p->y_step, made, p->stream);
        else
            _mm512_store_ps(sums + r * width + v * LANES, made);
    }
}

/* `rows` at a time, then 8 if that is less, 4, 2 and 1. */
YKI_FORCE_INLINE void all_pixels(int rows, int vectors, bool half, const yki_pointwise_product *p)
{
    int64_t pixel = 0;
    for (; pixel + rows <= p->pixels; pixel += rows)
        row_block(rows, vectors, half, p, pixel);
    if (rows > 8 && pixel + 8 <= p->pixels) {
        row_block(8, vectors, half, p, pixel);
        pixel += 8;
    }
    if (pixel + 4 <= p->pixels) {
        row_block(4, vectors, half, p, pixel);
        pixel += 4;
    }
    if (pixel + 2 <= p->pixels) {
        row_block(2, vectors, half, p, pixel);
        pixel += 2;
    }
    if (pixel < p->pixels)
        row_block(1, vectors, half, p, pixel);
}

YKI_FORCE_INLINE void multiply(const yki_pointwise_product *product, bool half)
{
    switch (product->vectors) {
    case 1:
        all_pixels(14, 1, half, product);
        break;
    case 2:
        all_pixels(14, 2, half, product);
        break;
    case 3:
        all_pixels(8, 3, half, product);
        break;
    default:
        all_pixels(6, 4, half, product);
        break;
    }
}

void yki_pointwise_multiply(const yki_pointwise_product *product)
{
    if (product->half)
        multiply(product, true);
    else
        multiply(product, false);
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

/* Lanes below `count`, which may be more than a vector has. */
YKI_FORCE_INLINE __mmask16 lanes_below(int count)
{
    return count >= LANES ? 0xffff : (__mmask16)((1u << count) - 1);
}

/* Rows [begin, begin + rows) of the sums. The first fetch what follows of dy, the next of x. */
YKI_FORCE_INLINE void gradient_block(int rows, int vectors, bool half,
                                     const yki_pointwise_gradient *g, int begin)
{
    row_sums sum[MAX_ROWS];
    float *sums = g->sums + begin * g->row;
    const __mmask16 last = lanes_below(g->columns - (vectors - 1) * LANES);
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        set_vector(&sum[r], v, vectors, half,
                   g->first ? _mm512_setzero_ps()
                            : _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last,
                                                    sums + r * g->row + v * LANES));
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
            for (int r = 0; r < rows; r++)
                add_product(&sum[r], _mm512_set1_ps(dy[p * LANES + r]), pixel, vectors, half);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        _mm512_mask_storeu_ps(sums + r * g->row + v * LANES, v + 1 < vectors ? 0xffff : last,
                              vector_of(&sum[r], v, vectors, half));
}

YKI_FORCE_INLINE void all_rows(int rows, int vectors, bool half, const yki_pointwise_gradient *g)
{
    int begin = 0;
    for (; begin + rows <= g->rows; begin += rows)
        gradient_block(rows, vectors, half, g, begin);
    if (rows > 8 && begin + 8 <= g->rows) {
        gradient_block(8, vectors, half, g, begin);
        begin += 8;
    }
    if (begin + 4 <= g->rows) {
        gradient_block(4, vectors, half, g, begin);
        begin += 4;
    }
    if (begin + 2 <= g->rows) {
        gradient_block(2, vectors, half, g, begin);
        begin += 2;
    }
    if (begin < g->rows)
        gradient_block(1, vectors, half, g, begin);
}

YKI_FORCE_INLINE void add_gradient(const yki_pointwise_gradient *gradient, bool half)
{
    switch ((gradient->columns + LANES - 1) / LANES) {
    case 1:
        all_rows(16, 1, half, gradient);
        break;
    case 2:
        all_rows(8, 2, half, gradient);
        break;
    default:
        all_rows(8, 3, half, gradient);
        break;
    }
}

void yki_pointwise_add_gradient(const yki_pointwise_gradient *gradient)
{
    if (yki_pointwise_half(gradient->columns))
        add_gradient(gradient, true);
    else
        add_gradient(gradient, false);
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
