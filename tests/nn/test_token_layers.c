/* Layers of transformers start as those of torch.nn do. */
#include <yoke/yoke.h>

#include "harness.h"

enum { TOKENS = 3 };

static float element(const yk_model *model, size_t parameter, int64_t index)
{
    yk_tensor value = yk_model_parameter(model, parameter).value;
    return (float)yk_tensor_get(&value, index);
}

static yk_value *tokens_of(yk_graph *graph)
{
    return yk_input(graph, "tokens", YK_I32, 2, (int64_t[]){YK_BATCH, TOKENS});
}

/* torch.manual_seed(7); Embedding(10, 6), LayerNorm(6), Linear(6, 4) */
YK_TEST(layers_of_tokens_start_as_pytorchs)
{
    static const char *const names[] = {"table.weight", "norm.weight", "norm.bias", "fc.weight",
                                        "fc.bias"};
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_nn_embedding(tokens_of(graph), "table", 10, 6);
    x = yk_nn_linear(yk_nn_layer_norm(x, "norm", 1e-5), "fc", 4);
    yk_value *target = yk_input(graph, "target", YK_F32, 3, (int64_t[]){YK_BATCH, TOKENS, 4});
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_mse_loss(x, target, YK_LOSS_MEAN),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 7)));
    assert_int_equal(yk_model_parameter_count(model), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(yk_model_parameter(model, i).name, names[i]);
    assert_float_equal(element(model, 0, 0), -0x1.a3e8acp-1F, 1e-6);
    assert_float_equal(element(model, 0, 59), -0x1.26c9fep-3F, 1e-6);
    assert_true(element(model, 1, 5) == 1 && element(model, 2, 5) == 0);
    assert_true(element(model, 3, 0) == 0x1.33f874p-4F);
    assert_true(element(model, 4, 3) == 0x1.65c92ap-5F);
    yk_model_destroy(model);
}

YK_TEST(mistakes_in_layers_of_tokens_are_reported)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *y = yk_nn_layer_norm(yk_nn_embedding(x, "table", 10, 6), "norm", 1e-5);
    yk_model *model;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_create(&model, y, NULL));
    assert_contains(yk_last_error(),
                    "table.embedding: indices are float32, expected int32 or int64");
    assert_int_equal(yk_value_shape(yk_nn_embedding(NULL, "table", 10, 6), NULL), -1);
    assert_int_equal(yk_value_shape(yk_nn_layer_norm(NULL, "norm", 1e-5), NULL), -1);
    assert_int_equal(yk_value_shape(yk_nn_rms_norm(NULL, "norm", 1e-5), NULL), -1);
    assert_int_equal(yk_value_shape(yk_nn_group_norm(NULL, "norm", 2, 1e-5), NULL), -1);
    yk_graph_destroy(graph);
}

/* RMSNorm(4): a weight of ones, and no bias. */
YK_TEST(rms_norm_declares_a_weight)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 3, (int64_t[]){YK_BATCH, TOKENS, 4});
    yk_value *y = yk_nn_rms_norm(x, "norm", 1e-6);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_reduce_loss(y, YK_LOSS_MEAN), NULL));
    assert_int_equal(yk_model_parameter_count(model), 1);
    assert_string_equal(yk_model_parameter(model, 0).name, "norm.weight");
    for (int64_t i = 0; i < 4; i++)
        assert_true(element(model, 0, i) == 1);
    yk_model_destroy(model);
}

static yk_status forward(yk_model *model, int32_t *tokens, int64_t samples)
{
    static const char *const names[] = {"tokens"};
    yk_tensor tensor = {.data = tokens, .dtype = YK_I32, .ndim = 2, .dims = {samples, TOKENS}};
    yk_batch batch = {.size = samples, .count = 1, .names = names, .tensors = &tensor};
    return yk_model_forward(model, &batch);
}

/* The table has more rows than its vectors have places. */
YK_TEST(an_index_beyond_a_dimension_is_an_error)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        int32_t tokens[2 * TOKENS] = {0, 9, 3, 1, 1, 0};
        yk_graph *graph = yk_graph_create();
        yk_model_options options = YK_MODEL_OPTIONS_INIT;
        options.device = devices[i];
        yk_value *words = tokens_of(graph);
        options.logits = yk_take_along_dim(yk_nn_embedding(words, "table", 12, 10), words, -1);
        yk_model *model;
        assert_ok(yk_model_create(&model, NULL, &options));
        assert_ok(forward(model, tokens, 2));
        tokens[4] = 10;
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward(model, tokens, 2));
        assert_contains(yk_last_error(), "take_along_dim: index 10 of sample 1 is outside 0..9");
        yk_model_destroy(model);
    }
}

/* Before anything runs, on devices that compute later too. */
YK_TEST(an_index_out_of_range_is_an_error)
{
    static const char *const devices[] = {"ref", "cpu", "sim"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        int32_t tokens[2 * TOKENS] = {0, 9, 3, 1, 1, 0};
        yk_graph *graph = yk_graph_create();
        yk_model_options options = YK_MODEL_OPTIONS_INIT;
        options.device = devices[i];
        options.logits = yk_nn_embedding(tokens_of(graph), "table", 10, 6);
        yk_model *model;
        assert_ok(yk_model_create(&model, NULL, &options));
        assert_ok(forward(model, tokens, 2));
        tokens[4] = 10;
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward(model, tokens, 2));
        assert_contains(yk_last_error(), "embedding: index 10 of sample 1 is outside 0..9");
        tokens[4] = -100;
        assert_status(YK_ERROR_INVALID_ARGUMENT, forward(model, tokens, 2));
        yk_model_destroy(model);
    }
}
