/*
 * ShuffleNetV2: Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
 * Design" (2018), in torchvision's form. A block changes one half of the channels and mixes both
 * halves; the first block of a stage makes two halves of all channels, at half the size.
 */
#include <yoke/networks.h>

#include <stdio.h>

#include "nn/layers.h"

enum { STAGES = 3, STEM_WIDTH = 24 };

typedef struct shufflenet_config {
    int64_t channels[STAGES], last_channels;
} shufflenet_config;

static const int blocks[STAGES] = {4, 8, 4};

/* The layers `number`, a convolution of which the image keeps its size, except for the stride, and
 * `number + 1`, its norm. */
static yk_value *conv_norm(yk_value *x, int number, int64_t channels, int64_t kernel,
                           int64_t stride, int64_t groups)
{
    static const yki_layer_init init = {.weight = YK_INIT_KAIMING_UNIFORM};
    char conv[16], norm[16];
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = kernel / 2;
    options.groups = groups;
    snprintf(conv, sizeof conv, "%d", number);
    snprintf(norm, sizeof norm, "%d", number + 1);
    return yk_nn_batch_norm(yki_nn_conv2d(x, conv, channels, kernel, &options, init), norm);
}

/* Each channel alone. (N, C, H, W) -> (N, C, H / stride, W / stride) */
static yk_value *depthwise(yk_value *x, int number, int64_t stride)
{
    return conv_norm(x, number, yki_channels_of(x), 3, stride, yki_channels_of(x));
}

/* (N, C, H, W) -> (N, channels, H, W) */
static yk_value *pointwise(yk_value *x, int number, int64_t channels)
{
    return yk_relu(conv_norm(x, number, channels, 1, 1, 1));
}

/* (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *branch1(yk_value *x, int64_t channels, int64_t stride)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "branch1");
    x = pointwise(depthwise(x, 0, stride), 2, channels);
    yk_scope_pop(graph);
    return x;
}

static yk_value *branch2(yk_value *x, int64_t channels, int64_t stride)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "branch2");
    x = pointwise(depthwise(pointwise(x, 0, channels), 3, stride), 5, channels);
    yk_scope_pop(graph);
    return x;
}

/* The channels of two halves in turn. (N, C, H, W) -> the same */
static yk_value *shuffle(yk_value *x)
{
    int64_t dims[YK_MAX_DIMS] = {YK_BATCH, 2};
    yk_value_shape(x, dims);
    x = yk_reshape(x, 4, (int64_t[]){dims[0], 2, dims[1] / 2, -1});
    x = yk_permute(x, 4, (int64_t[]){0, 2, 1, 3});
    return yk_reshape(x, 4, dims);
}

/* (N, C, H, W) -> (N, channels, H / stride, W / stride); with a stride of 1, C is `channels`. */
static yk_value *block(yk_value *x, int64_t channels, int64_t stride)
{
    const int64_t half = channels / 2;
    yk_value *kept = stride > 1 ? branch1(x, half, stride) : yk_slice(x, 1, 0, half);
    yk_value *changed = branch2(stride > 1 ? x : yk_slice(x, 1, half, half), half, stride);
    return shuffle(yk_concat((yk_value *[]){kept, changed}, 2, 1));
}

/* (N, 3, H, W) -> (N, the last channels, H / 32, W / 32) */
static yk_value *features(yk_value *x, const shufflenet_config *config)
{
    yk_graph *graph = yk_value_graph(x);
    char name[32];
    yk_scope_push(graph, "conv1");
    x = yk_relu(conv_norm(x, 0, STEM_WIDTH, 3, 2, 1));
    yk_scope_pop(graph);
    x = yk_max_pool2d(x, 3, 2, 1);
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < blocks[s]; i++) {
            snprintf(name, sizeof name, "stage%d.%d", s + 2, i);
            yk_scope_push(graph, name);
            x = block(x, config->channels[s], i == 0 ? 2 : 1);
            yk_scope_pop(graph);
        }
    yk_scope_push(graph, "conv5");
    x = pointwise(x, 0, config->last_channels);
    yk_scope_pop(graph);
    return x;
}

static yk_value *shufflenet(yk_value *images, int64_t classes, const shufflenet_config *config)
{
    return yk_nn_linear(yk_flatten(yk_global_avg_pool2d(features(images, config))), "fc", classes);
}

yk_value *yk_shufflenet_v2_x0_5(yk_value *images, int64_t classes)
{
    return shufflenet(images, classes, &(shufflenet_config){{48, 96, 192}, 1024});
}

yk_value *yk_shufflenet_v2_x1_0(yk_value *images, int64_t classes)
{
    return shufflenet(images, classes, &(shufflenet_config){{116, 232, 464}, 1024});
}

yk_value *yk_shufflenet_v2_x1_5(yk_value *images, int64_t classes)
{
    return shufflenet(images, classes, &(shufflenet_config){{176, 352, 704}, 1024});
}

yk_value *yk_shufflenet_v2_x2_0(yk_value *images, int64_t classes)
{
    return shufflenet(images, classes, &(shufflenet_config){{244, 488, 976}, 2048});
}
