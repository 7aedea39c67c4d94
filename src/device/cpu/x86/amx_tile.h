/* Tiles of AMX: 16 rows of 64 bytes. Only for files that CMake compiles for AMX. */
#ifndef YKI_AMX_TILE_H
#define YKI_AMX_TILE_H
#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* gcc, clang */

#include "device/cpu/x86/avx512.h"

enum { YKI_TILE_ROW = 64 /* bytes */, YKI_TILE = 16 * YKI_TILE_ROW };

/* Gives the calling thread's eight tiles their numbers of rows. */
YKI_FORCE_INLINE void yki_tiles_configure(const uint8_t rows[8])
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16]; /* of a tile's rows */
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = YKI_TILE_ROW;
        shape.rows[i] = rows[i];
    }
    __asm__ volatile("" : : "r"(&shape) : "memory"); /* all of it has been written */
    _tile_loadconfig(&shape);
}

/* Tiles are loaded after everything before has been stored. */
YKI_FORCE_INLINE void yki_tiles_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Sums are 2 x 2 tiles of f32, tiles 0 to 3. In memory, `right` and `below` are floats from the
 * first one, and `row` bytes from one row of a tile to the next. */
YKI_FORCE_INLINE void yki_tiles_clear_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

YKI_FORCE_INLINE void yki_tiles_load_sums(const float *sums, int64_t right, int64_t below,
                                          ptrdiff_t row)
{
    _tile_loadd(0, sums, row);
    _tile_loadd(1, sums + right, row);
    _tile_loadd(2, sums + below, row);
    _tile_loadd(3, sums + below + right, row);
}

YKI_FORCE_INLINE void yki_tiles_store_sums(float *sums, int64_t right, int64_t below, ptrdiff_t row)
{
    _tile_stored(0, sums, row);
    _tile_stored(1, sums + right, row);
    _tile_stored(2, sums + below, row);
    _tile_stored(3, sums + below + right, row);
}

/* Adds the products of tiles 4 and 5, the left factor, and 6 and 7, the right one. */
YKI_FORCE_INLINE void yki_tiles_multiply(void)
{
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Rows become columns; a number is a pair of bf16. */
YKI_FORCE_INLINE void yki_rows_transpose(__m512i a[16])
{
    __m512i b[16];
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + j + 2]);
            a[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + j + 2]);
        }
    /* a[4 q + j] has, in its quarter s, rows 4 q .. 4 q + 3 of column 4 s + j. */
    for (int j = 0; j < 4; j++) {
        __m512i low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
        __m512i high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
        b[j] = _mm512_shuffle_i32x4(low, high, 0x88);
        b[8 + j] = _mm512_shuffle_i32x4(low, high, 0xdd);
        low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
        high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
        b[4 + j] = _mm512_shuffle_i32x4(low, high, 0x88);
        b[12 + j] = _mm512_shuffle_i32x4(low, high, 0xdd);
    }
    for (int i = 0; i < 16; i++)
        a[i] = b[i];
}

YKI_FORCE_INLINE void yki_tile_transpose(char *at)
{
    __m512i rows[16];
    for (int i = 0; i < 16; i++)
        rows[i] = _mm512_load_si512(at + (ptrdiff_t)i * YKI_TILE_ROW);
    yki_rows_transpose(rows);
    for (int i = 0; i < 16; i++)
        _mm512_store_si512(at + (ptrdiff_t)i * YKI_TILE_ROW, rows[i]);
}

#endif
#endif
