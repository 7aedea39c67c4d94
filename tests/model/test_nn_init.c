/* torch.nn.init for the parameters of a model. Their numbers are compared with PyTorch's in
 * tests/tensor/test_init.c and tests/parity. */
#include "harness.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 4, SIDE = 5, CLASSES = 3, PARAMETERS = 6 };

static const char *const names[PARAMETERS] = {"conv.weight", "conv.bias", "bn.weight",
                                              "bn.bias",     "fc.weight", "fc.bias"};

static yk_model *make_model(const char *device, uint64_t seed, const char *frozen)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    x = yk_nn_conv2d_bias(x, "conv", 16, 3, NULL);
    x = yk_relu(yk_nn_batch_norm(x, "bn"));
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", CLASSES);
    if (frozen)
        assert_ok(yk_graph_set_trainable(graph, frozen, false, NULL));
    assert_ok(yk_model_create(&model, yk_cross_entropy(x, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.seed = seed)));
    return model;
}

static double loss_of(yk_model *model)
{
    static const char *const inputs[] = {"images", "labels"};
    static float pixels[SAMPLES * 3 * SIDE * SIDE];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * 3 * SIDE * SIDE; i++)
        pixels[i] = (float)(i % 13) / 13;
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % CLASSES;
    const yk_tensor tensors[] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = inputs, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    return yk_model_loss(model);
}

/* The index-th parameter's elements, of which there are fewer than 1024. */
static int64_t read_values(const yk_model *model, size_t index, float values[1024])
{
    yk_tensor tensor = yk_model_parameter(model, index).value;
    assert_true(yk_tensor_count(&tensor) <= 1024);
    assert_ok(yk_tensor_read(&tensor, values));
    return yk_tensor_count(&tensor);
}

static bool are_equal(const yk_model *a, const yk_model *b, size_t index)
{
    float left[1024], right[1024];
    int64_t count = read_values(a, index, left);
    read_values(b, index, right);
    return memcmp(left, right, (size_t)count * sizeof *left) == 0;
}

static void initialise(yk_model *model)
{
    assert_ok(yk_nn_init_trunc_normal(model, "conv.*", 0, 1, -1, 1));
    assert_ok(yk_nn_init_uniform(model, "bn.weight", 0.5, 1.5));
    assert_ok(yk_nn_init_normal(model, "bn.bias", 1, 0.5));
    assert_ok(yk_nn_init_orthogonal(model, "fc.weight", 1));
    assert_ok(yk_nn_init_constant(model, "fc.bias", 0.25));
}

YK_TEST(a_pattern_chooses_what_is_drawn)
{
    yk_model *model = make_model("cpu", 1, NULL), *before = make_model("cpu", 1, NULL);
    assert_ok(yk_nn_init_constant(model, "*.weight", 3));
    for (size_t i = 0; i < PARAMETERS; i++) {
        float values[1024];
        int64_t count = read_values(model, i, values);
        bool chosen = strstr(names[i], "weight") != NULL;
        assert_string_equal(yk_model_parameter(model, i).name, names[i]);
        for (int64_t k = 0; k < count && chosen; k++)
            assert_true(values[k] == 3);
        assert_int_equal(are_equal(model, before, i), !chosen);
    }
    yk_model_destroy(model);
    yk_model_destroy(before);
}

/* The generator goes on from call to call, and begins where the layers have left it. */
YK_TEST(equal_seeds_and_calls_give_equal_values)
{
    yk_model *a = make_model("cpu", 1, NULL), *b = make_model("cpu", 1, NULL);
    initialise(a);
    initialise(b);
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(are_equal(a, b, i));
    assert_ok(yk_nn_init_normal(a, "fc.weight", 0, 1));
    assert_ok(yk_nn_init_normal(b, "fc.weight", 0, 1));
    assert_true(are_equal(a, b, 4));
    assert_ok(yk_nn_init_normal(a, "fc.weight", 0, 1));
    assert_false(are_equal(a, b, 4));
    yk_model_destroy(b);
    b = make_model("cpu", 2, NULL);
    initialise(b);
    assert_false(are_equal(a, b, 0));
    yk_model_destroy(a);
    yk_model_destroy(b);
}

/* It has run before, so that kernels have packed copies. */
static void check_device(const char *device)
{
    yk_model *model = make_model(device, 1, NULL), *other = make_model(device, 1, NULL);
    yk_model *host = make_model("cpu", 1, NULL);
    loss_of(model);
    initialise(model);
    initialise(other);
    initialise(host);
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(are_equal(model, host, i));
    assert_true(loss_of(model) == loss_of(other));
    yk_model_destroy(model);
    yk_model_destroy(other);
    yk_model_destroy(host);
}

YK_TEST(every_device_gets_the_same_values_and_uses_them)
{
    check_device("ref");
    check_device("cpu");
    check_device("sim");
}

YK_TEST(frozen_parameters_are_drawn_too)
{
    yk_model *model = make_model("cpu", 1, "*"), *trained = make_model("cpu", 1, NULL);
    initialise(model);
    initialise(trained);
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(are_equal(model, trained, i));
    yk_model_destroy(model);
    yk_model_destroy(trained);
}

static double root_mean_square(const yk_model *model, size_t index, double *largest)
{
    float values[1024];
    int64_t count = read_values(model, index, values);
    double sum = 0;
    *largest = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)values[i] * values[i];
        *largest = fmax(*largest, fabs((double)values[i]));
    }
    return sqrt(sum / (double)count);
}

/* conv.weight is (16, 3, 3, 3): its fans are 27 and 144. */
YK_TEST(deviations_follow_from_gain_and_fans)
{
    yk_model *model = make_model("cpu", 1, NULL);
    const char *w = "conv.weight";
    for (int i = 0; i < 6; i++) {
        double fan = i < 2 ? (27 + 144) / 2.0 : i < 4 ? 27 : 144, largest;
        assert_ok(i == 0   ? yk_nn_init_xavier_uniform(model, w, 3)
                  : i == 1 ? yk_nn_init_xavier_normal(model, w, 3)
                  : i == 2 ? yk_nn_init_kaiming_uniform(model, w, 3, YK_FAN_IN)
                  : i == 3 ? yk_nn_init_kaiming_normal(model, w, 3, YK_FAN_IN)
                  : i == 4 ? yk_nn_init_kaiming_uniform(model, w, 3, YK_FAN_OUT)
                           : yk_nn_init_kaiming_normal(model, w, 3, YK_FAN_OUT));
        double deviation = root_mean_square(model, 0, &largest) / (3 / sqrt(fan));
        assert_true(fabs(deviation - 1) < 0.1);
        assert_int_equal(largest <= sqrt(3) * (3 / sqrt(fan)) * (1 + 1e-6), i % 2 == 0);
    }
    yk_model_destroy(model);
}

#define ASSERT_REFUSED(code, call, words)                                                          \
    do {                                                                                           \
        assert_status(code, call);                                                                 \
        assert_contains(yk_last_error(), words);                                                   \
    } while (0)

YK_TEST(errors_say_what_is_wrong_and_change_nothing)
{
    yk_model *model = make_model("cpu", 1, NULL), *before = make_model("cpu", 1, NULL);
    ASSERT_REFUSED(YK_ERROR_NOT_FOUND, yk_nn_init_constant(model, "layer1.*", 0),
                   "no parameter has a name like \"layer1.*\"; there are conv.*, bn.*, fc.*");
    ASSERT_REFUSED(YK_ERROR_NOT_FOUND, yk_nn_init_constant(model, "bn.running_mean", 0),
                   "no parameter has a name like");
    ASSERT_REFUSED(YK_ERROR_INVALID_SHAPE, yk_nn_init_xavier_uniform(model, "*", 1),
                   "conv.bias: these initial values need 2 dimensions or more, not 1");
    ASSERT_REFUSED(YK_ERROR_INVALID_SHAPE, yk_nn_init_orthogonal(model, "*", 1), "conv.bias");
    ASSERT_REFUSED(YK_ERROR_INVALID_SHAPE,
                   yk_nn_init_kaiming_normal(model, "*.bias", 1, YK_FAN_OUT), "conv.bias");

    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_constant(NULL, "*", 0), "model is NULL");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_normal(model, NULL, 0, 1),
                   "pattern is NULL");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_normal(model, "*", 0, -1),
                   "std is -1, expected 0 or more");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_normal(model, "*", (double)NAN, 1),
                   "mean is nan, expected a finite number");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_uniform(model, "*", 1, 0),
                   "a is 1 and b 0, expected a <= b");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_uniform(model, "*", -3e38, 3e38),
                   "b - a is 6e+38");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT,
                   yk_nn_init_orthogonal(model, "fc.weight", (double)INFINITY), "gain is inf");
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT,
                   yk_nn_init_kaiming_normal(model, "fc.weight", 1, (yk_fan_mode)2),
                   "yk_fan_mode 2: expected YK_FAN_IN (0) or YK_FAN_OUT (1)");
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(are_equal(model, before, i));
    assert_ok(yk_nn_init_normal(model, "*", 0, 1));
    assert_ok(yk_nn_init_normal(before, "*", 0, 1));
    assert_true(are_equal(model, before, 0)); /* nothing has been drawn */
    yk_model_destroy(model);
    yk_model_destroy(before);
}

/* What would be drawn again for ever, or for very long. */
YK_TEST(a_truncated_normal_distribution_needs_room)
{
    yk_model *model = make_model("cpu", 1, NULL);
    ASSERT_REFUSED(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_trunc_normal(model, "*", 0, 1, 2, 100),
                   "of normal(0, 1), a share of 0.0227501 is between a = 2 and b = 100, expected "
                   "more than 0.3");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_trunc_normal(model, "*", 0, 0, 0, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_trunc_normal(model, "*", 0, 0, 1, 2));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_nn_init_trunc_normal(model, "*", 1, 1e-9, 1 + 1e-7, 2));
    double ulp = 0x1p-23; /* mean is rounded down, a up */
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_nn_init_trunc_normal(model, "*", 1 + 0.49 * ulp,
                                                                     0.1 * ulp, 1 + 0.51 * ulp, 2));
    assert_ok(yk_nn_init_trunc_normal(model, "*", 1, 0, 0, 2));
    double largest;
    assert_true(root_mean_square(model, 0, &largest) == 1);
    yk_model_destroy(model);
}

YK_TEST(integers_have_no_initial_values)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 2});
    yk_parameter(graph, "codes", YK_U8, 1, (int64_t[]){10}, YK_INIT_ZEROS, 0);
    assert_ok(yk_graph_set_trainable(graph, "codes", false, NULL));
    assert_ok(yk_model_create(&model, yk_mse_loss(x, x, YK_LOSS_MEAN), NULL));
    ASSERT_REFUSED(YK_ERROR_UNSUPPORTED, yk_nn_init_constant(model, "codes", 1),
                   "codes is uint8; initial values are for float32 and float64");
    yk_model_destroy(model);
}

YK_TEST_RANKS(ranks_with_one_seed_draw_the_same, 2)
{
    yk_group *group;
    assert_ok(yk_group_init(&group, NULL));
    yk_model *model = make_model("cpu", 1, NULL);
    initialise(model);
    for (size_t i = 0; i < PARAMETERS; i++) {
        float own[1024], first[1024];
        int64_t count = read_values(model, i, own);
        memcpy(first, own, (size_t)count * sizeof *own);
        assert_ok(yk_broadcast(group, first, (size_t)count, YK_F32, 0, NULL));
        assert_memory_equal(own, first, (size_t)count * sizeof *own);
    }
    yk_model_destroy(model);
    yk_group_destroy(group);
}
