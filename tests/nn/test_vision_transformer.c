/* Vision transformers: parameters, shapes and first values; torchvision 0.14 is the judge. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yoke/yoke.h>

#include "graph/graph.h"

enum { MOST = 400 };

/* The network of images of this size, and its parameters in order. */
static int build(yk_graph **graph, const char *arch, int64_t rows, int64_t columns, int64_t classes,
                 const yk_value *parameters[MOST])
{
    *graph = yk_graph_create();
    int64_t dims[YK_MAX_DIMS];
    yk_value *images =
        yk_input(*graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, rows, columns});
    assert_int_equal(yk_value_shape(yk_arch_find(arch)(images, classes), dims), 2);
    assert_string_equal((*graph)->error, "");
    assert_int_equal(dims[0], YK_BATCH);
    assert_int_equal(dims[1], classes);
    int count = 0;
    for (size_t i = 0; i < (*graph)->value_count; i++)
        if ((*graph)->values[i]->kind == YKI_PARAMETER)
            parameters[count++] = (*graph)->values[i];
    return count;
}

static int64_t elements_of(const yk_value *value)
{
    int64_t product = 1;
    for (int d = 0; d < value->ndim; d++)
        product *= value->dims[d];
    return product;
}

static void assert_size(const char *arch, int64_t rows, int64_t columns, int64_t classes,
                        int tensors, int64_t elements)
{
    yk_graph *graph;
    const yk_value *parameters[MOST];
    int count = build(&graph, arch, rows, columns, classes, parameters);
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += elements_of(parameters[i]);
    assert_int_equal(count, tensors);
    assert_int_equal(sum, elements);
    yk_graph_destroy(graph);
}

YK_TEST(sizes_are_torchvisions)
{
    assert_size("vit-b-16", 224, 224, 1000, 152, 86567656);
    assert_size("vit-b-32", 224, 224, 1000, 152, 88224232);
    assert_size("vit-l-16", 224, 224, 1000, 296, 304326632);
    assert_size("vit-l-32", 224, 224, 1000, 296, 306535400);
    assert_size("vit-h-14", 224, 224, 1000, 392, 632045800);
    assert_size("vit-tiny-patch4-32", 32, 32, 10, 152, 5362762);
}

/* Each patch more is a position more. */
YK_TEST(images_have_any_number_of_patches)
{
    assert_size("vit-b-16", 384, 384, 1000, 152, 86567656 + (24 * 24 - 14 * 14) * 768);
    assert_size("vit-tiny-patch4-32", 64, 20, 10, 152, 5362762 + (16 * 5 - 8 * 8) * 192);
}

YK_TEST(names_and_order_are_torchvisions)
{
#define LAYER "encoder.layers.encoder_layer_0."
    static const char *const first[] = {"class_token",
                                        "conv_proj.weight",
                                        "conv_proj.bias",
                                        "encoder.pos_embedding",
                                        LAYER "ln_1.weight",
                                        LAYER "ln_1.bias",
                                        LAYER "self_attention.in_proj_weight",
                                        LAYER "self_attention.in_proj_bias",
                                        LAYER "self_attention.out_proj.weight",
                                        LAYER "self_attention.out_proj.bias",
                                        LAYER "ln_2.weight",
                                        LAYER "ln_2.bias",
                                        LAYER "mlp.0.weight",
                                        LAYER "mlp.0.bias",
                                        LAYER "mlp.3.weight",
                                        LAYER "mlp.3.bias",
                                        "encoder.layers.encoder_layer_1.ln_1.weight"};
#undef LAYER
    static const char *const last[] = {"encoder.layers.encoder_layer_11.mlp.3.bias",
                                       "encoder.ln.weight", "encoder.ln.bias", "heads.head.weight",
                                       "heads.head.bias"};
    enum { FIRST = sizeof first / sizeof *first, LAST = sizeof last / sizeof *last };
    yk_graph *graph;
    const yk_value *parameters[MOST];
    int count = build(&graph, "vit_b_16", 224, 224, 1000, parameters);
    for (int i = 0; i < FIRST; i++)
        assert_string_equal(parameters[i]->name, first[i]);
    for (int i = 0; i < LAST; i++)
        assert_string_equal(parameters[count - LAST + i]->name, last[i]);
    assert_int_equal(parameters[0]->ndim, 3);
    assert_int_equal(parameters[3]->ndim, 3);
    assert_int_equal(parameters[3]->dims[1], 197);
    yk_graph_destroy(graph);
}

YK_TEST(sides_are_multiples_of_the_patch)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 30});
    assert_int_equal(yk_value_shape(yk_vit_tiny_patch4_32(images, 10), NULL), -1);
    assert_int_equal(graph->status, YK_ERROR_INVALID_SHAPE);
    assert_contains(graph->error, "(N, 3, 32, 30), whose sides are not multiples of the patches' "
                                  "4");
    yk_graph_destroy(graph);
    graph = yk_graph_create();
    yk_value *flat = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 3072});
    assert_int_equal(yk_value_shape(yk_vit_b_16(flat, 10), NULL), -1);
    assert_contains(graph->error, "conv2d");
    assert_int_equal(yk_value_shape(yk_vit_b_16(NULL, 10), NULL), -1);
    yk_graph_destroy(graph);
}

/* What a parameter of the tiny network starts as: its deviation, and its largest value, at most so
 * many deviations. */
static void assert_spread(const yk_model *model, const char *name, double deviation, double most)
{
    for (size_t i = 0; i < yk_model_parameter_count(model); i++) {
        yk_parameter_view view = yk_model_parameter(model, i);
        if (strcmp(view.name, name) != 0)
            continue;
        double sum = 0, squares = 0, largest = 0;
        const int64_t count = yk_tensor_count(&view.value);
        for (int64_t j = 0; j < count; j++) {
            const double value = yk_tensor_get(&view.value, j);
            sum += value / (double)count;
            squares += value * value / (double)count;
            largest = fmax(largest, fabs(value));
        }
        assert_true(fabs(sqrt(squares) - deviation) <= deviation * 3 / sqrt(2.0 * (double)count));
        assert_true(fabs(sum) <= deviation * 4 / sqrt((double)count));
        assert_true(largest <= most * deviation);
        return;
    }
    fail_msg("no %s", name);
}

/* Normal numbers beyond 5.5 deviations are none of a few hundred thousand; uniform ones end at the
 * root of 3. */
YK_TEST(first_values_are_distributed_as_torchvisions)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 32});
    yk_value *labels = yk_input(graph, "labels", YK_I32, 1, (int64_t[]){YK_BATCH});
    yk_value *logits = yk_vit_tiny_patch4_32(images, 10);
    yk_model *model;
    assert_ok(yk_model_create(&model, yk_cross_entropy(logits, labels, NULL),
                              YK_WITH(yk_model_options, YK_MODEL_OPTIONS_INIT, o.seed = 3)));
#define LAYER "encoder.layers.encoder_layer_7."
    const double uniform = sqrt(3) * 1.0001, normal = 5.5;
    assert_spread(model, "class_token", 0, 0);
    assert_spread(model, "conv_proj.weight", sqrt(1.0 / 48), normal);
    assert_spread(model, "conv_proj.bias", 0, 0);
    assert_spread(model, "encoder.pos_embedding", 0.02, normal);
    assert_spread(model, LAYER "self_attention.in_proj_weight", sqrt(2.0 / (4 * 192)), uniform);
    assert_spread(model, LAYER "self_attention.in_proj_bias", 0, 0);
    assert_spread(model, LAYER "self_attention.out_proj.weight", sqrt(1.0 / (3 * 192)), uniform);
    assert_spread(model, LAYER "self_attention.out_proj.bias", 0, 0);
    assert_spread(model, LAYER "mlp.0.weight", sqrt(2.0 / (5 * 192)), uniform);
    assert_spread(model, LAYER "mlp.0.bias", 1e-6, normal);
    assert_spread(model, LAYER "mlp.3.weight", sqrt(2.0 / (5 * 192)), uniform);
    assert_spread(model, "heads.head.weight", 0, 0);
    assert_spread(model, "heads.head.bias", 0, 0);
    yk_model_destroy(model);
}
