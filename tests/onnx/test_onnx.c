/* Export as ONNX: what cannot be exported, and what is left behind. Others judge the files
 * themselves: tests/parity/test_onnx_runtime.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <string.h>
#include <unistd.h>

/* A model whose output is the logits of an mlp, or their loss. */
static yk_model *make_model(bool with_logits, bool of_loss)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 4, 4});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_mlp(images, 2), *loss = yk_cross_entropy(logits, labels, NULL);
    yk_value *output = of_loss ? loss : logits;
    assert_ok(yk_model_create(
        &model, loss,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = with_logits ? output : NULL)));
    return model;
}

YK_TEST(an_operator_that_onnx_lacks_is_named)
{
    yk_model *model = make_model(true, true);
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_export_onnx(model, yk_test_path("model.onnx")));
    assert_contains(yk_last_error(), "model.onnx: cross_entropy: ONNX has no such operator");
    assert_int_equal(access(yk_test_path("model.onnx"), F_OK), -1);
    yk_model_destroy(model);
}

YK_TEST(there_is_something_to_export)
{
    yk_model *model = make_model(false, false);
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_export_onnx(model, yk_test_path("model.onnx")));
    assert_contains(yk_last_error(), "model.onnx: the model was created without options.logits");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_export_onnx(model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT,
                  yk_model_export_onnx(NULL, yk_test_path("model.onnx")));
    yk_model_destroy(model);
}

static void read_file(char *text, size_t size)
{
    FILE *file = fopen(yk_test_path("model.onnx"), "rbe");
    assert_non_null(file);
    memset(text, 0, size);
    assert_true(fread(text, 1, size, file) > 0);
    fclose(file);
}

YK_TEST(a_trained_model_is_exported_without_its_labels)
{
    static char first[65536], second[65536];
    yk_model *model = make_model(true, false);
    assert_ok(yk_model_export_onnx(model, yk_test_path("model.onnx")));
    read_file(first, sizeof first);
    assert_memory_equal(first, "\x08\x08\x12\x04yoke", 8); /* IR version 8, by yoke */
    assert_non_null(memmem(first, sizeof first, "fc1.weight", 10));
    assert_non_null(memmem(first, sizeof first, "images", 6));
    assert_null(memmem(first, sizeof first, "labels", 6));
    assert_ok(yk_model_export_onnx(model, yk_test_path("model.onnx"))); /* again, in its place */
    read_file(second, sizeof second);
    assert_memory_equal(first, second, sizeof first);
    yk_model_destroy(model);
}

/* yk_model_export_onnx of what a network computes. */
static yk_status export_output(yk_value *output)
{
    yk_model *model;
    assert_ok(yk_model_create(&model, NULL,
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = output)));
    yk_status status = yk_model_export_onnx(model, yk_test_path("model.onnx"));
    yk_model_destroy(model);
    return status;
}

YK_TEST(nothing_else_is_called_as_the_output_is)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "logits", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    assert_status(YK_ERROR_INVALID_ARGUMENT, export_output(yk_relu(x)));
    assert_contains(yk_last_error(), "model.onnx: the name \"logits\" is that of the output");
    assert_int_equal(access(yk_test_path("model.onnx"), F_OK), -1);
    graph = yk_graph_create();
    x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    yk_value *scale = yk_parameter(graph, "logits", YK_F32, 1, (int64_t[]){1}, YK_INIT_ONES, 0);
    assert_status(YK_ERROR_INVALID_ARGUMENT, export_output(yk_multiply(x, scale)));
    graph = yk_graph_create(); /* a layer of that name has parameters of longer ones */
    x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    assert_ok(export_output(yk_nn_linear(x, "logits", 4)));
}

static int count_of(const char *name)
{
    static char file[65536];
    int count = 0;
    read_file(file, sizeof file);
    const char *end = file + sizeof file;
    for (const char *at = file; (at = memmem(at, (size_t)(end - at), name, strlen(name))); at++)
        count++;
    return count;
}

YK_TEST(values_get_numbers_that_no_name_has)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "relu_1", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    assert_ok(export_output(yk_sigmoid(yk_relu(x))));
    assert_int_equal(count_of("relu_1"), 2); /* the input, and who reads it */
    assert_int_equal(count_of("relu_2"), 3); /* node, value, and who reads it */
    graph = yk_graph_create();
    x = yk_input(graph, "silu_1.gate", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
    assert_ok(export_output(yk_silu(x)));
    assert_int_equal(count_of("silu_1"), 3);
    assert_int_equal(count_of("silu_2.gate"), 3);
}

YK_TEST(a_folder_that_is_not_there_is_named)
{
    yk_model *model = make_model(true, false);
    assert_status(YK_ERROR_NOT_FOUND, yk_model_export_onnx(model, "/nowhere/model.onnx"));
    assert_contains(yk_last_error(), "/nowhere/model.onnx");
    yk_model_destroy(model);
}
