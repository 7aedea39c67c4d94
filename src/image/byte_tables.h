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

/* The vectors that compute a channel's numbers, where they give exactly those of the table. */
typedef enum yki_byte_vectors {
    YKI_BYTE_VECTORS_NONE,
    YKI_BYTE_VECTORS_AVX2,
    YKI_BYTE_VECTORS_AVX512
} yki_byte_vectors;

/* What each byte of each channel becomes in a tensor. Pictures of more than 3 channels have the
 * same numbers for all (yk_transforms_output_size): those of the first. */
typedef struct yki_byte_tables {
    float f32[3][256];
    double f64[3][256];
    float mean[3], std[3];
    yki_byte_vectors vectors[3]; /* for f32 */
} yki_byte_tables;

/* (byte / 255 - mean) / std, in f32 as torchvision computes it. Without numbers: byte / 255. */
void yki_byte_tables_fill(yki_byte_tables *tables, const yk_transform_normalize *numbers);

/* bytes of one channel -> out, count of each. Mirrored, the last byte comes first. */
void yki_bytes_to_f32(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, bool mirrored, float *out);
void yki_bytes_to_f64(const yki_byte_tables *tables, int channel, const uint8_t *bytes,
                      size_t count, bool mirrored, double *out);

#endif
