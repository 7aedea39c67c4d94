/* Tiles of AMX: 16 rows of 64 bytes. Only for files that CMake compiles for AMX. */
#ifndef YKI_AMX_TILE_H
#define YKI_AMX_TILE_H
#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* gcc, clang */

#include "device/cpu/avx512.h"

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

/* Rows of a tile become its columns; a number is a pair of bf16. */
YKI_FORCE_INLINE void yki_tile_transpose(char *at)
{
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_load_si512(at + (ptrdiff_t)i * YKI_TILE_ROW);
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
        _mm512_store_si512(at + (ptrdiff_t)i * YKI_TILE_ROW, b[i]);
}

#endif
#endif
