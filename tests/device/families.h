/*
 * The tables of the conformance suite: for every operator the shapes on which each device is
 * compared with ref. test_conformance.c runs them on the devices of the library, tests/cuda on the
 * kernels of the cuda device.
 */
#ifndef YK_FAMILIES_H
#define YK_FAMILIES_H

#include "conformance.h"

#define FAMILY_OF(name, builder, cases)                                                            \
    const conformance_family family_##name = {builder, cases, sizeof cases / sizeof *cases}
#define FAMILY(name, builder) FAMILY_OF(name, builder, name##_cases)

extern const conformance_family family_conv2d, family_conv2d_sums, family_conv_transpose2d,
    family_large_conv_transpose2d;
/* What Winograd takes, and what the cpu device's own kernels take. */
extern const conformance_family family_winograd, family_winograd64, family_strided64;
extern const conformance_family family_pointwise;
extern const conformance_family family_halving64, family_minimal, family_chunked;
extern const conformance_family family_linear, family_flatten, family_reshape, family_permute,
    family_slice, family_pad;
extern const conformance_family family_batch_norm, family_batch_norm_apply;
extern const conformance_family family_group_norm, family_matmul;
extern const conformance_family family_max_pool2d, family_avg_pool2d, family_global,
    family_adaptive, family_interpolate;
extern const conformance_family family_smooth_l1_loss, family_bce;
extern const conformance_family family_cross_entropy, family_soft_cross_entropy, family_mse_loss;
extern const conformance_family family_reduce_loss, family_sum, family_randn_like;
extern const conformance_family family_softmax, family_log_softmax, family_layer_norm,
    family_layer_norm_wide, family_rms_norm, family_rms_norm_wide;
extern const conformance_family family_amax, family_amin;
extern const conformance_family family_attention, family_flash_attention, family_rotary,
    family_embedding, family_take, family_lstm_cell, family_gru_cell, family_lstm, family_gru;
extern const conformance_family family_broadcast_add, family_broadcast_subtract,
    family_broadcast_multiply, family_broadcast_divide;
/* What chooses; tied: of sides that are often equal. */
extern const conformance_family family_maximum, family_minimum, family_tied_maximum,
    family_tied_minimum, family_compare, family_masked_fill, family_kept;

enum { FAMILIES_ELEMENTWISE = 24, FAMILIES_CONCAT = 5 /* among them */ };
extern const conformance_family families_elementwise[FAMILIES_ELEMENTWISE];

#endif
