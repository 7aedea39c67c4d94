/*
 * Rows of interleaved pixels, mostly RGB, and rows of planes: what decoders and resizers write, and
 * what tensors and arrays hold.
 */
#ifndef YKI_PLANES_H
#define YKI_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* row (count, 3) -> planes, of which each gets count bytes. */
void yki_planes_split(const uint8_t *row, size_t count, uint8_t *const planes[3]);
/* Channel c of row (count, channels) -> out, count bytes. */
void yki_planes_take(const uint8_t *row, size_t count, int channels, int c, uint8_t *out);
/* planes, count bytes of each -> row (count, 3). */
void yki_planes_join(const uint8_t *const planes[3], size_t count, uint8_t *row);

#endif
