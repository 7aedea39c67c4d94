/*
 * What the conformance suite does not ask of the cpu device's 3x3 convolutions in panels: that they
 * are the ones that run, and that their results have the same bits with any number of threads.
 */
#define _GNU_SOURCE
#include "same_bits.h"

/* ---- Winograd ------------------------------------------------------------------------------- */

YK_TEST(forward_has_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d,
                                 .attrs = &attrs,
                                 .in_count = 3,
                                 .in = {x, weight, none},
                                 .out_count = 1,
                                 .out = {y}},
              &yki_cpu_conv2d_winograd);
}

YK_TEST(backward_data_has_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {y, weight},
                                 .out_count = 1,
                                 .out = {x}},
              &yki_cpu_conv2d_backward_data_winograd);
}

YK_TEST(backward_weight_has_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {x, y},
                                 .out_count = 2,
                                 .out = {weight, none}},
              &yki_cpu_conv2d_backward_weight_winograd);
}

/* Processors with AMX multiply what is kept in 16 bits in another form. (They convolve bf16
 * directly: test_conv_amx.c.) */
static yki_operand in_f16(const yki_operand *operand)
{
    yki_operand low = *operand;
    low.dtype = YK_F16;
    return low;
}

YK_TEST(convolutions_in_f16_have_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d,
                                 .attrs = &attrs,
                                 .in_count = 3,
                                 .in = {in_f16(&x), weight, none},
                                 .out_count = 1,
                                 .out = {in_f16(&y)}},
              &yki_cpu_conv2d_winograd);
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {in_f16(&y), weight},
                                 .out_count = 1,
                                 .out = {in_f16(&x)}},
              &yki_cpu_conv2d_backward_data_winograd);
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {in_f16(&x), in_f16(&y)},
                                 .out_count = 2,
                                 .out = {weight, none}},
              &yki_cpu_conv2d_backward_weight_winograd);
}

static const yki_operand deep = {
    .dtype = YK_F32, .ndim = 4, .dims = {160, 512, 1, 2}, .layout = YKI_BLOCKED};
static const yki_operand deep_weight = {
    .dtype = YK_F32, .ndim = 4, .dims = {512, 512, 3, 3}, .layout = YKI_PLAIN};

/* Many channels: each thread sums whole pairs of 64 and 64 channels. */
YK_TEST(deep_backward_weight_has_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {deep, deep},
                                 .out_count = 2,
                                 .out = {deep_weight, none}},
              &yki_cpu_conv2d_backward_weight_winograd);
}

/* The transformed weights would take more memory than all transformed inputs. */
static void deep_convolutions(yki_kernel_desc *forward, yki_kernel_desc *backward_data)
{
    yki_operand few = deep;
    few.dims[0] = 72;
    *forward = (yki_kernel_desc){.op = &yki_op_conv2d,
                                 .attrs = &attrs,
                                 .in_count = 3,
                                 .in = {few, deep_weight, none},
                                 .out_count = 1,
                                 .out = {few}};
    *backward_data = (yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                       .attrs = &attrs,
                                       .in_count = 2,
                                       .in = {few, deep_weight},
                                       .out_count = 1,
                                       .out = {few}};
}

YK_TEST(deep_convolutions_have_the_same_bits_with_any_threads)
{
    yki_kernel_desc forward, backward_data;
    deep_convolutions(&forward, &backward_data);
    for (int threads = 2; threads <= 5; threads += 3) {
        same_bits_with(&forward, &yki_cpu_conv2d_winograd, threads);
        same_bits_with(&backward_data, &yki_cpu_conv2d_backward_data_winograd, threads);
    }
}

static size_t scratch_of(const yki_kernel_desc *desc, int threads)
{
    yki_device *device;
    yki_kernel *kernel;
    assert_ok(yki_device_create(&device, "cpu",
                                &(yki_device_options){.threads = threads, .winograd = true}));
    assert_ok(yki_kernel_create(device, desc, &kernel));
    size_t scratch = kernel->scratch;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return scratch;
}

/* Transformed, the weights are four times as large. */
YK_TEST(deep_convolutions_on_two_threads_need_less_memory_than_their_transformed_weights)
{
    yki_kernel_desc forward, backward_data;
    size_t weights = sizeof(float) * 36 * 512 * 512;
    if (!has_lanes())
        skip_because("this processor has no AVX-512");
    deep_convolutions(&forward, &backward_data);
    assert_true(scratch_of(&forward, 2) < weights / 2);
    assert_true(scratch_of(&backward_data, 2) < weights / 2);
}

/* The weights' gradient of `images` images of 5x6. */
static void same_gradient_bits(int64_t images, int64_t channels, int64_t filters, int threads)
{
    yki_operand in = x, out = y, gradient = weight;
    in.dims[0] = out.dims[0] = images;
    in.dims[1] = gradient.dims[1] = channels;
    out.dims[1] = gradient.dims[0] = filters;
    same_bits_with(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                      .attrs = &attrs,
                                      .in_count = 2,
                                      .in = {in, out},
                                      .out_count = 2,
                                      .out = {gradient, none}},
                   &yki_cpu_conv2d_backward_weight_winograd, threads);
}

/* The tiles are cut into fewer parts than there are threads. */
YK_TEST(backward_weight_of_more_threads_than_parts_has_the_same_bits)
{
    same_gradient_bits(IMAGES, 128, 128, 9);
}

/* So few tiles that not every thread gets a block of 32: still the same kernels. */
YK_TEST(few_tiles_have_the_same_bits_with_any_threads)
{
    yki_operand in = deep, out = deep;
    in.dims[0] = out.dims[0] = 40;
    same_bits_with(&(yki_kernel_desc){.op = &yki_op_conv2d,
                                      .attrs = &attrs,
                                      .in_count = 3,
                                      .in = {in, deep_weight, none},
                                      .out_count = 1,
                                      .out = {out}},
                   &yki_cpu_conv2d_winograd, 16);
    same_bits_with(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                      .attrs = &attrs,
                                      .in_count = 2,
                                      .in = {out, deep_weight},
                                      .out_count = 1,
                                      .out = {in}},
                   &yki_cpu_conv2d_backward_data_winograd, 16);
    same_gradient_bits(17, 128, 128, 16);
}

/* More tiles than are transformed at a time. */
YK_TEST(backward_weight_in_batches_has_the_same_bits)
{
    same_gradient_bits(120, 64, 512, 3);
}

/* ---- large results --------------------------------------------------------------------------- */

/* Forward or the gradient of x of images of 35x31. */
static void same_large_bits(const yki_op *op, int64_t stride, const yki_kernel_impl *expected)
{
    yki_operand in = x, out = y, taps = weight;
    const yki_attrs strided = {
        .stride = {stride, stride}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    int64_t images = stride == 1 ? 31 : 62;
    memcpy(in.dims, (int64_t[]){images, 64, 35, 31}, 4 * sizeof *in.dims);
    memcpy(out.dims, (int64_t[]){images, 128, 34 / stride + 1, 30 / stride + 1},
           4 * sizeof *out.dims);
    bool forward = op == &yki_op_conv2d;
    same_bits_unaligned(&(yki_kernel_desc){.op = op,
                                           .attrs = &strided,
                                           .in_count = forward ? 3 : 2,
                                           .in = {forward ? in : out, taps, none},
                                           .out_count = 1,
                                           .out = {forward ? out : in}},
                        expected);
}

YK_TEST(large_results_have_the_bits_of_unaligned_ones)
{
    same_large_bits(&yki_op_conv2d, 1, &yki_cpu_conv2d_winograd);
    same_large_bits(&yki_op_conv2d_backward_data, 1, &yki_cpu_conv2d_backward_data_winograd);
    same_large_bits(&yki_op_conv2d, 2, &yki_cpu_conv2d_minimal);
    same_large_bits(&yki_op_conv2d_backward_data, 2, &yki_cpu_conv2d_backward_data_minimal);
}

YK_TEST(large_results_have_the_bits_of_unaligned_ones_with_avx2)
{
    on_avx2();
    same_large_bits(&yki_op_conv2d, 1, &yki_cpu_conv2d_minimal);
    same_large_bits(&yki_op_conv2d_backward_data, 1, &yki_cpu_conv2d_backward_data_minimal);
    same_large_bits(&yki_op_conv2d, 2, &yki_cpu_conv2d_minimal);
    same_large_bits(&yki_op_conv2d_backward_data, 2, &yki_cpu_conv2d_backward_data_minimal);
}

/* ---- stride 2 ------------------------------------------------------------------------------- */

static const yki_attrs halving = {
    .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
static const yki_operand large = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, 256, ROWS, COLUMNS}, .layout = YKI_BLOCKED};
static const yki_operand small = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, CHANNELS, 3, 3}, .layout = YKI_BLOCKED};
static const yki_operand halving_weight = {
    .dtype = YK_F32, .ndim = 4, .dims = {CHANNELS, 256, 3, 3}, .layout = YKI_PLAIN};

/* In f16, for which oneDNN has no kernel: in f32, some processors leave it to oneDNN. */
YK_TEST(strided_backward_data_has_the_same_bits_with_any_threads)
{
    yki_operand dy = small, dx = large;
    dy.dtype = dx.dtype = YK_F16;
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_data,
                                 .attrs = &halving,
                                 .in_count = 2,
                                 .in = {dy, halving_weight},
                                 .out_count = 1,
                                 .out = {dx}},
              &yki_cpu_conv2d_backward_data_strided);
}

YK_TEST(strided_backward_weight_has_the_same_bits_with_any_threads)
{
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &halving,
                                 .in_count = 2,
                                 .in = {large, small},
                                 .out_count = 2,
                                 .out = {halving_weight, none}},
              &yki_cpu_conv2d_backward_weight_strided);
}

/* ---- minimal filtering ----------------------------------------------------------------------- */

/* One of forward and the two gradients, of images of 13x15 with so many channels. */
static void same_minimal_bits(const yki_op *op, int64_t stride, int64_t images, int64_t channels,
                              int64_t filters)
{
    yki_operand in = x, out = y, taps = weight;
    const yki_attrs strided = {
        .stride = {stride, stride}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    memcpy(in.dims, (int64_t[]){images, channels, 13, 15}, 4 * sizeof *in.dims);
    memcpy(out.dims, (int64_t[]){images, filters, 12 / stride + 1, 14 / stride + 1},
           4 * sizeof *out.dims);
    taps.dims[0] = filters;
    taps.dims[1] = channels;
    bool forward = op == &yki_op_conv2d, data = op == &yki_op_conv2d_backward_data;
    same_bits(&(yki_kernel_desc){.op = op,
                                 .attrs = &strided,
                                 .in_count = forward ? 3 : 2,
                                 .in = {data ? out : in, forward || data ? taps : out, none},
                                 .out_count = forward || data ? 1 : 2,
                                 .out = {forward ? out
                                         : data  ? in
                                                 : taps,
                                         none}},
              forward ? &yki_cpu_conv2d_minimal
              : data  ? &yki_cpu_conv2d_backward_data_minimal
                      : &yki_cpu_conv2d_backward_weight_minimal);
}

YK_TEST(minimal_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d, 2, 48, 64, 128);
}

/* One thread takes output channels and several take blocks. */
YK_TEST(deep_minimal_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d, 2, 44, 64, 448);
}

/* The last group of channels has fewer than 64. */
YK_TEST(minimal_of_any_channels_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d, 1, 5, 24, 80);
    same_minimal_bits(&yki_op_conv2d_backward_data, 1, 5, 24, 80);
    same_minimal_bits(&yki_op_conv2d_backward_weight, 1, 17, 24, 80);
}

YK_TEST(minimal_backward_data_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d_backward_data, 2, 48, 64, 128);
}

YK_TEST(minimal_backward_weight_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d_backward_weight, 2, 33, 64, 128);
}

/* Each thread sums whole pairs of 64 and 64 channels. */
YK_TEST(deep_minimal_backward_weight_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d_backward_weight, 2, 16, 256, 128);
}

/* ... of some output channels at a time, and fewer at the end. */
YK_TEST(deeper_minimal_backward_weight_has_the_same_bits_with_any_threads)
{
    same_minimal_bits(&yki_op_conv2d_backward_weight, 2, 16, 256, 576);
}

static size_t scratch_with(const yki_kernel_desc *desc, const yki_kernel_impl *impl, int threads)
{
    yki_device *device;
    yki_kernel *kernel;
    assert_ok(yki_device_create(&device, "cpu",
                                &(yki_device_options){.threads = threads, .winograd = true}));
    assert_ok(yki_kernel_create(device, desc, &kernel));
    assert_ptr_equal(kernel->impl, impl);
    const size_t bytes = kernel->scratch;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return bytes;
}

/* Of two blocks, or two groups of output channels, two threads are enough. */
YK_TEST(minimal_has_memory_for_threads_with_work)
{
    yki_operand image = x, taps = weight;
    memcpy(image.dims, (int64_t[]){2, 72, 8, 8}, 4 * sizeof *image.dims);
    taps.dims[0] = taps.dims[1] = 72;
    const yki_kernel_desc forward = {.op = &yki_op_conv2d,
                                     .attrs = &attrs,
                                     .in_count = 3,
                                     .in = {image, taps, none},
                                     .out_count = 1,
                                     .out = {image}},
                          gradient = {.op = &yki_op_conv2d_backward_weight,
                                      .attrs = &attrs,
                                      .in_count = 2,
                                      .in = {image, image},
                                      .out_count = 2,
                                      .out = {taps, none}};
    assert_int_equal(scratch_with(&forward, &yki_cpu_conv2d_minimal, 64),
                     scratch_with(&forward, &yki_cpu_conv2d_minimal, 2));
    assert_int_equal(scratch_with(&gradient, &yki_cpu_conv2d_backward_weight_minimal, 64),
                     scratch_with(&gradient, &yki_cpu_conv2d_backward_weight_minimal, 2));
}

/* Few and small images, for which oneDNN has only reference loops. */
YK_TEST(minimal_backward_weight_of_small_images_has_the_same_bits_on_avx2)
{
    on_avx2();
    yki_operand in = x, gradient = weight;
    memcpy(in.dims, (int64_t[]){5, CHANNELS, 2, 2}, 4 * sizeof *in.dims);
    gradient.dims[0] = CHANNELS;
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &attrs,
                                 .in_count = 2,
                                 .in = {in, in},
                                 .out_count = 2,
                                 .out = {gradient, none}},
              &yki_cpu_conv2d_backward_weight_minimal);
}

YK_TEST(minimal_has_the_same_bits_on_avx2)
{
    on_avx2();
    same_minimal_bits(&yki_op_conv2d, 1, 5, 64, 64);
    same_minimal_bits(&yki_op_conv2d, 2, 81, 64, 64);
}

YK_TEST(minimal_backward_data_has_the_same_bits_on_avx2)
{
    on_avx2();
    same_minimal_bits(&yki_op_conv2d_backward_data, 1, 5, 64, 64);
    same_minimal_bits(&yki_op_conv2d_backward_data, 2, 81, 64, 64);
}

YK_TEST(minimal_backward_weight_has_the_same_bits_on_avx2)
{
    on_avx2();
    same_minimal_bits(&yki_op_conv2d_backward_weight, 1, 17, 64, 64);
    same_minimal_bits(&yki_op_conv2d_backward_weight, 2, 18, 64, 64);
}

YK_TEST(minimal_has_the_same_bits_on_sse2)
{
    on_sse2();
    for (int stride = 1; stride <= 2; stride++) {
        same_minimal_bits(&yki_op_conv2d, stride, 81, 64, 64);
        same_minimal_bits(&yki_op_conv2d_backward_data, stride, 81, 64, 64);
        same_minimal_bits(&yki_op_conv2d_backward_weight, stride, 18, 64, 64);
    }
}
