/*
 * DenseNet: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks"
 * (2016), in torchvision's form (DenseNet-BC). Each layer of a block adds a few channels to all
 * that it has read. Between blocks, both the channels and the sides of the image are halved.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

#include <stdio.h>

enum { BLOCKS = 4 };

/* The stem has twice the channels that a layer adds. */
typedef struct densenet_config {
    int64_t growth;
    int layers[BLOCKS];
} densenet_config;

/* A convolution of which the image keeps its size, except for the stride. */
static yk_value *conv(yk_value *x, const char *name, int64_t channels, int64_t kernel,
                      int64_t stride)
{
    static const yki_layer_init init = {.weight = YK_INIT_KAIMING_NORMAL_FAN_IN};
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = kernel / 2;
    return yki_nn_conv2d(x, name, channels, kernel, &options, init);
}

static yk_value *norm_relu(yk_value *x, const char *name)
{
    return yk_relu(yk_nn_batch_norm(x, name));
}

static void push_numbered(yk_graph *graph, const char *name, int number)
{
    char text[32];
    snprintf(text, sizeof text, "%s%d", name, number);
    yk_scope_push(graph, text);
}

/* (N, C, H, W) -> (N, C + growth, H, W) */
static yk_value *dense_layer(yk_value *x, int number, int64_t growth)
{
    yk_graph *graph = yk_value_graph(x);
    push_numbered(graph, "denselayer", number);
    yk_value *y = conv(norm_relu(x, "norm1"), "conv1", 4 * growth, 1, 1);
    y = conv(norm_relu(y, "norm2"), "conv2", growth, 3, 1);
    yk_scope_pop(graph);
    return yk_concat((yk_value *[]){x, y}, 2, 1);
}

/* (N, C, H, W) -> (N, C + layers times growth, H, W) */
static yk_value *dense_block(yk_value *x, int number, int layers, int64_t growth)
{
    yk_graph *graph = yk_value_graph(x);
    push_numbered(graph, "denseblock", number);
    yk_scope_version(graph, 2); /* torchvision's */
    for (int i = 0; i < layers; i++)
        x = dense_layer(x, i + 1, growth);
    yk_scope_pop(graph);
    return x;
}

/* (N, C, H, W) -> (N, C / 2, H / 2, W / 2) */
static yk_value *transition(yk_value *x, int number)
{
    yk_graph *graph = yk_value_graph(x);
    push_numbered(graph, "transition", number);
    x = conv(norm_relu(x, "norm"), "conv", yki_channels_of(x) / 2, 1, 1);
    yk_scope_pop(graph);
    return yk_avg_pool2d(x, 2, 2, 0);
}

static yk_value *densenet(yk_value *images, int64_t classes, const densenet_config *config)
{
    static const yki_layer_init init = {YK_INIT_KAIMING_UNIFORM, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_graph *graph = yk_value_graph(images);
    yk_scope_push(graph, "features");
    yk_value *x = norm_relu(conv(images, "conv0", 2 * config->growth, 7, 2), "norm0");
    x = yk_max_pool2d(x, 3, 2, 1);
    for (int i = 0; i < BLOCKS; i++) {
        x = dense_block(x, i + 1, config->layers[i], config->growth);
        if (i + 1 < BLOCKS)
            x = transition(x, i + 1);
    }
    x = norm_relu(x, "norm5");
    yk_scope_pop(graph);
    return yki_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "classifier", classes, init);
}

yk_value *yk_densenet121(yk_value *images, int64_t classes)
{
    return densenet(images, classes, &(densenet_config){32, {6, 12, 24, 16}});
}

yk_value *yk_densenet161(yk_value *images, int64_t classes)
{
    return densenet(images, classes, &(densenet_config){48, {6, 12, 36, 24}});
}

yk_value *yk_densenet169(yk_value *images, int64_t classes)
{
    return densenet(images, classes, &(densenet_config){32, {6, 12, 32, 32}});
}

yk_value *yk_densenet201(yk_value *images, int64_t classes)
{
    return densenet(images, classes, &(densenet_config){32, {6, 12, 48, 32}});
}
