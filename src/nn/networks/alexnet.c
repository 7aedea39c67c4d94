/*
 * AlexNet: Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014), in
 * torchvision's form. Its classifier takes 6x6 cells, to which other images are averaged.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

enum { CELLS = 6, HIDDEN = 4096 };

/* A convolution with a bias. (N, C, H, W) -> (N, channels, ...) */
static yk_value *conv_relu(yk_value *x, const char *name, int64_t channels, int64_t kernel,
                           int64_t stride, int64_t padding)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = padding;
    return yk_relu(yk_nn_conv2d_bias(x, name, channels, kernel, &options));
}

/* (N, 3, H, W) -> (N, 256, about H / 32, about W / 32). The parts are numbered as in an
 * nn.Sequential, in which relu and max-pooling are modules too. */
static yk_value *features(yk_value *x)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "features");
    x = yk_max_pool2d(conv_relu(x, "0", 64, 11, 4, 2), 3, 2, 0);
    x = yk_max_pool2d(conv_relu(x, "3", 192, 5, 1, 2), 3, 2, 0);
    x = conv_relu(x, "6", 384, 3, 1, 1);
    x = conv_relu(x, "8", 256, 3, 1, 1);
    x = yk_max_pool2d(conv_relu(x, "10", 256, 3, 1, 1), 3, 2, 0);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_alexnet(yk_value *images, int64_t classes)
{
    yk_value *x = yk_flatten(yk_adaptive_avg_pool2d(features(images), CELLS, CELLS));
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yk_relu(yk_nn_linear(yk_dropout(x, 0.5), "1", HIDDEN));
    x = yk_relu(yk_nn_linear(yk_dropout(x, 0.5), "4", HIDDEN));
    x = yk_nn_linear(x, "6", classes);
    yk_scope_pop(graph);
    return x;
}
