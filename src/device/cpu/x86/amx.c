/* See amx.h. */
#include "device/cpu/x86/amx.h"

#include <string.h>

#include "device/cpu/x86/amx_tile.h"

enum { SIDE = YKI_AMX_SIDE, LANES = YKI_AMX_LANES, HALF = 32 /* bytes of a block's channels */ };

void yki_amx_begin(int64_t images)
{
    uint8_t first = (uint8_t)((images + 1) / 2), second = (uint8_t)(images / 2);
    yki_tiles_configure((uint8_t[8]){first, first, second, second, first, second, 16, 16});
}

void yki_amx_end(void)
{
    _tile_release();
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A row of an image is too short for the processor to see where the next one begins. */
enum { IMAGES_AHEAD = 6 };

YKI_FORCE_INLINE void prefetch_column(const uint16_t *row, int64_t column, int64_t image_step)
{
    _mm_prefetch((const char *)(row + IMAGES_AHEAD * image_step + column * LANES), _MM_HINT_T0);
}

void yki_amx_read(const yki_amx_row *row, char *to)
{
    for (int64_t n = 0; n < row->images; n++)
        for (int b = 0; b < 2; b++) {
            char *at = to + n * YKI_TILE_ROW + b * HALF;
            const uint16_t *from = row->at + n * row->image_step + b * row->block_step;
            for (int64_t c = 0; b < row->blocks && c < row->columns; c++) {
                prefetch_column(from, c, row->image_step);
                _mm256_store_si256((__m256i *)(void *)(at + c * YKI_AMX_PIXEL),
                                   _mm256_loadu_si256((const __m256i_u *)(from + c * LANES)));
            }
            for (int64_t c = 0; b >= row->blocks && c < row->columns; c++)
                _mm256_store_si256((__m256i *)(void *)(at + c * YKI_AMX_PIXEL),
                                   _mm256_setzero_si256());
        }
}

/* The numbers of two rows, in turn. */
YKI_FORCE_INLINE __m512i pairs_of(__m256i first, __m256i second)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(first),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

/* 16 channels of a pixel of two images; `at` is the first's. */
YKI_FORCE_INLINE __m512i read_pair(const yki_amx_row *row, const uint16_t *at, int64_t n)
{
    __m256i zero = _mm256_setzero_si256();
    __m256i first = n < row->images ? _mm256_loadu_si256((const __m256i_u *)at) : zero;
    __m256i second =
        n + 1 < row->images ? _mm256_loadu_si256((const __m256i_u *)(at + row->image_step)) : zero;
    return pairs_of(first, second);
}

void yki_amx_read_right(const yki_amx_row *row, char *to)
{
    for (int b = 0; b < row->blocks; b++)
        for (int64_t n = 0; n < SIDE; n += 2) {
            const uint16_t *from = row->at + n * row->image_step + b * row->block_step;
            char *at = to + (ptrdiff_t)b * YKI_TILE + n / 2 * YKI_TILE_ROW;
            for (int64_t c = 0; c < row->columns; c++) {
                prefetch_column(from, c, row->image_step);
                prefetch_column(from + row->image_step, c, row->image_step);
                _mm512_store_si512(at + c * YKI_AMX_PIXEL, read_pair(row, from + c * LANES, n));
            }
        }
    for (int64_t c = 0; row->blocks == 1 && c < row->columns; c++)
        memset(to + c * YKI_AMX_PIXEL + YKI_TILE, 0, YKI_TILE);
}

void yki_amx_read_left(const yki_amx_row *row, char *to)
{
    yki_amx_read_right(row, to);
    for (int64_t c = 0; c < row->columns; c++)
        for (int b = 0; b < row->blocks; b++)
            yki_tile_transpose(to + c * YKI_AMX_PIXEL + (ptrdiff_t)b * YKI_TILE);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* Kernels (output channel, input channel, tap) in the first-level cache: in memory, the kernels of
 * different outputs are often a multiple of a power of two apart. */
enum {
    MOST_TAPS = YKI_AMX_MOST_TAPS * YKI_AMX_MOST_TAPS,
    KERNELS_PAD = LANES,
    KERNELS = SIDE * (SIDE * MOST_TAPS + KERNELS_PAD)
};

YKI_FORCE_INLINE int64_t kernels_step(int taps)
{
    return (int64_t)SIDE * taps + KERNELS_PAD;
}

/* Where the kernels of an output channel begin among those of all input channels. */
static int64_t own_kernels(const yki_amx_weights *w, int64_t o)
{
    return w->width < w->ins ? o / w->width * w->width * w->taps : 0;
}

static void copy_kernels(const yki_amx_weights *w, float *kernels)
{
    const int64_t step = kernels_step(w->taps), numbers = w->width * w->taps;
    for (int64_t o = 0; o < SIDE; o++) {
        const int64_t before = own_kernels(w, o), count = o < w->outs ? numbers : 0;
        float *to = kernels + o * step;
        memset(to, 0, (size_t)before * sizeof *to);
        memcpy(to + before, w->at + (count ? o * w->step : 0), (size_t)count * sizeof *to);
        memset(to + before + count, 0, (size_t)(step - before - count) * sizeof *to);
    }
}

void yki_amx_read_weights(const yki_amx_weights *w, bool transposed, char *to)
{
    float kernels[KERNELS];
    copy_kernels(w, kernels);
    const int64_t row = transposed ? kernels_step(w->taps) : w->taps;
    const int64_t lane = transposed ? w->taps : kernels_step(w->taps);
    const __m512i apart = yki_lanes_apart(lane);
    for (int t = 0; t < w->taps; t++)
        for (int64_t i = 0; i < SIDE; i++) { /* half i / 16, pair of rows i % 16 */
            const float *at = kernels + i / LANES * LANES * lane + i % LANES * 2 * row + t;
            __m256i even = yki_vec_narrow(_mm512_i32gather_ps(apart, at, sizeof(float)));
            __m256i odd = yki_vec_narrow(_mm512_i32gather_ps(apart, at + row, sizeof(float)));
            _mm512_store_si512(to + (ptrdiff_t)t * YKI_AMX_BRICK + i * YKI_TILE_ROW,
                               pairs_of(even, odd));
        }
}

void yki_amx_write_weights(const float *sums, int64_t parts, int64_t part_step,
                           const yki_amx_weights *w)
{
    float kernels[KERNELS];
    const int64_t step = kernels_step(w->taps);
    const __m512i apart = yki_lanes_apart(step);
    for (int t = 0; t < w->taps; t++)
        for (int64_t i = 0; i < w->ins; i++)
            for (int64_t o = 0; o < w->outs; o += LANES) {
                const float *at = sums + (t * SIDE + i) * SIDE + o;
                __m512 total = _mm512_loadu_ps(at);
                for (int64_t part = 1; part < parts; part++)
                    total = _mm512_add_ps(total, _mm512_loadu_ps(at + part * part_step));
                _mm512_i32scatter_ps(kernels + o * step + i * w->taps + t, apart, total,
                                     sizeof(float));
            }
    for (int64_t o = 0; o < w->outs; o++)
        memcpy(w->at + o * w->step, kernels + o * step + own_kernels(w, o),
               (size_t)(w->width * w->taps) * sizeof *kernels);
}

/* ---- convolution ---------------------------------------------------------------------------- */

void yki_amx_multiply(const yki_amx_sum *s, float *sums)
{
    const int64_t second = (s->images + 1) / 2;
    const int64_t right = SIDE * LANES, below = second * LANES;
    yki_tiles_fence();
    for (int64_t c = 0; c < s->columns; c++, sums += YKI_AMX_SUMS) {
        const yki_amx_taps *across = &s->across[c];
        if (s->first)
            yki_tiles_clear_sums();
        else
            yki_tiles_load_sums(sums, right, below, YKI_TILE_ROW);
        for (int64_t g = 0; g < s->groups; g++)
            for (int i = 0; i < s->row_count; i++)
                for (int j = 0; j < across->count; j++) {
                    const char *a =
                        s->rows[i] + g * s->group_step + across->of[j].at * YKI_AMX_PIXEL;
                    const char *b = s->weight + g * s->weight_step +
                                    (ptrdiff_t)(s->taps[i] + across->of[j].tap) * YKI_AMX_BRICK;
                    _tile_loadd(4, a, YKI_TILE_ROW);
                    _tile_loadd(5, a + second * YKI_TILE_ROW, YKI_TILE_ROW);
                    _tile_loadd(6, b, YKI_TILE_ROW);
                    _tile_loadd(7, b + YKI_TILE, YKI_TILE_ROW);
                    yki_tiles_multiply();
                }
        yki_tiles_store_sums(sums, right, below, YKI_TILE_ROW);
    }
    yki_tiles_fence();
}

void yki_amx_write(const float *sums, const float *bias, const yki_amx_row *row)
{
    for (int b = 0; b < row->blocks; b++) {
        __m512 more = bias ? _mm512_loadu_ps(bias + b * LANES) : _mm512_setzero_ps();
        for (int64_t n = 0; n < row->images; n++) {
            const float *from = sums + (b * SIDE + n) * LANES;
            uint16_t *to =
                (uint16_t *)(uintptr_t)row->at + n * row->image_step + b * row->block_step;
            for (int64_t c = 0; c < row->columns; c++) {
                __m512 sum = _mm512_loadu_ps(from + c * YKI_AMX_SUMS);
                _mm256_storeu_si256((__m256i_u *)(to + c * LANES),
                                    yki_vec_narrow(bias ? _mm512_add_ps(sum, more) : sum));
            }
        }
    }
}

/* ---- the weights' gradient ------------------------------------------------------------------ */

void yki_amx_multiply_weight(const yki_amx_span *spans, int count, float *sums)
{
    enum { ROW = SIDE * sizeof(float), RIGHT = LANES, BELOW = LANES * SIDE };
    yki_tiles_fence();
    yki_tiles_load_sums(sums, RIGHT, BELOW, ROW);
    for (int i = 0; i < count; i++) {
        const char *a = spans[i].x, *b = spans[i].dy;
        for (int64_t c = 0; c < spans[i].count; c++, a += spans[i].x_step, b += YKI_AMX_PIXEL) {
            _tile_loadd(4, a, YKI_TILE_ROW);
            _tile_loadd(5, a + YKI_TILE, YKI_TILE_ROW);
            _tile_loadd(6, b, YKI_TILE_ROW);
            _tile_loadd(7, b + YKI_TILE, YKI_TILE_ROW);
            yki_tiles_multiply();
        }
    }
    yki_tiles_store_sums(sums, RIGHT, BELOW, ROW);
    yki_tiles_fence();
}

/* Adds the products of a pixel of x and tile 6. */
#define ADD_PIXEL(sum, x)                                                                          \
    do {                                                                                           \
        _tile_loadd(7, x, YKI_TILE_ROW);                                                           \
        _tile_dpbf16ps(sum, 7, 6);                                                                 \
    } while (0)

/* Adds the products of 16 channels of three pixels of x, those that there are, and 32 of dy. Sums
 * are tiles 0 to 2 for the first 16 of dy, and 3 to 5 for the others. */
YKI_FORCE_INLINE void add_three(const char *x, const char *dy, bool left, bool middle, bool right)
{
    const char *second = x + YKI_AMX_PIXEL, *third = second + YKI_AMX_PIXEL;
    _tile_loadd(6, dy, YKI_TILE_ROW);
    if (left)
        ADD_PIXEL(0, x);
    if (middle)
        ADD_PIXEL(1, second);
    if (right)
        ADD_PIXEL(2, third);
    _tile_loadd(6, dy + YKI_TILE, YKI_TILE_ROW);
    if (left)
        ADD_PIXEL(3, x);
    if (middle)
        ADD_PIXEL(4, second);
    if (right)
        ADD_PIXEL(5, third);
}

YKI_FORCE_INLINE void add_row_of_three(const yki_amx_three *r, int64_t step, int64_t half)
{
    const char *row = r->x + half * YKI_TILE;
    for (int64_t c = 0; c < r->count; c++) {
        const int64_t at = r->first + c * step;
        const char *x = row + at * YKI_AMX_PIXEL, *dy = r->dy + c * YKI_AMX_PIXEL;
        if (at >= 0 && at + 2 < r->columns)
            add_three(x, dy, true, true, true);
        else
            add_three(x, dy, at >= 0 && at < r->columns, at + 1 >= 0 && at + 1 < r->columns,
                      at + 2 >= 0 && at + 2 < r->columns);
    }
}

void yki_amx_multiply_three(const yki_amx_three *rows, int count, int64_t step, float *sums)
{
    enum { ROW = SIDE * sizeof(float), BELOW = LANES * SIDE, TAP = SIDE * SIDE };
    yki_tiles_fence();
    for (int64_t half = 0; half < 2; half++) {
        float *left = sums + half * BELOW, *right = left + LANES;
        _tile_loadd(0, left, ROW);
        _tile_loadd(1, left + TAP, ROW);
        _tile_loadd(2, left + 2 * TAP, ROW);
        _tile_loadd(3, right, ROW);
        _tile_loadd(4, right + TAP, ROW);
        _tile_loadd(5, right + 2 * TAP, ROW);
        for (int i = 0; i < count; i++)
            add_row_of_three(&rows[i], step, half);
        _tile_stored(0, left, ROW);
        _tile_stored(1, left + TAP, ROW);
        _tile_stored(2, left + 2 * TAP, ROW);
        _tile_stored(3, right, ROW);
        _tile_stored(4, right + TAP, ROW);
        _tile_stored(5, right + 2 * TAP, ROW);
    }
    yki_tiles_fence();
}

/* ---- limits --------------------------------------------------------------------------------- */

double yki_amx_multiply_alone(int64_t rounds)
{
    yki_amx_begin(YKI_AMX_SIDE);
    yki_tiles_clear_sums();
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t i = 0; i < rounds; i++)
        yki_tiles_multiply();
    yki_amx_end();
    return 2.0 * SIDE * SIDE * SIDE * (double)rounds;
}
