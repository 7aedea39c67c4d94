/* Squeeze and excitation: its parameters, what it computes, and mistakes. */
#include <yoke/yoke.h>

#include <math.h>

#include "harness.h"

enum { CHANNELS = 6, SQUEEZED = 2, PIXELS = 4 };

static yk_value *images_of(yk_graph *graph)
{
    return yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, CHANNELS, 2, 2});
}

static yk_model *make(yk_value *y)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref",
                                      o.seed = 7, o.logits = y)));
    return model;
}

static double element(const yk_model *model, size_t parameter, int64_t index)
{
    yk_tensor value = yk_model_parameter(model, parameter).value;
    return yk_tensor_get(&value, index);
}

/* Of one image. */
static yk_tensor output_for(yk_model *model, float x[CHANNELS * PIXELS])
{
    const char *name = "x";
    const yk_tensor tensor = {.data = x, .dtype = YK_F32, .ndim = 4, .dims = {1, CHANNELS, 2, 2}};
    const yk_batch batch = {.size = 1, .count = 1, .names = &name, .tensors = &tensor};
    yk_tensor y;
    assert_ok(yk_model_forward(model, &batch));
    assert_ok(yk_model_output(model, &y));
    return y;
}

/* What all pixels of a channel are multiplied by, where the mean of channel c is c. */
static double factor_of(const yk_model *model, int channel)
{
    double sum = element(model, 3, channel);
    for (int s = 0; s < SQUEEZED; s++) {
        double squeezed = element(model, 1, s);
        for (int c = 0; c < CHANNELS; c++)
            squeezed += element(model, 0, s * CHANNELS + c) * c;
        sum += element(model, 2, channel * SQUEEZED + s) * fmax(squeezed, 0);
    }
    return 1 / (1 + exp(-sum));
}

YK_TEST(channels_are_multiplied_by_what_their_means_give)
{
    static const char *const names[] = {"se.fc1.weight", "se.fc1.bias", "se.fc2.weight",
                                        "se.fc2.bias"};
    static const float spread[PIXELS] = {-3, 1, 0, 2};
    float x[CHANNELS * PIXELS];
    yk_graph *graph = yk_graph_create();
    yk_model *model = make(yk_nn_squeeze_excitation(images_of(graph), "se", SQUEEZED, NULL));
    assert_int_equal(yk_model_parameter_count(model), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(yk_model_parameter(model, i).name, names[i]);
    for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < PIXELS; i++)
            x[c * PIXELS + i] = (float)c + spread[i];
    const yk_tensor y = output_for(model, x);
    for (int i = 0; i < CHANNELS * PIXELS; i++)
        assert_float_equal(yk_tensor_get(&y, i), factor_of(model, i / PIXELS) * (double)x[i], 1e-6);
    yk_model_destroy(model);
}

/* torch.manual_seed(7); Conv2d(6, 2, 1), Conv2d(2, 6, 1) */
YK_TEST(squeeze_and_excitation_starts_as_torchvisions)
{
    yk_graph *graph = yk_graph_create();
    yk_model *model = make(yk_nn_squeeze_excitation(images_of(graph), "se", SQUEEZED, NULL));
    assert_true(element(model, 0, 0) == 0x1.d32cf4p-6);
    assert_true(element(model, 1, 1) == -0x1.eb169cp-3);
    assert_true(element(model, 2, 11) == 0x1.0e06c2p-3);
    assert_true(element(model, 3, 5) == 0x1.f269p-3);
    yk_model_destroy(model);
}

static yk_value *zero(yk_value *x)
{
    return yk_scale(x, 0);
}

YK_TEST(functions_of_squeeze_and_excitation_are_options)
{
    yk_nn_squeeze_excitation_options options = YK_NN_SQUEEZE_EXCITATION_OPTIONS_INIT;
    float x[CHANNELS * PIXELS] = {1, 2, 3, 4};
    yk_graph *graph = yk_graph_create();
    options.scale_activation = zero;
    yk_model *model = make(yk_nn_squeeze_excitation(images_of(graph), "se", SQUEEZED, &options));
    const yk_tensor y = output_for(model, x);
    for (int i = 0; i < CHANNELS * PIXELS; i++)
        assert_true(yk_tensor_get(&y, i) == 0);
    yk_model_destroy(model);
}

YK_TEST(mistakes_in_squeeze_and_excitation_are_reported)
{
    yk_nn_squeeze_excitation_options options = YK_NN_SQUEEZE_EXCITATION_OPTIONS_INIT;
    yk_graph *graph = yk_graph_create();
    yk_model *model;
    options.activation = NULL;
    yk_value *y = yk_nn_squeeze_excitation(images_of(graph), "se", SQUEEZED, &options);
    assert_int_equal(yk_value_shape(y, NULL), -1);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "squeeze_excitation: a function of the options is NULL");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    yk_value *flat = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, CHANNELS});
    y = yk_nn_squeeze_excitation(flat, "se", SQUEEZED, NULL);
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "se.global_avg_pool2d");
    assert_int_equal(yk_value_shape(yk_nn_squeeze_excitation(NULL, "se", SQUEEZED, NULL), NULL),
                     -1);
    yk_graph_destroy(graph);
}
