/*
 * GoogLeNet: Szegedy et al., "Going Deeper with Convolutions" (2014), in torchvision's form: with
 * batch norm, with filters of 3x3 for those of 5x5, and without the auxiliary classifiers, which
 * only training has.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

/* The channels of the four branches of an inception module, and of what the middle ones are reduced
 * to first. */
typedef struct inception_widths {
    int64_t branch1, reduced2, branch2, reduced3, branch3, branch4;
} inception_widths;

/* A convolution of which the image keeps its size, except for the stride; batch norm; relu. */
static yk_value *conv(yk_value *x, const char *name, int64_t channels, int64_t kernel,
                      int64_t stride)
{
    static const yki_layer_init init = {.weight = YK_INIT_NORMAL};
    static const yk_nn_batch_norm_options norm = {sizeof norm, 1e-3, 0.1, false, false};
    yk_graph *graph = yk_value_graph(x);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = kernel / 2;
    yk_scope_push(graph, name);
    x = yki_nn_conv2d(x, "conv", channels, kernel, &options, init);
    x = yk_nn_batch_norm_with(x, "bn", &norm);
    yk_scope_pop(graph);
    return yk_relu(x);
}

/* (N, C, H, W) -> (N, channels, H, W): to fewer channels, then 3x3. */
static yk_value *reduced_conv(yk_value *x, const char *name, int64_t reduced, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    x = conv(conv(x, "0", reduced, 1, 1), "1", channels, 3, 1);
    yk_scope_pop(graph);
    return x;
}

/* (N, C, H, W) -> (N, the branches' channels, H, W) */
static yk_value *inception(yk_value *x, const char *name, inception_widths w)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_value *branches[4] = {conv(x, "branch1", w.branch1, 1, 1)};
    branches[1] = reduced_conv(x, "branch2", w.reduced2, w.branch2);
    branches[2] = reduced_conv(x, "branch3", w.reduced3, w.branch3);
    yk_scope_push(graph, "branch4");
    branches[3] = conv(yk_max_pool2d(x, 3, 1, 1), "1", w.branch4, 1, 1);
    yk_scope_pop(graph);
    yk_scope_pop(graph);
    return yk_concat(branches, 4, 1);
}

yk_value *yk_googlenet(yk_value *images, int64_t classes)
{
    static const yki_layer_init init = {YK_INIT_NORMAL, true, YK_INIT_UNIFORM_FAN_IN};
    yk_value *x = yki_nn_max_pool_up(conv(images, "conv1", 64, 7, 2), 3, 2);
    x = conv(conv(x, "conv2", 64, 1, 1), "conv3", 192, 3, 1);
    x = yki_nn_max_pool_up(x, 3, 2);
    x = inception(x, "inception3a", (inception_widths){64, 96, 128, 16, 32, 32});
    x = inception(x, "inception3b", (inception_widths){128, 128, 192, 32, 96, 64});
    x = yki_nn_max_pool_up(x, 3, 2);
    x = inception(x, "inception4a", (inception_widths){192, 96, 208, 16, 48, 64});
    x = inception(x, "inception4b", (inception_widths){160, 112, 224, 24, 64, 64});
    x = inception(x, "inception4c", (inception_widths){128, 128, 256, 24, 64, 64});
    x = inception(x, "inception4d", (inception_widths){112, 144, 288, 32, 64, 64});
    x = inception(x, "inception4e", (inception_widths){256, 160, 320, 32, 128, 128});
    x = yki_nn_max_pool_up(x, 2, 2);
    x = inception(x, "inception5a", (inception_widths){256, 160, 320, 32, 128, 128});
    x = inception(x, "inception5b", (inception_widths){384, 192, 384, 48, 128, 128});
    x = yk_dropout(yk_flatten(yk_global_avg_pool2d(x)), 0.2);
    return yki_nn_linear(x, "fc", classes, init);
}
