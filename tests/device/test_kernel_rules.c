/* Which kernel of the cpu device a shape gets, by the rules of kernels that are not measured. */
#include <string.h>

#include <yoke/system.h>

#include "device/cpu/onednn.h"
#include "device/device.h"
#include "harness.h"

static const yki_kernel_impl *ruled(const yki_op *op, yki_operand in1, yki_operand out)
{
    yki_device *device;
    yki_kernel *kernel;
    const yki_attrs depthwise = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 32};
    yki_kernel_desc desc = {
        .op = op, .attrs = &depthwise, .in_count = 2, .out_count = 1, .in = {{.ndim = 0}}};
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    if (device->block != 16 || !yk_cpu_has_bf16()) {
        yki_device_destroy(device);
        skip_because("this processor has no AVX-512 with bf16");
    }
    desc.in[0] =
        (yki_operand){.dtype = YK_BF16, .ndim = 4, .dims = {8, 32, 6, 6}, .layout = YKI_BLOCKED};
    desc.in[1] = in1;
    desc.out[0] = out;
    desc.in[2].ndim = desc.out[1].ndim = -1;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    const yki_kernel_impl *impl = kernel->impl;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return impl;
}

YK_TEST(depthwise_convolutions_compute_in_bf16)
{
    if (!yk_cpu_has_bf16())
        skip_because("this processor has no AVX-512 with bf16");
    const yki_operand y = {
        .dtype = YK_BF16, .ndim = 4, .dims = {8, 32, 6, 6}, .layout = YKI_BLOCKED};
    const yki_operand weight = {.dtype = YK_F32, .ndim = 4, .dims = {32, 1, 3, 3}};
    assert_ptr_equal(ruled(&yki_op_conv2d, weight, y), &yki_cpu_conv2d);
    assert_ptr_equal(ruled(&yki_op_conv2d_backward_data, weight, y), &yki_cpu_conv2d_backward_data);
    assert_ptr_equal(ruled(&yki_op_conv2d_backward_weight, y, weight),
                     &yki_cpu_conv2d_backward_weight);
}

static bool is_of_matrix_unit(yki_device *device, yk_dtype dtype)
{
    static const yki_attrs conv = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    const yki_operand x = {dtype, 4, {8, 64, 6, 6}, YKI_BLOCKED};
    yki_kernel_desc desc = {.op = &yki_op_conv2d,
                            .attrs = &conv,
                            .in_count = 3,
                            .in = {x, {YK_F32, 4, {64, 64, 1, 1}, YKI_PLAIN}, {.ndim = -1}},
                            .out_count = 1,
                            .out = {x}};
    yki_kernel *kernel;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    bool is = kernel->matrix_unit;
    yki_kernel_destroy(kernel);
    return is;
}

/* A profile compares them with what they can do, not with f32 arithmetic. */
YK_TEST(fast_dot_products_of_bf16_have_a_limit_of_their_own)
{
    yki_device *device;
    yki_limits limits = {0, 0, 0};
    assert_ok(yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1}));
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    bool fast = cpu->native_bf16;
    cpu->has_amx = false;
    if (fast) {
        assert_ok(device->type->measure(device, &limits));
        assert_true(limits.matrix_flop_s > limits.flop_s);
        assert_true(is_of_matrix_unit(device, YK_BF16));
        assert_false(is_of_matrix_unit(device, YK_F32));
    }
    yki_device_destroy(device);
    if (!fast)
        skip_because("dot products of bf16 are not fast here");
}

/* A 3x3 convolution on a processor that has AVX-512 with bf16, but no AMX. */
typedef struct rule_case {
    int64_t batch, channels, side, stride, groups;
} rule_case;

static const char *ruled_as(yk_dtype dtype, const yki_op *op, rule_case c, bool fast)
{
    yki_device *device;
    yki_kernel *kernel;
    int64_t half = (c.side - 1) / c.stride + 1;
    const yki_operand weight = {YK_F32, 4, {c.channels, c.channels / c.groups, 3, 3}, YKI_PLAIN};
    const yki_operand x = {dtype, 4, {c.batch, c.channels, c.side, c.side}, YKI_BLOCKED};
    const yki_operand y = {dtype, 4, {c.batch, c.channels, half, half}, YKI_BLOCKED};
    const yki_attrs conv = {
        .stride = {c.stride, c.stride}, .padding = {1, 1}, .dilation = {1, 1}, .groups = c.groups};
    yki_kernel_desc desc = {.op = op, .attrs = &conv, .in_count = 2, .out_count = 1};
    desc.in[0] = op == &yki_op_conv2d_backward_data ? y : x;
    desc.in[1] = op == &yki_op_conv2d_backward_weight ? y : weight;
    desc.out[0] = op == &yki_op_conv2d ? y : op == &yki_op_conv2d_backward_data ? x : weight;
    desc.in[2].ndim = desc.out[1].ndim = -1;
    assert_ok(
        yki_device_create(&device, "cpu", &(yki_device_options){.threads = 1, .winograd = true}));
    yki_cpu_device *cpu = (yki_cpu_device *)device;
    if (!cpu->has_bf16) {
        yki_device_destroy(device);
        skip_because("this processor has no AVX-512 with bf16");
    }
    cpu->has_amx = false;
    cpu->native_bf16 = fast;
    assert_ok(yki_kernel_create(device, &desc, &kernel));
    const char *name = kernel->impl->name;
    yki_kernel_destroy(kernel);
    yki_device_destroy(device);
    return name;
}

static void assert_ruled(rule_case c, bool fast, const char *forward, const char *data,
                         const char *weight)
{
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, c, fast), forward);
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d_backward_data, c, fast), data);
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d_backward_weight, c, fast), weight);
}

/* See conv/bf16_gains.c. */
YK_TEST(convolutions_in_bf16_follow_the_rate_of_its_dot_products)
{
    const rule_case large = {16, 64, 32, 1, 1}, padded = {32, 64, 4, 1, 1},
                    ragged = {16, 64, 14, 1, 1}, few = {16, 32, 32, 1, 1},
                    some = {16, 96, 32, 1, 1}, narrow = {64, 48, 16, 1, 1},
                    deep = {64, 256, 14, 1, 1}, odd = {64, 64, 15, 1, 1},
                    deep_odd = {64, 256, 7, 1, 1}, half_filled = {64, 128, 10, 1, 1},
                    halving = {32, 64, 32, 2, 1}, long_rows = {32, 64, 64, 2, 1},
                    part_filled = {32, 64, 14, 2, 1};
    assert_ruled(large, false, "winograd", "winograd", "winograd");
    assert_ruled(large, true, "winograd", "winograd", "winograd");
    assert_ruled(padded, false, "winograd", "winograd", "winograd");
    assert_ruled(padded, true, "onednn", "onednn", "winograd"); /* a third of it is padding */
    assert_ruled(ragged, false, "winograd", "winograd", "winograd");
    assert_ruled(ragged, true, "onednn", "onednn", "winograd");   /* tiles of 16x16 */
    assert_ruled(deep, true, "winograd", "winograd", "winograd"); /* transforms less, compared */
    assert_ruled(odd, true, "winograd", "winograd", "winograd");
    assert_ruled(deep_odd, true, "winograd", "winograd", "winograd");
    assert_ruled(half_filled, false, "winograd", "winograd", "winograd");
    assert_ruled(half_filled, true, "onednn", "onednn", "onednn"); /* tiles of 12x12 */
    assert_ruled(few, false, "minimal", "minimal", "minimal");
    assert_ruled(few, true, "onednn", "onednn", "minimal");
    assert_ruled(narrow, true, "minimal", "minimal", "minimal");
    assert_ruled(some, true, "minimal", "minimal", "minimal");
    assert_ruled(halving, false, "minimal", "minimal", "minimal");
    assert_ruled(halving, true, "onednn", "onednn", "minimal");
    assert_ruled(long_rows, true, "onednn", "onednn", "onednn");
    assert_ruled(part_filled, true, "onednn", "onednn", "onednn");
}

/* See conv/narrow.c. */
YK_TEST(narrow_groups_in_bf16_follow_the_rate_of_its_dot_products)
{
    const rule_case depthwise = {8, 32, 14, 1, 32}, small_depthwise = {8, 32, 12, 1, 32},
                    eight = {8, 64, 14, 1, 8}, small_eight = {8, 64, 12, 1, 8},
                    small_four = {8, 64, 7, 1, 16};
    assert_ruled(depthwise, false, "narrow", "narrow", "onednn");
    assert_ruled(depthwise, true, "narrow", "narrow", "onednn");
    assert_ruled(small_depthwise, false, "onednn", "onednn", "onednn");
    assert_ruled(small_depthwise, true, "onednn", "onednn", "onednn");
    assert_ruled(eight, false, "narrow", "narrow", "narrow");
    assert_ruled(eight, true, "narrow", "narrow", "onednn");
    assert_ruled(small_eight, false, "narrow", "narrow", "narrow");
    assert_ruled(small_eight, true, "onednn", "onednn", "onednn");
    assert_ruled(small_four, true, "narrow", "narrow", "narrow");
    const rule_case halving = {8, 64, 56, 2, 8}, small_halving = {8, 64, 14, 2, 8};
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, halving, true), "narrow");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, halving, true), "narrow");
    assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, small_halving, true), "onednn");
}

/* See conv/minimal.c and conv_strided.c. */
YK_TEST(convolutions_of_stride_2_follow_the_products_that_tiles_save)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data};
    const rule_case full = {16, 64, 64, 2, 1}, many = {64, 256, 14, 2, 1},
                    few = {16, 256, 14, 2, 1}, fewer = {8, 256, 14, 2, 1};
    for (int i = 0; i < 2; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], full, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], many, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], few, true), "onednn"); /* weights count */
    }
    assert_string_equal(ruled_as(YK_F32, ops[1], fewer, true), "onednn");
    assert_string_equal(ruled_as(YK_F32, ops[1], fewer, false), "strided");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, few, true), "minimal");
    assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, fewer, true), "minimal");
    const rule_case small = {8, 64, 14, 2, 1};
    assert_true(strcmp(ruled_as(YK_F32, &yki_op_conv2d_backward_weight, small, true), "minimal"));
}

/* See conv/minimal.c. */
YK_TEST(eight_tiles_are_enough_for_winograds_algorithm)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data,
                                 &yki_op_conv2d_backward_weight};
    const rule_case eight = {2, 96, 7, 1, 1}, four = {1, 96, 7, 1, 1}, group = {2, 64, 7, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], eight, true), "minimal");
        assert_string_equal(ruled_as(YK_F32, ops[i], four, true), "onednn");
        assert_string_equal(ruled_as(YK_F32, ops[i], group, true), "split");
    }
}

/* See conv/depthwise.c. */
YK_TEST(gradients_of_depthwise_weights_follow_the_size_of_images)
{
    const yki_op *op = &yki_op_conv2d_backward_weight;
    const rule_case two = {8, 32, 2, 1, 32}, narrow = {8, 32, 6, 1, 32}, wide = {8, 32, 24, 1, 32};
    const rule_case from_memory = {8, 144, 56, 1, 144};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, two, fast), "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, narrow, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, wide, fast), fast ? "onednn" : "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, from_memory, fast), "depthwise");
    }
}

/* See conv_strips.c. */
YK_TEST(wide_groups_with_stride_2_in_f32_are_our_own_where_they_come_from_memory)
{
    const rule_case large = {16, 1024, 28, 2, 32}, deep = {16, 1024, 14, 2, 16},
                    cached = {2, 1024, 28, 2, 32}, few = {16, 1024, 14, 2, 32},
                    long_rows = {16, 512, 56, 2, 16}, one = {16, 128, 28, 1, 4};
    const yki_op *op = &yki_op_conv2d;
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, large, fast), "strips");
        assert_string_equal(ruled_as(YK_F32, op, deep, fast), "strips");
        assert_string_equal(ruled_as(YK_F32, op, cached, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, few, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, op, long_rows, fast), "onednn");
        assert_string_not_equal(ruled_as(YK_F32, op, one, fast), "strips");
        assert_string_not_equal(ruled_as(YK_BF16, op, large, fast), "strips");
    }
}

YK_TEST(weights_of_wide_groups_with_stride_2_in_bf16_are_our_own_beyond_the_caches)
{
    const yki_op *op = &yki_op_conv2d_backward_weight;
    const rule_case large = {8, 1024, 28, 2, 64}, cached = {8, 512, 28, 2, 32},
                    few = {64, 64, 56, 2, 4}, wide = {8, 1024, 28, 2, 16},
                    short_rows = {16, 1024, 14, 2, 32}, one = {16, 512, 28, 1, 32};
    assert_string_equal(ruled_as(YK_BF16, op, large, true), "strips");
    assert_string_not_equal(ruled_as(YK_BF16, op, large, false), "strips");
    assert_string_not_equal(ruled_as(YK_F32, op, large, true), "strips");
    assert_string_equal(ruled_as(YK_BF16, op, cached, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, few, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, wide, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, short_rows, true), "onednn");
    assert_string_equal(ruled_as(YK_BF16, op, one, true), "onednn");
}

/* See conv/narrow.c and conv/depthwise_strided.c. */
YK_TEST(depthwise_convolutions_beyond_the_caches_are_our_own)
{
    const rule_case small = {8, 144, 28, 1, 144}, large = {8, 144, 56, 1, 144},
                    small_halving = {8, 96, 56, 2, 96}, large_halving = {8, 96, 112, 2, 96};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, small, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, large, fast), "narrow");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d_backward_data, large, fast), "narrow");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, small_halving, fast), "onednn");
        assert_string_equal(ruled_as(YK_F32, &yki_op_conv2d, large_halving, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, &yki_op_conv2d, large_halving, fast), "onednn");
    }
}

/* See conv/depthwise_strided.c. */
YK_TEST(gradients_of_x_of_depthwise_convolutions_of_stride_2_are_our_own)
{
    const yki_op *op = &yki_op_conv2d_backward_data;
    const rule_case narrow = {8, 32, 28, 2, 32}, wide = {8, 32, 56, 2, 32};
    for (int fast = 0; fast < 2; fast++) {
        assert_string_equal(ruled_as(YK_F32, op, narrow, fast), "depthwise");
        assert_string_equal(ruled_as(YK_F32, op, wide, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, op, narrow, fast), "depthwise");
        assert_string_equal(ruled_as(YK_BF16, op, wide, fast), "onednn");
    }
}

/* See conv_split.c. */
YK_TEST(groups_are_convolved_one_by_one_where_they_end_within_vectors_or_tiles_save_products)
{
    const yki_op *const ops[] = {&yki_op_conv2d, &yki_op_conv2d_backward_data,
                                 &yki_op_conv2d_backward_weight};
    const rule_case within = {8, 72, 14, 1, 3}, wide = {8, 64, 14, 1, 2},
                    halving = {8, 64, 14, 2, 2};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ruled_as(YK_F32, ops[i], within, true), "split");
        assert_string_equal(ruled_as(YK_BF16, ops[i], within, true), "split");
        assert_string_equal(ruled_as(YK_F32, ops[i], wide, true), "split");
        assert_string_equal(ruled_as(YK_BF16, ops[i], wide, true), "onednn");
        assert_true(strcmp(ruled_as(YK_F32, ops[i], halving, true), "split") != 0);
    }
}
