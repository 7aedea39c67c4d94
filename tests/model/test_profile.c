/* The profile of a model's kernels: what they have to do, and how long they took. */
#include <math.h>
#include <string.h>

#include <yoke/yoke.h>

#include "harness.h"

enum { BATCH = 8, CHANNELS = 3, SIDE = 6, FILTERS = 32, CLASSES = 4 };

static yk_model *small_model(const char *device)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *weight =
        yk_parameter(graph, "conv.weight", YK_F32, 4, (int64_t[]){FILTERS, CHANNELS, 3, 3},
                     YK_INIT_KAIMING_UNIFORM, 0);
    yk_conv2d_options padded = YK_CONV2D_OPTIONS_INIT;
    padded.padding = 1;
    x = yk_relu(yk_conv2d(x, weight, NULL, &padded));
    x = yk_flatten(yk_global_avg_pool2d(x));
    weight = yk_parameter(graph, "fc.weight", YK_F32, 2, (int64_t[]){CLASSES, FILTERS},
                          YK_INIT_KAIMING_UNIFORM, 0);
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.device = device;
    options.threads = 1;
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(yk_linear(x, weight, NULL), labels, NULL),
                              &options));
    return model;
}

static void train(yk_model *model)
{
    static float images[BATCH * CHANNELS * SIDE * SIDE];
    static int32_t labels[BATCH];
    static const char *const names[] = {"images", "labels"};
    const yk_tensor tensors[] = {
        {.data = images, .dtype = YK_F32, .ndim = 4, .dims = {BATCH, CHANNELS, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {BATCH}}};
    assert_ok(yk_model_forward(
        model, &(yk_batch){.size = BATCH, .count = 2, .names = names, .tensors = tensors}));
    assert_ok(yk_model_backward(model));
}

static yk_kernel_profile find(const yk_model *model, const char *op)
{
    for (size_t i = 0; i < yk_model_profile_count(model); i++)
        if (strcmp(yk_model_profile_kernel(model, i).op, op) == 0)
            return yk_model_profile_kernel(model, i);
    fail_msg("the profile has no %s", op);
    return (yk_kernel_profile){.op = NULL};
}

static void check_product(const yk_model *model, const char *op, double flop)
{
    yk_kernel_profile kernel = find(model, op);
    assert_true(kernel.flop == flop && kernel.computed == flop && kernel.bytes > 0);
}

YK_TEST(profile_knows_the_work_of_each_kernel)
{
    yk_model *model = small_model("ref");
    assert_int_equal(yk_model_profile_count(model), 0);
    train(model);
    double pixels = BATCH * SIDE * SIDE, conv = 2.0 * pixels * FILTERS * CHANNELS * 9;
    check_product(model, "conv2d", conv);
    check_product(model, "conv2d_backward_weight", conv);
    check_product(model, "linear", 2.0 * BATCH * CLASSES * FILTERS);
    check_product(model, "linear_backward_data", 2.0 * BATCH * CLASSES * FILTERS);
    check_product(model, "linear_backward_weight", 2.0 * BATCH * CLASSES * FILTERS);
    yk_kernel_profile forward = find(model, "conv2d");
    assert_string_equal(forward.shape, "8x3x6x6 -> 8x32x6x6");
    assert_true(forward.bytes == 4 * (pixels * (CHANNELS + FILTERS) + FILTERS * CHANNELS * 9));
    assert_true(find(model, "relu").flop == 0);
    yk_model_destroy(model);
}

YK_TEST(profile_counts_runs_between_begin_and_end)
{
    yk_model *model = small_model("cpu");
    train(model);
    assert_int_equal(find(model, "conv2d").runs, 0);
    for (int round = 0; round < 2; round++) { /* the second begins from zero */
        assert_ok(yk_model_profile_begin(model));
        train(model);
        train(model);
        assert_ok(yk_model_profile_end(model));
        train(model);
        assert_int_equal(find(model, "conv2d").runs, 2);
        assert_int_equal(find(model, "conv2d_backward_weight").runs, 2);
        assert_true(find(model, "conv2d").seconds > 0);
    }
    yk_kernel_profile past = yk_model_profile_kernel(model, yk_model_profile_count(model));
    assert_true(!past.op && !past.scope && past.runs == 0);
    yk_model_destroy(model);
}

static double sum_of(const double *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}

YK_TEST(profile_has_the_times_of_the_last_runs)
{
    enum { KEPT = 1024, MORE = 3 };
    yk_model *model = small_model("cpu");
    train(model);
    assert_int_equal(find(model, "conv2d").time_count, 0);
    assert_ok(yk_model_profile_begin(model));
    for (int i = 0; i < MORE; i++)
        train(model);
    yk_kernel_profile kernel = find(model, "conv2d");
    assert_int_equal(kernel.time_count, MORE);
    assert_true(fabs(sum_of(kernel.times, MORE) - kernel.seconds) < 1e-9);
    for (int i = 0; i < KEPT; i++)
        train(model);
    kernel = find(model, "conv2d");
    assert_int_equal(kernel.runs, KEPT + MORE);
    assert_int_equal(kernel.time_count, KEPT);
    assert_true(sum_of(kernel.times, KEPT) < kernel.seconds);
    assert_ok(yk_model_profile_begin(model));
    assert_int_equal(find(model, "conv2d").time_count, 0);
    yk_model_destroy(model);
}

/* Of more steps than it measures at once. The host waits for none of them before the end. */
YK_TEST(an_asynchronous_device_measures_its_kernels_itself)
{
    enum { FEW = 2, MANY = 200 };
    yk_model *model = small_model("sim");
    assert_ok(yk_model_profile_begin(model));
    for (int i = 0; i < FEW; i++)
        train(model);
    assert_int_equal(find(model, "conv2d").runs, 0);
    assert_ok(yk_model_profile_end(model));
    for (size_t i = 0; i < yk_model_profile_count(model); i++) {
        assert_int_equal(yk_model_profile_kernel(model, i).runs, FEW);
        assert_true(yk_model_profile_kernel(model, i).seconds > 0);
    }
    assert_ok(yk_model_profile_begin(model));
    for (int i = 0; i < MANY; i++)
        train(model);
    assert_in_range(find(model, "conv2d").runs, 1, MANY - 1);
    assert_ok(yk_model_profile_begin(model)); /* begins again from zero */
    train(model);
    assert_ok(yk_model_profile_end(model));
    assert_int_equal(find(model, "conv2d").runs, 1);
    assert_ok(yk_model_profile_begin(model));
    train(model);
    yk_model_destroy(model);
}

YK_TEST(limits_are_measured_on_cpu)
{
    yk_device_limits limits;
    yk_model *model = small_model("cpu");
    assert_ok(yk_model_measure_limits(model, &limits));
    assert_true(limits.flop_s > 0 && limits.bytes_s > 0);
    yk_model_destroy(model);
}

YK_TEST(limits_of_other_devices_are_not_known)
{
    static const char *const devices[] = {"ref", "sim"};
    for (int i = 0; i < 2; i++) {
        yk_device_limits limits;
        yk_model *model = small_model(devices[i]);
        assert_status(YK_ERROR_UNSUPPORTED, yk_model_measure_limits(model, &limits));
        assert_contains(yk_last_error(), devices[i]);
        assert_true(limits.flop_s == 0 && limits.bytes_s == 0);
        yk_model_destroy(model);
    }
}

YK_TEST(without_a_model_there_is_no_profile)
{
    assert_int_equal(yk_model_profile_count(NULL), 0);
    assert_true(yk_model_profile_kernel(NULL, 0).op == NULL);
}
