/* Whether the gradients of a convolution are computed beside each other: what is measured, and how
 * the choice is kept. What runs beside what is the planner's, see tests/compile/test_plan.c. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "sim_device.h"

enum { N = 2, CHANNELS = 8, SIDE = 5, TAPS = 3 };
/* Both ways are measured so often each. */
enum { RUNS = 6 };

static int measured;
static double beside_seconds;

/* Plans take a millisecond, and so do two gradients in turn. */
static double seconds(void)
{
    return measured++ < RUNS ? 1e-3 : beside_seconds;
}

static yki_device *open_device(void)
{
    static const yki_device_options options = {.threads = 1};
    yki_device *device;
    assert_ok(sim_device_type.create(&device, &options));
    sim_device_measure(device, seconds);
    yki_cuda_device *cuda = (yki_cuda_device *)device;
    snprintf(cuda->model, sizeof cuda->model, "Some GPU-%d", 132);
    return device;
}

static yki_operand image(void)
{
    return (yki_operand){YK_F32, 4, {N, CHANNELS, SIDE, SIDE}, YKI_CHANNELS_LAST};
}

static yki_operand filter(void)
{
    return (yki_operand){YK_F32, 4, {CHANNELS, CHANNELS, TAPS, TAPS}, YKI_PLAIN};
}

static yki_kernel *prepare(yki_device *device, const yki_op *op, int stride)
{
    yki_attrs attrs = {
        .stride = {stride, stride}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    yki_kernel_desc desc = {.op = op,
                            .attrs = &attrs,
                            .training = true,
                            .in_count = op->in_count,
                            .out_count = op->out_count};
    yki_operand y = image();
    yki_kernel *made;
    for (int i = 2; i < 4; i++)
        y.dims[i] = (SIDE - 1) / stride + 1;
    if (op == &yki_op_conv2d_backward_weight) {
        desc.in[YKI_CONV2D_BACKWARD_WEIGHT_X] = image();
        desc.in[YKI_CONV2D_BACKWARD_WEIGHT_DY] = y;
        desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DWEIGHT] = filter();
        desc.out[YKI_CONV2D_BACKWARD_WEIGHT_DBIAS].ndim = -1;
    } else {
        desc.in[YKI_CONV2D_BACKWARD_DATA_DY] = y;
        desc.in[YKI_CONV2D_BACKWARD_DATA_WEIGHT] = filter();
        desc.out[YKI_CONV2D_BACKWARD_DATA_DX] = image();
    }
    assert_ok(yki_kernel_create(device, &desc, &made));
    return made;
}

/* Whether the gradients of convolutions with these strides are computed beside each other. */
static bool chooses(int weight_stride, int data_stride)
{
    yki_device *device = open_device();
    yki_kernel *weight = prepare(device, &yki_op_conv2d_backward_weight, weight_stride);
    yki_kernel *data = prepare(device, &yki_op_conv2d_backward_data, data_stride);
    measured = 0;
    bool beside = device->type->beside(device, weight, data);
    assert_false(device->type->beside(device, data, weight));
    yki_kernel_destroy(weight);
    yki_kernel_destroy(data);
    device->type->destroy(device);
    return beside;
}

static void measure_plans(void)
{
    unsetenv("YOKE_CUDA_MEASURE");
    unsetenv("YOKE_CUDA_BESIDE");
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
}

YK_TEST(gradients_are_computed_beside_each_other_where_that_saves_time)
{
    measure_plans();
    beside_seconds = 0.9e-3;
    assert_true(chooses(1, 1));
    assert_int_equal(measured, 2 * RUNS);
    beside_seconds = 0.99e-3; /* may be chance */
    assert_false(chooses(2, 2));
    assert_int_equal(measured, 2 * RUNS);
}

YK_TEST(the_choice_is_kept)
{
    measure_plans();
    beside_seconds = 0.5e-3;
    assert_true(chooses(1, 1));
    beside_seconds = 2e-3;
    assert_false(chooses(2, 2));
    beside_seconds = 1e-3;
    assert_true(chooses(1, 1));
    assert_int_equal(measured, 0);
    assert_false(chooses(2, 2));
    assert_int_equal(measured, 0);
}

YK_TEST(gradients_of_different_convolutions_are_computed_in_turn)
{
    measure_plans();
    beside_seconds = 0.5e-3;
    assert_false(chooses(1, 2));
    assert_int_equal(measured, 0);
}

YK_TEST(without_measuring_gradients_are_computed_in_turn)
{
    measure_plans();
    setenv("YOKE_CUDA_MEASURE", "0", 1);
    assert_false(chooses(1, 1));
    assert_int_equal(measured, 0);
}

YK_TEST(the_user_may_choose)
{
    measure_plans();
    beside_seconds = 0.5e-3;
    setenv("YOKE_CUDA_BESIDE", "0", 1);
    assert_false(chooses(1, 1));
    setenv("YOKE_CUDA_BESIDE", "1", 1);
    beside_seconds = 2e-3;
    assert_true(chooses(1, 1));
    assert_int_equal(measured, 0);
}
