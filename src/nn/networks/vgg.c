/*
 * VGG: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition"
 * (2014), in torchvision's form, with and without batch norm. Its classifier takes 7x7 cells, so
 * the sides of images are multiples of 224; larger ones are averaged.
 */
#include <yoke/networks.h>

#include "nn/layers.h"

#include <stdio.h>

enum { STAGES = 5, CELLS = 7, HIDDEN = 4096 };

typedef struct vgg_config {
    int convolutions[STAGES]; /* before each max-pooling */
    bool batch_norm;
} vgg_config;

static const int64_t widths[STAGES] = {64, 128, 256, 512, 512};

/* A 3x3 convolution with a bias. (N, C, H, W) -> (N, channels, H, W) */
static yk_value *conv(yk_value *x, int index, int64_t channels)
{
    static const yki_layer_init init = {YK_INIT_KAIMING_NORMAL_FAN_OUT, true,
                                        YK_INIT_ZEROS_AFTER_DRAW};
    char name[16];
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 1;
    snprintf(name, sizeof name, "%d", index);
    return yki_nn_conv2d(x, name, channels, 3, &options, init);
}

/* (N, 3, H, W) -> (N, 512, H / 32, W / 32). The parts are numbered as in an nn.Sequential, in which
 * relu and max-pooling are modules too. */
static yk_value *features(yk_value *x, const vgg_config *config)
{
    yk_graph *graph = yk_value_graph(x);
    int index = 0;
    yk_scope_push(graph, "features");
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < config->convolutions[stage]; i++) {
            char name[16];
            x = conv(x, index++, widths[stage]);
            snprintf(name, sizeof name, "%d", index);
            if (config->batch_norm)
                x = yk_nn_batch_norm(x, name);
            x = yk_relu(x);
            index += config->batch_norm ? 2 : 1;
        }
        x = yk_max_pool2d(x, 2, 2, 0);
        index++;
    }
    yk_scope_pop(graph);
    return x;
}

static yk_value *vgg(yk_value *images, int64_t classes, const vgg_config *config)
{
    static const yki_layer_init init = {YK_INIT_NORMAL, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_value *x = features(images, config);
    x = yk_flatten(yk_adaptive_avg_pool2d(x, CELLS, CELLS));
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yk_dropout(yk_relu(yki_nn_linear(x, "0", HIDDEN, init)), 0.5);
    x = yk_dropout(yk_relu(yki_nn_linear(x, "3", HIDDEN, init)), 0.5);
    x = yki_nn_linear(x, "6", classes, init);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_vgg11(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{1, 1, 2, 2, 2}, false});
}

yk_value *yk_vgg11_bn(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{1, 1, 2, 2, 2}, true});
}

yk_value *yk_vgg13(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 2, 2, 2}, false});
}

yk_value *yk_vgg13_bn(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 2, 2, 2}, true});
}

yk_value *yk_vgg16(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 3, 3, 3}, false});
}

yk_value *yk_vgg16_bn(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 3, 3, 3}, true});
}

yk_value *yk_vgg19(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 4, 4, 4}, false});
}

yk_value *yk_vgg19_bn(yk_value *images, int64_t classes)
{
    return vgg(images, classes, &(vgg_config){{2, 2, 4, 4, 4}, true});
}
