/*
 * Strips with AVX-512. CMake gives this file its flags; nothing here runs unless the processor has
 * them.
 */
#include "device/cpu/x86/strip.h"

#define YKI_WIDTH 16
#include "device/cpu/apart.h"
#include "device/cpu/x86/avx512.h"

enum {
    LANES = YKI_STRIP_LANES,
    OUT = YKI_STRIP_OUT,
    DY_BLOCKS = YKI_STRIP_DY_BLOCKS,
    SIDE = 3,
    LINE = 64 /* bytes */
};

/* Before loops over results: sums stay in registers only if these are unrolled. */
#define UNROLL _Pragma("GCC unroll 16")

/* Copies pixels of all blocks; with a constant 0 `ahead`, nothing is prefetched. */
YKI_FORCE_INLINE void copy_pixels(const yki_strip_image *image, const int32_t *at, __mmask16 inside,
                                  int count, int64_t x_block, int64_t ahead, float *matrix)
{
    const float *x = image->x;
    const int64_t blocks = image->blocks, block = (int64_t)count * LANES;
    for (int i = 0; i < count; i++, inside >>= 1, matrix += LANES) {
        float *to = matrix;
        if (!(inside & 1)) {
            for (int64_t b = 0; b < blocks; b++, to += block)
                _mm512_store_ps(to, _mm512_setzero_ps());
            continue;
        }
        const float *from = x + at[i] * (int64_t)LANES;
        for (int64_t b = 0; b < blocks; b++, from += x_block, to += block) {
            if (ahead)
                _mm_prefetch((const char *)(from + ahead), _MM_HINT_T0);
            _mm512_store_ps(to, _mm512_loadu_ps(from));
        }
    }
}

void yki_strip_read(const yki_strip *strip, const yki_strip_image *image, int32_t down,
                    int32_t across, float *matrix)
{
    __m512i row = _mm512_add_epi32(_mm512_loadu_si512(strip->down), _mm512_set1_epi32(down));
    __m512i column = _mm512_add_epi32(_mm512_loadu_si512(strip->across), _mm512_set1_epi32(across));
    __m512i rows = _mm512_set1_epi32(image->rows), columns = _mm512_set1_epi32(image->columns);
    /* Unsigned, what is negative is too large. */
    __mmask16 inside =
        _mm512_mask_cmplt_epu32_mask(_mm512_cmplt_epu32_mask(row, rows), column, columns);
    int32_t at[LANES];
    _mm512_storeu_si512(at, _mm512_add_epi32(_mm512_mullo_epi32(row, columns), column));
    const int64_t x_block = (int64_t)image->rows * image->columns * LANES;
    if (image->ahead)
        copy_pixels(image, at, inside, strip->count, x_block, image->ahead, matrix);
    else
        copy_pixels(image, at, inside, strip->count, x_block, 0, matrix);
}

YKI_FORCE_INLINE void put(float *to, __m512 result, bool stream)
{
    if (stream)
        yki_vec_stream(to, result);
    else
        _mm512_storeu_ps(to, result);
}

/* The count is a constant. */
YKI_FORCE_INLINE void multiply(int count, const yki_strip_product *p)
{
    __m512 low[YKI_STRIP], high[YKI_STRIP];
    __m512 start_low = p->start ? _mm512_loadu_ps(p->start) : _mm512_setzero_ps();
    __m512 start_high = p->start ? _mm512_loadu_ps(p->start + LANES) : _mm512_setzero_ps();
    UNROLL
    for (int i = 0; i < count; i++) {
        low[i] = start_low;
        high[i] = start_high;
    }
    const float *matrix = p->matrix, *weights = p->weights;
    for (int64_t left = p->depth; left > 0; left -= LANES, matrix += count * LANES)
        for (int k = 0; k < LANES; k++, weights += OUT) {
            __m512 weight_low = _mm512_load_ps(weights);
            __m512 weight_high = _mm512_load_ps(weights + LANES);
            UNROLL
            for (int i = 0; i < count; i++) {
                __m512 x = _mm512_set1_ps(matrix[i * LANES + k]);
                __asm__("" : "+v"(x)); /* or the compiler loads it for both */
                low[i] = _mm512_fmadd_ps(x, weight_low, low[i]);
                high[i] = _mm512_fmadd_ps(x, weight_high, high[i]);
            }
        }
    UNROLL
    for (int i = 0; i < count; i++) {
        put(p->y + i * LANES, low[i], p->stream);
        put(p->y + p->y_block + i * LANES, high[i], p->stream);
    }
}

#define MULTIPLY_CASE(count)                                                                       \
    case count:                                                                                    \
        multiply(count, p);                                                                        \
        break

void yki_strip_multiply(const yki_strip_product *p)
{
    switch (p->count) {
        MULTIPLY_CASE(1);
        MULTIPLY_CASE(2);
        MULTIPLY_CASE(3);
        MULTIPLY_CASE(4);
        MULTIPLY_CASE(5);
        MULTIPLY_CASE(6);
        MULTIPLY_CASE(7);
        MULTIPLY_CASE(8);
        MULTIPLY_CASE(9);
        MULTIPLY_CASE(10);
        MULTIPLY_CASE(11);
        MULTIPLY_CASE(12);
        MULTIPLY_CASE(13);
    default:
        multiply(YKI_STRIP, p);
    }
}

void yki_strip_pack(const float *weight, int64_t inputs, float *packed)
{
    const int64_t filter = inputs * YKI_STRIP_TAPS;
    for (int64_t in = 0; in < inputs; in++)
        for (int64_t first = 0; first < OUT; first += LANES) {
            yki_apart taps[YKI_STRIP_TAPS];
            yki_apart_load_taps(weight + first * filter + in * YKI_STRIP_TAPS, filter, taps);
            for (int64_t t = 0; t < YKI_STRIP_TAPS; t++)
                _mm512_store_ps(packed + (t * inputs + in) * OUT + first, taps[t]);
        }
}

/* ---- the gradient of the weights ------------------------------------------------------------- */

static int64_t dy_pixels_of(const yki_strip_gradient *g)
{
    return (int64_t)g->dy_blocks * g->dy_rows * g->dy_columns;
}

int64_t yki_strip_gradient_floats(const yki_strip_gradient *g)
{
    int64_t pixels = (int64_t)g->rows * g->columns + dy_pixels_of(g);
    return g->dtype == YK_F32 ? 0 : pixels * LANES;
}

YKI_FORCE_INLINE void widen_as(const void *from, int64_t pixels, float *to, yk_dtype dtype)
{
    for (int64_t i = 0; i < pixels * LANES; i += LANES)
        _mm512_store_ps(to + i, yki_vec_load(from, i, dtype));
}

static void widen(const void *from, int64_t pixels, float *to, yk_dtype dtype)
{
    if (dtype == YK_BF16)
        widen_as(from, pixels, to, YK_BF16);
    else
        widen_as(from, pixels, to, YK_F16);
}

/* The results [begin, end) of a row or column for which a tap reads a pixel. */
typedef struct span {
    int32_t begin, end;
} span;

/* offset: the pixel that the first result reads. */
static span span_of(int32_t offset, int32_t stride, int32_t pixels, int32_t results)
{
    span s = {offset < 0 ? (stride - 1 - offset) / stride : 0, 0};
    int32_t last = (pixels - 1 - offset) / stride;
    s.end = pixels <= offset ? 0 : last < results - 1 ? last + 1 : results;
    return s;
}

/* Memory that is prefetched little by little: so many lines in each row of each tap. */
typedef struct upcoming {
    const char *line;
    int64_t left, a_row;
} upcoming;

static upcoming upcoming_of(const yki_strip_gradient *g, const void *next, int64_t pixels)
{
    const int64_t rows = (int64_t)YKI_STRIP_TAPS * g->dy_rows;
    int64_t lines = next ? pixels * LANES * (int64_t)yk_dtype_size(g->dtype) / LINE : 0;
    return (upcoming){next, lines, (lines + rows - 1) / rows};
}

YKI_FORCE_INLINE void fetch_some(upcoming *next)
{
    int64_t count = next->a_row < next->left ? next->a_row : next->left;
    for (int64_t i = 0; i < count; i++)
        _mm_prefetch(next->line + i * LINE, _MM_HINT_T1);
    next->line += count * LINE;
    next->left -= count;
}

/*
 * Adds one tap's products of the first 16 / `blocks` inputs of x with all blocks of dy, which makes
 * 16 sums that stay in registers. The number of blocks is a constant.
 */
YKI_FORCE_INLINE void add_products(const yki_strip_gradient *g, int blocks, const float *x,
                                   const float *dy, int tap, upcoming next[2], float *sums)
{
    const int inputs = LANES / blocks;
    const int64_t block = (int64_t)g->dy_rows * g->dy_columns * LANES;
    int32_t down = tap / SIDE * g->dilation - g->padding;
    int32_t across = tap % SIDE * g->dilation - g->padding;
    span rows = span_of(down, g->stride, g->rows, g->dy_rows);
    span columns = span_of(across, g->stride, g->columns, g->dy_columns);
    __m512 sum[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++)
        sum[i] = _mm512_setzero_ps();
    for (int32_t r = rows.begin; r < rows.end; r++) {
        fetch_some(&next[0]);
        fetch_some(&next[1]);
        int64_t at = (int64_t)(r * g->stride + down) * g->columns + across;
        const float *pixel = x + (at + (int64_t)columns.begin * g->stride) * LANES;
        const float *result = dy + ((int64_t)r * g->dy_columns + columns.begin) * LANES;
        for (int32_t c = columns.begin; c < columns.end; c++) {
            __m512 of_dy[DY_BLOCKS];
            UNROLL
            for (int b = 0; b < blocks; b++)
                of_dy[b] = _mm512_loadu_ps(result + b * block);
            UNROLL
            for (int i = 0; i < inputs; i++) {
                __m512 of_x = _mm512_set1_ps(pixel[i]);
                if (blocks > 1)
                    __asm__("" : "+v"(of_x)); /* or the compiler loads it for each block */
                UNROLL
                for (int b = 0; b < blocks; b++)
                    sum[b * inputs + i] = _mm512_fmadd_ps(of_x, of_dy[b], sum[b * inputs + i]);
            }
            pixel += g->stride * LANES;
            result += LANES;
        }
    }
    UNROLL
    for (int b = 0; b < blocks; b++)
        UNROLL
    for (int i = 0; i < inputs; i++) {
        float *to = sums + (b * LANES + i) * LANES;
        _mm512_store_ps(to, _mm512_load_ps(to) + sum[b * inputs + i]);
    }
}

static void add_tap(const yki_strip_gradient *g, const float *x, const float *dy, int tap,
                    upcoming next[2], float *sums)
{
    if (g->dy_blocks == 1) {
        add_products(g, 1, x, dy, tap, next, sums);
        return;
    }
    enum { INPUTS = LANES / DY_BLOCKS };
    add_products(g, DY_BLOCKS, x, dy, tap, next, sums);
    add_products(g, DY_BLOCKS, x + INPUTS, dy, tap, next, sums + INPUTS * LANES);
}

void yki_strip_add_gradient(const yki_strip_gradient *g, float *sums, float *own)
{
    const int64_t x_pixels = (int64_t)g->rows * g->columns, dy_pixels = dy_pixels_of(g);
    upcoming next[] = {upcoming_of(g, g->next_x, x_pixels), upcoming_of(g, g->next_dy, dy_pixels)};
    const float *x = g->x, *dy = g->dy;
    if (g->dtype != YK_F32) {
        float *own_dy = own + x_pixels * LANES;
        widen(g->x, x_pixels, own, g->dtype);
        widen(g->dy, dy_pixels, own_dy, g->dtype);
        x = own;
        dy = own_dy;
    }
    for (int tap = 0; tap < YKI_STRIP_TAPS; tap++)
        add_tap(g, x, dy, tap, next, sums + (int64_t)tap * g->dy_blocks * LANES * LANES);
}

void yki_strip_unpack(const float *sums, int64_t blocks, int64_t inputs, float *weight)
{
    for (int64_t block = 0; block < blocks; block++)
        for (int64_t in = 0; in < LANES; in++) {
            float *first = weight + (block * LANES * inputs + in) * YKI_STRIP_TAPS;
            yki_apart taps[YKI_STRIP_TAPS];
            for (int64_t t = 0; t < YKI_STRIP_TAPS; t++)
                taps[t] = _mm512_load_ps(sums + ((t * blocks + block) * LANES + in) * LANES);
            yki_apart_store_taps(taps, first, inputs * YKI_STRIP_TAPS);
        }
}
