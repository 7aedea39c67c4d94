/*
 * What the conformance suite does not ask of the cpu device's other convolutions and of its linear
 * layers: that they are the ones that run, and that their results have the same bits with any
 * number of threads.
 */
#define _GNU_SOURCE
#include "device/cpu/onednn.h" /* its parameters would hide names of same_bits.h */

#include "same_bits.h"

#include <math.h>

/* ---- 1x1 ------------------------------------------------------------------------------------- */

/* A kernel of a 1x1 convolution with its operands, and the one that is to run. */
typedef struct pointwise_case {
    yki_kernel_desc desc;
    const yki_kernel_impl *impl;
} pointwise_case;

static pointwise_case pointwise_kernel(int which, const int64_t *in_dims, int64_t filters)
{
    static const yki_attrs plain = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_operand in = x, out = x, taps = weight;
    memcpy(in.dims, in_dims, 4 * sizeof *in_dims);
    memcpy(out.dims, in_dims, 4 * sizeof *in_dims);
    out.dims[1] = filters;
    memcpy(taps.dims, (int64_t[]){filters, in_dims[1], 1, 1}, 4 * sizeof *in_dims);
    const pointwise_case cases[] = {
        {{.op = &yki_op_conv2d, .in_count = 3, .in = {in, taps, none}, .out = {out}},
         &yki_cpu_conv2d_pointwise},
        {{.op = &yki_op_conv2d_backward_data, .in_count = 2, .in = {out, taps}, .out = {in}},
         &yki_cpu_conv2d_backward_data_pointwise},
        {{.op = &yki_op_conv2d_backward_weight, .in_count = 2, .in = {in, out}, .out = {taps}},
         &yki_cpu_conv2d_backward_weight_pointwise}};
    pointwise_case found = cases[which];
    found.desc.attrs = &plain;
    found.desc.out_count = which == 2 ? 2 : 1;
    found.desc.out[1] = none;
    return found;
}

/* Few pixels with many channels, whose results are divided by channels, too; and many with few. */
YK_TEST(pointwise_kernels_have_the_same_bits_with_any_threads)
{
    for (int which = 0; which < 3; which++) {
        pointwise_case deep_case = pointwise_kernel(which, (int64_t[]){18, 640, 7, 7}, 640);
        same_bits(&deep_case.desc, deep_case.impl);
        pointwise_case wide_case = pointwise_kernel(which, (int64_t[]){10, 64, 31, 29}, 64);
        same_bits(&wide_case.desc, wide_case.impl);
    }
}

/* oneDNN would multiply the zeros that fill the last vector of the inputs. */
YK_TEST(pointwise_kernels_take_inputs_that_do_not_fill_vectors)
{
    pointwise_case forward = pointwise_kernel(0, (int64_t[]){32, 24, 24, 24}, 144);
    same_bits_with(&forward.desc, forward.impl, 3);
    pointwise_case data = pointwise_kernel(1, (int64_t[]){32, 144, 24, 24}, 24);
    same_bits_with(&data.desc, data.impl, 3);
}

static bool native_bf16(void)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    bool native = ((const yki_cpu_device *)device)->native_bf16;
    yki_device_destroy(device);
    return native;
}

YK_TEST(gradients_of_weights_on_few_pixels_have_the_same_bits_with_any_threads)
{
    if (!native_bf16())
        skip_because("on this processor oneDNN computes them");
    pointwise_case few = pointwise_kernel(2, (int64_t[]){40, 100, 3, 3}, 200);
    same_bits(&few.desc, few.impl);
}

YK_TEST(large_results_of_pointwise_kernels_have_the_bits_of_unaligned_ones)
{
    for (int which = 0; which < 2; which++) {
        pointwise_case large_case = pointwise_kernel(which, (int64_t[]){21, 64, 41, 41}, 64);
        same_bits_unaligned(&large_case.desc, large_case.impl);
    }
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Of 2x2, transposed or as a gradient of x. */
static yki_kernel_desc patches_desc(bool transposed, const int64_t *in_dims, int64_t filters)
{
    static const yki_attrs halving = {
        .kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1};
    yki_operand in = x, out = x, taps = weight, bias = weight;
    memcpy(in.dims, in_dims, 4 * sizeof *in_dims);
    memcpy(out.dims, (int64_t[]){in_dims[0], filters, 2 * in_dims[2], 2 * in_dims[3]},
           4 * sizeof *in_dims);
    memcpy(taps.dims, (int64_t[]){in_dims[1], filters, 2, 2}, 4 * sizeof *in_dims);
    bias.ndim = 1;
    bias.dims[0] = filters;
    return (yki_kernel_desc){.op = transposed ? &yki_op_conv_transpose2d
                                              : &yki_op_conv2d_backward_data,
                             .attrs = &halving,
                             .in_count = transposed ? 3 : 2,
                             .in = {in, taps, bias},
                             .out_count = 1,
                             .out = {out}};
}

/* Many rows of few channels, and channels whose products are cut. Large results are written past
 * the caches. */
YK_TEST(patches_have_the_same_bits_with_any_threads)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        yki_kernel_desc wide = patches_desc(transposed, (int64_t[]){5, 48, 40, 41}, 64);
        yki_kernel_desc deep = patches_desc(transposed, (int64_t[]){3, 640, 9, 11}, 272);
        const yki_kernel_impl *impl =
            transposed ? &yki_cpu_conv_transpose2d_patches : &yki_cpu_conv2d_backward_data_patches;
        same_bits(&wide, impl);
        same_bits(&deep, impl);
    }
}

YK_TEST(large_patches_have_the_bits_of_unaligned_ones)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        yki_kernel_desc desc = patches_desc(transposed, (int64_t[]){9, 64, 40, 41}, 64);
        same_bits_unaligned(&desc, transposed ? &yki_cpu_conv_transpose2d_patches
                                              : &yki_cpu_conv2d_backward_data_patches);
    }
}

/* ---- pools and images of another size -------------------------------------------------------- */

static void same_unaligned(const yki_kernel_impl *impl, bool grows, bool has_index)
{
    const yki_attrs halving = {.kernel = {2, 2}, .stride = {2, 2}, .bilinear = grows};
    yki_operand large = x, small = x, index = x;
    memcpy(large.dims, (int64_t[]){9, 64, 140, 140}, 4 * sizeof *large.dims);
    memcpy(small.dims, (int64_t[]){9, 64, 70, 70}, 4 * sizeof *small.dims);
    memcpy(index.dims, small.dims, sizeof small.dims);
    index.dtype = YK_U8;
    same_bits_unaligned(&(yki_kernel_desc){.op = impl->op,
                                           .attrs = &halving,
                                           .in_count = has_index ? 2 : 1,
                                           .in = {grows ? small : large, index},
                                           .out_count = impl->op == &yki_op_max_pool2d ? 2 : 1,
                                           .out = {grows ? large : small, none}},
                        impl);
}

YK_TEST(large_pools_and_images_have_the_bits_of_unaligned_ones)
{
    same_unaligned(&yki_cpu_max_pool2d, false, false);
    same_unaligned(&yki_cpu_max_pool2d_backward, true, true);
    same_unaligned(&yki_cpu_avg_pool2d, false, false);
    same_unaligned(&yki_cpu_avg_pool2d_backward, true, false);
    same_unaligned(&yki_cpu_interpolate, true, false);
    same_unaligned(&yki_cpu_interpolate_backward, true, false);
}

/* ---- depthwise ------------------------------------------------------------------------------- */

static void depthwise_same_bits(int64_t images, int64_t rows, int64_t columns, int64_t side)
{
    const yki_attrs depthwise = {
        .stride = {1, 1}, .padding = {side / 2, side / 2}, .dilation = {1, 1}, .groups = CHANNELS};
    yki_operand in = x, gradient = weight;
    memcpy(in.dims, (int64_t[]){images, CHANNELS, rows, columns}, 4 * sizeof *in.dims);
    memcpy(gradient.dims, (int64_t[]){CHANNELS, 1, side, side}, 4 * sizeof *gradient.dims);
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &depthwise,
                                 .in_count = 2,
                                 .in = {in, in},
                                 .out_count = 2,
                                 .out = {gradient, none}},
              &yki_cpu_conv2d_backward_weight_depthwise);
}

/* Several parts: images of a single column, and filters for which oneDNN has no kernel. */
YK_TEST(depthwise_backward_weight_has_the_same_bits_with_any_threads)
{
    depthwise_same_bits(2000, 5, 1, 3);
    depthwise_same_bits(40, 15, 14, 5);
    depthwise_same_bits(40, 15, 14, 7);
}

/* Of stride 2: forward, or the gradient of x. */
static yki_kernel_desc depthwise_desc(bool forward, int64_t images, int64_t rows, int64_t columns)
{
    static const yki_attrs strided = {
        .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = CHANNELS};
    yki_operand large = x, small = x, filter = weight;
    memcpy(large.dims, (int64_t[]){images, CHANNELS, rows, columns}, 4 * sizeof *large.dims);
    memcpy(small.dims, (int64_t[]){images, CHANNELS, (rows + 1) / 2, (columns + 1) / 2},
           4 * sizeof *small.dims);
    memcpy(filter.dims, (int64_t[]){CHANNELS, 1, 3, 3}, 4 * sizeof *filter.dims);
    return (yki_kernel_desc){.op = forward ? &yki_op_conv2d : &yki_op_conv2d_backward_data,
                             .attrs = &strided,
                             .in_count = forward ? 3 : 2,
                             .in = {forward ? large : small, filter, none},
                             .out_count = 1,
                             .out = {forward ? small : large}};
}

YK_TEST(depthwise_of_stride_2_has_the_same_bits_with_any_threads)
{
    yki_kernel_desc forward = depthwise_desc(true, 21, 83, 82);
    yki_kernel_desc data = depthwise_desc(false, 40, 15, 14);
    same_bits(&forward, &yki_cpu_conv2d_depthwise);
    same_bits(&data, &yki_cpu_conv2d_backward_data_depthwise);
}

YK_TEST(large_depthwise_results_have_the_bits_of_unaligned_ones)
{
    yki_kernel_desc forward = depthwise_desc(true, 21, 82, 82);
    yki_kernel_desc data = depthwise_desc(false, 21, 82, 82);
    same_bits_unaligned(&forward, &yki_cpu_conv2d_depthwise);
    same_bits_unaligned(&data, &yki_cpu_conv2d_backward_data_depthwise);
}

/* ---- groups, each by itself ------------------------------------------------------------------ */

static void groups_same_bits(yk_dtype dtype, int64_t groups, int64_t channels)
{
    const yki_attrs grouped = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = groups};
    yki_operand images = x, kernels = weight;
    images.dtype = dtype;
    memcpy(images.dims, (int64_t[]){8, groups * channels, 21, 19}, 4 * sizeof *images.dims);
    memcpy(kernels.dims, (int64_t[]){groups * channels, channels, 3, 3}, 4 * sizeof *kernels.dims);
    yki_kernel_desc desc = {.attrs = &grouped,
                            .in_count = 2,
                            .in = {images, kernels, none},
                            .out_count = 1,
                            .out = {images, none}};
    desc.op = &yki_op_conv2d;
    same_bits(&desc, &yki_cpu_conv2d_split);
    desc.op = &yki_op_conv2d_backward_data;
    same_bits(&desc, &yki_cpu_conv2d_backward_data_split);
    desc.op = &yki_op_conv2d_backward_weight;
    desc.in[1] = images;
    desc.out[0] = kernels;
    same_bits(&desc, &yki_cpu_conv2d_backward_weight_split);
}

/* Two threads compute three groups together, and three threads one each. */
YK_TEST(groups_that_end_within_vectors_have_the_same_bits_with_any_threads)
{
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
    groups_same_bits(YK_F32, 3, 24);
    groups_same_bits(YK_BF16, 3, 24);
}

/* Up to three of them have channels in one vector, which different threads write. */
YK_TEST(groups_that_share_vectors_have_the_same_bits_with_any_threads)
{
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
    groups_same_bits(YK_F32, 32, 9);
    groups_same_bits(YK_BF16, 32, 9);
}

/* What a step is said to have computed: see yki_kernel.flop. */
YK_TEST(winograds_products_are_counted_in_every_group)
{
    static const yki_attrs one = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    static const yki_attrs two = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 2};
    yki_operand all = x, half = x;
    yki_kernel *kernel, *of_a_group;
    yki_device *device;
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    all.dims[1] = 2 * half.dims[1];
    yki_operand kernels = weight;
    kernels.dims[0] = all.dims[1];
    yki_kernel_desc desc = {.op = &yki_op_conv2d,
                            .attrs = &two,
                            .in_count = 3,
                            .in = {all, kernels, none},
                            .out_count = 1,
                            .out = {all}};
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_ptr_equal(kernel->impl, &yki_cpu_conv2d_split);
    kernels.dims[0] = half.dims[1];
    desc.attrs = &one;
    desc.in[0] = desc.out[0] = half;
    desc.in[1] = kernels;
    assert_ok(yki_kernel_create(device, &desc, &of_a_group));
    assert_true(of_a_group->flop > 0);
    assert_true(kernel->flop == 2 * of_a_group->flop);
    yki_kernel_destroy(of_a_group);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
}

/* ---- groups of whole vectors ----------------------------------------------------------------- */

/* Also where results go past the caches, and where they are not aligned for it. */
YK_TEST(wide_groups_with_stride_2_have_the_same_bits_with_any_threads)
{
    const yki_attrs halving = {
        .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 8};
    yki_operand images = x, results = x, weights = weight;
    memcpy(images.dims, (int64_t[]){48, 256, 27, 28}, 4 * sizeof *images.dims);
    memcpy(results.dims, (int64_t[]){48, 256, 14, 14}, 4 * sizeof *results.dims);
    memcpy(weights.dims, (int64_t[]){256, 32, 3, 3}, 4 * sizeof *weights.dims);
    yki_kernel_desc desc = {.op = &yki_op_conv2d,
                            .attrs = &halving,
                            .in_count = 3,
                            .in = {images, weights, none},
                            .out_count = 1,
                            .out = {results}};
    same_bits(&desc, &yki_cpu_conv2d_strips);
    same_bits_unaligned(&desc, &yki_cpu_conv2d_strips);
}

/* Of one block, and of two. */
YK_TEST(gradients_of_wide_groups_with_stride_2_have_the_same_bits_with_any_threads)
{
    if (!native_bf16())
        skip_because("on this processor bf16 is staged through f32");
    for (int64_t width = 16; width <= 32; width += 16) {
        const yki_attrs halving = {
            .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 512 / width};
        yki_operand images = x, results = x, weights = weight;
        memcpy(images.dims, (int64_t[]){12, 512, 29, 27}, 4 * sizeof *images.dims);
        memcpy(results.dims, (int64_t[]){12, 512, 15, 14}, 4 * sizeof *results.dims);
        memcpy(weights.dims, (int64_t[]){512, width, 3, 3}, 4 * sizeof *weights.dims);
        images.dtype = results.dtype = YK_BF16;
        same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                     .attrs = &halving,
                                     .in_count = 2,
                                     .in = {images, results},
                                     .out_count = 2,
                                     .out = {weights, none}},
                  &yki_cpu_conv2d_backward_weight_strips);
    }
}

/* ---- groups narrower than a vector ----------------------------------------------------------- */

/* Groups of `width` channels: each of the kernels, on several strips and units. */
static void narrow_same_bits(int64_t width, yk_dtype dtype)
{
    const yki_attrs grouped = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = CHANNELS / width};
    yki_operand images = x, weights = weight;
    memcpy(images.dims, (int64_t[]){9, CHANNELS, 67, 31}, 4 * sizeof *images.dims);
    images.dtype = dtype;
    weights.dims[0] = CHANNELS;
    weights.dims[1] = width;
    yki_kernel_desc desc = {.attrs = &grouped,
                            .in_count = 2,
                            .in = {images, weights, none},
                            .out_count = 1,
                            .out = {images, none}};
    desc.op = &yki_op_conv2d;
    same_bits(&desc, &yki_cpu_conv2d_narrow);
    desc.op = &yki_op_conv2d_backward_data;
    same_bits(&desc, &yki_cpu_conv2d_backward_data_narrow);
    if (width == 1)
        return;
    desc.op = &yki_op_conv2d_backward_weight;
    desc.in[1] = images;
    desc.out[0] = weights;
    same_bits(&desc, &yki_cpu_conv2d_backward_weight_narrow);
}

/* Forward with stride 2. */
static void narrow_halving_same_bits(int64_t width, yk_dtype dtype)
{
    const yki_attrs halving = {
        .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = CHANNELS / width};
    yki_operand images = x, results = x, weights = weight;
    memcpy(images.dims, (int64_t[]){9, CHANNELS, 67, 62}, 4 * sizeof *images.dims);
    memcpy(results.dims, (int64_t[]){9, CHANNELS, 34, 31}, 4 * sizeof *results.dims);
    images.dtype = results.dtype = dtype;
    weights.dims[0] = CHANNELS;
    weights.dims[1] = width;
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d,
                                 .attrs = &halving,
                                 .in_count = 3,
                                 .in = {images, weights, none},
                                 .out_count = 1,
                                 .out = {results}},
              &yki_cpu_conv2d_narrow);
}

YK_TEST(narrow_groups_with_stride_2_have_the_same_bits_with_any_threads)
{
    narrow_halving_same_bits(4, YK_F32);
    narrow_halving_same_bits(8, YK_F32);
    narrow_halving_same_bits(4, YK_BF16);
    narrow_halving_same_bits(8, YK_F16);
}

YK_TEST(narrow_groups_have_the_same_bits_with_any_threads)
{
    narrow_same_bits(4, YK_F32);
    narrow_same_bits(4, YK_BF16);
    narrow_same_bits(2, YK_BF16); /* not 8, which other kernels may do: see narrow_gains() */
    narrow_same_bits(1, YK_BF16);
    narrow_same_bits(8, YK_F16);
    narrow_same_bits(1, YK_F16);
}

/* As on a processor with AVX-512, but without bf16. */
YK_TEST(narrow_groups_have_the_same_bits_with_any_threads_without_bf16)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
    narrow_same_bits(8, YK_BF16);
    narrow_same_bits(1, YK_BF16);
}

YK_TEST(narrow_groups_have_the_same_bits_with_any_threads_avx2)
{
    on_avx2();
    narrow_same_bits(4, YK_F32);
    narrow_same_bits(2, YK_BF16);
    narrow_same_bits(1, YK_BF16);
    narrow_same_bits(1, YK_F16);
}

YK_TEST(narrow_groups_have_the_same_bits_with_any_threads_on_sse2)
{
    on_sse2();
    narrow_same_bits(2, YK_F32);
    narrow_same_bits(1, YK_F32);
    narrow_same_bits(1, YK_BF16);
}

/* ---- linear layers on few samples ------------------------------------------------------------ */

enum { INPUTS = 1024, OUTPUTS = 4160 };

/* The three kernels of a linear layer without a bias; each is listed with its two inputs and its
 * output. */
typedef struct linear_case {
    yki_kernel_desc desc;
    const yki_kernel_impl *impl;
} linear_case;

static linear_case linear_kernel(int which, int64_t samples)
{
    const yki_operand in = {.dtype = YK_F32, .ndim = 2, .dims = {samples, INPUTS}};
    const yki_operand out = {.dtype = YK_F32, .ndim = 2, .dims = {samples, OUTPUTS}};
    const yki_operand weights = {.dtype = YK_F32, .ndim = 2, .dims = {OUTPUTS, INPUTS}};
    const linear_case all[] = {{{.op = &yki_op_linear,
                                 .in_count = 3,
                                 .in = {in, weights, none},
                                 .out_count = 1,
                                 .out = {out}},
                                &yki_cpu_linear_panel},
                               {{.op = &yki_op_linear_backward_data,
                                 .in_count = 2,
                                 .in = {out, weights},
                                 .out_count = 1,
                                 .out = {in}},
                                &yki_cpu_linear_backward_data_panel},
                               {{.op = &yki_op_linear_backward_weight,
                                 .in_count = 2,
                                 .in = {in, out},
                                 .out_count = 2,
                                 .out = {weights, none}},
                                &yki_cpu_linear_backward_weight_panel}};
    return all[which];
}

YK_TEST(linear_has_the_same_bits_with_any_threads)
{
    for (int which = 0; which < 3; which++) {
        linear_case c = linear_kernel(which, 40);
        same_bits(&c.desc, c.impl);
    }
}

/* Also where the processor multiplies bf16: converting the weights would take longer. */
YK_TEST(linear_in_16_bits_on_few_samples_goes_through_panels_of_f32)
{
    const yki_kernel_impl *const expected[] = {&yki_cpu_linear_staged,
                                               &yki_cpu_linear_backward_data_staged,
                                               &yki_cpu_linear_backward_weight_staged};
    for (int which = 0; which < 3; which++) {
        linear_case c = linear_kernel(which, 8);
        c.desc.in[0].dtype = YK_BF16;
        *(which == 2 ? &c.desc.in[1].dtype : &c.desc.out[0].dtype) = YK_BF16;
        same_bits(&c.desc, expected[which]);
    }
}

/* Element (i, j) of the result of a kernel with inputs a and b, in double. */
static double linear_element(int which, int64_t samples, const float *a, const float *b, int64_t i,
                             int64_t j)
{
    double sum = 0;
    if (which == 0)
        for (int64_t k = 0; k < INPUTS; k++)
            sum += (double)a[i * INPUTS + k] * b[j * INPUTS + k];
    else if (which == 1)
        for (int64_t k = 0; k < OUTPUTS; k++)
            sum += (double)a[i * OUTPUTS + k] * b[k * INPUTS + j];
    else
        for (int64_t k = 0; k < samples; k++)
            sum += (double)a[k * INPUTS + j] * b[k * OUTPUTS + i];
    return sum;
}

/* Compares some elements of a kernel's result. */
static void check_linear(int which, int64_t samples)
{
    enum { STEP = 37 };
    linear_case c = linear_kernel(which, samples);
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    float *a = random_numbers(device, &c.desc.in[0]), *b = random_numbers(device, &c.desc.in[1]);
    float *result = run(c.desc, c.impl, 2);
    const int64_t *dims = c.desc.out[0].dims;
    for (int64_t i = 0; i<dims[0]; i += dims[0]> samples ? STEP : 1)
        for (int64_t j = i % STEP; j < dims[1]; j += STEP) {
            double expected = linear_element(which, samples, a, b, i, j);
            assert_true(fabs(result[i * dims[1] + j] - expected) < 1e-3);
        }
    yki_unmap(a, yki_operand_bytes(device, &c.desc.in[0]));
    yki_unmap(b, yki_operand_bytes(device, &c.desc.in[1]));
    yki_unmap(result, yki_operand_bytes(device, &c.desc.out[0]));
    yki_device_destroy(device);
}

/* As many samples as fill one to four vectors. */
YK_TEST(linear_on_few_samples_is_right)
{
    if (!has_lanes())
        skip_because("this processor has no AVX-512");
    for (int which = 0; which < 3; which++)
        for (int64_t samples = 1; samples <= 64; samples += 21)
            check_linear(which, samples);
}

/* ---- oneDNN's convolutions, a slice of the batch at a time ---------------------------------- */

/* More threads than slices work on the whole batch together. */
enum { MORE_THREADS = 9 };

static void assert_slices(const yki_kernel_desc *desc, const yki_kernel_impl *impl)
{
    same_bits(desc, impl);
    float *cut = run(*desc, impl, 2), *whole = run(*desc, impl, MORE_THREADS);
    int64_t count = yki_operand_count(&desc->out[0]);
    double wrong = 0, right = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += (cut[i] - whole[i]) * (cut[i] - whole[i]);
        right += whole[i] * whole[i];
    }
    assert_true(right > 0);
    assert_true(wrong < 1e-10 * right);
    yki_unmap(cut, (size_t)count * sizeof *cut);
    yki_unmap(whole, (size_t)count * sizeof *whole);
}

YK_TEST(slices_of_a_batch_have_the_same_bits_with_any_threads)
{
    static const yki_attrs plain = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_operand narrow = x, wide = x, taps = weight;
    memcpy(narrow.dims, (int64_t[]){16, 64, 48, 48}, 4 * sizeof *narrow.dims);
    memcpy(wide.dims, (int64_t[]){16, 256, 48, 48}, 4 * sizeof *wide.dims);
    memcpy(taps.dims, (int64_t[]){256, 64, 1, 1}, 4 * sizeof *taps.dims);
    assert_slices(&(yki_kernel_desc){.op = &yki_op_conv2d,
                                     .attrs = &plain,
                                     .in_count = 3,
                                     .in = {narrow, taps, none},
                                     .out_count = 1,
                                     .out = {wide}},
                  &yki_cpu_conv2d);
    memcpy(taps.dims, (int64_t[]){64, 256, 1, 1}, 4 * sizeof *taps.dims);
    assert_slices(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                     .attrs = &plain,
                                     .in_count = 2,
                                     .in = {narrow, taps},
                                     .out_count = 1,
                                     .out = {wide}},
                  &yki_cpu_conv2d_backward_data);
}

YK_TEST(gradients_of_slices_have_the_same_bits_with_any_threads)
{
    static const yki_attrs stem = {
        .stride = {2, 2}, .padding = {3, 3}, .dilation = {1, 1}, .groups = 1};
    yki_operand images = x, features = x, taps = weight;
    memcpy(images.dims, (int64_t[]){16, 3, 180, 160}, 4 * sizeof *images.dims);
    memcpy(features.dims, (int64_t[]){16, 64, 90, 80}, 4 * sizeof *features.dims);
    memcpy(taps.dims, (int64_t[]){64, 3, 7, 7}, 4 * sizeof *taps.dims);
    images.layout = YKI_PLAIN;
    assert_slices(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                     .attrs = &stem,
                                     .in_count = 2,
                                     .in = {images, features},
                                     .out_count = 2,
                                     .out = {taps, none}},
                  &yki_cpu_conv2d_backward_weight);
}

/* ---- few channels ---------------------------------------------------------------------------- */

/* Whether activations are copied for a convolution's operator from `in` to `out` channels of 12x12,
 * in the device's own layouts. */
static bool is_copied(int which, int64_t in, int64_t out, int64_t taps, yk_dtype dtype)
{
    static const yki_kernel_impl *const blocked[] = {&yki_cpu_conv2d_blocked,
                                                     &yki_cpu_conv2d_backward_data_blocked,
                                                     &yki_cpu_conv2d_backward_weight_blocked};
    static const yki_kernel_impl *const row_major[] = {&yki_cpu_conv2d_plain,
                                                       &yki_cpu_conv2d_backward_data_plain,
                                                       &yki_cpu_conv2d_backward_weight_plain};
    static const yki_attrs plain = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    yki_operand images = x, features = x, kernels = weight;
    memcpy(images.dims, (int64_t[]){8, in, 12, 12}, 4 * sizeof *images.dims);
    memcpy(features.dims, (int64_t[]){8, out, 13 - taps, 13 - taps}, 4 * sizeof *features.dims);
    memcpy(kernels.dims, (int64_t[]){out, in, taps, taps}, 4 * sizeof *kernels.dims);
    images.dtype = features.dtype = dtype;
    images.layout = device->type->layout(device, &images);
    features.layout = device->type->layout(device, &features);
    yki_kernel_desc descs[] = {
        {.op = &yki_op_conv2d,
         .in_count = 3,
         .in = {images, kernels, none},
         .out_count = 1,
         .out = {features}},
        {.op = &yki_op_conv2d_backward_data,
         .in_count = 2,
         .in = {features, kernels},
         .out_count = 1,
         .out = {images}},
        {.op = &yki_op_conv2d_backward_weight,
         .in_count = 2,
         .in = {images, features},
         .out_count = 2,
         .out = {kernels, none}},
    };
    descs[which].attrs = &plain;
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &descs[which], &kernel));
    bool copied = kernel->impl == blocked[which] || kernel->impl == row_major[which];
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return copied;
}

/* oneDNN has only its reference implementation for these pairs of layouts. */
YK_TEST(activations_of_few_channels_are_copied_for_a_faster_kernel)
{
    if (!__builtin_cpu_supports("avx512bw"))
        skip();
    static const yk_dtype dtypes[] = {YK_F32, YK_BF16, YK_F16};
    for (int i = 0; i < 3; i++) {
        assert_true(is_copied(1, 4, 16, 5, dtypes[i]));
        for (int which = 0; which < 3; which++)
            assert_true(is_copied(which, 64, 4, 1, dtypes[i]));
        /* Blocked activations of few channels have padding, which oneDNN computes as well. */
        for (int which = 0; which < 3; which++) {
            assert_false(is_copied(which, 6, 16, 5, dtypes[i]));
            assert_false(is_copied(which, 64, 10, 1, dtypes[i]));
        }
        /* It has kernels for the first layer of most networks, and where both are blocked. */
        assert_false(is_copied(0, 3, 64, 3, dtypes[i]));
        assert_false(is_copied(2, 3, 64, 3, dtypes[i]));
        assert_false(is_copied(0, 64, 64, 1, dtypes[i]));
    }
}
