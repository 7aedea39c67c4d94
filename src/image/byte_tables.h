/*
 * From bytes to the numbers of a tensor. A table has the number of every byte; where arithmetic
 * gives exactly the same numbers, which is checked for all bytes, vectors compute them faster than
 * they could be looked up.
 */
#ifndef YKI_BYTE_TABLES_H
#define YKI_BYTE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/transforms.h>

/* What each byte of each channel becomes in a tensor. */
typedef struct yki_byte_tables {
    float f32[3][256];
    double f64[3][256];
    float mean[3], std[3];
    bool computed[3]; /* whether vectors give exactly f32 */
} yki_byte_tables;

/* (byte / 255 - mean) / std, in f32 as torchvision computes it. Without numbers: byte / 255. */
void yki_byte_tables_fill(yki_byte_tables *tables, const yk_transform_normalize *numbers);

/* bytes of one channel -> out, count of each. */
void yki_bytes_to_f32(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, float *out);
void yki_bytes_to_f64(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, double *out);

#endif
