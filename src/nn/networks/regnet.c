/*
 * RegNet: Radosavovic et al., "Designing Network Design Spaces" (2020), in torchvision's form. A
 * block is a bottleneck whose 3x3 convolution has as many channels as the 1x1 convolutions around
 * it, in groups of a fixed width. Those of RegNetY have squeeze and excitation.
 */
#include <yoke/networks.h>

#include <stdio.h>

#include "nn/layers.h"
#include "nn/networks/inverted_residual.h"

enum { STAGES = 4, STEM_WIDTH = 32 };

typedef struct regnet_config {
    int64_t channels[STAGES];
    int blocks[STAGES];
    int64_t group_width;
    bool excites;
} regnet_config;

/* What is added to the shortcut. (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *bottleneck(yk_value *x, int64_t channels, int64_t stride,
                            const regnet_config *config)
{
    static const yki_layer_init init = {YK_INIT_KAIMING_NORMAL_FAN_OUT, true,
                                        YK_INIT_UNIFORM_FAN_IN};
    const int64_t groups = channels > config->group_width ? channels / config->group_width : 1;
    const yki_conv_norm a = {channels, 1, 1, 1, NULL, yk_relu};
    const yki_conv_norm b = {channels, 3, stride, groups, NULL, yk_relu};
    const yki_conv_norm c = {channels, 1, 1, 1, NULL, NULL};
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "f");
    yk_value *y = yki_nn_named_conv_norm(yki_nn_named_conv_norm(x, "a", &a), "b", &b);
    if (config->excites)
        y = yki_nn_squeeze_excitation(y, "se", yki_channels_of(x) / 4, NULL, init);
    y = yki_nn_named_conv_norm(y, "c", &c);
    yk_scope_pop(graph);
    return y;
}

/* (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *block(yk_value *x, int64_t channels, int64_t stride, const regnet_config *config)
{
    const yki_conv_norm projection = {channels, 1, stride, 1, NULL, NULL};
    yk_value *shortcut = x;
    if (stride > 1 || channels != yki_channels_of(x))
        shortcut = yki_nn_named_conv_norm(x, "proj", &projection);
    return yk_relu(yk_add(shortcut, bottleneck(x, channels, stride, config)));
}

/* (N, 3, H, W) -> (N, the channels of the last stage, H / 32, W / 32) */
static yk_value *features(yk_value *x, const regnet_config *config)
{
    const yki_conv_norm stem = {STEM_WIDTH, 3, 2, 1, NULL, yk_relu};
    yk_graph *graph = yk_value_graph(x);
    char name[32];
    x = yki_nn_named_conv_norm(x, "stem", &stem);
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < config->blocks[s]; i++) {
            snprintf(name, sizeof name, "trunk_output.block%d.block%d-%d", s + 1, s + 1, i);
            yk_scope_push(graph, name);
            x = block(x, config->channels[s], i == 0 ? 2 : 1, config);
            yk_scope_pop(graph);
        }
    return x;
}

static yk_value *regnet(yk_value *images, int64_t classes, const regnet_config *config)
{
    static const yki_layer_init init = {YK_INIT_NORMAL, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_value *x = features(images, config);
    return yki_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", classes, init);
}

yk_value *yk_regnet_y_400mf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{48, 104, 208, 440}, {1, 3, 6, 6}, 8, true});
}

yk_value *yk_regnet_y_800mf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{64, 144, 320, 784}, {1, 3, 8, 2}, 16, true});
}

yk_value *yk_regnet_y_1_6gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{48, 120, 336, 888}, {2, 6, 17, 2}, 24, true});
}

yk_value *yk_regnet_y_3_2gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{72, 216, 576, 1512}, {2, 5, 13, 1}, 24, true});
}

yk_value *yk_regnet_y_8gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{224, 448, 896, 2016}, {2, 4, 10, 1}, 56, true});
}

yk_value *yk_regnet_y_16gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{224, 448, 1232, 3024}, {2, 4, 11, 1}, 112, true});
}

yk_value *yk_regnet_y_32gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{232, 696, 1392, 3712}, {2, 5, 12, 1}, 232, true});
}

yk_value *yk_regnet_y_128gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{528, 1056, 2904, 7392}, {2, 7, 17, 1}, 264, true});
}

yk_value *yk_regnet_x_400mf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{32, 64, 160, 400}, {1, 2, 7, 12}, 16, false});
}

yk_value *yk_regnet_x_800mf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{64, 128, 288, 672}, {1, 3, 7, 5}, 16, false});
}

yk_value *yk_regnet_x_1_6gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes, &(regnet_config){{72, 168, 408, 912}, {2, 4, 10, 2}, 24, false});
}

yk_value *yk_regnet_x_3_2gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{96, 192, 432, 1008}, {2, 6, 15, 2}, 48, false});
}

yk_value *yk_regnet_x_8gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{80, 240, 720, 1920}, {2, 5, 15, 1}, 120, false});
}

yk_value *yk_regnet_x_16gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{256, 512, 896, 2048}, {2, 6, 13, 1}, 128, false});
}

yk_value *yk_regnet_x_32gf(yk_value *images, int64_t classes)
{
    return regnet(images, classes,
                  &(regnet_config){{336, 672, 1344, 2520}, {2, 7, 13, 1}, 168, false});
}
