/* The cpu device: its engine, its layouts and its table of kernels. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/system.h>

#include "base/cpu_features.h"
#include "base/memory.h"
#include "base/text.h"
#include "device/cpu/onednn.h"
#include "device/cpu/x86/amx.h"
#include "device/cpu/x86/bf16_rate.h"

/* Channels that are blocked: images of 3 or 4 would take several times their memory. */
enum { LEAST_BLOCKED = 5 };

static const yki_kernel_impl *const kernels[] = {
#if defined(__x86_64__)
    &yki_cpu_conv2d_amx_line,
    &yki_cpu_conv2d_backward_data_amx_line,
    &yki_cpu_conv2d_backward_weight_amx_line,
    &yki_cpu_conv2d_amx,
    &yki_cpu_conv2d_backward_data_amx,
    &yki_cpu_conv2d_backward_weight_amx,
    &yki_cpu_conv2d_winograd,
    &yki_cpu_conv2d_backward_data_winograd,
    &yki_cpu_conv2d_backward_weight_winograd,
#endif
    &yki_cpu_conv2d_minimal,
    &yki_cpu_conv2d_backward_data_minimal,
    &yki_cpu_conv2d_backward_weight_minimal,
#if defined(__x86_64__)
    &yki_cpu_conv2d_backward_data_strided,
    &yki_cpu_conv2d_backward_weight_strided,
    &yki_cpu_conv2d_pointwise,
    &yki_cpu_conv2d_backward_data_pointwise,
    &yki_cpu_conv2d_backward_weight_pointwise,
    &yki_cpu_conv_transpose2d_patches,
    &yki_cpu_conv2d_backward_data_patches,
#endif
    &yki_cpu_conv2d_depthwise,
    &yki_cpu_conv2d_backward_data_depthwise,
    &yki_cpu_conv2d_backward_weight_depthwise,
    &yki_cpu_conv2d_narrow,
    &yki_cpu_conv2d_backward_data_narrow,
    &yki_cpu_conv2d_backward_weight_narrow,
#if defined(__x86_64__)
    &yki_cpu_conv2d_strips,
    &yki_cpu_conv2d_backward_weight_strips,
    &yki_cpu_conv2d_split,
    &yki_cpu_conv2d_backward_data_split,
    &yki_cpu_conv2d_backward_weight_split,
#endif
    &yki_cpu_conv2d_blocked,
    &yki_cpu_conv2d_backward_data_blocked,
    &yki_cpu_conv2d_backward_weight_blocked,
    &yki_cpu_conv2d_plain,
    &yki_cpu_conv2d_backward_data_plain,
    &yki_cpu_conv2d_backward_weight_plain,
    &yki_cpu_conv2d_staged,
    &yki_cpu_conv2d_backward_data_staged,
    &yki_cpu_conv2d_backward_weight_staged,
#if defined(__x86_64__)
    &yki_cpu_linear_panel,
    &yki_cpu_linear_backward_data_panel,
    &yki_cpu_linear_backward_weight_panel,
#endif
    &yki_cpu_linear_staged,
    &yki_cpu_linear_backward_data_staged,
    &yki_cpu_linear_backward_weight_staged,
    &yki_cpu_conv2d,
    &yki_cpu_conv2d_backward_data,
    &yki_cpu_conv2d_backward_weight,
    &yki_cpu_conv_transpose2d,
    &yki_cpu_conv_transpose2d_backward_bias,
    &yki_cpu_linear,
    &yki_cpu_linear_backward_data,
    &yki_cpu_linear_backward_weight,
    &yki_cpu_matmul,
    &yki_cpu_matmul_staged,
    &yki_cpu_batch_norm,
    &yki_cpu_batch_norm_apply,
    &yki_cpu_batch_norm_backward,
    &yki_cpu_group_norm,
    &yki_cpu_group_norm_backward,
    &yki_cpu_relu,
    &yki_cpu_relu_backward,
    &yki_cpu_relu6,
    &yki_cpu_relu6_backward,
    &yki_cpu_sigmoid,
    &yki_cpu_sigmoid_backward,
    &yki_cpu_silu,
    &yki_cpu_silu_backward,
    &yki_cpu_hardswish,
    &yki_cpu_hardswish_backward,
    &yki_cpu_tanh,
    &yki_cpu_tanh_backward,
    &yki_cpu_leaky_relu,
    &yki_cpu_leaky_relu_backward,
    &yki_cpu_elu,
    &yki_cpu_elu_backward,
    &yki_cpu_gelu,
    &yki_cpu_gelu_backward,
    &yki_cpu_exp,
    &yki_cpu_log,
    &yki_cpu_sin,
    &yki_cpu_cos,
    &yki_cpu_abs,
    &yki_cpu_abs_backward,
    &yki_cpu_pow,
    &yki_cpu_pow_backward,
    &yki_cpu_clamp,
    &yki_cpu_clamp_backward,
    &yki_cpu_add,
    &yki_cpu_scale,
    &yki_cpu_add_scalar,
    &yki_cpu_cast,
    &yki_cpu_dropout,
    &yki_cpu_dropout_backward,
    &yki_cpu_max_pool2d,
    &yki_cpu_max_pool2d_backward,
    &yki_cpu_avg_pool2d,
    &yki_cpu_avg_pool2d_backward,
    &yki_cpu_global_avg_pool2d,
    &yki_cpu_global_avg_pool2d_backward,
    &yki_cpu_adaptive_avg_pool2d,
    &yki_cpu_adaptive_avg_pool2d_backward,
    &yki_cpu_interpolate,
    &yki_cpu_interpolate_backward,
    &yki_cpu_flatten,
    &yki_cpu_reshape,
    &yki_cpu_reorder,
    &yki_cpu_subtract,
    &yki_cpu_multiply,
    &yki_cpu_divide,
    &yki_cpu_maximum,
    &yki_cpu_minimum,
    &yki_cpu_compare,
    &yki_cpu_masked_fill,
    &yki_cpu_add_broadcast,
    &yki_cpu_subtract_broadcast,
    &yki_cpu_multiply_broadcast,
    &yki_cpu_divide_broadcast,
    &yki_cpu_maximum_broadcast,
    &yki_cpu_minimum_broadcast,
    &yki_cpu_compare_broadcast,
    &yki_cpu_masked_fill_broadcast,
    &yki_cpu_expand,
    &yki_cpu_reduce,
    &yki_cpu_sum,
    &yki_cpu_reduce_loss,
    &yki_cpu_concat,
    &yki_cpu_slice,
    &yki_cpu_pad,
    &yki_cpu_permute,
    &yki_cpu_randn_like,
    &yki_cpu_amax,
    &yki_cpu_amin,
    &yki_cpu_amax_backward,
    &yki_cpu_softmax,
    &yki_cpu_softmax_backward,
    &yki_cpu_log_softmax,
    &yki_cpu_log_softmax_backward,
    &yki_cpu_layer_norm,
    &yki_cpu_layer_norm_backward,
    &yki_cpu_rms_norm,
    &yki_cpu_rms_norm_backward,
    &yki_cpu_scaled_dot_product_attention,
    &yki_cpu_scaled_dot_product_attention_backward,
    &yki_cpu_rotary_embedding,
    &yki_cpu_lstm_cell,
    &yki_cpu_lstm_cell_backward,
    &yki_cpu_gru_cell,
    &yki_cpu_gru_cell_backward,
    &yki_cpu_lstm,
    &yki_cpu_lstm_backward,
    &yki_cpu_gru,
    &yki_cpu_gru_backward,
    &yki_cpu_embedding,
    &yki_cpu_embedding_backward,
    &yki_cpu_take_along_dim,
    &yki_cpu_take_along_dim_backward,
    &yki_cpu_cross_entropy,
    &yki_cpu_cross_entropy_backward,
    &yki_cpu_mse_loss,
    &yki_cpu_mse_loss_backward,
    &yki_cpu_smooth_l1_loss,
    &yki_cpu_smooth_l1_loss_backward,
    &yki_cpu_binary_cross_entropy_with_logits,
    &yki_cpu_binary_cross_entropy_with_logits_backward,
    NULL,
};

/* oneDNN's own view of an x86 processor, which ONEDNN_MAX_CPU_ISA may narrow. */
static bool has_isa(dnnl_cpu_isa_t isa)
{
#if defined(__x86_64__)
    return dnnl_get_effective_cpu_isa() >= isa;
#else
    (void)isa;
    return false;
#endif
}

static bool has_avx2(void)
{
#if defined(__x86_64__)
    return has_isa(dnnl_cpu_isa_avx2) && yki_cpu_has_avx2_f16c() && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* The lanes of f32 in a vector. */
static int vector_block(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core) ? 16 : has_avx2() ? 8 : 4;
}

static const char *isa_name(const yki_device *device)
{
#if defined(__x86_64__)
    const char *least = "SSE2";
#elif defined(__aarch64__)
    const char *least = "NEON";
#else
    const char *least = "vectors of 4";
#endif
    return device->block == 16 ? "AVX-512" : device->block == 8 ? "AVX2" : least;
}

static bool has_bf16(void)
{
    return yk_cpu_has_bf16() && has_isa(dnnl_cpu_isa_avx512_core_bf16);
}

/*
 * Whether bf16 dot products clearly beat f32 arithmetic: see staged.c. AMX does not change that,
 * because oneDNN's convolutions on blocked layouts do not use it: they took 2.4 times as long as
 * staging through f32 (a training step of ResNet-18 on a Sapphire Rapids). Our own convolutions in
 * bf16 do (conv_amx.h).
 */
static bool has_fast_bf16(void)
{
#if defined(__x86_64__)
    return has_bf16() && yki_bf16_rate() > 1.33;
#else
    return false;
#endif
}

const yki_cpu_sizes *yki_cpu_sizes_of(const yki_device *device)
{
    return &((const yki_cpu_device *)device)->sizes;
}

/* What measured choices of kernels depend on. */
static void name_choices(yki_cpu_device *cpu)
{
    const dnnl_version_t *version = dnnl_version();
    yki_choices *choices = &cpu->base.choices;
    char processor[64];
    yki_cpu_key(processor, sizeof processor);
    if (!*processor)
        return;
    snprintf(choices->hardware, sizeof choices->hardware, "%s %s", processor, isa_name(&cpu->base));
    snprintf(choices->library, sizeof choices->library, "onednn-%d.%d.%d-yoke-%s", version->major,
             version->minor, version->patch, yk_version());
}

static void cpu_destroy(yki_device *device)
{
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    if (cpu->stream)
        dnnl_stream_destroy(cpu->stream);
    if (cpu->engine)
        dnnl_engine_destroy(cpu->engine);
    free(cpu);
}

static yk_status open_engine(yki_cpu_device *cpu)
{
    YKI_DNN(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0));
    YKI_DNN(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags));
    return YK_OK;
}

/* Kernels count on the threads that they are planned for. */
static void cpu_set_threads(yki_device *device, int threads)
{
    const yki_cpu_device *cpu = (const yki_cpu_device *)device;
    const dnnl_version_t *version = dnnl_version();
    int limit = omp_get_thread_limit();
    device->threads = threads < limit ? threads : limit;
    snprintf(device->description, sizeof device->description, "cpu: oneDNN %d.%d.%d, %s%s, %d %s",
             version->major, version->minor, version->patch, isa_name(device),
             cpu->has_amx    ? " with AMX"
             : cpu->has_bf16 ? " with bf16"
                             : "",
             device->threads, yki_plural(device->threads, "thread", "threads"));
}

static yk_status cpu_create(yki_device **device, const yki_device_options *options)
{
    yki_cpu_device *cpu = yki_calloc(1, sizeof *cpu);
    if (!cpu)
        return yki_error_memory(sizeof *cpu, "the cpu device");
    cpu->base = (yki_device){.type = &yki_device_cpu, .block = vector_block()};
    cpu->sizes = (yki_cpu_sizes){.share = 8192, .streamed = 8 << 20, .far = 24 << 20};
    cpu->winograd = options->winograd;
#if defined(__x86_64__)
    cpu->has_amx = yki_amx_is_usable();
#endif
    cpu->has_bf16 = has_bf16();
    cpu->native_bf16 = has_fast_bf16();
    yk_status status = open_engine(cpu);
    if (status != YK_OK) {
        cpu_destroy(&cpu->base);
        return status;
    }
    cpu_set_threads(&cpu->base, options->threads);
    if (options->measures)
        name_choices(cpu);
    *device = &cpu->base;
    return YK_OK;
}

/*
 * OpenMP keeps these settings for each thread that starts regions. It would start fewer threads
 * than kernels count on where the machine is busy, with OMP_DYNAMIC, and in regions of a program's
 * own.
 */
static void cpu_enter(yki_device *device)
{
    int level = omp_get_active_level();
    omp_set_dynamic(0);
    if (omp_get_max_active_levels() <= level)
        omp_set_max_active_levels(level + 1);
    omp_set_num_threads(device->threads);
}

static yki_layout cpu_layout(const yki_device *device, const yki_operand *operand)
{
    (void)device;
    bool ours = operand->ndim == 4 && operand->dims[1] >= LEAST_BLOCKED &&
                (operand->dtype == YK_F32 || operand->dtype == YK_BF16 ||
                 operand->dtype == YK_F16 || operand->dtype == YK_I32 || operand->dtype == YK_U8);
    return ours ? YKI_BLOCKED : YKI_PLAIN;
}

const yki_device_type yki_device_cpu = {.name = "cpu",
                                        .create = cpu_create,
                                        .destroy = cpu_destroy,
                                        .set_threads = cpu_set_threads,
                                        .enter = cpu_enter,
                                        .layout = cpu_layout,
                                        .kernels = kernels,
                                        .sweep = yki_cpu_sweep,
                                        .muon = &yki_cpu_muon,
                                        .measure = yki_cpu_measure,
                                        .memory = &yki_host_memory};
