/* The networks' parameters: how many, how named, in which order; torchvision 0.14 is the judge. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"

static yk_graph *build(const char *arch, int64_t side, yk_value **logits)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, side, side});
    yk_arch_fn network = yk_arch_find(arch);
    assert_non_null(network);
    *logits = network(images, 10);
    assert_string_equal(graph->error, "");
    return graph;
}

static const yk_value *nth(const yk_graph *graph, yki_value_kind kind, int index)
{
    for (size_t i = 0; i < graph->value_count; i++)
        if (graph->values[i]->kind == kind && index-- == 0)
            return graph->values[i];
    fail_msg("no value of this index");
    return NULL;
}

static int64_t count(const yk_graph *graph, yki_value_kind kind, int64_t *elements)
{
    int64_t values = 0;
    *elements = 0;
    for (size_t i = 0; i < graph->value_count; i++) {
        const yk_value *value = graph->values[i];
        if (value->kind != kind)
            continue;
        int64_t product = 1;
        for (int d = 0; d < value->ndim; d++)
            product *= value->dims[d];
        *elements += product;
        values++;
    }
    return values;
}

static void assert_size(const char *arch, int64_t side, int64_t tensors, int64_t elements)
{
    yk_value *logits;
    yk_graph *graph = build(arch, side, &logits);
    int64_t found;
    assert_int_equal(count(graph, YKI_PARAMETER, &found), tensors);
    assert_int_equal(found, elements);
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(logits, dims), 2);
    assert_int_equal(dims[0], YK_BATCH);
    assert_int_equal(dims[1], 10);
    yk_graph_destroy(graph);
}

YK_TEST(element_counts_are_torchvisions)
{
    assert_size("resnet9", 32, 26, 1646122);
    assert_size("resnet18-cifar", 32, 62, 11173962);
    assert_size("resnet18", 224, 62, 11181642);
    assert_size("resnet34", 224, 110, 21289802);
    assert_size("resnet50", 224, 161, 23528522);
    assert_size("resnet101", 224, 314, 42520650);
    assert_size("resnet152", 224, 467, 58164298);
    assert_size("wide-resnet50-2", 224, 161, 66854730);
    assert_size("wide-resnet101-2", 224, 314, 124858186);
    assert_size("resnext101-32x8d", 224, 314, 86762826);
    assert_size("resnext101-64x4d", 224, 314, 81426762);
    assert_size("resnext50-32x4d", 224, 161, 23000394);
    assert_size("alexnet", 224, 16, 57044810);
    assert_size("vgg11", 224, 22, 128807306);
    assert_size("vgg11-bn", 448, 38, 128812810);
    assert_size("vgg13", 224, 26, 128991818);
    assert_size("vgg13-bn", 224, 46, 128997706);
    assert_size("vgg16", 224, 32, 134301514);
    assert_size("vgg16-bn", 224, 58, 134309962);
    assert_size("vgg19", 224, 38, 139611210);
    assert_size("vgg19-bn", 224, 70, 139622218);
    assert_size("mobilenet-v2", 224, 158, 2236682);
    assert_size("mobilenet-v3-large", 224, 174, 4214842);
    assert_size("mobilenet-v3-small", 224, 142, 1528106);
    assert_size("mnasnet0-5", 224, 158, 950322);
    assert_size("mnasnet0-75", 224, 158, 1902018);
    assert_size("mnasnet1-0", 224, 158, 3115122);
    assert_size("mnasnet1-3", 224, 158, 5014066);
    assert_size("shufflenet-v2-x0-5", 224, 170, 352042);
    assert_size("shufflenet-v2-x1-0", 224, 170, 1263854);
    assert_size("shufflenet-v2-x1-5", 224, 170, 2488874);
    assert_size("shufflenet-v2-x2-0", 224, 170, 5365486);
    assert_size("efficientnet-b0", 224, 213, 4020358);
    assert_size("efficientnet-b1", 224, 301, 6525994);
    assert_size("efficientnet-b2", 224, 301, 7715084);
    assert_size("efficientnet-b3", 224, 340, 10711602);
    assert_size("efficientnet-b4", 224, 418, 17566546);
    assert_size("efficientnet-b5", 224, 506, 28361274);
    assert_size("efficientnet-b6", 224, 584, 40758754);
    assert_size("efficientnet-b7", 224, 711, 63812570);
    assert_size("efficientnet-v2-s", 224, 452, 20190298);
    assert_size("efficientnet-v2-m", 224, 649, 52871166);
    assert_size("efficientnet-v2-l", 224, 897, 117247082);
    assert_size("squeezenet1-0", 224, 52, 740554);
    assert_size("squeezenet1-1", 224, 52, 727626);
    assert_size("googlenet", 224, 173, 5610154);
    assert_size("convnext-tiny", 224, 182, 27827818);
    assert_size("convnext-small", 224, 344, 49462378);
    assert_size("convnext-base", 224, 344, 87576714);
    assert_size("convnext-large", 224, 344, 196245706);
    assert_size("swin-t", 224, 173, 27527044);
    assert_size("swin-s", 224, 329, 48844948);
    assert_size("swin-b", 224, 329, 86753474);
    assert_size("swin-v2-t", 256, 209, 27590260);
    assert_size("swin-v2-s", 256, 401, 48976132);
    assert_size("swin-v2-b", 256, 401, 86916098);
    assert_size("regnet-y-400mf", 224, 225, 3907554);
    assert_size("regnet-y-800mf", 224, 199, 5655362);
    assert_size("regnet-y-1-6gf", 224, 368, 10322320);
    assert_size("regnet-y-3-2gf", 224, 290, 17938468);
    assert_size("regnet-y-8gf", 224, 238, 37384642);
    assert_size("regnet-y-16gf", 224, 251, 80595390);
    assert_size("regnet-y-32gf", 224, 277, 141370900);
    assert_size("regnet-y-128gf", 224, 368, 637493824);
    assert_size("regnet-x-400mf", 224, 215, 5098986);
    assert_size("regnet-x-800mf", 224, 161, 6593386);
    assert_size("regnet-x-1-6gf", 224, 179, 8286266);
    assert_size("regnet-x-3-2gf", 224, 242, 14297642);
    assert_size("regnet-x-8gf", 224, 224, 37670858);
    assert_size("regnet-x-16gf", 224, 215, 52250026);
    assert_size("regnet-x-32gf", 224, 224, 105315770);
    assert_size("densenet121", 224, 364, 6964106);
    assert_size("densenet161", 224, 484, 26494090);
    assert_size("densenet169", 224, 508, 12501130);
    assert_size("densenet201", 224, 604, 18112138);
    assert_size("mlp", 32, 4, 3 * 32 * 32 * 256 + 256 + 256 * 10 + 10);
}

/* The largest probability of stochastic depth, and that of dropout before the last layer. */
static void assert_drops(const char *arch, double depth, double dropout)
{
    yk_value *logits;
    yk_graph *graph = build(arch, 224, &logits);
    double largest = 0, last = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const yki_node *node = graph->nodes[i];
        if (strcmp(node->op->name, "dropout") != 0)
            continue;
        if (node->in[0]->ndim == 4)
            largest = fmax(largest, node->attrs.p);
        else
            last = node->attrs.p;
    }
    assert_true(fabs(largest - depth) < 1e-6);
    assert_true(fabs(last - dropout) < 1e-6);
    yk_graph_destroy(graph);
}

YK_TEST(dropout_is_torchvisions)
{
    assert_drops("mnasnet1-0", 0, 0.2);
    assert_drops("efficientnet-b0", 0.2 * 14 / 16, 0.2);
    assert_drops("efficientnet-b1", 0.2 * 22 / 23, 0.2);
    assert_drops("efficientnet-b2", 0.2 * 22 / 23, 0.3);
    assert_drops("efficientnet-b3", 0.2 * 25 / 26, 0.3);
    assert_drops("efficientnet-b4", 0.2 * 31 / 32, 0.4);
    assert_drops("efficientnet-b5", 0.2 * 38 / 39, 0.4);
    assert_drops("efficientnet-b6", 0.2 * 44 / 45, 0.5);
    assert_drops("efficientnet-b7", 0.2 * 54 / 55, 0.5);
    assert_drops("efficientnet-v2-s", 0.2 * 39 / 40, 0.2);
    assert_drops("efficientnet-v2-m", 0.2 * 56 / 57, 0.3);
    assert_drops("efficientnet-v2-l", 0.2 * 78 / 79, 0.4);
    assert_drops("convnext-tiny", 0.1, 0);
    assert_drops("convnext-small", 0.4, 0);
    assert_drops("convnext-base", 0.5, 0);
    assert_drops("convnext-large", 0.5, 0);
    assert_drops("swin-t", 0.2, 0);
    assert_drops("swin-s", 0.3, 0);
    assert_drops("swin-b", 0.5, 0);
    assert_drops("swin-v2-t", 0.2, 0);
    assert_drops("swin-v2-s", 0.3, 0);
    assert_drops("swin-v2-b", 0.5, 0);
}

/* Of all batch norms. */
static void assert_norms(const char *arch, double eps, double momentum)
{
    yk_value *logits;
    yk_graph *graph = build(arch, 224, &logits);
    for (size_t i = 0; i < graph->node_count; i++) {
        const yki_node *node = graph->nodes[i];
        if (strcmp(node->op->name, "batch_norm") != 0)
            continue;
        assert_true(node->attrs.eps == eps);
        assert_true(node->attrs.momentum == momentum);
    }
    yk_graph_destroy(graph);
}

YK_TEST(norms_are_torchvisions)
{
    assert_norms("mobilenet-v3-large", 1e-3, 0.01);
    assert_norms("mnasnet1-0", 1e-5, 1 - 0.9997);
    assert_norms("efficientnet-b4", 1e-5, 0.1);
    assert_norms("efficientnet-b5", 1e-3, 0.01);
    assert_norms("efficientnet-b6", 1e-3, 0.01);
    assert_norms("efficientnet-b7", 1e-3, 0.01);
    assert_norms("efficientnet-v2-s", 1e-3, 0.1);
}

YK_TEST(order_of_declaration_is_torchvisions)
{
    static const char *const expected[] = {
        "conv1.weight",          "bn1.weight",          "bn1.bias",
        "layer1.0.conv1.weight", "layer1.0.bn1.weight", "layer1.0.bn1.bias",
        "layer1.0.conv2.weight", "layer1.0.bn2.weight", "layer1.0.bn2.bias"};
    yk_value *logits;
    yk_graph *graph = build("resnet18-cifar", 32, &logits);
    for (int i = 0; i < 9; i++)
        assert_string_equal(nth(graph, YKI_PARAMETER, i)->name, expected[i]);
    static const char *const second_stage[] = {"layer2.0.conv1.weight",
                                               "layer2.0.bn1.weight",
                                               "layer2.0.bn1.bias",
                                               "layer2.0.conv2.weight",
                                               "layer2.0.bn2.weight",
                                               "layer2.0.bn2.bias",
                                               "layer2.0.downsample.0.weight",
                                               "layer2.0.downsample.1.weight",
                                               "layer2.0.downsample.1.bias",
                                               "layer2.1.conv1.weight"};
    for (int i = 0; i < 10; i++)
        assert_string_equal(nth(graph, YKI_PARAMETER, 15 + i)->name, second_stage[i]);
    assert_string_equal(nth(graph, YKI_PARAMETER, 60)->name, "fc.weight");
    assert_string_equal(nth(graph, YKI_PARAMETER, 61)->name, "fc.bias");
    assert_string_equal(nth(graph, YKI_BUFFER, 0)->name, "bn1.running_mean");
    assert_string_equal(nth(graph, YKI_BUFFER, 1)->name, "bn1.running_var");
    const yk_value *batches = nth(graph, YKI_BUFFER, 2);
    assert_string_equal(batches->name, "bn1.num_batches_tracked");
    assert_int_equal(batches->dtype, YK_I64);
    assert_int_equal(batches->ndim, 0);
    yk_graph_destroy(graph);
}

YK_TEST(resnet9_takes_small_images_of_any_size)
{
    static const int64_t sides[] = {8, 28, 32, 64};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        yk_value *logits;
        yk_graph *graph = build("resnet9", sides[i], &logits);
        assert_string_equal(nth(graph, YKI_PARAMETER, 0)->name, "prep.conv.weight");
        assert_string_equal(nth(graph, YKI_PARAMETER, 6)->name, "residual1.0.conv.weight");
        assert_string_equal(nth(graph, YKI_PARAMETER, 25)->name, "fc.bias");
        yk_graph_destroy(graph);
    }
}

/* ResNet V1.5: a bottleneck's 3x3 convolution strides, and the first stage has a downsample. */
YK_TEST(bottlenecks_stride_in_the_middle)
{
    yk_value *logits;
    yk_graph *graph = build("resnet50", 224, &logits);
    int64_t stride[4] = {0};
    int at = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i]->op->name, "conv2d") == 0 &&
            strncmp(graph->nodes[i]->in[1]->name, "layer2.0.", 9) == 0)
            stride[at++] = graph->nodes[i]->attrs.stride[0];
    assert_int_equal(at, 4);
    assert_int_equal(stride[0], 1);
    assert_int_equal(stride[1], 2);
    assert_int_equal(stride[2], 1);
    assert_int_equal(stride[3], 2);
    bool found = false;
    for (size_t i = 0; i < graph->value_count; i++)
        found |= graph->values[i]->name &&
                 strcmp(graph->values[i]->name, "layer1.0.downsample.0.weight") == 0;
    assert_true(found);
    yk_graph_destroy(graph);
}

YK_TEST(wrong_input_is_the_graphs_error)
{
    yk_graph *graph = yk_graph_create();
    yk_value *flat = yk_input(graph, "images", YK_F32, 2, (int64_t[]){YK_BATCH, 3072});
    int64_t dims[YK_MAX_DIMS];
    yk_value *logits = yk_resnet18_cifar(flat, 10);
    assert_non_null(logits);
    assert_int_equal(yk_value_shape(logits, dims), -1);
    assert_contains(graph->error, "conv2d");
    yk_graph_destroy(graph);
}

YK_TEST(every_network_of_wrong_input_is_the_graphs_error)
{
    static const int64_t flat[] = {YK_BATCH, 3072}, row[] = {YK_BATCH, 3, 1, 1000};
    const char *name;
    for (size_t i = 0; (name = yk_arch_name(i)); i++) {
        int64_t dims[YK_MAX_DIMS];
        yk_graph *graph = yk_graph_create();
        yk_value *images = yk_input(graph, "images", YK_F32, 2, flat);
        int ndim = yk_value_shape(yk_arch_find(name)(images, 10), dims);
        assert_int_equal(ndim, strcmp(name, "mlp") == 0 ? 2 : -1);
        yk_graph_destroy(graph);
        graph = yk_graph_create();
        images = yk_input(graph, "images", YK_F32, 4, row);
        ndim = yk_value_shape(yk_arch_find(name)(images, 10), dims);
        assert_true(ndim == -1 || ndim == 2);
        assert_true((ndim == -1) == (*graph->error != 0));
        yk_graph_destroy(graph);
    }
}

YK_TEST(resnet9_of_wrong_input_is_the_graphs_error)
{
    yk_graph *graph = yk_graph_create();
    yk_value *tiny = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 4, 4});
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(yk_resnet9(tiny, 10), dims), -1);
    assert_contains(graph->error, "max_pool2d");
    yk_graph_destroy(graph);
}

static void assert_first_and_last(const char *arch, const char *second, const char *last)
{
    yk_value *logits;
    int64_t elements;
    yk_graph *graph = build(arch, 224, &logits);
    assert_string_equal(nth(graph, YKI_PARAMETER, 1)->name, second);
    int64_t parameters = count(graph, YKI_PARAMETER, &elements);
    assert_string_equal(nth(graph, YKI_PARAMETER, (int)parameters - 1)->name, last);
    yk_graph_destroy(graph);
}

YK_TEST(names_in_sequentials_are_torchvisions)
{
    assert_first_and_last("alexnet", "features.0.bias", "classifier.6.bias");
    assert_first_and_last("vgg11", "features.0.bias", "classifier.6.bias");
    assert_first_and_last("mobilenet-v2", "features.0.1.weight", "classifier.1.bias");
    assert_first_and_last("mobilenet-v3-large", "features.0.1.weight", "classifier.3.bias");
    assert_first_and_last("mnasnet1-0", "layers.1.weight", "classifier.1.bias");
    assert_first_and_last("shufflenet-v2-x1-0", "conv1.1.weight", "fc.bias");
    assert_first_and_last("efficientnet-b0", "features.0.1.weight", "classifier.1.bias");
    assert_first_and_last("squeezenet1-0", "features.0.bias", "classifier.1.bias");
    assert_first_and_last("googlenet", "conv1.bn.weight", "fc.bias");
    assert_first_and_last("convnext-tiny", "features.0.0.bias", "classifier.2.bias");
    assert_first_and_last("regnet-y-400mf", "stem.1.weight", "fc.bias");
    assert_first_and_last("densenet121", "features.norm0.weight", "classifier.bias");
    yk_value *logits;
    yk_graph *graph = build("vgg16-bn", 224, &logits);
    assert_string_equal(nth(graph, YKI_PARAMETER, 48)->name, "features.40.weight");
    assert_string_equal(nth(graph, YKI_PARAMETER, 51)->name, "features.41.bias");
    yk_graph_destroy(graph);
}

YK_TEST(vgg_takes_images_of_any_size)
{
    yk_graph *graph = yk_graph_create();
    yk_value *images = yk_input(graph, "images", YK_F32, 4, (int64_t[]){YK_BATCH, 3, 32, 100});
    int64_t dims[YK_MAX_DIMS];
    assert_int_equal(yk_value_shape(yk_vgg11(images, 10), dims), 2);
    assert_int_equal(dims[1], 10);
    yk_graph_destroy(graph);
}

YK_TEST(names_of_networks)
{
    for (size_t i = 0; yk_arch_name(i); i++)
        assert_non_null(yk_arch_find(yk_arch_name(i)));
    assert_ptr_equal(yk_arch_find("resnet18_cifar"), yk_arch_find("resnet18-cifar"));
    assert_ptr_equal(yk_arch_find("resnet18"), yk_resnet18);
    assert_null(yk_arch_find("resnet18-imagenet"));
    assert_null(yk_arch_find("resnet"));
    assert_null(yk_arch_find("resnet180"));
    assert_null(yk_arch_find(NULL));
    assert_null(yk_arch_name(1000));
}
