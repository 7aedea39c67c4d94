/* Between blocks of channels and rows of pixels, and other permutations: included by table.h
 * alone. */
#include "device/cpu/apart.h"

/* Squares of pixels and channels, of which the one after the next is prefetched. */
enum { SQUARES_AHEAD = 2 * YKI_WIDTH * YKI_WIDTH /* floats */ };

/* A block, of which the first `used` channels are wanted. */
YKI_FORCE_INLINE void unblock_one(const float *from, int64_t used, int64_t count, float *rows,
                                  int64_t stride)
{
    int64_t p = 0;
    for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
        yki_apart square[YKI_WIDTH];
#pragma GCC unroll 16
        for (int i = 0; i < YKI_WIDTH; i++) {
            const float *pixel = from + (p + i) * YKI_WIDTH;
            __builtin_prefetch(pixel + SQUARES_AHEAD);
            square[i] = (yki_apart) * (const yki_lanes_at *)pixel;
        }
        yki_apart_turn_all(square);
#pragma GCC unroll 16
        for (int c = 0; c < YKI_WIDTH; c++)
            if (c < used)
                *(yki_lanes_at *)(rows + c * stride + p) = (yki_lanes)square[c];
    }
    for (; p < count; p++)
        for (int c = 0; c < used; c++)
            rows[c * stride + p] = from[p * YKI_WIDTH + c];
}

static void unblock(const float *x, int64_t channels, int64_t pixels, int64_t count, float *rows,
                    int64_t stride)
{
    for (; channels >= YKI_WIDTH; channels -= YKI_WIDTH, x += pixels * YKI_WIDTH) {
        unblock_one(x, YKI_WIDTH, count, rows, stride);
        rows += YKI_WIDTH * stride;
    }
    if (channels > 0)
        unblock_one(x, channels, count, rows, stride);
}

/* A block, of which the first `used` channels are read and the others become 0. */
YKI_FORCE_INLINE void block_one(const float *rows, int64_t stride, int64_t used, int64_t count,
                                float *to)
{
    int64_t p = 0;
    for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
        yki_apart square[YKI_WIDTH] = {{0}};
#pragma GCC unroll 16
        for (int c = 0; c < YKI_WIDTH; c++)
            if (c < used)
                square[c] = (yki_apart) * (const yki_lanes_at *)(rows + c * stride + p);
        yki_apart_turn_all(square);
#pragma GCC unroll 16
        for (int i = 0; i < YKI_WIDTH; i++) {
            float *pixel = to + (p + i) * YKI_WIDTH;
            __builtin_prefetch(pixel + SQUARES_AHEAD, 1);
            *(yki_lanes_at *)pixel = (yki_lanes)square[i];
        }
    }
    for (; p < count; p++)
        for (int c = 0; c < YKI_WIDTH; c++)
            to[p * YKI_WIDTH + c] = c < used ? rows[c * stride + p] : 0;
}

static void block(const float *rows, int64_t stride, int64_t channels, int64_t pixels,
                  int64_t count, float *x)
{
    for (; channels >= YKI_WIDTH; channels -= YKI_WIDTH, x += pixels * YKI_WIDTH) {
        block_one(rows, stride, YKI_WIDTH, count, x);
        rows += YKI_WIDTH * stride;
    }
    if (channels > 0)
        block_one(rows, stride, channels, count, x);
}

enum { TURNED = 4 /* numbers of each row at a time */ };

/* As many rows as a vector has lanes, of which the first `used` are read and the others are 0, of
 * all tiles. */
YKI_FORCE_INLINE void turn_rows_of_tiles(const yki_turn *t, const float *x, float *y, int64_t used)
{
    yki_bits is_used[2];
    const float *rows[YKI_WIDTH];
    yki_first(used, is_used, YK_F32);
    for (int64_t lane = 0; lane < YKI_WIDTH; lane++)
        rows[lane] = x + (lane < used ? lane : 0) * t->x_step;
    for (int64_t i = 0; i < t->tiles; i++, x += t->x_tile, y += t->y_tile) {
        int64_t p = 0;
        for (; p + TURNED <= t->x_count; p += TURNED) {
            yki_apart turned[TURNED];
            if (used < YKI_WIDTH)
                yki_apart_load_rows(rows, i * t->x_tile + p, turned);
            else
                yki_apart_load(x + p, t->x_step, turned);
            for (int n = 0; n < TURNED; n++)
                *(yki_bits_at *)(y + (p + n) * t->y_step) = (yki_bits)turned[n] & is_used[0];
        }
        for (; p < t->x_count; p++)
            for (int64_t lane = 0; lane < YKI_WIDTH; lane++)
                y[p * t->y_step + lane] = lane < used ? x[lane * t->x_step + p] : 0;
    }
}

static void turn(const yki_turn *turn, const float *x, float *y)
{
    const yki_turn t = *turn; /* which a store to y might change, for all that compilers know */
    int64_t q = 0;
    for (; q + YKI_WIDTH <= t.y_count; q += YKI_WIDTH)
        turn_rows_of_tiles(&t, x + q * t.x_step, y + q, YKI_WIDTH);
    if (q < t.y_count && t.y_room > t.y_count)
        turn_rows_of_tiles(&t, x + q * t.x_step, y + q, t.y_count - q);
    else
        for (; q < t.y_count; q++)
            for (int64_t i = 0; i < t.tiles; i++)
                for (int64_t p = 0; p < t.x_count; p++)
                    y[i * t.y_tile + p * t.y_step + q] = x[i * t.x_tile + q * t.x_step + p];
}

/* ---- the same of 16 bits --------------------------------------------------------------------- */

enum { EIGHT = 8 /* halves that are turned in registers, in both dimensions */ };

typedef uint16_t yki_eight __attribute__((vector_size(2 * EIGHT)));
typedef yki_eight yki_eight_at __attribute__((aligned(2), may_alias));

/* Element c of row r becomes element r of row c: three times, rows r and r + 4 take turns. */
YKI_FORCE_INLINE void turn_eight(yki_eight rows[EIGHT])
{
#pragma GCC unroll 3
    for (int round = 0; round < 3; round++) {
        yki_eight next[EIGHT];
#pragma GCC unroll 4
        for (int r = 0; r < EIGHT / 2; r++) {
            const yki_eight a = rows[r], b = rows[r + EIGHT / 2];
            next[2 * r] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * r + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
#pragma GCC unroll 8
        for (int r = 0; r < EIGHT; r++)
            rows[r] = next[r];
    }
}

/* Eight rows of eight, of which the first `used` are read and the others are 0, to the first
 * `columns` of eight rows, of all tiles. */
YKI_FORCE_INLINE void turn_eights(const yki_turn *t, const uint16_t *x, uint16_t *y, int64_t used,
                                  int64_t columns)
{
    for (int64_t i = 0; i < t->tiles; i++, x += t->x_tile, y += t->y_tile) {
        yki_eight rows[EIGHT];
#pragma GCC unroll 8
        for (int64_t r = 0; r < EIGHT; r++) {
            const uint16_t keep = r < used ? 0xffff : 0;
            rows[r] = *(const yki_eight_at *)(x + (r < used ? r : 0) * t->x_step) & keep;
        }
        turn_eight(rows);
#pragma GCC unroll 8
        for (int64_t c = 0; c < EIGHT; c++)
            if (c < columns)
                *(yki_eight_at *)(y + c * t->y_step) = rows[c];
    }
}

/* At most eight rows of at most eight to places of y that have room for as many, or fewer. */
static void turn_few(const yki_turn *t, const uint16_t *x, uint16_t *y, int64_t used,
                     int64_t columns, int64_t room)
{
    for (int64_t i = 0; i < t->tiles; i++, x += t->x_tile, y += t->y_tile)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < room; r++)
                y[c * t->y_step + r] = r < used ? x[r * t->x_step + c] : 0;
}

YKI_FORCE_INLINE int64_t at_most_eight(int64_t count)
{
    return count < EIGHT ? count : EIGHT;
}

static void turn_halves(const yki_turn *turn, const uint16_t *x, uint16_t *y)
{
    const yki_turn t = *turn;
    for (int64_t q = 0; q < t.y_room; q += EIGHT)
        for (int64_t p = 0; p < t.x_count; p += EIGHT) {
            const int64_t used = at_most_eight(t.y_count - q),
                          columns = at_most_eight(t.x_count - p),
                          room = at_most_eight(t.y_room - q);
            const uint16_t *from = x + (used > 0 ? q * t.x_step : 0) + p; /* some row that exists */
            uint16_t *to = y + p * t.y_step + q;
            if (t.x_room - p < EIGHT || room < EIGHT)
                turn_few(&t, from, to, used, columns, room);
            else if (used < EIGHT || columns < EIGHT)
                turn_eights(&t, from, to, used, columns);
            else
                turn_eights(&t, from, to, EIGHT, EIGHT);
        }
}
