/*
 * Which elements dropout keeps: a function of the element's place alone, so that every device,
 * thread count and layout draws the same mask, and backward draws it again instead of keeping it.
 */
#ifndef YKI_DROPOUT_H
#define YKI_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

/* One draw of a mask: what all of its elements share. */
typedef struct yki_dropout_draw {
    uint64_t stem, origin;
    uint64_t least; /* the smallest number of 53 bits whose element is kept */
} yki_dropout_draw;

YKI_HOST_DEVICE yki_dropout_draw yki_dropout_draw_of(uint64_t seed, uint64_t step, uint64_t salt,
                                                     double p)
{
    double dropped = p * 0x1p53;
    uint64_t least = (uint64_t)dropped;
    least += (double)least < dropped;
    yki_dropout_draw draw = {yki_mix64(yki_mix64(seed) ^ step), yki_mix64(salt), least};
    return draw;
}

/* element is its index in plain row-major order, whatever the layout in memory. */
YKI_HOST_DEVICE bool yki_dropout_keeps(const yki_dropout_draw *draw, uint64_t element)
{
    return yki_mix64(draw->stem ^ (draw->origin + element)) >> 11 >= draw->least;
}

#endif
