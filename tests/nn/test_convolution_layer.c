/* Layers start as those of torch.nn do. */
#include <yoke/yoke.h>

#include "harness.h"

static float element(const yk_model *model, size_t parameter, int64_t index)
{
    yk_tensor value = yk_model_parameter(model, parameter).value;
    return (float)yk_tensor_get(&value, index);
}

/* torch.manual_seed(7); Conv2d(4, 6, 3, groups=2) */
YK_TEST(a_convolution_with_a_bias_starts_as_pytorchs)
{
    static const int64_t expected_dims[4] = {6, 2, 3, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 5});
    yk_value *target = yk_input(graph, "target", YK_F32, 4, (int64_t[]){YK_BATCH, 6, 3, 3});
    yk_value *y = yk_nn_conv2d_bias(
        x, "conv", 6, 3, YK_WITH(yk_conv2d_options, YK_CONV2D_OPTIONS_INIT, o.groups = 2));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), 2);
    yk_parameter_view weight = yk_model_parameter(model, 0), bias = yk_model_parameter(model, 1);
    assert_string_equal(weight.name, "conv.weight");
    assert_string_equal(bias.name, "conv.bias");
    assert_int_equal(weight.value.ndim, 4);
    assert_memory_equal(weight.value.dims, expected_dims, sizeof expected_dims);
    assert_true(bias.value.ndim == 1 && bias.value.dims[0] == 6);
    assert_true(element(model, 0, 0) == 0x1.0db954p-6F);
    assert_true(element(model, 0, 53) == -0x1.caf7eep-7F);
    assert_true(element(model, 0, 107) == -0x1.3756dep-4F);
    assert_true(element(model, 1, 0) == -0x1.17318p-3F);
    assert_true(element(model, 1, 5) == 0x1.7d1786p-8F);
    yk_model_destroy(model);
}

/* torch.manual_seed(7); Conv1d(4, 6, 3, groups=2): PyTorch's file fits it. */
YK_TEST(a_convolution_of_sequences_starts_as_pytorchs)
{
    static const int64_t expected_dims[3] = {6, 2, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 9});
    yk_value *y = yk_nn_conv1d_bias(
        x, "conv", 6, 3, YK_WITH(yk_conv1d_options, YK_CONV1D_OPTIONS_INIT, o.groups = 2));
    y = yk_max_pool1d(yk_relu(yk_nn_batch_norm(y, "bn")), 2, 2, 0);
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(y, dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == 6 && dims[2] == 3);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), 4);
    yk_parameter_view weight = yk_model_parameter(model, 0), bias = yk_model_parameter(model, 1);
    assert_string_equal(weight.name, "conv.weight");
    assert_string_equal(bias.name, "conv.bias");
    assert_int_equal(weight.value.ndim, 3);
    assert_memory_equal(weight.value.dims, expected_dims, sizeof expected_dims);
    assert_true(bias.value.ndim == 1 && bias.value.dims[0] == 6);
    assert_true(element(model, 0, 0) == 0x1.d32cf4p-6F);
    assert_true(element(model, 0, 17) == -0x1.64f7d4p-2F);
    assert_true(element(model, 0, 35) == 0x1.7ff294p-2F);
    assert_true(element(model, 1, 0) == -0x1.74168ap-4F);
    assert_true(element(model, 1, 5) == -0x1.9d3b02p-3F);
    yk_model_destroy(model);
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

/* torch.manual_seed(7); ConvTranspose2d(4, 6, 3, groups=2) */
YK_TEST(a_transposed_convolution_starts_as_pytorchs)
{
    static const int64_t expected_dims[4] = {4, 3, 3, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 5, 5});
    yk_value *target = yk_input(graph, "target", YK_F32, 4, (int64_t[]){YK_BATCH, 6, 7, 7});
    yk_value *y = yk_nn_conv_transpose2d_bias(
        x, "up", 6, 3,
        YK_WITH(yk_conv_transpose2d_options, YK_CONV_TRANSPOSE2D_OPTIONS_INIT, o.groups = 2));
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(y, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), 2);
    yk_parameter_view weight = yk_model_parameter(model, 0), bias = yk_model_parameter(model, 1);
    assert_string_equal(weight.name, "up.weight");
    assert_string_equal(bias.name, "up.bias");
    assert_int_equal(weight.value.ndim, 4);
    assert_memory_equal(weight.value.dims, expected_dims, sizeof expected_dims);
    assert_true(bias.value.ndim == 1 && bias.value.dims[0] == 6);
    assert_true(element(model, 0, 0) == 0x1.b87516p-7F);
    assert_true(element(model, 0, 53) == -0x1.76bf06p-7F);
    assert_true(element(model, 0, 107) == -0x1.fc6a3cp-5F);
    assert_true(element(model, 1, 0) == -0x1.c7ebbcp-4F);
    assert_true(element(model, 1, 5) == 0x1.372904p-8F);
    yk_model_destroy(model);
}

/* torch.manual_seed(7); ConvTranspose1d(4, 6, 3, groups=2): PyTorch's file fits it. */
YK_TEST(a_transposed_convolution_of_sequences_starts_as_pytorchs)
{
    static const int64_t expected_dims[3] = {4, 3, 3};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, 4, 9});
    yk_value *y = yk_nn_conv_transpose1d_bias(
        x, "up", 6, 3,
        YK_WITH(yk_conv_transpose1d_options, YK_CONV_TRANSPOSE1D_OPTIONS_INIT, o.groups = 2));
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(y, dims), 3);
    assert_true(dims[0] == YK_BATCH && dims[1] == 6 && dims[2] == 11);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), 2);
    yk_parameter_view weight = yk_model_parameter(model, 0), bias = yk_model_parameter(model, 1);
    assert_string_equal(weight.name, "up.weight");
    assert_string_equal(bias.name, "up.bias");
    assert_int_equal(weight.value.ndim, 3);
    assert_memory_equal(weight.value.dims, expected_dims, sizeof expected_dims);
    assert_true(bias.value.ndim == 1 && bias.value.dims[0] == 6);
    assert_true(element(model, 0, 0) == 0x1.7d728p-6F);
    assert_true(element(model, 0, 17) == -0x1.237696p-2F);
    assert_true(element(model, 0, 35) == 0x1.397decp-2F);
    assert_true(element(model, 1, 0) == -0x1.2fcfp-4F);
    assert_true(element(model, 1, 5) == -0x1.5166bcp-3F);
    yk_model_destroy(model);
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
