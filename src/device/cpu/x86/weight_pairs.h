/*
 * Weights of 3x3 convolutions in the layout of oneDNN's bf16 dot products, which multiply pairs of
 * inputs: (groups, filters / 16, inputs / 16, 9, 8, 16, 2), where the last three are pairs of
 * inputs, filters, and the two inputs of a pair. oneDNN's reorder takes several times as long.
 */
#ifndef YKI_WEIGHT_PAIRS_H
#define YKI_WEIGHT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * f32 weights (groups, filters, inputs, 9), of multiples of 16 filters and inputs; or `turned`,
 * (groups, inputs, filters, 9) whose kernels are turned by 180 degrees.
 */
typedef struct yki_weight_pairs {
    int64_t groups, filters, inputs;
    bool turned;
} yki_weight_pairs;

/* Packs one of groups x (filters / 16) blocks. It takes AVX-512. */
void yki_weight_pairs_pack(const yki_weight_pairs *pairs, const float *weights, int64_t block,
                           uint16_t *packed);

#endif
