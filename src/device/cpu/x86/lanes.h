/* Blocks of channels made of lanes of other ones, on AVX-512. */
#ifndef YKI_CPU_LANES_H
#define YKI_CPU_LANES_H

#include <stddef.h>
#include <stdint.h>

enum { YKI_LANES = 16 };

/*
 * Lanes [first, last) of each pixel of `to` become those of a pair of pixels, of the neighbouring
 * blocks `low` and `high`: lane l is lane shift + l of the pair. Lanes [last, end) become zero. The
 * others are not written, so that other threads may. `size` is that of an element, 2 or 4.
 */
void yki_lanes_select(void *to, const void *low, const void *high, int64_t pixels, int64_t shift,
                      int64_t first, int64_t last, int64_t end, size_t size);

#endif
