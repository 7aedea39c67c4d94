/* Between blocks of channels and rows of pixels: included by loops_table.h alone. */
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
