/* Layers start as those of torch.nn do. */
#include <yoke/yoke.h>

#include <stdio.h>

#include "harness.h"

static float element(const yk_model *model, size_t parameter, int64_t index)
{
    yk_tensor value = yk_model_parameter(model, parameter).value;
    return (float)yk_tensor_get(&value, index);
}

/* The first parameters that PyTorch's layer has after torch.manual_seed(7): weight, of these
 * dimensions and with these values of its first, middle and last element, and bias (6), with these
 * of its first and last. */
typedef struct start {
    const char *name;
    int ndim;
    int64_t dims[4];
    float weight[3], bias[2];
} start;

static void assert_starts(yk_value *y, size_t parameters, const start *expected)
{
    yk_model *model;
    char name[32];
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), parameters);
    yk_parameter_view weight = yk_model_parameter(model, 0), bias = yk_model_parameter(model, 1);
    snprintf(name, sizeof name, "%s.weight", expected->name);
    assert_string_equal(weight.name, name);
    snprintf(name, sizeof name, "%s.bias", expected->name);
    assert_string_equal(bias.name, name);
    assert_int_equal(weight.value.ndim, expected->ndim);
    assert_memory_equal(weight.value.dims, expected->dims,
                        (size_t)expected->ndim * sizeof *expected->dims);
    assert_true(bias.value.ndim == 1 && bias.value.dims[0] == 6);
    const int64_t count = yk_tensor_count(&weight.value);
    assert_true(element(model, 0, 0) == expected->weight[0]);
    assert_true(element(model, 0, count / 2 - 1) == expected->weight[1]);
    assert_true(element(model, 0, count - 1) == expected->weight[2]);
    assert_true(element(model, 1, 0) == expected->bias[0]);
    assert_true(element(model, 1, 5) == expected->bias[1]);
    yk_model_destroy(model);
}

static void assert_length(yk_value *y, int64_t length)
{
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(y, dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == 6 && dims[2] == length);
}

static yk_value *image(void)
{
    return yk_input(yk_graph_create(), "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 5});
}

static yk_value *sequence(void)
{
    return yk_input(yk_graph_create(), "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 9});
}

/* Conv2d(4, 6, 3, groups=2) */
YK_TEST(a_convolution_with_a_bias_starts_as_pytorchs)
{
    yk_value *y = yk_nn_conv2d_bias(
        image(), "conv", 6, 3, YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.groups = 2));
    assert_starts(y, 2,
                  &(start){"conv",
                           4,
                           {6, 2, 3, 3},
                           {0x1.0db954p-6F, -0x1.caf7eep-7F, -0x1.3756dep-4F},
                           {-0x1.17318p-3F, 0x1.7d1786p-8F}});
}

/* Conv1d(4, 6, 3, groups=2): PyTorch's file fits it. */
YK_TEST(a_convolution_of_sequences_starts_as_pytorchs)
{
    yk_value *y = yk_nn_conv1d_bias(
        sequence(), "conv", 6, 3, YK_WITH(yk_conv1d_options, YK_CONV1D_OPTIONS_INIT, o.groups = 2));
    y = yk_max_pool1d(yk_relu(yk_nn_batch_norm(y, "bn")), 2, 2, 0);
    assert_length(y, 3);
    assert_starts(y, 4,
                  &(start){"conv",
                           3,
                           {6, 2, 3},
                           {0x1.d32cf4p-6F, -0x1.64f7d4p-2F, 0x1.7ff294p-2F},
                           {-0x1.74168ap-4F, -0x1.9d3b02p-3F}});
}

YK_TEST(mistakes_in_a_convolution_with_a_bias_are_reported)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *y = yk_nn_conv2d_bias(x, "conv", 6, 3, NULL);
    yk_model *model;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "conv2d");
    assert_int_equal(yk_value_shape(yk_nn_conv2d_bias(NULL, "conv", 6, 3, NULL), NULL), -1);
    yk_graph_destroy(graph);
}

/* ConvTranspose2d(4, 6, 3, groups=2) */
YK_TEST(a_transposed_convolution_starts_as_pytorchs)
{
    yk_value *y = yk_nn_conv_transpose2d_bias(
        image(), "up", 6, 3,
        YK_WITH(yk_conv_transpose2d_options, YK_CONV_TRANSPOSE2D_OPTIONS_INIT, o.groups = 2));
    assert_starts(y, 2,
                  &(start){"up",
                           4,
                           {4, 3, 3, 3},
                           {0x1.b87516p-7F, -0x1.76bf06p-7F, -0x1.fc6a3cp-5F},
                           {-0x1.c7ebbcp-4F, 0x1.372904p-8F}});
}

/* ConvTranspose1d(4, 6, 3, groups=2): PyTorch's file fits it. */
YK_TEST(a_transposed_convolution_of_sequences_starts_as_pytorchs)
{
    yk_value *y = yk_nn_conv_transpose1d_bias(
        sequence(), "up", 6, 3,
        YK_WITH(yk_conv_transpose1d_options, YK_CONV_TRANSPOSE1D_OPTIONS_INIT, o.groups = 2));
    assert_length(y, 11);
    assert_starts(y, 2,
                  &(start){"up",
                           3,
                           {4, 3, 3},
                           {0x1.7d728p-6F, -0x1.237696p-2F, 0x1.397decp-2F},
                           {-0x1.2fcfp-4F, -0x1.5166bcp-3F}});
}

/* Without a bias, as in DCGAN, its weights are still those of nn.ConvTranspose2d. */
YK_TEST(a_transposed_convolution_may_have_no_bias)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 5});
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.seed = 7;
    options.logits = yk_nn_conv_transpose2d(
        x, "up", 6, 3,
        YK_WITH(yk_conv_transpose2d_options, YK_CONV_TRANSPOSE2D_OPTIONS_INIT, o.groups = 2));
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL, &options));
    assert_int_equal(yk_model_parameter_count(model), 1);
    assert_true(element(model, 0, 0) == 0x1.b87516p-7F);
    assert_true(element(model, 0, 107) == -0x1.fc6a3cp-5F);
    yk_model_destroy(model);
}

YK_TEST(mistakes_in_a_transposed_convolution_are_reported)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *y = yk_nn_conv_transpose2d_bias(x, "up", 6, 3, NULL);
    yk_model *model;
    assert_status(YK_ERROR_INVALID_SHAPE, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(), "up.conv_transpose2d: input has shape (N, 4), expected 4");
    yk_graph_destroy(graph);
}

/* The fan of a bias is computed of sizes that the weight has been checked for. */
YK_TEST(convolutions_of_impossible_sizes_are_refused)
{
    static const int64_t sizes[] = {0, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 62};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int which = 0; which < 4; which++) {
            yk_graph *graph = yk_graph_create();
            yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 5});
            int64_t channels = which % 2 ? sizes[i] : 6, kernel = which % 2 ? 3 : sizes[i];
            yk_value *y = which < 2 ? yk_nn_conv2d_bias(x, "conv", channels, kernel, NULL)
                                    : yk_nn_conv_transpose2d_bias(x, "up", channels, kernel, NULL);
            assert_int_equal(yk_value_shape(y, NULL), -1);
            yk_graph_destroy(graph);
        }
}
