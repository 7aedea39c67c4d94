/*
 * Which 3x3 convolutions in bf16 gain by an algorithm with few products in f32, where bf16 dot
 * products have twice the rate of f32 arithmetic (bf16_rate.h). Elsewhere all of them do.
 */
#ifndef YKI_CPU_BF16_GAINS_H
#define YKI_CPU_BF16_GAINS_H

#include "device/cpu/onednn.h"

/* The products of direct convolution for each pair of channels, without those of padding. */
int64_t yki_direct_products(const yki_attrs *attrs, const yki_operand *x, const yki_operand *y);

/* Forward and the gradient of x. `products`: those in f32 of a tile of 4x4 results, of which there
 * are `tiles`, for each pair of channels. y: what is cut into tiles. */
bool yki_gains_over_bf16(const yki_device *device, const yki_attrs *attrs, const yki_operand *x,
                         const yki_operand *y, int64_t tiles, int64_t products);

/* The gradient of the weights, for which dy is cut into tiles. */
bool yki_weight_gains_over_bf16(const yki_device *device, const yki_attrs *attrs,
                                const yki_operand *x, const yki_operand *dy);

#endif
