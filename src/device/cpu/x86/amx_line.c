/* See amx_line.h. */
#include "device/cpu/x86/amx_line.h"

#include "device/cpu/x86/amx_tile.h"

enum {
    SIDE = YKI_AMX_SIDE,
    LANES = YKI_AMX_LANES,
    BLOCK = 32 /* bytes of a pixel's block of channels */
};

void yki_amx_line_begin(void)
{
    yki_tiles_configure((uint8_t[8]){16, 16, 16, 16, 16, 16, 16, 16});
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Copies the 32 bytes of each pixel to places that are `pitch` bytes apart. */
YKI_FORCE_INLINE void copy_block(const yki_amx_stretch *s, const uint16_t *block, char *to,
                                 int64_t pitch)
{
    for (int r = 0; r < s->count; r++) {
        const yki_amx_run *run = &s->runs[r];
        const char *from = (const char *)(block + run->from);
        const int64_t step = s->step * 2;
        for (int64_t i = 0; run->from >= 0 && i < run->count; i++, from += step, to += pitch) {
            _mm_prefetch(from + s->ahead, _MM_HINT_T0);
            _mm256_store_si256((__m256i *)(void *)to,
                               _mm256_loadu_si256((const __m256i_u *)(const void *)from));
        }
        for (int64_t i = 0; run->from < 0 && i < run->count; i++, to += pitch)
            _mm256_store_si256((__m256i *)(void *)to, _mm256_setzero_si256());
    }
}

static void clear_block(int64_t pixels, char *to, int64_t pitch)
{
    for (int64_t i = 0; i < pixels; i++)
        _mm256_store_si256((__m256i *)(void *)(to + i * pitch), _mm256_setzero_si256());
}

void yki_amx_line_read(const yki_amx_stretch *s, const uint16_t *first, const uint16_t *second,
                       char *to)
{
    copy_block(s, first, to, YKI_AMX_PIXEL_BYTES);
    if (second)
        copy_block(s, second, to + BLOCK, YKI_AMX_PIXEL_BYTES);
    else
        clear_block(s->pixels, to + BLOCK, YKI_AMX_PIXEL_BYTES);
}

/* The pixels of a block next to each other: in place if they are so in memory, otherwise a copy. */
YKI_FORCE_INLINE const char *adjacent(const yki_amx_stretch *s, const uint16_t *block, char *own)
{
    if (s->count == 1 && s->runs->from >= 0 && s->step == LANES)
        return (const char *)(block + s->runs->from);
    copy_block(s, block, own, BLOCK);
    return own;
}

/* Two pixels, whose channels are interleaved. */
YKI_FORCE_INLINE __m512i read_pair(const char *from, int64_t ahead)
{
    const __m512i turns =
        _mm512_add_epi32(yki_lanes_apart(1 << 16 | 1), _mm512_set1_epi32(16 << 16));
    _mm_prefetch(from + ahead, _MM_HINT_T0);
    return _mm512_permutexvar_epi16(turns, _mm512_loadu_si512(from));
}

void yki_amx_line_right(const yki_amx_stretch *s, const uint16_t *block, char *own, char *to,
                        float *totals)
{
    const char *from = adjacent(s, block, own);
    const int64_t ahead = from == own ? 0 : s->ahead;
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    __m512 total = _mm512_loadu_ps(totals);
    for (int64_t i = 0; i < s->pixels; i += 2) {
        __m512i pair = read_pair(from + i * BLOCK, ahead);
        _mm512_store_si512(to + i * BLOCK, pair);
        total = _mm512_dpbf16_ps(total, (__m512bh)pair, ones);
    }
    _mm512_storeu_ps(totals, total);
}

void yki_amx_line_left(const yki_amx_stretch *s, const uint16_t *block, char *own, char *to,
                       int64_t pitch)
{
    const char *from = adjacent(s, block, own);
    const int64_t ahead = from == own ? 0 : s->ahead;
    for (int64_t p = 0; p < s->pixels; p += YKI_AMX_TILE_PIXELS) {
        __m512i rows[16];
        for (int i = 0; i < 16; i++)
            rows[i] = read_pair(from + (p + 2 * i) * BLOCK, ahead);
        yki_rows_transpose(rows);
        for (int i = 0; i < 16; i++)
            _mm512_store_si512(to + i * pitch + p * 2, rows[i]);
    }
}

/* ---- convolution ---------------------------------------------------------------------------- */

void yki_amx_line_multiply(const yki_amx_line_sum *s, float *sums)
{
    const int64_t below = 16 * LANES;
    yki_tiles_fence();
    for (int64_t p = 0; p < s->pixels; p += YKI_AMX_TILE_PIXELS, sums += 2 * below) {
        const char *in = s->in + p * YKI_AMX_PIXEL_BYTES, *weight = s->weight;
        if (s->first)
            yki_tiles_clear_sums();
        else
            yki_tiles_load_sums(sums, s->half, below, YKI_TILE_ROW);
        for (int64_t g = 0; g < s->groups; g++, in += s->group_step, weight += s->weight_step)
            for (int64_t t = 0; t < s->taps; t++) {
                const char *a = in + s->shifts[t], *b = weight + s->bricks[t];
                _tile_loadd(4, a, YKI_TILE_ROW);
                _tile_loadd(5, a + YKI_TILE, YKI_TILE_ROW);
                _tile_loadd(6, b, YKI_TILE_ROW);
                _tile_loadd(7, b + YKI_TILE, YKI_TILE_ROW);
                yki_tiles_multiply();
            }
        yki_tiles_store_sums(sums, s->half, below, YKI_TILE_ROW);
    }
    yki_tiles_fence();
}

/* Every processor with AMX has this conversion. */
YKI_FORCE_INLINE __m256i narrow(const float *sums, __m512 bias)
{
    return (__m256i)_mm512_cvtneps_pbh(_mm512_add_ps(_mm512_load_ps(sums), bias));
}

YKI_FORCE_INLINE __m512i narrow_pair(const float *sums, __m512 bias)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_add_ps(_mm512_load_ps(sums + LANES), bias),
                                        _mm512_add_ps(_mm512_load_ps(sums), bias));
}

/* Writes pixels that are next to each other in memory, two at a time: a line of the cache. */
YKI_FORCE_INLINE void write_adjacent(const float *sums, __m512 bias, int64_t count, bool streams,
                                     uint16_t *to)
{
    int64_t i = 0;
    if ((uintptr_t)to % 64 && count > 0)
        _mm256_storeu_si256((__m256i_u *)(to + i++ * LANES), narrow(sums, bias));
    for (; i + 1 < count; i += 2) {
        __m512i pair = narrow_pair(sums + i * LANES, bias);
        if (streams)
            _mm512_stream_si512((__m512i *)(void *)(to + i * LANES), pair);
        else
            _mm512_store_si512(to + i * LANES, pair);
    }
    if (i < count)
        _mm256_storeu_si256((__m256i_u *)(to + i * LANES), narrow(sums + i * LANES, bias));
}

YKI_FORCE_INLINE void write_apart(const float *sums, __m512 bias, int64_t count, int64_t step,
                                  uint16_t *to)
{
    for (int64_t i = 0; i < count; i++)
        _mm256_storeu_si256((__m256i_u *)(to + i * step), narrow(sums + i * LANES, bias));
}

void yki_amx_line_write(const yki_amx_stretch *s, const float *sums, const float *bias,
                        bool streams, uint16_t *block)
{
    const __m512 more = bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps();
    for (int r = 0; r < s->count; sums += s->runs[r++].count * LANES) {
        const yki_amx_run *run = &s->runs[r];
        if (run->from >= 0 && s->step != LANES)
            write_apart(sums, more, run->count, s->step, block + run->from);
        else if (run->from >= 0 && streams)
            write_adjacent(sums, more, run->count, true, block + run->from);
        else if (run->from >= 0)
            write_adjacent(sums, more, run->count, false, block + run->from);
    }
}

/* ---- the weights' gradient ------------------------------------------------------------------ */

void yki_amx_line_multiply_weight(const char *left, int64_t pitch, const char *right,
                                  int64_t right_step, int64_t pixels, float *sums, bool first)
{
    enum { ROW = SIDE * sizeof(float), RIGHT = LANES, BELOW = LANES * SIDE };
    yki_tiles_fence();
    if (first)
        yki_tiles_clear_sums();
    else
        yki_tiles_load_sums(sums, RIGHT, BELOW, ROW);
    for (int64_t p = 0; p < pixels; p += YKI_AMX_TILE_PIXELS) {
        const char *a = left + p * 2, *b = right + p * BLOCK;
        _tile_loadd(4, a, pitch);
        _tile_loadd(5, a + 16 * pitch, pitch);
        _tile_loadd(6, b, YKI_TILE_ROW);
        _tile_loadd(7, b + right_step, YKI_TILE_ROW);
        yki_tiles_multiply();
    }
    yki_tiles_store_sums(sums, RIGHT, BELOW, ROW);
    yki_tiles_fence();
}
