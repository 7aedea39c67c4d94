/*
 * What changes from step to step and is no tensor, for the kernels and sweeps of a model: one block
 * in the device's memory (block.h), which the host sends before each forward and each backward.
 */
#ifndef YKI_SCALARS_H
#define YKI_SCALARS_H

#include <stdint.h>

#include "device/sweep.h"

enum { YKI_SCALARS_LOSSES = 2 };

typedef union yki_scalar {
    float f32;
    double f64;
    uint64_t bits; /* of both */
} yki_scalar;

typedef struct yki_scalars {
    uint64_t seed, step;                          /* dropout draws from these */
    yki_scalar loss_gradient[YKI_SCALARS_LOSSES]; /* what backward starts from */
    /* Of YKI_SWEEP_ADD: what the gradients that are there are multiplied by. */
    double kept_weight[YKI_SWEEP_COEFFICIENTS];
} yki_scalars;

#endif
