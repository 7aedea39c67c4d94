/* Which convolutions cuDNN does not compute directly: gradients of weights that are rounded,
 * products of matrices, and folded first layers. test_cuda_device.c and test_cuda_kernels.c check
 * that their results are right. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/random.h"
#include "conv/fold.h"
#include "harness.h"
#include "sim_device.h"
#include "tensor/element.h"

/* In bf16, the stand-in for cuDNN has four candidates for each graph, and each runs six times. */
enum { RUNS = 4 * 6 };
enum { N = 2, C = 8, K = 8, SIDE = 5 };

static int measured;
static double narrow_seconds;

/* The plans that keep f32 are measured first. */
static double full_or_narrow(void)
{
    return measured++ < RUNS ? 1e-3 : narrow_seconds;
}

static yki_device *open_device(double (*seconds)(void))
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    unsetenv("YOKE_CUDA_MEASURE");
    assert_ok(sim_device_type.create(&device, &options));
    sim_device_measure(device, seconds);
    return device;
}

/* Makes the gradient of a weight of kernel x kernel taps, of random numbers. */
static void make_gradient(yki_device *device, int64_t kernel, float *dweight)
{
    yki_attrs attrs = {
        .stride = {1, 1}, .padding = {kernel / 2, kernel / 2}, .dilation = {1, 1}, .groups = 1};
    yki_kernel_desc desc = {.op = &yki_op_conv2d_backward_weight,
                            .attrs = &attrs,
                            .training = true,
                            .in_count = YKI_CONV2D_BACKWARD_WEIGHT_INPUTS,
                            .out_count = YKI_CONV2D_BACKWARD_WEIGHT_OUTPUTS};
    _Alignas(256) uint16_t x[N * SIDE * SIDE * C], dy[N * SIDE * SIDE * K];
    for (int64_t i = 0; i < N * SIDE * SIDE * C; i++)
        yki_element_set(YK_BF16, x, i, (double)(yki_hash3(1, 2, (uint64_t)i) >> 11) * 0x1p-53);
    for (int64_t i = 0; i < N * SIDE * SIDE * K; i++)
        yki_element_set(YK_BF16, dy, i, (double)(yki_hash3(3, 4, (uint64_t)i) >> 11) * 0x1p-53);
    desc.in[YKI_CONV2D_BACKWARD_WEIGHT_X] =
        (yki_operand){YK_BF16, 4, {N, C, SIDE, SIDE}, YKI_CHANNELS_LAST};
    desc.in[YKI_CONV2D_BACKWARD_WEIGHT_DY] =
        (yki_operand){YK_BF16, 4, {N, K, SIDE, SIDE}, YKI_CHANNELS_LAST};
    desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT] =
        (yki_operand){YK_F32, 4, {K, C, kernel, kernel}, YKI_PLAIN};
    desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS].ndim = -1;
    yki_kernel *made;
    assert_ok(yki_kernel_create(device, &desc, &made));
    void *in[YKI_MAX_IN] = {NULL}, *out[YKI_MAX_OUT] = {NULL};
    in[YKI_CONV2D_BACKWARD_WEIGHT_X] = x;
    in[YKI_CONV2D_BACKWARD_WEIGHT_DY] = dy;
    out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT] = dweight;
    void *scratch = aligned_alloc(256, (made->scratch + 511) / 256 * 256);
    assert_ok(made->impl->run(made, &(yki_kernel_args){.in = in, .out = out, .scratch = scratch}));
    free(scratch);
    yki_kernel_destroy(made);
}

static bool is_rounded(const float *values, int count)
{
    for (int i = 0; i < count; i++)
        if (yki_bf16_to_float(yki_bf16_from_float(values[i])) != values[i])
            return false;
    return true;
}

static bool rounds(double (*seconds)(void))
{
    _Alignas(256) float dweight[K * C * 9];
    yki_device *device = open_device(seconds);
    measured = 0;
    make_gradient(device, 3, dweight);
    device->type->destroy(device);
    return is_rounded(dweight, K * C * 9);
}

YK_TEST(gradients_are_rounded_where_that_saves_a_tenth_of_the_time)
{
    narrow_seconds = 0.89e-3;
    assert_true(rounds(full_or_narrow));
    assert_int_equal(measured, 2 * RUNS);
    narrow_seconds = 0.91e-3;
    assert_false(rounds(full_or_narrow));
    assert_int_equal(measured, 2 * RUNS);
    assert_false(rounds(NULL)); /* nothing is measured */
}

YK_TEST(gradients_of_one_tap_are_products)
{
    _Alignas(256) float dweight[K * C];
    yki_device *device = open_device(full_or_narrow);
    measured = 0;
    make_gradient(device, 1, dweight);
    assert_int_equal(measured, 0); /* no plan of cuDNN's is made */
    assert_null(((yki_cuda_device *)device)->plans);
    assert_false(is_rounded(dweight, K * C));
    device->type->destroy(device);
}

/* ---- folding --------------------------------------------------------------------------------- */

static yki_cudnn_conv first_layer(int64_t channels, int64_t side, int64_t kernel, int64_t padding)
{
    int64_t result = (side + 2 * padding - kernel) / 2 + 1;
    return (yki_cudnn_conv){.dtype = YK_BF16,
                            .x = {2, channels, side, side},
                            .w = {8, channels, kernel, kernel},
                            .y = {2, 8, result, result},
                            .stride = {2, 2},
                            .padding = {padding, padding},
                            .dilation = {1, 1}};
}

static void expect_folded(yki_cudnn_conv conv, int64_t side, int64_t kernel)
{
    yki_cudnn_conv folded;
    assert_true(yki_cuda_fold_helps(&conv, 1));
    yki_cuda_fold(&conv, &folded);
    assert_int_equal(folded.x[1], 16);
    assert_int_equal(folded.x[2], side);
    assert_int_equal(folded.w[1], 16);
    assert_int_equal(folded.w[3], kernel);
    assert_int_equal(folded.stride[1], 1);
    assert_int_equal(folded.padding[1], 0);
    assert_memory_equal(folded.y, conv.y, sizeof conv.y);
}

YK_TEST(first_layers_are_folded)
{
    expect_folded(first_layer(3, 224, 7, 3), 115, 4); /* ResNet-50's */
    expect_folded(first_layer(3, 224, 3, 1), 113, 2); /* MobileNetV2's */
    expect_folded(first_layer(4, 9, 2, 0), 4, 1);
    expect_folded(first_layer(1, 11, 5, 2), 8, 3);
}

YK_TEST(other_convolutions_are_not)
{
    yki_cudnn_conv conv = first_layer(5, 224, 7, 3);
    assert_false(yki_cuda_fold_helps(&conv, 1));
    conv = first_layer(3, 224, 1, 0);
    assert_false(yki_cuda_fold_helps(&conv, 1));
    conv = first_layer(3, 224, 7, 3);
    assert_false(yki_cuda_fold_helps(&conv, 3));
    conv.dtype = YK_F32;
    assert_false(yki_cuda_fold_helps(&conv, 1));
    conv = first_layer(3, 224, 7, 3);
    conv.stride[1] = 1;
    assert_false(yki_cuda_fold_helps(&conv, 1));
    conv = first_layer(3, 224, 7, 3);
    conv.padding[0] = 2;
    assert_false(yki_cuda_fold_helps(&conv, 1));
}
