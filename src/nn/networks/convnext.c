/*
 * ConvNeXt: Liu et al., "A ConvNet for the 2020s" (2022), in torchvision's form. A block filters
 * each channel alone by a 7x7 convolution; the rest of it is the perceptron of a transformer, for
 * which pixels are tokens. Layer scale multiplies what it adds, and stochastic depth drops more of
 * it the later the block comes.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

enum { STAGES = 4 };

/* The channels double from stage to stage. */
typedef struct convnext_config {
    int64_t first_channels;
    int blocks[STAGES];
    double last_drop;
} convnext_config;

static const double eps = 1e-6;
static const yki_layer_init init = {YK_INIT_NORMAL_0_02, true, YK_INIT_ZEROS};

/* (N, C, H, W) -> (N, H, W, C) */
static yk_value *pixels_of(yk_value *image)
{
    return yk_permute(image, 4, (int64_t[]){0, 2, 3, 1});
}

/* (N, H, W, C) -> (N, C, H, W) */
static yk_value *image_of(yk_value *pixels)
{
    return yk_permute(pixels, 4, (int64_t[]){0, 3, 1, 2});
}

/* Layer normalisation of the channels of each pixel. (N, C, H, W) -> (N, C, H, W) */
static yk_value *norm_of_pixels(yk_value *x, const char *name)
{
    return image_of(yk_nn_layer_norm(pixels_of(x), name, eps));
}

/* Patches of size x size pixels, which do not overlap. (N, C, H, W) ->
 * (N, channels, H / size, W / size) */
static yk_value *conv_of_patches(yk_value *x, const char *name, int64_t channels, int64_t size)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = size;
    return yki_nn_conv2d(x, name, channels, size, &options, init);
}

/* What a block adds, except for its scale. (N, C, H, W) -> (N, C, H, W) */
static yk_value *branch(yk_value *x, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 3;
    options.groups = channels;
    yk_scope_push(graph, "block");
    yk_value *y = pixels_of(yki_nn_conv2d(x, "0", channels, 7, &options, init));
    y = yk_nn_layer_norm(y, "2", eps);
    y = yk_gelu(yki_nn_linear(y, "3", 4 * channels, init));
    y = image_of(yki_nn_linear(y, "5", channels, init));
    yk_scope_pop(graph);
    return y;
}

/* (N, C, H, W) -> (N, C, H, W) */
static yk_value *block(yk_value *x, int number, double drop)
{
    const int64_t channels = yki_channels_of(x);
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    yk_value *scale = yk_parameter(graph, "layer_scale", yk_value_dtype(x), 3,
                                   (int64_t[]){channels, 1, 1}, YK_INIT_LAYER_SCALE, 0);
    yk_value *y = branch(x, channels);
    if (drop > 0) /* one pass over y instead of two */
        scale = yk_multiply(scale, yki_nn_sample_factors(y, drop));
    yk_scope_pop(graph);
    return yk_add(x, yk_multiply(y, scale));
}

/* (N, 3, H, W) -> (N, 8 times the first channels, H / 32, W / 32) */
static yk_value *features(yk_value *x, const convnext_config *config)
{
    yk_graph *graph = yk_value_graph(x);
    int64_t channels = config->first_channels;
    int blocks = 0, all = 0;
    for (int s = 0; s < STAGES; s++)
        all += config->blocks[s];
    yk_scope_push(graph, "features");
    for (int s = 0; s < STAGES; s++, channels *= 2) {
        yki_scope_push_number(graph, 2 * s);
        if (s == 0)
            x = norm_of_pixels(conv_of_patches(x, "0", channels, 4), "1");
        else
            x = conv_of_patches(norm_of_pixels(x, "0"), "1", channels, 2);
        yk_scope_pop(graph);
        yki_scope_push_number(graph, 2 * s + 1);
        for (int i = 0; i < config->blocks[s]; i++, blocks++)
            x = block(x, i, config->last_drop * blocks / (all - 1));
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return x;
}

static yk_value *convnext(yk_value *images, int64_t classes, const convnext_config *config)
{
    yk_value *x = yk_flatten(yk_global_avg_pool2d(features(images, config)));
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yki_nn_linear(yk_nn_layer_norm(x, "0", eps), "2", classes, init);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_convnext_tiny(yk_value *images, int64_t classes)
{
    return convnext(images, classes, &(convnext_config){96, {3, 3, 9, 3}, 0.1});
}

yk_value *yk_convnext_small(yk_value *images, int64_t classes)
{
    return convnext(images, classes, &(convnext_config){96, {3, 3, 27, 3}, 0.4});
}

yk_value *yk_convnext_base(yk_value *images, int64_t classes)
{
    return convnext(images, classes, &(convnext_config){128, {3, 3, 27, 3}, 0.5});
}

yk_value *yk_convnext_large(yk_value *images, int64_t classes)
{
    return convnext(images, classes, &(convnext_config){192, {3, 3, 27, 3}, 0.5});
}
