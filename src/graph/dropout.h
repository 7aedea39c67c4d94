/*
 * Which elements dropout keeps: a function of the element's place alone, so that every device,
 * thread count and layout draws the same mask, and backward draws it again instead of keeping it.
 */
#ifndef YKI_DROPOUT_H
#define YKI_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

/* element is its index in plain row-major order, whatever the layout in memory. */
YKI_HOST_DEVICE bool yki_dropout_keep(uint64_t seed, uint64_t step, uint64_t salt, uint64_t element,
                                      double p)
{
    return yki_unit_of(yki_hash3(seed, step, yki_mix64(salt) + element)) >= p;
}

#endif
