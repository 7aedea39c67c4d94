/*
 * Linear layers on few samples, with AVX-512. CMake gives this file its flags; nothing here runs
 * unless the processor has them.
 *
 * A block of results stays in up to 24 registers: 6 rows of 4 vectors, 8 of 3, or 12 of 2 or 1.
 */
#include "device/cpu/x86/linear_panel.h"

#include "device/cpu/x86/avx512.h"

enum {
    LANES = YKI_PANEL_LANES,
    SIDE = YKI_PANEL_SIDE,
    LINES = SIDE / LANES, /* cache lines of a row */
    MAX_ROWS = 12,
    MAX_VECTORS = 4
};

/*
 * Rows [begin, begin + rows) of c, over `depth` columns of the weights. Each k fetches one line of
 * the same part of `next`: of its rows if they are contiguous, otherwise of its columns.
 */
YKI_FORCE_INLINE void weights_block(int rows, int vectors, int64_t depth, int64_t row, int64_t step,
                                    int64_t begin, const float *a, const float *next,
                                    const float *b, float *c, bool first)
{
    const int64_t lines = row == 1 ? LINES : depth / LANES, stride = row == 1 ? step : row;
    const int64_t first_line = begin * depth / LANES;
    yki_vec sum[MAX_ROWS][MAX_VECTORS];
    a += begin * row;
    c += begin * SIDE;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = first ? _mm512_setzero_ps() : _mm512_load_ps(c + r * SIDE + v * LANES);
    for (int64_t k = 0; k < depth; k++) {
        if (k < rows * depth / LANES) {
            int64_t line = first_line + k;
            _mm_prefetch((const char *)(next + line / lines * stride + line % lines * LANES),
                         _MM_HINT_T1);
        }
        yki_vec of_b[MAX_VECTORS];
        for (int v = 0; v < vectors; v++)
            of_b[v] = _mm512_load_ps(b + k * SIDE + v * LANES);
        for (int r = 0; r < rows; r++) {
            yki_vec of_a = _mm512_set1_ps(a[r * row + k * step]);
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_fmadd_ps(of_a, of_b[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_store_ps(c + r * SIDE + v * LANES, sum[r][v]);
}

/* 64 = 10 * 6 + 4 = 8 * 8 = 5 * 12 + 4. */
YKI_FORCE_INLINE void all_rows(int rows, int vectors, int64_t depth, int64_t row, int64_t step,
                               const float *a, const float *next, const float *b, float *c,
                               bool first)
{
    int64_t begin = 0;
    for (; begin + rows <= SIDE; begin += rows)
        weights_block(rows, vectors, depth, row, step, begin, a, next, b, c, first);
    if (begin < SIDE)
        weights_block(4, vectors, depth, row, step, begin, a, next, b, c, first);
}

YKI_FORCE_INLINE void all_vectors(int64_t depth, int64_t row, int64_t step, const float *a,
                                  const float *next, const float *b, float *c, int vectors,
                                  bool first)
{
    switch (vectors) {
    case 1:
        all_rows(12, 1, depth, row, step, a, next, b, c, first);
        break;
    case 2:
        all_rows(12, 2, depth, row, step, a, next, b, c, first);
        break;
    case 3:
        all_rows(8, 3, depth, row, step, a, next, b, c, first);
        break;
    default:
        all_rows(6, 4, depth, row, step, a, next, b, c, first);
        break;
    }
}

void yki_linear_multiply(const yki_linear_weights *weights, const float *next, const float *b,
                         float *c, int vectors, bool first)
{
    if (weights->row == 1)
        all_vectors(YKI_LINEAR_DEPTH_TRANSPOSED, 1, weights->step, weights->at, next, b, c, vectors,
                    first);
    else
        all_vectors(YKI_LINEAR_DEPTH, weights->row, 1, weights->at, next, b, c, vectors, first);
}

void yki_linear_read_samples(const float *a, int64_t sample, int64_t samples, float *panel)
{
    for (int64_t v = 0; v < LINES; v++) {
        int64_t used = samples - v * LANES;
        __mmask16 mask = used >= LANES ? 0xffff : used <= 0 ? 0 : (__mmask16)((1u << used) - 1);
        const float *first = a + (used > 0 ? v * LANES * sample : 0);
        __m512i lanes = yki_lanes_apart(sample);
        for (int64_t r = 0; r < SIDE; r++)
            _mm512_store_ps(panel + r * SIDE + v * LANES,
                            _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, lanes, first + r,
                                                     sizeof(float)));
    }
}

/* ---- products of samples --------------------------------------------------------------------- */

enum { ROWS = 6 };

YKI_FORCE_INLINE void outer_block(int rows, const float *a, const float *b, float *c, int64_t row,
                                  int64_t samples, const float *next, bool stream)
{
    yki_vec sum[ROWS][LINES];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < LINES; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (int64_t n = 0; n < samples; n++) {
        _mm_prefetch((const char *)(next + n * LANES), _MM_HINT_T1);
        yki_vec of_b[LINES];
        for (int v = 0; v < LINES; v++)
            of_b[v] = _mm512_load_ps(b + n * SIDE + v * LANES);
        for (int r = 0; r < rows; r++) {
            yki_vec of_a = _mm512_set1_ps(a[r + n * SIDE]);
            for (int v = 0; v < LINES; v++)
                sum[r][v] = _mm512_fmadd_ps(of_a, of_b[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < LINES; v++) {
            if (stream)
                yki_vec_stream(c + r * row + v * LANES, sum[r][v]);
            else
                _mm512_storeu_ps(c + r * row + v * LANES, sum[r][v]);
        }
}

/* The first four blocks fetch a quarter of the next panel each. */
YKI_FORCE_INLINE void outer_rows(const float *a, const float *b, float *c, int64_t row,
                                 int64_t samples, bool stream)
{
    const float *next = b + samples * SIDE;
    int64_t begin = 0;
    for (; begin + ROWS <= SIDE; begin += ROWS)
        outer_block(ROWS, a + begin, b, c + begin * row, row, samples,
                    next + begin / ROWS % LINES * samples * LANES, stream);
    outer_block(SIDE % ROWS, a + begin, b, c + begin * row, row, samples, next, stream);
}

void yki_linear_outer(const float *a, const float *b, float *c, int64_t row, int64_t samples,
                      bool stream)
{
    if (stream)
        outer_rows(a, b, c, row, samples, true);
    else
        outer_rows(a, b, c, row, samples, false);
    _mm_sfence();
}
