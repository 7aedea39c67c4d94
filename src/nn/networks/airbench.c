/*
 * The networks of airbench: Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024), for
 * images of 32x32 pixels, with the names of his code.
 *
 * The first layer whitens patches of 2x2 pixels: its filters, which are not trained, are computed
 * from training images (train/whiten.c). Three groups of convolutions follow, each of which halves
 * the image. Their filters start as the identity as far as there are input channels, and batch
 * norms do not scale.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

#include <stdio.h>

#include "graph/graph.h"

enum { GROUPS = 3, WHITEN_SIDE = 2, MAX_DEPTH = 3 };

typedef struct airbench_config {
    int64_t widths[GROUPS];
    int depth; /* convolutions in a group; with 3, the group has a shortcut */
} airbench_config;

/* A 3x3 convolution that keeps the image's size. (N, C, H, W) -> (N, channels, H, W) */
static yk_value *conv(yk_value *x, const char *name, int64_t channels)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 1;
    return yki_nn_conv2d(x, name, channels, 3, &options, (yki_layer_init){.weight = YK_INIT_DIRAC});
}

static yk_value *norm(yk_value *x, const char *name)
{
    yk_nn_batch_norm_options options = YK_NN_BATCH_NORM_OPTIONS_INIT;
    options.eps = 1e-12;
    options.momentum = 0.4;
    options.fixed_scale = true;
    return yk_nn_batch_norm_with(x, name, &options);
}

/* The filters of patches and their negation. (N, C, H, W) -> (N, 8 C, H - 1, W - 1) */
static yk_value *whiten(yk_value *images)
{
    int64_t dims[YK_MAX_DIMS];
    yk_graph *graph = yk_value_graph(images);
    yk_dtype dtype = yk_value_dtype(images);
    int64_t inputs = yk_value_shape(images, dims) == 4 ? dims[1] : 1;
    int64_t width = 2 * inputs * WHITEN_SIDE * WHITEN_SIDE;
    yk_scope_push(graph, "whiten");
    yk_value *weight =
        yk_parameter(graph, "weight", dtype, 4,
                     (int64_t[]){width, inputs, WHITEN_SIDE, WHITEN_SIDE}, YK_INIT_DIRAC, 0);
    yki_value_fix(weight);
    yk_value *bias = yk_parameter(graph, "bias", dtype, 1, &width, YK_INIT_ZEROS_AFTER_DRAW, 0);
    yk_value *y = yk_conv2d(images, weight, bias, NULL);
    yk_scope_pop(graph);
    return yk_gelu(y);
}

/* (N, C, H, W) -> (N, width, H / 2, W / 2) */
static yk_value *group(yk_value *x, const airbench_config *config, int64_t width)
{
    x = yk_max_pool2d(conv(x, "conv1", width), 2, 2, 0);
    x = yk_gelu(norm(x, "norm1"));
    yk_value *shortcut = x;
    x = yk_gelu(norm(conv(x, "conv2", width), "norm2"));
    if (config->depth < MAX_DEPTH)
        return x;
    x = norm(conv(x, "conv3", width), "norm3");
    return yk_gelu(yk_add(x, shortcut));
}

/* A layer without bias. (N, features) -> (N, classes) */
static yk_value *head(yk_value *x, int64_t classes)
{
    const yki_layer_init init = {.weight = YK_INIT_KAIMING_UNIFORM};
    return yk_scale(yki_nn_linear(x, "head", classes, init), 1.0 / 9);
}

static yk_value *airbench(yk_value *images, int64_t classes, const airbench_config *config)
{
    char name[16];
    if (yk_value_shape(images, NULL) < 0)
        return images ? images : yki_no_operand("airbench");
    yk_value *x = whiten(images);
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "layers");
    for (int i = 0; i < GROUPS; i++) {
        snprintf(name, sizeof name, "%d", i + 1);
        yk_scope_push(graph, name);
        x = group(x, config, config->widths[i]);
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return head(yk_flatten(yk_max_pool2d(x, 3, 3, 0)), classes);
}

yk_value *yk_airbench94(yk_value *images, int64_t classes)
{
    return airbench(images, classes, &(airbench_config){{64, 256, 256}, 2});
}

yk_value *yk_airbench96(yk_value *images, int64_t classes)
{
    return airbench(images, classes, &(airbench_config){{128, 384, 512}, 3});
}
