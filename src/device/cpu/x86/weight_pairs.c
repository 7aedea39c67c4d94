/* See weight_pairs.h. CMake gives this file flags for AVX-512. */
#include "device/cpu/x86/weight_pairs.h"

#define YKI_WIDTH 16
#include "device/cpu/apart.h"
#include "device/cpu/loops/vector.h"

enum { LANES = YKI_WIDTH, PAIR = 2, TAPS = YKI_APART_TAPS };

/* 16 filters, `filter` floats apart, of 16 inputs, `input` floats apart. */
YKI_FORCE_INLINE void pack_square(const float *weights, int64_t filter, int64_t input, bool turned,
                                  uint16_t *packed)
{
    for (int64_t i = 0; i < LANES; i += PAIR) {
        yki_apart taps[PAIR][TAPS];
        for (int p = 0; p < PAIR; p++)
            yki_apart_load_taps(weights + (i + p) * input, filter, taps[p]);
        for (int t = 0; t < TAPS; t++) {
            int from = turned ? TAPS - 1 - t : t;
            yki_pack pack = {{(yki_lanes)taps[0][from], (yki_lanes)taps[1][from]}};
            yki_store(packed, (t * LANES + i) * LANES, pack, YK_BF16);
        }
    }
}

void yki_weight_pairs_pack(const yki_weight_pairs *pairs, const float *weights, int64_t block,
                           uint16_t *packed)
{
    const int64_t filters = pairs->filters, inputs = pairs->inputs, square = TAPS * LANES * LANES;
    int64_t group = block / (filters / LANES), first = block % (filters / LANES) * LANES;
    const float *of_group = weights + group * filters * inputs * TAPS;
    uint16_t *to = packed + block * (inputs / LANES) * square;
    for (int64_t in = 0; in < inputs; in += LANES, to += square) {
        if (pairs->turned)
            pack_square(of_group + (in * filters + first) * TAPS, TAPS, filters * TAPS, true, to);
        else
            pack_square(of_group + (first * inputs + in) * TAPS, inputs * TAPS, TAPS, false, to);
    }
}
