/*
 * SqueezeNet: Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer, "SqueezeNet: AlexNet-level accuracy
 * with 50x fewer parameters and <0.5MB model size" (2016), in torchvision's form. A fire module
 * squeezes an image to few channels and expands these by filters of 1x1 and of 3x3. The last layer
 * is a convolution too, whose maps of classes are averaged.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

enum { FIRES = 8, POOLS = 3 };

typedef struct squeezenet_config {
    int64_t stem_width, stem_kernel;
    int pools[POOLS]; /* the numbers of the parts that are max-pooling */
} squeezenet_config;

/* Channels of fire modules: squeezed, and twice as many as each kind of filter has. */
static const int64_t squeezed[FIRES] = {16, 16, 32, 32, 48, 48, 64, 64};
static const int64_t expanded[FIRES] = {64, 64, 128, 128, 192, 192, 256, 256};

static const yki_layer_init uniform = {YK_INIT_KAIMING_UNIFORM_FAN_IN, true,
                                       YK_INIT_ZEROS_AFTER_DRAW};

static yk_value *conv_relu(yk_value *x, const char *name, int64_t channels, int64_t kernel)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = kernel / 2;
    return yk_relu(yki_nn_conv2d(x, name, channels, kernel, &options, uniform));
}

/* (N, C, H, W) -> (N, 2 expanded, H, W) */
static yk_value *fire(yk_value *x, int number, int64_t squeezed_channels, int64_t expanded_channels)
{
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    x = conv_relu(x, "squeeze", squeezed_channels, 1);
    yk_value *sides[] = {conv_relu(x, "expand1x1", expanded_channels, 1),
                         conv_relu(x, "expand3x3", expanded_channels, 3)};
    yk_scope_pop(graph);
    return yk_concat(sides, 2, 1);
}

static bool is_pool(const squeezenet_config *config, int number)
{
    for (int i = 0; i < POOLS; i++)
        if (config->pools[i] == number)
            return true;
    return false;
}

/* (N, 3, H, W) -> (N, 512, ...). The parts are numbered as in an nn.Sequential, in which relu and
 * max-pooling are modules too. */
static yk_value *features(yk_value *x, const squeezenet_config *config)
{
    yk_graph *graph = yk_value_graph(x);
    yk_conv2d_options stem = YK_CONV2D_OPTIONS_INIT;
    stem.stride = 2;
    yk_scope_push(graph, "features");
    x = yk_relu(yki_nn_conv2d(x, "0", config->stem_width, config->stem_kernel, &stem, uniform));
    for (int number = 2, made = 0; made < FIRES; number++) {
        if (is_pool(config, number)) {
            x = yki_nn_max_pool_up(x, 3, 2);
        } else {
            x = fire(x, number, squeezed[made], expanded[made]);
            made++;
        }
    }
    yk_scope_pop(graph);
    return x;
}

static yk_value *squeezenet(yk_value *images, int64_t classes, const squeezenet_config *config)
{
    static const yki_layer_init init = {YK_INIT_NORMAL, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_value *x = yk_dropout(features(images, config), 0.5);
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yk_relu(yki_nn_conv2d(x, "1", classes, 1, NULL, init));
    yk_scope_pop(graph);
    return yk_flatten(yk_global_avg_pool2d(x));
}

yk_value *yk_squeezenet1_0(yk_value *images, int64_t classes)
{
    return squeezenet(images, classes, &(squeezenet_config){96, 7, {2, 6, 11}});
}

yk_value *yk_squeezenet1_1(yk_value *images, int64_t classes)
{
    return squeezenet(images, classes, &(squeezenet_config){64, 3, {2, 5, 8}});
}
