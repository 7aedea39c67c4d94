/* What one model has learned, copied to another. */
#include <string.h>

#include "harness.h"

enum { SAMPLES = 4, SIDE = 5, CLASSES = 3 };

static yk_value *critic(yk_value *x, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "critic");
    x = yk_nn_conv2d_bias(x, "conv", channels, 3, NULL);
    x = yk_relu(yk_nn_batch_norm(x, "bn"));
    x = yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", CLASSES);
    yk_scope_pop(graph);
    return x;
}

/* with_generator: the critic reads what another network makes of the images, as in a GAN. */
static yk_model *make_model(const char *device, bool with_generator, int64_t channels,
                            uint64_t seed)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, SIDE, SIDE});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    if (with_generator)
        x = yk_nn_conv2d_bias(x, "generator", 3, 1, NULL);
    yk_value *logits = critic(x, channels);
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = device,
                                      o.threads = 1, o.seed = seed, o.logits = logits)));
    return model;
}

static double loss_of(yk_model *model)
{
    static const char *const names[] = {"images", "labels"};
    static float pixels[SAMPLES * 3 * SIDE * SIDE];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * 3 * SIDE * SIDE; i++)
        pixels[i] = (float)(i % 13) / 13;
    for (int i = 0; i < SAMPLES; i++)
        labels[i] = i % CLASSES;
    const yk_tensor tensors[] = {
        {.data = pixels, .dtype = YK_F32, .ndim = 4, .dims = {SAMPLES, 3, SIDE, SIDE}},
        {.data = labels, .dtype = YK_I32, .ndim = 1, .dims = {SAMPLES}}};
    const yk_batch batch = {.size = SAMPLES, .count = 2, .names = names, .tensors = tensors};
    assert_ok(yk_model_forward(model, &batch));
    return yk_model_loss(model);
}

static void assert_same(yk_tensor a, yk_tensor b, bool same)
{
    char left[4096], right[4096];
    assert_true(yk_tensor_bytes(&a) <= sizeof left);
    assert_ok(yk_tensor_read(&a, left));
    assert_ok(yk_tensor_read(&b, right));
    assert_int_equal(memcmp(left, right, yk_tensor_bytes(&a)) == 0, same);
}

/* The models have run before, so that kernels have packed copies. */
static void copy_between(const char *from_device, const char *to_device)
{
    yk_model *from = make_model(from_device, false, 16, 1),
             *to = make_model(to_device, false, 16, 2);
    loss_of(from);
    loss_of(to);
    assert_ok(yk_model_copy_values(to, from, NULL));
    for (size_t i = 0; i < yk_model_parameter_count(from); i++)
        assert_same(yk_model_parameter(to, i).value, yk_model_parameter(from, i).value, true);
    for (size_t i = 0; i < yk_model_buffer_count(from); i++)
        assert_same(yk_model_buffer(to, i).value, yk_model_buffer(from, i).value, true);
    if (strcmp(from_device, to_device) == 0)
        assert_true(loss_of(from) == loss_of(to));
    yk_model_destroy(from);
    yk_model_destroy(to);
}

YK_TEST(models_are_equal_after_a_copy)
{
    copy_between("ref", "ref");
    copy_between("cpu", "cpu");
    copy_between("sim", "sim");
}

YK_TEST(copies_cross_devices)
{
    copy_between("cpu", "sim");
    copy_between("sim", "cpu");
}

/* As after each step of a GAN's discriminator. */
YK_TEST(a_network_is_copied_into_a_larger_one)
{
    yk_model *alone = make_model("cpu", false, 16, 1), *both = make_model("cpu", true, 16, 2);
    yk_tensor generator = yk_model_parameter(both, 0).value;
    float before = (float)yk_tensor_get(&generator, 0);
    assert_ok(yk_model_copy_values(both, alone, NULL));
    assert_true((float)yk_tensor_get(&generator, 0) == before);
    for (size_t i = 0; i < yk_model_parameter_count(alone); i++)
        assert_same(yk_model_parameter(both, 2 + i).value, yk_model_parameter(alone, i).value,
                    true);
    yk_model_destroy(alone);
    yk_model_destroy(both);
}

YK_TEST(a_pattern_chooses_what_is_copied)
{
    yk_model *from = make_model("cpu", true, 16, 1), *to = make_model("cpu", false, 16, 2);
    assert_ok(yk_model_copy_values(to, from, "critic.conv.*"));
    assert_same(yk_model_parameter(to, 0).value, yk_model_parameter(from, 2).value, true);
    assert_same(yk_model_parameter(to, 4).value, yk_model_parameter(from, 6).value, false);
    yk_model_destroy(from);
    yk_model_destroy(to);
}

YK_TEST(models_that_do_not_fit_stay_as_they_are)
{
    yk_model *from = make_model("cpu", true, 16, 1), *to = make_model("cpu", false, 16, 2);
    yk_model *narrow = make_model("cpu", false, 8, 3);
    double before = loss_of(to);
    assert_status(YK_ERROR_NOT_FOUND, yk_model_copy_values(to, from, NULL));
    assert_contains(yk_last_error(), "has no generator.weight");
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_copy_values(to, narrow, NULL));
    assert_contains(yk_last_error(), "critic.conv.weight has another shape or dtype");
    assert_status(YK_ERROR_NOT_FOUND, yk_model_copy_values(to, from, "actor.*"));
    assert_contains(yk_last_error(), "no parameter or buffer has a name like \"actor.*\"");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_copy_values(NULL, from, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_copy_values(to, NULL, NULL));
    assert_true(loss_of(to) == before);
    yk_model_destroy(from);
    yk_model_destroy(to);
    yk_model_destroy(narrow);
}
