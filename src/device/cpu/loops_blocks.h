/* Between blocks of channels and rows of pixels, and other permutations: included by loops_table.h
 * alone. */
#include "device/cpu/apart.h"

enum { TURNED = 4 /* channels at a time */ };

/* The next `used` channels, which are a constant where they are TURNED: then all are in registers.
 */
YKI_FORCE_INLINE void unblock_few(const float *from, int64_t used, int64_t count, float *rows,
                                  int64_t stride)
{
    int64_t p = 0;
    for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
        yki_apart turned[TURNED];
        yki_apart_load(from + p * YKI_WIDTH, YKI_WIDTH, turned);
#pragma GCC unroll 4
        for (int n = 0; n < used; n++)
            *(yki_lanes_at *)(rows + n * stride + p) = (yki_lanes)turned[n];
    }
    for (; p < count; p++)
        for (int n = 0; n < used; n++)
            rows[n * stride + p] = from[p * YKI_WIDTH + n];
}

static void unblock(const float *x, int64_t channels, int64_t pixels, int64_t count, float *rows,
                    int64_t stride)
{
    for (int64_t c = 0; c < channels; c += TURNED, rows += TURNED * stride) {
        const float *from = x + c / YKI_WIDTH * pixels * YKI_WIDTH + c % YKI_WIDTH;
        if (c + TURNED <= channels)
            unblock_few(from, TURNED, count, rows, stride);
        else
            unblock_few(from, channels - c, count, rows, stride);
    }
}

/* The next `used` channels, and zeros for the others. */
YKI_FORCE_INLINE void block_few(const float *rows, int64_t stride, int64_t used, int64_t count,
                                float *to)
{
    int64_t p = 0;
    for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
        yki_apart turned[TURNED] = {{0}};
#pragma GCC unroll 4
        for (int n = 0; n < used; n++)
            turned[n] = (yki_apart) * (const yki_lanes_at *)(rows + n * stride + p);
        yki_apart_store(turned, to + p * YKI_WIDTH, YKI_WIDTH);
    }
    for (; p < count; p++)
        for (int n = 0; n < TURNED; n++)
            to[p * YKI_WIDTH + n] = n < used ? rows[n * stride + p] : 0;
}

static void block(const float *rows, int64_t stride, int64_t channels, int64_t pixels,
                  int64_t count, float *x)
{
    const int64_t padded = (channels + YKI_WIDTH - 1) / YKI_WIDTH * YKI_WIDTH;
    for (int64_t c = 0; c < padded; c += TURNED, rows += TURNED * stride) {
        float *to = x + c / YKI_WIDTH * pixels * YKI_WIDTH + c % YKI_WIDTH;
        if (c + TURNED <= channels)
            block_few(rows, stride, TURNED, count, to);
        else if (c >= channels)
            block_few(rows, stride, 0, count, to);
        else
            block_few(rows, stride, channels - c, count, to);
    }
}

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
