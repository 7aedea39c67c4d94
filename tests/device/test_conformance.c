/* Every operator on every device: one test for each family of cases and device. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "families.h"
#include "harness.h"

/* Thread counts differ so that each is seen with something, also more threads than cores. */
static const conformance_setting ref_f32 = {
    .device = "ref", .dtype = YK_F32, .threads = 1, .tolerance = 1e-6};
static const conformance_setting cpu_f32 = {
    .device = "cpu", .dtype = YK_F32, .threads = 3, .tolerance = 1e-5};
static const conformance_setting cpu_winograd = {
    .device = "cpu", .dtype = YK_F32, .threads = 2, .tolerance = 1e-3, .winograd = true};
static const conformance_setting cpu_bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 1, .tolerance = 1e-2};
static const conformance_setting cpu_winograd_f16 = {
    .device = "cpu", .dtype = YK_F16, .threads = 2, .tolerance = 4e-3, .winograd = true};
static const conformance_setting cpu_winograd_bf16 = {
    .device = "cpu", .dtype = YK_BF16, .threads = 2, .tolerance = 1e-2, .winograd = true};

static const conformance_setting cpu_f16 = {
    .device = "cpu", .dtype = YK_F16, .threads = 2, .tolerance = 2e-3};
static const conformance_setting ref_bf16 = {
    .device = "ref", .dtype = YK_BF16, .threads = 1, .tolerance = 1e-2};
static const conformance_setting ref_f16 = {
    .device = "ref", .dtype = YK_F16, .threads = 1, .tolerance = 2e-3};

static const conformance_setting sim_f32 = {.device = "sim", .dtype = YK_F32, .tolerance = 1e-6};
static const conformance_setting sim_bf16 = {.device = "sim", .dtype = YK_BF16, .tolerance = 1e-2};

static void on_ref(const conformance_family *family)
{
    conformance_gradients(family);
    conformance_device(family, &ref_f32);
}

static void on_ref_in_16_bit(const conformance_family *family)
{
    conformance_device(family, &ref_bf16);
    conformance_device(family, &ref_f16);
}

static void on_cpu(const conformance_family *family)
{
    conformance_device(family, &cpu_f32);
}

static void on_cpu_in_bf16(const conformance_family *family)
{
    conformance_device(family, &cpu_bf16);
}

static void on_cpu_in_f16(const conformance_family *family)
{
    conformance_device(family, &cpu_f16);
}

/* ---- conv2d ---------------------------------------------------------------------------------- */

YK_TEST(ref_conv2d)
{
    on_ref(&family_conv2d);
    on_ref(&family_conv2d_sums);
}

YK_TEST(cpu_conv2d)
{
    on_cpu(&family_conv2d);
    on_cpu(&family_conv2d_sums);
}

YK_TEST(cpu_conv2d_winograd)
{
    conformance_device(&family_winograd, &cpu_winograd);
    conformance_device(&family_winograd64, &cpu_winograd);
    conformance_device(&family_minimal, &cpu_winograd);
    conformance_device(&family_halving64, &cpu_winograd);
    conformance_device(&family_conv2d, &cpu_winograd);
}

/* oneDNN reads the variable when it is first used, and each test is a process. */
YK_TEST(cpu_conv2d_winograd_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    conformance_device(&family_winograd64, &cpu_winograd);
    conformance_device(&family_minimal, &cpu_winograd);
    conformance_device(&family_halving64, &cpu_winograd);
    conformance_device(&family_winograd64, &cpu_winograd_f16);
    conformance_device(&family_conv2d, &cpu_winograd);
}

/* As on a processor without AVX2, or on one that is not x86. */
YK_TEST(cpu_conv2d_winograd_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    conformance_device(&family_winograd64, &cpu_winograd);
    conformance_device(&family_minimal, &cpu_winograd);
    conformance_device(&family_halving64, &cpu_winograd);
    conformance_device(&family_winograd64, &cpu_winograd_f16);
    conformance_device(&family_conv2d, &cpu_winograd);
    on_cpu(&family_conv2d);
    on_cpu_in_f16(&family_conv2d);
    on_cpu_in_bf16(&family_conv2d);
}

YK_TEST(cpu_conv2d_winograd_bf16)
{
    if (!yk_cpu_has_bf16())
        skip_because("this processor has no bf16 arithmetic");
    conformance_device(&family_winograd64, &cpu_winograd_bf16);
    conformance_device(&family_minimal, &cpu_winograd_bf16);
    conformance_device(&family_halving64, &cpu_winograd_bf16);
}

/* ---- conv_transpose2d ------------------------------------------------------------------------ */

YK_TEST(ref_conv_transpose2d)
{
    on_ref(&family_conv_transpose2d);
}

static void on_cpu_transposed(void)
{
    const conformance_family *const transposed[] = {&family_conv_transpose2d,
                                                    &family_large_conv_transpose2d};
    for (int i = 0; i < 2; i++) {
        on_cpu(transposed[i]);
        conformance_device(transposed[i], &cpu_winograd);
        on_cpu_in_bf16(transposed[i]);
        on_cpu_in_f16(transposed[i]);
    }
}

YK_TEST(cpu_conv_transpose2d)
{
    on_cpu_transposed();
}

YK_TEST(cpu_conv_transpose2d_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    on_cpu_transposed();
}

YK_TEST(cpu_conv_transpose2d_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    on_cpu_transposed();
}

/* ---- conv2d of more kinds -------------------------------------------------------------------- */

/* The same shapes with the switch off: to the accuracy of direct convolution. */
YK_TEST(cpu_conv2d_without_winograd)
{
    on_cpu(&family_winograd);
}

YK_TEST(cpu_conv2d_winograd_f16)
{
    conformance_device(&family_winograd64, &cpu_winograd_f16);
    conformance_device(&family_minimal, &cpu_winograd_f16);
    conformance_device(&family_halving64, &cpu_winograd_f16);
}

YK_TEST(cpu_conv2d_strided)
{
    on_cpu(&family_strided64);
    on_cpu_in_f16(&family_strided64);
    on_cpu_in_bf16(&family_strided64);
}

YK_TEST(cpu_conv2d_pointwise)
{
    on_cpu(&family_pointwise);
}

YK_TEST(cpu_conv2d_bf16)
{
    on_cpu_in_bf16(&family_conv2d);
    on_cpu_in_bf16(&family_winograd);
}

YK_TEST(cpu_conv2d_f16)
{
    on_cpu_in_f16(&family_conv2d);
    on_cpu_in_f16(&family_winograd);
    on_cpu_in_f16(&family_chunked);
}

/* ---- linear, flatten ------------------------------------------------------------------------- */

YK_TEST(ref_linear)
{
    on_ref(&family_linear);
    on_ref(&family_flatten);
    on_ref(&family_reshape);
    on_ref(&family_permute);
    on_ref(&family_slice);
    on_ref(&family_pad);
}

YK_TEST(cpu_linear)
{
    on_cpu(&family_linear);
    on_cpu(&family_flatten);
    on_cpu(&family_reshape);
    on_cpu(&family_permute);
    on_cpu(&family_slice);
    on_cpu(&family_pad);
}

YK_TEST(cpu_linear_bf16)
{
    on_cpu_in_bf16(&family_linear);
    on_cpu_in_bf16(&family_flatten);
    on_cpu_in_bf16(&family_reshape);
    on_cpu_in_bf16(&family_permute);
    on_cpu_in_bf16(&family_slice);
    on_cpu_in_bf16(&family_pad);
}

YK_TEST(cpu_linear_f16)
{
    on_cpu_in_f16(&family_linear);
    on_cpu_in_f16(&family_flatten);
    on_cpu_in_f16(&family_reshape);
    on_cpu_in_f16(&family_permute);
    on_cpu_in_f16(&family_slice);
    on_cpu_in_f16(&family_pad);
}

/* ---- batch_norm: every fusion, in training and in evaluation --------------------------------- */

YK_TEST(ref_batch_norm)
{
    on_ref(&family_batch_norm);
}

YK_TEST(cpu_batch_norm)
{
    on_cpu(&family_batch_norm);
}

YK_TEST(cpu_batch_norm_bf16)
{
    on_cpu_in_bf16(&family_batch_norm);
}

YK_TEST(cpu_batch_norm_f16)
{
    on_cpu_in_f16(&family_batch_norm);
}

YK_TEST(batch_norm_apply)
{
    conformance_device(&family_batch_norm_apply, &ref_f32);
    on_ref_in_16_bit(&family_batch_norm_apply);
    on_cpu(&family_batch_norm_apply);
    on_cpu_in_bf16(&family_batch_norm_apply);
    on_cpu_in_f16(&family_batch_norm_apply);
}

/* ---- pooling --------------------------------------------------------------------------------- */

YK_TEST(ref_pool)
{
    on_ref(&family_max_pool2d);
    on_ref(&family_avg_pool2d);
    on_ref(&family_global);
    on_ref(&family_adaptive);
}

YK_TEST(cpu_max_pool2d)
{
    on_cpu(&family_max_pool2d);
}

YK_TEST(cpu_max_pool2d_bf16)
{
    on_cpu_in_bf16(&family_max_pool2d);
}

YK_TEST(cpu_max_pool2d_f16)
{
    on_cpu_in_f16(&family_max_pool2d);
}

YK_TEST(cpu_avg_pool2d)
{
    on_cpu(&family_avg_pool2d);
    on_cpu(&family_global);
    on_cpu(&family_adaptive);
}

YK_TEST(cpu_avg_pool2d_bf16)
{
    on_cpu_in_bf16(&family_avg_pool2d);
    on_cpu_in_bf16(&family_global);
    on_cpu_in_bf16(&family_adaptive);
}

YK_TEST(cpu_avg_pool2d_f16)
{
    on_cpu_in_f16(&family_avg_pool2d);
    on_cpu_in_f16(&family_global);
    on_cpu_in_f16(&family_adaptive);
}

/* ---- element by element ---------------------------------------------------------------------- */

YK_TEST(ref_elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_ref(&families_elementwise[i]);
}

YK_TEST(cpu_elementwise)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cpu(&families_elementwise[i]);
}

YK_TEST(cpu_elementwise_bf16)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cpu_in_bf16(&families_elementwise[i]);
}

YK_TEST(cpu_elementwise_f16)
{
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_cpu_in_f16(&families_elementwise[i]);
}

static void on_all(void (*run)(const conformance_family *family))
{
    run(&family_broadcast_add);
    run(&family_broadcast_subtract);
    run(&family_broadcast_multiply);
    run(&family_broadcast_divide);
    run(&family_maximum);
    run(&family_minimum);
    run(&family_tied_maximum);
    run(&family_tied_minimum);
    run(&family_compare);
    run(&family_masked_fill);
    run(&family_kept);
}

YK_TEST(ref_broadcast)
{
    on_all(on_ref);
    on_all(on_ref_in_16_bit);
}

YK_TEST(cpu_broadcast)
{
    on_all(on_cpu);
    on_all(on_cpu_in_bf16);
    on_all(on_cpu_in_f16);
}

YK_TEST(ref_in_16_bit)
{
    on_ref_in_16_bit(&family_conv2d);
    on_ref_in_16_bit(&family_conv2d_sums);
    on_ref_in_16_bit(&family_conv_transpose2d);
    on_ref_in_16_bit(&family_linear);
    on_ref_in_16_bit(&family_flatten);
    on_ref_in_16_bit(&family_reshape);
    on_ref_in_16_bit(&family_permute);
    on_ref_in_16_bit(&family_slice);
    on_ref_in_16_bit(&family_pad);
    on_ref_in_16_bit(&family_batch_norm);
    on_ref_in_16_bit(&family_max_pool2d);
    on_ref_in_16_bit(&family_avg_pool2d);
    on_ref_in_16_bit(&family_global);
    on_ref_in_16_bit(&family_adaptive);
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        on_ref_in_16_bit(&families_elementwise[i]);
}

/* ---- cross_entropy --------------------------------------------------------------------------- */

YK_TEST(ref_cross_entropy)
{
    on_ref(&family_cross_entropy);
    on_ref(&family_soft_cross_entropy);
    on_ref_in_16_bit(&family_cross_entropy);
    on_ref_in_16_bit(&family_soft_cross_entropy);
}

YK_TEST(cpu_cross_entropy)
{
    const conformance_family *const losses[] = {&family_cross_entropy, &family_soft_cross_entropy};
    for (int i = 0; i < 2; i++) {
        on_cpu(losses[i]);
        on_cpu_in_bf16(losses[i]);
        on_cpu_in_f16(losses[i]);
    }
}

/* ---- softmax, log_softmax, layer_norm, rms_norm: never in 16 bit ----------------------------- */

YK_TEST(ref_rows)
{
    on_ref(&family_softmax);
    on_ref(&family_log_softmax);
    on_ref(&family_layer_norm);
    on_ref(&family_layer_norm_wide);
    on_ref(&family_rms_norm);
    on_ref(&family_rms_norm_wide);
}

YK_TEST(cpu_rows)
{
    on_cpu(&family_softmax);
    on_cpu(&family_log_softmax);
    on_cpu(&family_layer_norm);
    on_cpu(&family_layer_norm_wide);
    on_cpu(&family_rms_norm);
    on_cpu(&family_rms_norm_wide);
}

/* ---- scaled_dot_product_attention ------------------------------------------------------------ */

YK_TEST(ref_attention)
{
    on_ref(&family_attention);
    on_ref_in_16_bit(&family_attention);
}

static void on_cpu_in_all_dtypes(const conformance_family *family)
{
    on_cpu(family);
    on_cpu_in_bf16(family);
    on_cpu_in_f16(family);
}

YK_TEST(cpu_attention)
{
    on_cpu_in_all_dtypes(&family_attention);
}

YK_TEST(cpu_attention_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    on_cpu_in_all_dtypes(&family_attention);
}

YK_TEST(cpu_attention_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    on_cpu_in_all_dtypes(&family_attention);
}

/* ---- interpolate ----------------------------------------------------------------------------- */

YK_TEST(ref_interpolate)
{
    on_ref(&family_interpolate);
    on_ref_in_16_bit(&family_interpolate);
}

YK_TEST(cpu_interpolate)
{
    on_cpu_in_all_dtypes(&family_interpolate);
}

YK_TEST(cpu_interpolate_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    on_cpu_in_all_dtypes(&family_interpolate);
}

YK_TEST(cpu_interpolate_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    on_cpu_in_all_dtypes(&family_interpolate);
}

/* ---- amax, amin ------------------------------------------------------------------------------ */

YK_TEST(ref_amax)
{
    on_ref(&family_amax);
    on_ref(&family_amin);
    on_ref_in_16_bit(&family_amax);
    on_ref_in_16_bit(&family_amin);
}

static void cpu_amax_in_all_dtypes(void)
{
    on_cpu_in_all_dtypes(&family_amax);
    on_cpu_in_all_dtypes(&family_amin);
}

YK_TEST(cpu_amax)
{
    cpu_amax_in_all_dtypes();
}

YK_TEST(cpu_amax_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    cpu_amax_in_all_dtypes();
}

YK_TEST(cpu_amax_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    cpu_amax_in_all_dtypes();
}

/* ---- rotary_embedding ------------------------------------------------------------------------ */

YK_TEST(rotary_embedding)
{
    conformance_gradients(&family_rotary);
    conformance_device(&family_rotary, &ref_f32);
    conformance_device(&family_rotary, &cpu_f32);
    conformance_device(&family_rotary, &cpu_bf16);
    conformance_device(&family_rotary, &cpu_f16);
}

/* ---- recurrent layers and their cells -------------------------------------------------------- */

static void cells_in_all_dtypes(void)
{
    on_cpu_in_all_dtypes(&family_lstm_cell);
    on_cpu_in_all_dtypes(&family_gru_cell);
    on_cpu_in_all_dtypes(&family_lstm);
    on_cpu_in_all_dtypes(&family_gru);
}

YK_TEST(ref_cells)
{
    on_ref(&family_lstm_cell);
    on_ref_in_16_bit(&family_lstm_cell);
    on_ref(&family_gru_cell);
    on_ref_in_16_bit(&family_gru_cell);
}

YK_TEST(ref_recurrent_layers)
{
    on_ref(&family_lstm);
    on_ref_in_16_bit(&family_lstm);
    on_ref(&family_gru);
    on_ref_in_16_bit(&family_gru);
}

YK_TEST(cpu_cells)
{
    cells_in_all_dtypes();
}

YK_TEST(cpu_cells_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    cells_in_all_dtypes();
}

YK_TEST(cpu_cells_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    cells_in_all_dtypes();
}

/* ---- matmul ---------------------------------------------------------------------------------- */

YK_TEST(ref_matmul)
{
    on_ref(&family_matmul);
    on_ref_in_16_bit(&family_matmul);
}

YK_TEST(cpu_matmul)
{
    on_cpu_in_all_dtypes(&family_matmul);
}

YK_TEST(cpu_matmul_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    on_cpu_in_all_dtypes(&family_matmul);
}

YK_TEST(cpu_matmul_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    on_cpu_in_all_dtypes(&family_matmul);
}

/* ---- group_norm ------------------------------------------------------------------------------ */

YK_TEST(ref_group_norm)
{
    on_ref(&family_group_norm);
    on_ref_in_16_bit(&family_group_norm);
}

YK_TEST(cpu_group_norm)
{
    on_cpu_in_all_dtypes(&family_group_norm);
}

YK_TEST(cpu_group_norm_avx2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    on_cpu_in_all_dtypes(&family_group_norm);
}

YK_TEST(cpu_group_norm_sse2)
{
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    on_cpu_in_all_dtypes(&family_group_norm);
}

/* ---- embedding: never in 16 bit -------------------------------------------------------------- */

YK_TEST(embedding)
{
    on_ref(&family_embedding);
    on_cpu(&family_embedding);
}

/* ---- take_along_dim -------------------------------------------------------------------------- */

YK_TEST(take_along_dim)
{
    on_ref(&family_take);
    on_ref_in_16_bit(&family_take);
    on_cpu_in_all_dtypes(&family_take);
}

/* ---- losses over pairs of elements: never in 16 bit ------------------------------------------ */

YK_TEST(ref_pair_losses)
{
    on_ref(&family_mse_loss);
    on_ref(&family_smooth_l1_loss);
    on_ref(&family_bce);
}

YK_TEST(cpu_pair_losses)
{
    on_cpu(&family_mse_loss);
    on_cpu(&family_smooth_l1_loss);
    on_cpu(&family_bce);
}

/* ---- sums: likewise -------------------------------------------------------------------------- */

YK_TEST(ref_sums)
{
    on_ref(&family_reduce_loss);
    on_ref(&family_sum);
}

YK_TEST(cpu_sums)
{
    on_cpu(&family_reduce_loss);
    on_cpu(&family_sum);
}

/* ---- draws: likewise ------------------------------------------------------------------------- */

YK_TEST(randn_like)
{
    conformance_device(&family_randn_like, &ref_f32);
    conformance_device(&family_randn_like, &cpu_f32);
}

/* ---- all operators --------------------------------------------------------------------------- */

static const conformance_family *const families[] = {&family_conv2d,
                                                     &family_linear,
                                                     &family_flatten,
                                                     &family_batch_norm,
                                                     &family_group_norm,
                                                     &family_matmul,
                                                     &family_max_pool2d,
                                                     &family_avg_pool2d,
                                                     &family_global,
                                                     &family_cross_entropy,
                                                     &family_soft_cross_entropy,
                                                     &family_mse_loss,
                                                     &family_reduce_loss,
                                                     &family_sum,
                                                     &family_randn_like,
                                                     &family_softmax,
                                                     &family_log_softmax,
                                                     &family_amax,
                                                     &family_amin,
                                                     &family_layer_norm,
                                                     &family_adaptive,
                                                     &family_interpolate,
                                                     &family_broadcast_add,
                                                     &family_broadcast_subtract,
                                                     &family_broadcast_multiply,
                                                     &family_broadcast_divide,
                                                     &family_maximum,
                                                     &family_minimum,
                                                     &family_tied_maximum,
                                                     &family_tied_minimum,
                                                     &family_compare,
                                                     &family_masked_fill,
                                                     &family_kept,
                                                     &family_layer_norm_wide,
                                                     &family_rms_norm,
                                                     &family_rms_norm_wide,
                                                     &family_batch_norm_apply,
                                                     &family_conv2d_sums,
                                                     &family_conv_transpose2d,
                                                     &family_reshape,
                                                     &family_smooth_l1_loss,
                                                     &family_bce,
                                                     &family_attention,
                                                     &family_rotary,
                                                     &family_embedding,
                                                     &family_take,
                                                     &family_lstm_cell,
                                                     &family_gru_cell,
                                                     &family_lstm,
                                                     &family_gru,
                                                     &family_permute,
                                                     &family_slice,
                                                     &family_pad};
enum { FAMILIES = sizeof families / sizeof *families };

/* Its kernels are ref's, so this is about how they are entered, and about the engine: whoever runs
 * a device whose memory the host cannot touch uses it. */
YK_TEST(sim)
{
    for (int i = 0; i < FAMILIES; i++)
        conformance_device(families[i], &sim_f32);
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++) {
        conformance_device(&families_elementwise[i], &sim_f32);
        conformance_device(&families_elementwise[i], &sim_bf16);
    }
    conformance_device(&family_linear, &sim_bf16);
    conformance_device(&family_cross_entropy, &sim_bf16);
    conformance_device(&family_batch_norm, &sim_bf16);
    conformance_device(&family_group_norm, &sim_bf16);
    conformance_device(&family_matmul, &sim_bf16);
    conformance_device(&family_conv2d_sums, &sim_bf16);
    conformance_device(&family_conv_transpose2d, &sim_bf16);
    conformance_device(&family_attention, &sim_bf16);
    conformance_device(&family_rotary, &sim_bf16);
}

YK_TEST(every_operator_has_a_row)
{
    bool seen[YKI_OPERATORS] = {false};
    for (int i = 0; i < FAMILIES; i++)
        conformance_mark(families[i], seen);
    for (int i = 0; i < FAMILIES_ELEMENTWISE; i++)
        conformance_mark(&families_elementwise[i], seen);
    for (size_t i = 0; i < YKI_OPERATORS; i++) {
        const yki_op *op = yki_operators[i];
        bool elsewhere = op == &yki_op_cast || op == &yki_op_reorder || /* in test_layout.c */
                         op == &yki_op_all_gather_batch ||              /* in tests/parallel */
                         op == &yki_op_reduce_scatter_batch;
        if (!seen[i] && !elsewhere)
            fail_msg("%s has no row in the conformance suite", op->name);
    }
}
