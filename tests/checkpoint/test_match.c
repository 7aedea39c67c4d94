/* Names and shapes of a file against those of a network. */
#define _GNU_SOURCE
#include "tensor_files.h"

#include <stdlib.h>

#include <yoke/model_info.h>
#include <yoke/networks.h>
#include <yoke/nn.h>

static const char *const formats[] = {"old.pth", "old.safetensors"};

/* Writes the model's tensors without those whose names end so, as both kinds of files. */
static void save_without(const yk_model *model, const char *ending)
{
    size_t parameters = yk_model_parameter_count(model), count = 0;
    size_t all = parameters + yk_model_buffer_count(model);
    yki_tensor_source *sources = calloc(all, sizeof *sources);
    for (size_t i = 0; i < all; i++) {
        yk_parameter_view view =
            i < parameters ? yk_model_parameter(model, i) : yk_model_buffer(model, i - parameters);
        size_t length = strlen(view.name), own = strlen(ending);
        if (length < own || strcmp(view.name + length - own, ending) != 0)
            sources[count++] = (yki_tensor_source){.name = view.name,
                                                   .stored = yki_file_tensor_from(&view.value),
                                                   .data = view.value.data};
    }
    for (int i = 0; i < 2; i++)
        assert_ok(yki_tensor_file_write(yk_test_path(formats[i]), yki_tensor_format_of(formats[i]),
                                        sources, count, NULL));
    free(sources);
}

static int64_t *batches_of(const yk_model *model)
{
    assert_string_equal(yk_model_buffer(model, 2).name, "bn.num_batches_tracked");
    return yk_model_buffer(model, 2).value.data;
}

/* Files of torchvision from before PyTorch 0.4.1 have none, and PyTorch loads them. */
YK_TEST(numbers_of_batches_that_a_file_lacks_are_0)
{
    yk_model *from = make_model(1), *to = make_model(2);
    yk_load_report report;
    save_without(from, "num_batches_tracked");
    for (int i = 0; i < 2; i++) {
        *batches_of(to) = 7;
        assert_ok(yk_model_load(to, yk_test_path(formats[i])));
        assert_int_equal(*batches_of(to), 0);
        assert_memory_equal(yk_model_parameter(to, 0).value.data,
                            yk_model_parameter(from, 0).value.data, 16);
        assert_ok(yk_model_load_with(to, yk_test_path(formats[i]), NULL, &report));
        assert_int_equal(report.missing, 0);
        assert_int_equal(report.loaded, 7);
        assert_string_equal(report.text, "");
    }
    yk_model_destroy(from);
    yk_model_destroy(to);
}

YK_TEST(other_statistics_of_a_batch_norm_are_missed)
{
    yk_model *from = make_model(1), *to = make_model(2);
    save_without(from, "running_mean");
    *batches_of(to) = 7;
    assert_status(YK_ERROR_MISMATCH, yk_model_load(to, yk_test_path(formats[0])));
    assert_contains(yk_last_error(), "missing bn.running_mean");
    assert_int_equal(*batches_of(to), 7);
    yk_model_destroy(from);
    yk_model_destroy(to);
}

static yk_model *make_network(const char *arch, int64_t classes)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_model_options options = YK_MODEL_OPTIONS_INIT;
    options.logits = yk_arch_find(arch)(images, classes);
    assert_ok(yk_model_create(&model, NULL, &options));
    return model;
}

YK_TEST(a_network_without_numbers_of_batches_is_found)
{
    yk_model *model = make_network("resnet9", 4);
    yk_tensor_file *file;
    const char *arch;
    int64_t classes;
    save_without(model, "num_batches_tracked");
    for (int i = 0; i < 2; i++) {
        assert_ok(yk_tensor_file_open(&file, yk_test_path(formats[i])));
        assert_ok(yk_tensor_file_find_arch(file, &arch, &classes));
        assert_string_equal(arch, "resnet9");
        assert_int_equal(classes, 4);
        yk_tensor_file_close(file);
    }
    yk_model_destroy(model);
}

static yk_status check(yk_tensor_file *file, int64_t side, int64_t classes)
{
    yk_graph *graph = yk_graph_create();
    yk_mlp(yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side}), classes);
    yk_status status = yk_tensor_file_check_graph(file, graph);
    yk_graph_destroy(graph);
    return status;
}

/* The largest of these networks would take a terabyte. */
YK_TEST(graphs_are_checked_before_they_take_memory)
{
    yk_model *model = make_network("mlp", 10);
    yk_tensor_file *file;
    assert_ok(yk_model_save(model, yk_test_path("a.pth")));
    assert_ok(yk_tensor_file_open(&file, yk_test_path("a.pth")));
    assert_ok(check(file, 32, 10));
    assert_status(YK_ERROR_MISMATCH, check(file, 32, 1 << 24));
    assert_contains(yk_last_error(), "a.pth: does not fit the model: differently shaped");
    assert_contains(yk_last_error(), "(10, 256) in the file but (16777216, 256) in the model");
    assert_status(YK_ERROR_MISMATCH, check(file, 1 << 14, 10));
    assert_status(YK_ERROR_INVALID_SHAPE, check(file, 32, 0));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_tensor_file_check_graph(file, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, check(NULL, 32, 10));
    yk_tensor_file_close(file);
    yk_model_destroy(model);
}

/* ---- names of wrappers ----------------------------------------------------------------------- */

/* A network that keeps its layers under a wrapper's name. */
static yk_model *make_scoped(const char *scope, uint64_t seed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 3});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_scope_push(graph, scope);
    x = yk_nn_linear(x, "fc", 4);
    yk_scope_pop(graph);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, yk_cross_entropy(x, labels, NULL),
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.device = "ref", o.seed = seed)));
    return model;
}

static void assert_same_weights(const yk_model *a, const yk_model *b)
{
    for (size_t i = 0; i < yk_model_parameter_count(a); i++) {
        yk_tensor one = yk_model_parameter(a, i).value, other = yk_model_parameter(b, i).value;
        assert_memory_equal(one.data, other.data, yk_tensor_bytes(&one));
    }
}

static yk_model *make_dense(const char *layer, uint64_t seed)
{
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 4, 2, 2});
    yk_scope_push(graph, layer);
    x = yk_nn_conv2d(yk_relu(yk_nn_batch_norm(x, "norm1")), "conv1", 4, 1, NULL);
    x = yk_nn_conv2d(yk_relu(yk_nn_batch_norm(x, "norm2")), "conv2", 4, 1, NULL);
    yk_scope_pop(graph);
    yk_model *model;
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x, o.seed = seed)));
    return model;
}

/* With a dot before the number of a norm or convolution. */
static void save_with_dots(const yk_model *model)
{
    enum { TENSORS = 12, NAME = 64 };
    yki_tensor_source sources[TENSORS];
    char names[TENSORS][NAME];
    size_t parameters = yk_model_parameter_count(model), count = 0;
    for (size_t i = 0; i < parameters + yk_model_buffer_count(model); i++) {
        yk_parameter_view view =
            i < parameters ? yk_model_parameter(model, i) : yk_model_buffer(model, i - parameters);
        const char *last = strrchr(view.name, '.');
        if (view.value.ndim == 0)
            continue;
        snprintf(names[count], NAME, "%.*s.%s", (int)(last - 1 - view.name), view.name, last - 1);
        sources[count] = (yki_tensor_source){.name = names[count],
                                             .stored = yki_file_tensor_from(&view.value),
                                             .data = view.value.data};
        count++;
    }
    for (int i = 0; i < 2; i++)
        assert_ok(yki_tensor_file_write(yk_test_path(formats[i]), yki_tensor_format_of(formats[i]),
                                        sources, count, NULL));
}

/* densenet121-a639ec97.pth and its like, which have no numbers of batches either. */
YK_TEST(layers_of_densenets_had_other_names)
{
    yk_model *from = make_dense("denseblock1.denselayer1", 1);
    save_with_dots(from);
    for (int i = 0; i < 2; i++) {
        yk_model *to = make_dense("denseblock1.denselayer1", 2);
        assert_ok(yk_model_load(to, yk_test_path(formats[i])));
        assert_same_weights(from, to);
        yk_model_destroy(to);
    }
    yk_model_destroy(from);
    from = make_dense("layer1", 1);
    save_with_dots(from);
    assert_status(YK_ERROR_MISMATCH, yk_model_load(from, yk_test_path(formats[0])));
    assert_contains(yk_last_error(), "missing");
    yk_model_destroy(from);
}

/* A convolution along a sequence; (K, C, 1, L) = (3, 2, 1, 5). */
static yk_model *make_row_convolution(uint64_t seed)
{
    yk_model *model;
    yk_graph *graph = yk_graph_create();
    yk_value *x = yk_input(graph, "x", YK_F32, 4, (int64_t[]){YK_BATCH, 2, 1, 9});
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.column_kernel = 5;
    x = yk_nn_conv2d_bias(x, "conv", 3, 1, &options);
    assert_ok(yk_model_create(
        &model, NULL,
        YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x, o.seed = seed)));
    return model;
}

/* Without the third dimension of the weight; last: how long the file says that filters are. */
static void save_squeezed(const yk_model *model, int64_t last)
{
    yki_tensor_source sources[2];
    for (size_t i = 0; i < 2; i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        sources[i] = (yki_tensor_source){.name = view.name,
                                         .stored = yki_file_tensor_from(&view.value),
                                         .data = view.value.data};
    }
    yki_file_tensor *weight = &sources[0].stored;
    weight->ndim = 3;
    weight->dims[2] = last;
    yki_file_tensor_dense_strides(3, weight->dims, weight->strides);
    for (int i = 0; i < 2; i++)
        assert_ok(yki_tensor_file_write(yk_test_path(formats[i]), yki_tensor_format_of(formats[i]),
                                        sources, 2, NULL));
}

YK_TEST(a_weight_of_conv1d_is_that_of_images_of_one_row)
{
    yk_model *from = make_row_convolution(1);
    save_squeezed(from, 5);
    for (int i = 0; i < 2; i++) {
        yk_model *to = make_row_convolution(2);
        assert_ok(yk_model_load(to, yk_test_path(formats[i])));
        assert_same_weights(from, to);
        yk_model_destroy(to);
    }
    save_squeezed(from, 4);
    assert_status(YK_ERROR_MISMATCH, yk_model_load(from, yk_test_path(formats[0])));
    assert_contains(yk_last_error(),
                    "conv.weight: (3, 2, 4) in the file but (3, 2, 1, 5) in the model");
    yk_model_destroy(from);
}

YK_TEST(a_network_whose_own_names_are_a_wrappers_is_loaded)
{
    static const char *const scopes[] = {"module", "_orig_mod", "module.net", "net._orig_mod"};
    static const char *const files[] = {"own.pth", "own.safetensors", "wrapped.pth", "bare.pth"};
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        yk_model *from = make_scoped(scopes[i], 1);
        yk_convert_options wrapped = YK_CONVERT_OPTIONS_INIT;
        wrapped.prefix = "module.module.";
        assert_ok(yk_model_save(from, yk_test_path("own.pth")));
        assert_ok(yk_model_save(from, yk_test_path("own.safetensors")));
        assert_ok(yk_tensor_file_convert(yk_test_path("own.pth"), yk_test_path("bare.pth"), NULL));
        assert_ok(
            yk_tensor_file_convert(yk_test_path("own.pth"), yk_test_path("wrapped.pth"), &wrapped));
        for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
            yk_model *to = make_scoped(scopes[i], 2);
            assert_ok(yk_model_load(to, yk_test_path(files[f])));
            assert_same_weights(from, to);
            yk_model_destroy(to);
        }
        yk_model_destroy(from);
    }
}

/* Two layers of which only one is in "module": nothing comes off. */
YK_TEST(a_network_partly_in_a_wrappers_name_keeps_its_layers_apart)
{
    yk_model *models[2];
    for (uint64_t i = 0; i < 2; i++) {
        yk_graph *graph = yk_graph_create();
        yk_value *x = yk_input(graph, "x", YK_F32, 2, (int64_t[]){YK_BATCH, 4});
        x = yk_nn_linear(x, "fc", 4);
        yk_scope_push(graph, "module");
        x = yk_nn_linear(x, "fc", 4);
        yk_scope_pop(graph);
        assert_ok(yk_model_create(
            &models[i], NULL,
            YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.logits = x, o.seed = i)));
    }
    assert_ok(yk_model_save(models[0], yk_test_path("own.pth")));
    assert_ok(yk_model_load(models[1], yk_test_path("own.pth")));
    assert_same_weights(models[0], models[1]);
    yk_model_destroy(models[0]);
    yk_model_destroy(models[1]);
}
