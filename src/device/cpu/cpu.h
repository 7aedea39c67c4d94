/*
 * The cpu device: oneDNN for convolutions and matrix products, and our own kernels where they are
 * shorter or faster (3x3 convolutions by Winograd's algorithm, batch norm fused with its
 * neighbours, element-wise, pooling, loss).
 *
 * Layouts: 4-d f32, bf16 and f16 activations with at least 5 channels are YKI_BLOCKED, where b is
 * the number of f32 in a vector register: 16 with AVX-512, 8 with AVX2, and 4 elsewhere. Everything
 * else is plain. Padding channels hold zeros, which every kernel preserves
 * while activations are finite (see conv/groups.h). f64 uses the kernels of ref.
 *
 * Threads are OpenMP's, like oneDNN's own: a kernel runs `#pragma omp parallel
 * num_threads(threads)`.
 */
#ifndef YKI_CPU_H
#define YKI_CPU_H

#include "base/clones.h"
#include "device/device.h"

/*
 * From which sizes on kernels do what pays for large operands alone. Tests choose less, so that
 * small operands are computed as large ones are.
 */
typedef struct yki_cpu_sizes {
    int64_t share;   /* elements for each thread: one with fewer costs more than it saves */
    size_t streamed; /* bytes of a result that is written past the caches */
    size_t far; /* bytes of two operands that do not stay in a cache until they are read again */
} yki_cpu_sizes;
const yki_cpu_sizes *yki_cpu_sizes_of(const yki_device *device);

/* The kernels of each file, listed in device.c. */
extern const yki_kernel_impl yki_cpu_conv2d, yki_cpu_conv2d_backward_data,
    yki_cpu_conv2d_backward_weight;
extern const yki_kernel_impl yki_cpu_conv2d_blocked, yki_cpu_conv2d_backward_data_blocked,
    yki_cpu_conv2d_backward_weight_blocked, yki_cpu_conv2d_plain,
    yki_cpu_conv2d_backward_data_plain, yki_cpu_conv2d_backward_weight_plain;
extern const yki_kernel_impl yki_cpu_conv2d_strips, yki_cpu_conv2d_backward_weight_strips;
extern const yki_kernel_impl yki_cpu_conv2d_split, yki_cpu_conv2d_backward_data_split,
    yki_cpu_conv2d_backward_weight_split;
extern const yki_kernel_impl yki_cpu_conv2d_staged, yki_cpu_conv2d_backward_data_staged,
    yki_cpu_conv2d_backward_weight_staged, yki_cpu_linear_staged,
    yki_cpu_linear_backward_data_staged, yki_cpu_linear_backward_weight_staged;
extern const yki_kernel_impl yki_cpu_conv2d_winograd, yki_cpu_conv2d_backward_data_winograd,
    yki_cpu_conv2d_backward_weight_winograd;
extern const yki_kernel_impl yki_cpu_conv2d_amx, yki_cpu_conv2d_backward_data_amx,
    yki_cpu_conv2d_backward_weight_amx;
extern const yki_kernel_impl yki_cpu_conv2d_amx_line, yki_cpu_conv2d_backward_data_amx_line,
    yki_cpu_conv2d_backward_weight_amx_line;
extern const yki_kernel_impl yki_cpu_conv2d_minimal, yki_cpu_conv2d_backward_data_minimal,
    yki_cpu_conv2d_backward_weight_minimal;
extern const yki_kernel_impl yki_cpu_conv2d_backward_data_strided,
    yki_cpu_conv2d_backward_weight_strided;
extern const yki_kernel_impl yki_cpu_conv2d_pointwise, yki_cpu_conv2d_backward_data_pointwise,
    yki_cpu_conv2d_backward_weight_pointwise;
extern const yki_kernel_impl yki_cpu_conv_transpose2d_patches, yki_cpu_conv2d_backward_data_patches;
extern const yki_kernel_impl yki_cpu_conv2d_depthwise, yki_cpu_conv2d_backward_data_depthwise,
    yki_cpu_conv2d_backward_weight_depthwise;
extern const yki_kernel_impl yki_cpu_conv2d_narrow, yki_cpu_conv2d_backward_data_narrow,
    yki_cpu_conv2d_backward_weight_narrow;
extern const yki_kernel_impl yki_cpu_conv_transpose2d, yki_cpu_conv_transpose2d_backward_bias;
extern const yki_kernel_impl yki_cpu_linear, yki_cpu_linear_backward_data,
    yki_cpu_linear_backward_weight;
extern const yki_kernel_impl yki_cpu_linear_panel, yki_cpu_linear_backward_data_panel,
    yki_cpu_linear_backward_weight_panel;
extern const yki_kernel_impl yki_cpu_batch_norm, yki_cpu_batch_norm_apply,
    yki_cpu_batch_norm_backward;
extern const yki_kernel_impl yki_cpu_relu, yki_cpu_relu_backward, yki_cpu_gelu,
    yki_cpu_gelu_backward, yki_cpu_relu6, yki_cpu_relu6_backward, yki_cpu_sigmoid,
    yki_cpu_sigmoid_backward, yki_cpu_silu, yki_cpu_silu_backward, yki_cpu_hardswish,
    yki_cpu_hardswish_backward, yki_cpu_tanh, yki_cpu_tanh_backward, yki_cpu_leaky_relu,
    yki_cpu_leaky_relu_backward, yki_cpu_elu, yki_cpu_elu_backward, yki_cpu_sin, yki_cpu_cos,
    yki_cpu_add, yki_cpu_scale, yki_cpu_cast, yki_cpu_dropout, yki_cpu_dropout_backward;
extern const yki_kernel_impl yki_cpu_exp, yki_cpu_log, yki_cpu_abs, yki_cpu_abs_backward,
    yki_cpu_pow, yki_cpu_pow_backward, yki_cpu_clamp, yki_cpu_clamp_backward, yki_cpu_subtract,
    yki_cpu_divide, yki_cpu_add_scalar, yki_cpu_maximum, yki_cpu_minimum, yki_cpu_compare,
    yki_cpu_masked_fill;
extern const yki_kernel_impl yki_cpu_max_pool2d, yki_cpu_max_pool2d_backward, yki_cpu_avg_pool2d,
    yki_cpu_avg_pool2d_backward, yki_cpu_global_avg_pool2d, yki_cpu_global_avg_pool2d_backward;
extern const yki_kernel_impl yki_cpu_adaptive_avg_pool2d, yki_cpu_adaptive_avg_pool2d_backward;
extern const yki_kernel_impl yki_cpu_interpolate, yki_cpu_interpolate_backward;
extern const yki_kernel_impl yki_cpu_flatten, yki_cpu_reshape, yki_cpu_reorder;
extern const yki_kernel_impl yki_cpu_concat, yki_cpu_slice, yki_cpu_pad, yki_cpu_permute,
    yki_cpu_randn_like;
extern const yki_kernel_impl yki_cpu_add_broadcast, yki_cpu_subtract_broadcast,
    yki_cpu_multiply_broadcast, yki_cpu_divide_broadcast, yki_cpu_maximum_broadcast,
    yki_cpu_minimum_broadcast, yki_cpu_compare_broadcast, yki_cpu_masked_fill_broadcast,
    yki_cpu_expand, yki_cpu_reduce, yki_cpu_sum, yki_cpu_reduce_loss;
extern const yki_kernel_impl yki_cpu_matmul, yki_cpu_matmul_staged;
extern const yki_kernel_impl yki_cpu_group_norm, yki_cpu_group_norm_backward;
extern const yki_kernel_impl yki_cpu_amax, yki_cpu_amin, yki_cpu_amax_backward;
extern const yki_kernel_impl yki_cpu_multiply, yki_cpu_softmax, yki_cpu_softmax_backward,
    yki_cpu_log_softmax, yki_cpu_log_softmax_backward, yki_cpu_layer_norm,
    yki_cpu_layer_norm_backward, yki_cpu_rms_norm, yki_cpu_rms_norm_backward;
extern const yki_kernel_impl yki_cpu_scaled_dot_product_attention,
    yki_cpu_scaled_dot_product_attention_backward;
extern const yki_kernel_impl yki_cpu_rotary_embedding;
extern const yki_kernel_impl yki_cpu_lstm_cell, yki_cpu_lstm_cell_backward, yki_cpu_gru_cell,
    yki_cpu_gru_cell_backward;
extern const yki_kernel_impl yki_cpu_lstm, yki_cpu_lstm_backward, yki_cpu_gru, yki_cpu_gru_backward;
extern const yki_kernel_impl yki_cpu_embedding, yki_cpu_embedding_backward;
extern const yki_kernel_impl yki_cpu_take_along_dim, yki_cpu_take_along_dim_backward;
extern const yki_kernel_impl yki_cpu_cross_entropy, yki_cpu_cross_entropy_backward;
extern const yki_kernel_impl yki_cpu_mse_loss, yki_cpu_mse_loss_backward;
extern const yki_kernel_impl yki_cpu_smooth_l1_loss, yki_cpu_smooth_l1_loss_backward,
    yki_cpu_binary_cross_entropy_with_logits, yki_cpu_binary_cross_entropy_with_logits_backward;

yk_status yki_cpu_sweep(yki_device *device, const yki_sweep_args *args);
extern const yki_muon_ops yki_cpu_muon;
yk_status yki_cpu_measure(yki_device *device, yki_limits *limits);

#endif
