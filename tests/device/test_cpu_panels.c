/*
 * What the conformance suite does not ask of the cpu device's own convolutions: that they are the
 * ones that run, and that their results have the same bits with any number of threads.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/panel.h"
#include "harness.h"
#include "tensor/f16.h"

/* ---- Winograd ------------------------------------------------------------------------------- */

enum { IMAGES = 96, CHANNELS = 64, FILTERS = 128, ROWS = 5, COLUMNS = 6 };

static const yki_attrs attrs = {.stride = 1, .padding = 1, .dilation = 1, .groups = 1};
static const yki_operand x = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, CHANNELS, ROWS, COLUMNS}, .layout = YKI_BLOCKED};
static const yki_operand y = {
    .dtype = YK_F32, .ndim = 4, .dims = {IMAGES, FILTERS, ROWS, COLUMNS}, .layout = YKI_BLOCKED};
static const yki_operand weight = {
    .dtype = YK_F32, .ndim = 4, .dims = {FILTERS, CHANNELS, 3, 3}, .layout = YKI_PLAIN};
static const yki_operand none = {.ndim = -1};

static void *allocate(size_t bytes)
{
    void *memory = yki_map(bytes);
    assert_non_null(memory);
    return memory;
}

static void *random_numbers(const yki_device *device, const yki_operand *operand)
{
    size_t bytes = yki_operand_bytes(device, operand), size = yk_dtype_size(operand->dtype);
    char *numbers = allocate(bytes);
    uint32_t state = (uint32_t)bytes;
    for (size_t i = 0; i < bytes / size; i++) {
        state = state * 1664525u + 1013904223u;
        float number = (float)(int32_t)state / 2147483648.0f;
        uint16_t half = yki_f16_from_float(number);
        memcpy(numbers + i * size, size == sizeof half ? (const void *)&half : &number, size);
    }
    return numbers;
}

/* Runs desc with so many threads on the same numbers; the result, which begins `shift` bytes after
 * a page, is the caller's. */
static void *run_at(yki_kernel_desc desc, const yki_kernel_impl *expected, int threads,
                    size_t shift)
{
    yki_device *device;
    assert_ok(yki_device_create(&device, "cpu",
                                &(yki_device_options){.threads = threads, .winograd = true}));
    device->type->enter(device);
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    assert_ptr_equal(kernel->impl, expected);
    void *in[3] = {random_numbers(device, &desc.in[0]), random_numbers(device, &desc.in[1])};
    void *given[3] = {in[0], in[1]}, *packed = NULL;
    if (kernel->pack_bytes) {
        given[kernel->pack_input] = packed = allocate(kernel->pack_bytes);
        assert_ok(kernel->impl->pack(kernel, in[kernel->pack_input], packed, NULL));
    }
    size_t bytes = yki_operand_bytes(device, &desc.out[0]);
    char *memory = allocate(bytes + shift);
    void *out[2] = {memory + shift}, *scratch = allocate(kernel->scratch);
    assert_ok(
        kernel->impl->run(kernel, &(yki_kernel_args){.in = given, .out = out, .scratch = scratch}));
    for (int i = 0; i < 2; i++)
        yki_unmap(in[i], yki_operand_bytes(device, &desc.in[i]));
    yki_unmap(scratch, kernel->scratch);
    if (packed)
        yki_unmap(packed, kernel->pack_bytes);
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return memory;
}

static void *run(yki_kernel_desc desc, const yki_kernel_impl *expected, int threads)
{
    return run_at(desc, expected, threads, 0);
}

/* The lanes of the kernels that are tested. */
static int lanes = YKI_PANEL_LANES;

/* oneDNN reads the variable when it is first used, and each test is a process. */
static void on_avx2(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    lanes = 8;
}

static bool has_lanes(void)
{
    yki_device *device;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    bool has = device->block == lanes;
    yki_device_destroy(device);
    return has;
}

static void same_bits_with(const yki_kernel_desc *desc, const yki_kernel_impl *expected,
                           int threads)
{
    if (!has_lanes())
        skip_because(lanes == 8 ? "this processor has no AVX2" : "this processor has no AVX-512");
    void *one = run(*desc, expected, 1), *many = run(*desc, expected, threads);
    size_t bytes = (size_t)yki_operand_count(&desc->out[0]) * yk_dtype_size(desc->out[0].dtype);
    assert_memory_equal(one, many, bytes);
    yki_unmap(one, bytes);
    yki_unmap(many, bytes);
}

static void same_bits(const yki_kernel_desc *desc, const yki_kernel_impl *expected)
{
    for (int threads = 2; threads <= 5; threads++)
        same_bits_with(desc, expected, threads);
}

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

enum { UNALIGNED = 16 }; /* bytes */

/* Results of 8 MiB and more are written past the caches, unless they are not aligned. */
static void same_bits_unaligned(const yki_kernel_desc *desc, const yki_kernel_impl *expected)
{
    if (!has_lanes())
        skip_because("this processor has no AVX-512");
    char *past = run_at(*desc, expected, 2, 0), *through = run_at(*desc, expected, 2, UNALIGNED);
    size_t bytes = (size_t)yki_operand_count(&desc->out[0]) * sizeof(float);
    assert_true(bytes >= (size_t)8 << 20);
    assert_memory_equal(past, through + UNALIGNED, bytes);
    yki_unmap(past, bytes);
    yki_unmap(through, bytes + UNALIGNED);
}

/* Forward or the gradient of x of images of 35x31. */
static void same_large_bits(const yki_op *op, int64_t stride, const yki_kernel_impl *expected)
{
    yki_operand in = x, out = y, taps = weight;
    const yki_attrs strided = {.stride = stride, .padding = 1, .dilation = 1, .groups = 1};
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

/* ---- stride 2 ------------------------------------------------------------------------------- */

static const yki_attrs halving = {.stride = 2, .padding = 1, .dilation = 1, .groups = 1};
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

/* ---- 1x1 ------------------------------------------------------------------------------------- */

/* A kernel of a 1x1 convolution with its operands, and the one that is to run. */
typedef struct pointwise_case {
    yki_kernel_desc desc;
    const yki_kernel_impl *impl;
} pointwise_case;

static pointwise_case pointwise_kernel(int which, const int64_t *in_dims, int64_t filters)
{
    static const yki_attrs plain = {.stride = 1, .dilation = 1, .groups = 1};
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

YK_TEST(large_results_of_pointwise_kernels_have_the_bits_of_unaligned_ones)
{
    for (int which = 0; which < 2; which++) {
        pointwise_case large_case = pointwise_kernel(which, (int64_t[]){21, 64, 41, 41}, 64);
        same_bits_unaligned(&large_case.desc, large_case.impl);
    }
}

/* ---- depthwise ------------------------------------------------------------------------------- */

/* Several parts, and images of a single column. */
YK_TEST(depthwise_backward_weight_has_the_same_bits_with_any_threads)
{
    const yki_attrs depthwise = {.stride = 1, .padding = 1, .dilation = 1, .groups = CHANNELS};
    yki_operand in = x, gradient = weight;
    memcpy(in.dims, (int64_t[]){2000, CHANNELS, 5, 1}, 4 * sizeof *in.dims);
    gradient.dims[0] = CHANNELS;
    gradient.dims[1] = 1;
    same_bits(&(yki_kernel_desc){.op = &yki_op_conv2d_backward_weight,
                                 .attrs = &depthwise,
                                 .in_count = 2,
                                 .in = {in, in},
                                 .out_count = 2,
                                 .out = {gradient, none}},
              &yki_cpu_conv2d_backward_weight_depthwise);
}

/* ---- groups narrower than a vector ----------------------------------------------------------- */

/* Groups of `width` channels: each of the kernels, on several strips and units. */
static void narrow_same_bits(int64_t width, yk_dtype dtype)
{
    const yki_attrs grouped = {
        .stride = 1, .padding = 1, .dilation = 1, .groups = CHANNELS / width};
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

YK_TEST(narrow_groups_have_the_same_bits_with_any_threads)
{
    narrow_same_bits(4, YK_F32);
    narrow_same_bits(2, YK_BF16); /* not 1 or 8, which oneDNN may do: see narrow_gains */
    narrow_same_bits(8, YK_F16);
    narrow_same_bits(1, YK_F16);
}

YK_TEST(narrow_groups_have_the_same_bits_with_any_threads_avx2)
{
    on_avx2();
    narrow_same_bits(4, YK_F32);
    narrow_same_bits(2, YK_BF16);
    narrow_same_bits(1, YK_F16);
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

/* ---- oneDNN's convolutions, a slice of the batch at a time ------------------------------------
 */

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
    static const yki_attrs plain = {.stride = 1, .dilation = 1, .groups = 1};
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
    static const yki_attrs stem = {.stride = 2, .padding = 3, .dilation = 1, .groups = 1};
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

/* ---- minimal filtering ----------------------------------------------------------------------- */

/* One of forward and the two gradients, of images of 13x15 with so many channels. */
static void same_minimal_bits(const yki_op *op, int64_t stride, int64_t images, int64_t channels,
                              int64_t filters)
{
    yki_operand in = x, out = y, taps = weight;
    const yki_attrs strided = {.stride = stride, .padding = 1, .dilation = 1, .groups = 1};
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
