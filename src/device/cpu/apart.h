/*
 * Numbers of lanes that lie apart in memory: four neighbours of each lane are read or written at a
 * time, and turned in registers. A gather or scatter takes several times as long, as it accesses
 * memory once for each number. YKI_WIDTH is 16, with AVX-512, 8, with AVX2, or 4.
 */
#ifndef YKI_CPU_APART_H
#define YKI_CPU_APART_H

#include <stdint.h>
#if YKI_WIDTH > 4
#include <immintrin.h>
#endif

#define YKI_FORCE_INLINE static inline __attribute__((always_inline))

#if YKI_WIDTH > 4

#if YKI_WIDTH == 16
typedef __m512 yki_apart;
typedef __m512d yki_apart_pairs;
#define YKI_APART(call)                  _mm512_##call
#define YKI_APART_PIECE(x, piece)        _mm512_extractf32x4_ps(x, piece)
#define YKI_APART_WIDEN(piece)           _mm512_castps128_ps512(piece)
#define YKI_APART_INSERT(x, four, piece) _mm512_insertf32x4(x, four, piece)
#else
typedef __m256 yki_apart;
typedef __m256d yki_apart_pairs;
#define YKI_APART(call)                  _mm256_##call
#define YKI_APART_PIECE(x, piece)        _mm256_extractf128_ps(x, piece)
#define YKI_APART_WIDEN(piece)           _mm256_castps128_ps256(piece)
#define YKI_APART_INSERT(x, four, piece) _mm256_insertf128_ps(x, four, piece)
#endif

/* Four numbers of every fourth lane. */
YKI_FORCE_INLINE yki_apart yki_apart_pieces(const float *first, int64_t lane)
{
#if YKI_WIDTH == 16
    yki_apart pieces = _mm512_castps128_ps512(_mm_loadu_ps(first));
    pieces = _mm512_insertf32x4(pieces, _mm_loadu_ps(first + 4 * lane), 1);
    pieces = _mm512_insertf32x4(pieces, _mm_loadu_ps(first + 8 * lane), 2);
    return _mm512_insertf32x4(pieces, _mm_loadu_ps(first + 12 * lane), 3);
#else
    yki_apart pieces = _mm256_castps128_ps256(_mm_loadu_ps(first));
    return _mm256_insertf128_ps(pieces, _mm_loadu_ps(first + 4 * lane), 1);
#endif
}

/* Turns each square of four vectors' pieces: number n of piece p of vector v becomes number v of
 * piece p of vector n. */
YKI_FORCE_INLINE void yki_apart_turn(const yki_apart from[4], yki_apart to[4])
{
    yki_apart_pairs low[2], high[2];
    for (int i = 0; i < 2; i++) {
        const yki_apart *pair = from + 2 * i;
        low[i] = YKI_APART(castps_pd)(YKI_APART(unpacklo_ps)(pair[0], pair[1]));
        high[i] = YKI_APART(castps_pd)(YKI_APART(unpackhi_ps)(pair[0], pair[1]));
    }
    to[0] = YKI_APART(castpd_ps)(YKI_APART(unpacklo_pd)(low[0], low[1]));
    to[1] = YKI_APART(castpd_ps)(YKI_APART(unpackhi_pd)(low[0], low[1]));
    to[2] = YKI_APART(castpd_ps)(YKI_APART(unpacklo_pd)(high[0], high[1]));
    to[3] = YKI_APART(castpd_ps)(YKI_APART(unpackhi_pd)(high[0], high[1]));
}

/* Lane l of four[n] is rows[l][at + n]. */
YKI_FORCE_INLINE void yki_apart_load_rows(const float *const *rows, int64_t at, yki_apart four[4])
{
    yki_apart pieces[4];
    for (int i = 0; i < 4; i++) {
        pieces[i] = YKI_APART_WIDEN(_mm_loadu_ps(rows[i] + at));
        pieces[i] = YKI_APART_INSERT(pieces[i], _mm_loadu_ps(rows[i + 4] + at), 1);
#if YKI_WIDTH == 16
        pieces[i] = YKI_APART_INSERT(pieces[i], _mm_loadu_ps(rows[i + 8] + at), 2);
        pieces[i] = YKI_APART_INSERT(pieces[i], _mm_loadu_ps(rows[i + 12] + at), 3);
#endif
    }
    yki_apart_turn(pieces, four);
}

/* Lane l of four[n] is first[l * lane + n]. */
YKI_FORCE_INLINE void yki_apart_load(const float *first, int64_t lane, yki_apart four[4])
{
    yki_apart pieces[4];
    for (int i = 0; i < 4; i++)
        pieces[i] = yki_apart_pieces(first + i * lane, lane);
    yki_apart_turn(pieces, four);
}

/* And back. */
YKI_FORCE_INLINE void yki_apart_store(const yki_apart four[4], float *first, int64_t lane)
{
    yki_apart pieces[4];
    yki_apart_turn(four, pieces);
    for (int i = 0; i < 4; i++) {
        float *to = first + i * lane;
        _mm_storeu_ps(to, YKI_APART_PIECE(pieces[i], 0));
        _mm_storeu_ps(to + 4 * lane, YKI_APART_PIECE(pieces[i], 1));
#if YKI_WIDTH == 16
        _mm_storeu_ps(to + 8 * lane, YKI_APART_PIECE(pieces[i], 2));
        _mm_storeu_ps(to + 12 * lane, YKI_APART_PIECE(pieces[i], 3));
#endif
    }
}

/* A square of as many vectors as they have lanes: lane l of vector v becomes lane v of vector l. */
YKI_FORCE_INLINE void yki_apart_turn_all(yki_apart square[YKI_WIDTH])
{
    yki_apart turned[YKI_WIDTH];
    yki_apart_turn(square, turned);
    yki_apart_turn(square + 4, turned + 4);
#if YKI_WIDTH == 16
    yki_apart_turn(square + 8, turned + 8);
    yki_apart_turn(square + 12, turned + 12);
#endif
#pragma GCC unroll 4
    for (int n = 0; n < 4; n++) {
#if YKI_WIDTH == 16
        const __m512 a = turned[n], b = turned[4 + n], c = turned[8 + n], d = turned[12 + n];
        const __m512 low[] = {_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(c, d, 0x44)};
        const __m512 high[] = {_mm512_shuffle_f32x4(a, b, 0xee), _mm512_shuffle_f32x4(c, d, 0xee)};
        square[n] = _mm512_shuffle_f32x4(low[0], low[1], 0x88);
        square[4 + n] = _mm512_shuffle_f32x4(low[0], low[1], 0xdd);
        square[8 + n] = _mm512_shuffle_f32x4(high[0], high[1], 0x88);
        square[12 + n] = _mm512_shuffle_f32x4(high[0], high[1], 0xdd);
#else
        square[n] = _mm256_permute2f128_ps(turned[n], turned[4 + n], 0x20);
        square[4 + n] = _mm256_permute2f128_ps(turned[n], turned[4 + n], 0x31);
#endif
    }
}

#else

typedef float yki_apart __attribute__((vector_size(4 * YKI_WIDTH)));

YKI_FORCE_INLINE void yki_apart_turn_all(yki_apart square[YKI_WIDTH])
{
    yki_apart low[2], high[2];
    for (int i = 0; i < 2; i++) {
        low[i] = __builtin_shufflevector(square[2 * i], square[2 * i + 1], 0, 4, 1, 5);
        high[i] = __builtin_shufflevector(square[2 * i], square[2 * i + 1], 2, 6, 3, 7);
    }
    square[0] = __builtin_shufflevector(low[0], low[1], 0, 1, 4, 5);
    square[1] = __builtin_shufflevector(low[0], low[1], 2, 3, 6, 7);
    square[2] = __builtin_shufflevector(high[0], high[1], 0, 1, 4, 5);
    square[3] = __builtin_shufflevector(high[0], high[1], 2, 3, 6, 7);
}

YKI_FORCE_INLINE void yki_apart_load(const float *first, int64_t lane, yki_apart four[4])
{
    for (int n = 0; n < 4; n++) {
        yki_apart lanes = {0};
        for (int l = 0; l < YKI_WIDTH; l++)
            lanes[l] = first[l * lane + n];
        four[n] = lanes;
    }
}

YKI_FORCE_INLINE void yki_apart_load_rows(const float *const *rows, int64_t at, yki_apart four[4])
{
    for (int n = 0; n < 4; n++) {
        yki_apart lanes = {0};
        for (int l = 0; l < YKI_WIDTH; l++)
            lanes[l] = rows[l][at + n];
        four[n] = lanes;
    }
}

YKI_FORCE_INLINE void yki_apart_store(const yki_apart four[4], float *first, int64_t lane)
{
    for (int n = 0; n < 4; n++)
        for (int l = 0; l < YKI_WIDTH; l++)
            first[l * lane + n] = four[n][l];
}

#endif

enum { YKI_APART_TAPS = 9 };

/* The taps of a 3x3 kernel for each lane; the last four overlap others. */
YKI_FORCE_INLINE void yki_apart_load_taps(const float *first, int64_t lane,
                                          yki_apart taps[YKI_APART_TAPS])
{
    yki_apart last[4];
    yki_apart_load(first, lane, taps);
    yki_apart_load(first + 4, lane, taps + 4);
    yki_apart_load(first + 5, lane, last);
    taps[8] = last[3];
}

YKI_FORCE_INLINE void yki_apart_store_taps(const yki_apart taps[YKI_APART_TAPS], float *first,
                                           int64_t lane)
{
    yki_apart_store(taps, first, lane);
    yki_apart_store(taps + 4, first + 4, lane);
    yki_apart_store(taps + 5, first + 5, lane);
}

#endif
