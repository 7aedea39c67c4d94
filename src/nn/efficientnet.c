/*
 * EfficientNet: Tan, Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"
 * (2019), in torchvision's form. Its blocks are inverted residuals with squeeze and excitation, and
 * stochastic depth drops more of them the later they come.
 */
#include "nn/inverted_residual.h"
#include "nn/layers.h"

#include <math.h>

/* Blocks of one width; the first has the stride. */
typedef struct stage {
    int64_t expansion, kernel, stride, channels;
    int blocks;
} stage;

/* B0; the others are wider and deeper. */
static const stage stages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                               {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                               {6, 3, 1, 320, 1}};
enum { STAGES = sizeof stages / sizeof *stages, STEM_WIDTH = 32 };

typedef struct efficientnet_config {
    double width, depth; /* times those of B0 */
    double dropout;
    const yk_nn_batch_norm_options *norm; /* NULL: the defaults */
} efficientnet_config;

static const yk_nn_batch_norm_options large_norm = {sizeof large_norm, 1e-3, 0.01, false, false};
static const double last_drop = 0.2;

static int64_t channels_of(int64_t channels, const efficientnet_config *config)
{
    return yki_nn_round_channels((double)channels * config->width);
}

static int blocks_of(const stage *s, const efficientnet_config *config)
{
    return (int)ceil(s->blocks * config->depth);
}

/* A scope of that number. `first` and `all` are blocks before the stage's, and of the network. */
static yk_value *stage_of_blocks(yk_value *x, int number, const stage *s,
                                 const efficientnet_config *config, int first, int all)
{
    static const yk_nn_squeeze_excitation_options excitation = {sizeof excitation, yk_silu,
                                                                yk_sigmoid};
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    for (int i = 0; i < blocks_of(s, config); i++) {
        const int64_t inputs = yki_channels_of(x);
        const yki_inverted_residual block = {
            .expanded = s->expansion * inputs,
            .channels = channels_of(s->channels, config),
            .kernel = s->kernel,
            .stride = i == 0 ? s->stride : 1,
            .squeezed = inputs / 4,
            .activation = yk_silu,
            .excitation = &excitation,
            .norm = config->norm,
            .drop = last_drop * (first + i) / all,
        };
        x = yki_nn_inverted_residual(x, i, &block);
    }
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, 4 times the channels of the last stage, H / 32, W / 32) */
static yk_value *features(yk_value *x, const efficientnet_config *config)
{
    const yki_conv_norm stem = {channels_of(STEM_WIDTH, config), 3, 2, 1, config->norm, yk_silu};
    yk_graph *graph = yk_value_graph(x);
    int blocks = 0, all = 0;
    for (int s = 0; s < STAGES; s++)
        all += blocks_of(&stages[s], config);
    yk_scope_push(graph, "features");
    x = yki_nn_conv_norm(x, 0, &stem);
    for (int s = 0; s < STAGES; s++) {
        x = stage_of_blocks(x, s + 1, &stages[s], config, blocks, all);
        blocks += blocks_of(&stages[s], config);
    }
    const yki_conv_norm last = {4 * yki_channels_of(x), 1, 1, 1, config->norm, yk_silu};
    x = yki_nn_conv_norm(x, STAGES + 1, &last);
    yk_scope_pop(graph);
    return x;
}

static yk_value *efficientnet(yk_value *images, int64_t classes, const efficientnet_config *config)
{
    return yki_nn_dropout_classifier(features(images, config), classes, config->dropout,
                                     YK_INIT_UNIFORM_FAN_OUT);
}

yk_value *yk_efficientnet_b0(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1, 1, 0.2, NULL});
}

yk_value *yk_efficientnet_b1(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1, 1.1, 0.2, NULL});
}

yk_value *yk_efficientnet_b2(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1.1, 1.2, 0.3, NULL});
}

yk_value *yk_efficientnet_b3(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1.2, 1.4, 0.3, NULL});
}

yk_value *yk_efficientnet_b4(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1.4, 1.8, 0.4, NULL});
}

yk_value *yk_efficientnet_b5(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1.6, 2.2, 0.4, &large_norm});
}

yk_value *yk_efficientnet_b6(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){1.8, 2.6, 0.5, &large_norm});
}

yk_value *yk_efficientnet_b7(yk_value *images, int64_t classes)
{
    return efficientnet(images, classes, &(efficientnet_config){2, 3.1, 0.5, &large_norm});
}
