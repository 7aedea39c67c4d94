/* Between blocks of channels and rows of pixels, and other permutations: included by loops_table.h
 * alone. */
#include "device/cpu/apart.h"

enum { TURNED = 4 /* channels at a time */ };

static void unblock(const float *x, int64_t channels, int64_t pixels, int64_t count, float *rows,
                    int64_t stride)
{
    for (int64_t c = 0; c < channels; c += TURNED) {
        const float *from = x + c / YKI_WIDTH * pixels * YKI_WIDTH + c % YKI_WIDTH;
        const int64_t used = channels - c < TURNED ? channels - c : TURNED;
        int64_t p = 0;
        for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
            yki_apart turned[TURNED];
            yki_apart_load(from + p * YKI_WIDTH, YKI_WIDTH, turned);
            for (int n = 0; n < used; n++)
                *(yki_lanes_at *)(rows + (c + n) * stride + p) = (yki_lanes)turned[n];
        }
        for (; p < count; p++)
            for (int n = 0; n < used; n++)
                rows[(c + n) * stride + p] = from[p * YKI_WIDTH + n];
    }
}

static void block(const float *rows, int64_t stride, int64_t channels, int64_t pixels,
                  int64_t count, float *x)
{
    const int64_t padded = (channels + YKI_WIDTH - 1) / YKI_WIDTH * YKI_WIDTH;
    for (int64_t c = 0; c < padded; c += TURNED) {
        float *to = x + c / YKI_WIDTH * pixels * YKI_WIDTH + c % YKI_WIDTH;
        const int64_t used = channels - c < TURNED ? channels - c : TURNED;
        int64_t p = 0;
        for (; p + YKI_WIDTH <= count; p += YKI_WIDTH) {
            yki_apart turned[TURNED] = {{0}};
            for (int n = 0; n < used; n++)
                turned[n] = (yki_apart) * (const yki_lanes_at *)(rows + (c + n) * stride + p);
            yki_apart_store(turned, to + p * YKI_WIDTH, YKI_WIDTH);
        }
        for (; p < count; p++)
            for (int n = 0; n < TURNED; n++)
                to[p * YKI_WIDTH + n] = n < used ? rows[(c + n) * stride + p] : 0;
    }
}

/* As many rows as a vector has lanes, of which the first `used` are read and the others are 0. */
YKI_FORCE_INLINE void turn_rows_of_tile(const yki_turn *t, const float *x, float *y, int64_t used)
{
    int64_t p = 0;
    for (; p + TURNED <= t->x_count; p += TURNED) {
        yki_apart turned[TURNED] = {{0}};
        if (used < YKI_WIDTH) {
            float rows[YKI_WIDTH * TURNED] = {0};
            for (int64_t lane = 0; lane < used; lane++)
                memcpy(rows + lane * TURNED, x + lane * t->x_step + p, TURNED * sizeof *rows);
            yki_apart_load(rows, TURNED, turned);
        } else
            yki_apart_load(x + p, t->x_step, turned);
        for (int n = 0; n < TURNED; n++)
            *(yki_lanes_at *)(y + (p + n) * t->y_step) = (yki_lanes)turned[n];
    }
    for (; p < t->x_count; p++)
        for (int64_t lane = 0; lane < YKI_WIDTH; lane++)
            y[p * t->y_step + lane] = lane < used ? x[lane * t->x_step + p] : 0;
}

YKI_FORCE_INLINE void turn_tile(const yki_turn *t, const float *x, float *y)
{
    int64_t q = 0;
    for (; q + YKI_WIDTH <= t->y_count; q += YKI_WIDTH)
        turn_rows_of_tile(t, x + q * t->x_step, y + q, YKI_WIDTH);
    if (q < t->y_count && t->y_room > t->y_count)
        turn_rows_of_tile(t, x + q * t->x_step, y + q, t->y_count - q);
    else
        for (; q < t->y_count; q++)
            for (int64_t p = 0; p < t->x_count; p++)
                y[p * t->y_step + q] = x[q * t->x_step + p];
}

static void turn(const yki_turn *t, const float *x, float *y)
{
    for (int64_t i = 0; i < t->tiles; i++)
        turn_tile(t, x + i * t->x_tile, y + i * t->y_tile);
}
