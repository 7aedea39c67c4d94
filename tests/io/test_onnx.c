/* Export as ONNX: what cannot be exported, and what is left behind. Others judge the files
 * themselves: tests/parity/test_onnx_runtime.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *path(void)
{
    static char text[256];
    snprintf(text, sizeof text, "%s/model.onnx", yk_test_directory());
    return text;
}

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
    assert_status(YK_ERROR_UNSUPPORTED, yk_model_export_onnx(model, path()));
    assert_contains(yk_last_error(), "model.onnx: cross_entropy: ONNX has no such operator");
    assert_int_equal(access(path(), F_OK), -1);
    yk_model_destroy(model);
}

YK_TEST(there_is_something_to_export)
{
    yk_model *model = make_model(false, false);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_export_onnx(model, path()));
    assert_contains(yk_last_error(), "model.onnx: the model was created without options.logits");
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_export_onnx(model, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_model_export_onnx(NULL, path()));
    yk_model_destroy(model);
}

static void read_file(char *text, size_t size)
{
    FILE *file = fopen(path(), "rbe");
    assert_non_null(file);
    memset(text, 0, size);
    assert_true(fread(text, 1, size, file) > 0);
    fclose(file);
}

YK_TEST(a_trained_model_is_exported_without_its_labels)
{
    static char first[65536], second[65536];
    yk_model *model = make_model(true, false);
    assert_ok(yk_model_export_onnx(model, path()));
    read_file(first, sizeof first);
    assert_memory_equal(first, "\x08\x08\x12\x04yoke", 8); /* IR version 8, by yoke */
    assert_non_null(memmem(first, sizeof first, "fc1.weight", 10));
    assert_non_null(memmem(first, sizeof first, "images", 6));
    assert_null(memmem(first, sizeof first, "labels", 6));
    assert_ok(yk_model_export_onnx(model, path())); /* again, in its place */
    read_file(second, sizeof second);
    assert_memory_equal(first, second, sizeof first);
    yk_model_destroy(model);
}

YK_TEST(a_folder_that_is_not_there_is_named)
{
    yk_model *model = make_model(true, false);
    assert_status(YK_ERROR_NOT_FOUND, yk_model_export_onnx(model, "/nowhere/model.onnx"));
    assert_contains(yk_last_error(), "/nowhere/model.onnx");
    yk_model_destroy(model);
}
