/*
 * Convolution and linear with 16-bit storage and f32 arithmetic. Activations are stored in bf16 or
 * f16. A few images at a time are widened into a stage that fits the cache, go through the f32
 * kernel (Winograd included), and are narrowed again. Results are at least as exact as native ones,
 * because products of 16-bit numbers are exact in f32 and the weights are not rounded.
 *
 * This is for f16, for which oneDNN has no arithmetic on these processors, and for processors whose
 * bf16 dot product is missing or slower than their f32 multiply-add. Intel's cores execute
 * vdpbf16ps at half the f32 rate: the convolutions of ResNet-18 take 1759 ms natively and 577 ms in
 * f32 (batch 64, one thread). AMD's Zen 4 and 5 run it at twice the f32 rate and use oneDNN's own
 * bf16 kernels, unless an algorithm in f32 with fewer products is faster (conv/bf16_gains.c), and
 * so do depthwise convolutions, which move more than they compute.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/convert16.h"
#include "device/cpu/onednn.h"

enum { STAGE_BYTES = 8 << 20, LEAST_CHUNK = 8 };

typedef struct staged_kernel {
    yki_kernel base;
    yki_kernel *inner; /* the f32 kernel for `chunk` images */
    int64_t chunks;
    yk_dtype dtype; /* of the storage */
    int threads;
    size_t in_elements, out_elements;     /* of one chunk of the two activations */
    size_t in_bytes, out_bytes;           /* of their stages */
    size_t weight_elements, weight_bytes; /* of one chunk's weight gradient */
    size_t bias_elements;
} staged_kernel;

/* The largest number of images that divides the batch and whose stages fit the cache. */
static int64_t choose_chunk(int64_t batch, size_t image_bytes)
{
    int64_t best = 1;
    for (int64_t d = 1; d <= batch; d++)
        if (batch % d == 0 && (size_t)d * image_bytes <= STAGE_BYTES)
            best = d;
    return best < LEAST_CHUNK ? batch : best;
}

static void staged_destroy(yki_kernel *kernel)
{
    staged_kernel *k = (staged_kernel *)kernel;
    yki_kernel_destroy(k->inner);
    free(k);
}

/* Changes an operand to one chunk in f32; returns its elements. */
static size_t stage(const yki_device *device, yki_operand *operand, int64_t chunk)
{
    operand->dtype = YK_F32;
    operand->dims[0] = chunk;
    return (size_t)yki_operand_elements(device, operand);
}

/* Kernels of panels are for x86 alone. */
#if defined(__x86_64__)
#define PANEL(impl) (&(impl))
#else
#define PANEL(impl) NULL
#endif

/* The f32 kernels of an operator: `panel` is used where it supports a shape; it may be NULL. */
typedef struct f32_kernels {
    const yki_kernel_impl *panel, *other;
} f32_kernels;

/* `in` and `out` point to the two activations in desc, the inner kernel's copy. */
static yk_status staged_prepare(yki_device *device, f32_kernels choice, yki_kernel_desc *desc,
                                yki_operand *in, yki_operand *out, yki_kernel **kernel)
{
    staged_kernel *k = yki_calloc(1, sizeof *k);
    if (!k)
        return yki_error_memory(sizeof *k, "a staged kernel");
    int64_t batch = in->dims[0];
    size_t image = (yki_operand_bytes(device, in) + yki_operand_bytes(device, out)) / (size_t)batch;
    int64_t chunk = choose_chunk(batch, 2 * image);
    k->dtype = in->dtype;
    k->threads = device->threads;
    k->chunks = batch / chunk;
    k->in_elements = stage(device, in, chunk);
    k->out_elements = stage(device, out, chunk);
    k->in_bytes = yki_align(k->in_elements * sizeof(float), YKI_SCRATCH_ALIGNMENT);
    k->out_bytes = yki_align(k->out_elements * sizeof(float), YKI_SCRATCH_ALIGNMENT);
    const bool few = choice.panel && choice.panel->supports(device, desc);
    const yki_kernel_impl *impl = few ? choice.panel : choice.other;
    yk_status status = impl->prepare(device, desc, &k->inner);
    if (status != YK_OK) {
        free(k);
        return status;
    }
    k->inner->impl = impl;
    k->base.scratch = k->in_bytes + k->out_bytes + k->inner->scratch;
    k->base.pack_input = k->inner->pack_input;
    k->base.pack_bytes = k->inner->pack_bytes;
    *kernel = &k->base;
    return YK_OK;
}

static yk_status staged_pack(const yki_kernel *kernel, const void *parameter, void *packed,
                             yki_stream *stream)
{
    const staged_kernel *k = (const staged_kernel *)kernel;
    return k->inner->impl->pack(k->inner, parameter, packed, stream);
}

static bool staged_same_pack(const yki_kernel *kernel, const yki_kernel *other)
{
    const staged_kernel *a = (const staged_kernel *)kernel, *b = (const staged_kernel *)other;
    return yki_kernels_share_pack(a->inner, b->inner);
}

/* Convolutions have other kernels that these may be measured against. */
#define name_of_conv   "staged"
#define name_of_linear NULL

/* Whether the two activations are stored in the same 16-bit type. */
static bool staged(const yki_operand *x, const yki_operand *y)
{
    return x->dtype == y->dtype && (x->dtype == YK_F16 || x->dtype == YK_BF16);
}

static bool staged_supports_conv(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return staged(&desc->in[YKI_CONV2D_X], &desc->out[YKI_CONV2D_Y]);
}

static bool staged_gains_conv(const yki_device *device, const yki_kernel_desc *desc)
{
    const yki_operand *x = &desc->in[YKI_CONV2D_X];
    return !yki_prefers_bf16(device, x) && !yki_is_depthwise_bf16(device, desc->attrs, x);
}

static bool staged_supports_linear(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return staged(&desc->in[YKI_LINEAR_X], &desc->out[YKI_LINEAR_Y]);
}

/* A product of matrices runs in bf16 wherever oneDNN has it, except with few samples and large
 * weights: reading these once in f32 takes less time than converting them (linear_panel.c). */
static bool gains_over_bf16(const yki_device *device, const yki_kernel_desc *desc,
                            const yki_kernel_impl *panel)
{
    yki_kernel_desc f32 = *desc;
    f32.in[0].dtype = f32.in[1].dtype = f32.out[0].dtype = YK_F32;
    return desc->in[0].dtype == YK_F16 || !((const yki_cpu_device *)device)->has_bf16 ||
           (panel && panel->supports(device, &f32));
}

static bool gains_linear(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains_over_bf16(device, desc, PANEL(yki_cpu_linear_panel));
}

static bool gains_linear_data(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains_over_bf16(device, desc, PANEL(yki_cpu_linear_backward_data_panel));
}

static bool gains_linear_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    return gains_over_bf16(device, desc, PANEL(yki_cpu_linear_backward_weight_panel));
}

/* Forward and backward data: one activation in, packed weights, one activation out. */
static yk_status run_through(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const staged_kernel *k = (const staged_kernel *)kernel;
    char *stage_in = run->scratch, *stage_out = stage_in + k->in_bytes;
    for (int64_t c = 0; c < k->chunks; c++) {
        const uint16_t *in = (const uint16_t *)run->in[0] + (size_t)c * k->in_elements;
        uint16_t *out = (uint16_t *)run->out[0] + (size_t)c * k->out_elements;
        yki_cpu_widen((float *)stage_in, in, k->dtype, k->in_elements, k->threads);
        yki_kernel_args inner = {.in = (void *[]){stage_in, run->in[1], run->in[2]},
                                 .out = (void *[]){stage_out},
                                 .scratch = stage_out + k->out_bytes};
        YK_TRY(k->inner->impl->run(k->inner, &inner));
        yki_cpu_narrow(out, (const float *)stage_out, k->dtype, k->out_elements, k->threads);
    }
    return YK_OK;
}

/* Forward (x, weight, [bias] -> y) and the gradient of x (dy, weight -> dx) of an operator. */
#define THROUGH(which, kind, gains_by, panel)                                                      \
    static yk_status staged_prepare_##which(yki_device *device, const yki_kernel_desc *desc,       \
                                            yki_kernel **kernel)                                   \
    {                                                                                              \
        yki_kernel_desc inner = *desc;                                                             \
        return staged_prepare(device, (f32_kernels){panel, &yki_cpu_##which}, &inner,              \
                              &inner.in[0], &inner.out[0], kernel);                                \
    }                                                                                              \
    const yki_kernel_impl yki_cpu_##which##_staged = {.op = &yki_op_##which,                       \
                                                      .name = name_of_##kind,                      \
                                                      .supports = staged_supports_##kind,          \
                                                      .gains = gains_by,                           \
                                                      .prepare = staged_prepare_##which,           \
                                                      .run = run_through,                          \
                                                      .destroy = staged_destroy,                   \
                                                      .pack = staged_pack,                         \
                                                      .same_pack = staged_same_pack}
THROUGH(conv2d, conv, staged_gains_conv, NULL);
THROUGH(conv2d_backward_data, conv, staged_gains_conv, NULL);
THROUGH(linear, linear, gains_linear, PANEL(yki_cpu_linear_panel));
THROUGH(linear_backward_data, linear, gains_linear_data, PANEL(yki_cpu_linear_backward_data_panel));

/* ---- gradient of the weights: x, dy -> dweight, [dbias], summed over the chunks -------------- */

/* The two activations are inputs of both operators. */
static bool staged_supports_weight(const yki_device *device, const yki_kernel_desc *desc)
{
    (void)device;
    return staged(&desc->in[0], &desc->in[1]);
}

static yk_status staged_prepare_weight(yki_device *device, f32_kernels choice,
                                       const yki_kernel_desc *desc, yki_kernel **kernel)
{
    yki_kernel_desc inner = *desc;
    YK_TRY(staged_prepare(device, choice, &inner, &inner.in[0], &inner.in[1], kernel));
    staged_kernel *k = (staged_kernel *)*kernel;
    k->weight_elements = (size_t)yki_operand_count(&desc->out[0]);
    k->bias_elements = (size_t)yki_operand_count(&desc->out[1]);
    k->weight_bytes =
        yki_align((k->weight_elements + k->bias_elements) * sizeof(float), YKI_SCRATCH_ALIGNMENT);
    k->base.scratch += k->weight_bytes;
    return YK_OK;
}

YKI_VECTOR_CLONES
static void add_to(float *restrict sum, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

static yk_status staged_run_backward_weight(const yki_kernel *kernel, const yki_kernel_args *run)
{
    const staged_kernel *k = (const staged_kernel *)kernel;
    char *stage_x = run->scratch, *stage_dy = stage_x + k->in_bytes;
    float *more = (float *)(stage_dy + k->out_bytes), *more_bias = more + k->weight_elements;
    for (int64_t c = 0; c < k->chunks; c++) {
        const uint16_t *x = (const uint16_t *)run->in[0] + (size_t)c * k->in_elements;
        const uint16_t *dy = (const uint16_t *)run->in[1] + (size_t)c * k->out_elements;
        yki_cpu_widen((float *)stage_x, x, k->dtype, k->in_elements, k->threads);
        yki_cpu_widen((float *)stage_dy, dy, k->dtype, k->out_elements, k->threads);
        yki_kernel_args inner = {
            .in = (void *[]){stage_x, stage_dy},
            .out = (void *[]){c ? more : run->out[0], c ? more_bias : run->out[1]},
            .scratch = (char *)more + k->weight_bytes};
        YK_TRY(k->inner->impl->run(k->inner, &inner));
        if (c) {
            add_to(run->out[0], more, k->weight_elements);
            if (run->out[1])
                add_to(run->out[1], more_bias, k->bias_elements);
        }
    }
    return YK_OK;
}

#define WEIGHT(which, kind, gains_by, panel)                                                       \
    static yk_status staged_prepare_##which(yki_device *device, const yki_kernel_desc *desc,       \
                                            yki_kernel **kernel)                                   \
    {                                                                                              \
        return staged_prepare_weight(device, (f32_kernels){panel, &yki_cpu_##which}, desc,         \
                                     kernel);                                                      \
    }                                                                                              \
    const yki_kernel_impl yki_cpu_##which##_staged = {.op = &yki_op_##which,                       \
                                                      .name = name_of_##kind,                      \
                                                      .supports = staged_supports_weight,          \
                                                      .gains = gains_by,                           \
                                                      .prepare = staged_prepare_##which,           \
                                                      .run = staged_run_backward_weight,           \
                                                      .destroy = staged_destroy}
WEIGHT(conv2d_backward_weight, conv, staged_gains_conv, NULL);
WEIGHT(linear_backward_weight, linear, gains_linear_weight,
       PANEL(yki_cpu_linear_backward_weight_panel));
