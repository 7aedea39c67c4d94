/*
 * Rows of RGB pixels and rows of three planes: what decoders and resizers write, and what tensors
 * and arrays hold.
 */
#ifndef YKI_PLANES_H
#define YKI_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* row (count, 3) -> planes, of which each gets count bytes. */
void yki_planes_split(const uint8_t *row, size_t count, uint8_t *const planes[3]);
/* planes, count bytes of each -> row (count, 3). */
void yki_planes_join(const uint8_t *const planes[3], size_t count, uint8_t *row);

#endif
