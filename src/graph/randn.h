/*
 * Draws of the standard normal distribution: as in dropout.h, functions of the element's place.
 */
#ifndef YKI_RANDN_H
#define YKI_RANDN_H

#include <math.h>
#include <stdint.h>

#include "base/random.h"

/* What the draws of all elements share. */
typedef struct yki_randn {
    uint64_t stem, origin;
} yki_randn;

YKI_HOST_DEVICE yki_randn yki_randn_of(uint64_t seed, uint64_t step, uint64_t salt)
{
    yki_randn draw = {yki_mix64(yki_mix64(seed) ^ step), yki_mix64(salt)};
    return draw;
}

/* Box and Muller's transform (1958) of two numbers in (0, 1) and [0, 1). element is its index in
 * plain row-major order, whatever the layout in memory. */
YKI_HOST_DEVICE double yki_randn_at(const yki_randn *draw, uint64_t element)
{
    uint64_t word = yki_mix64(draw->stem ^ (draw->origin + element));
    double radius = sqrt(-2 * log(yki_unit_of(word) + 0x1p-54));
    return radius * cos(6.28318530717958647693 * yki_unit_of(yki_mix64(word)));
}

#endif
