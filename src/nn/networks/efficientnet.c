/*
 * EfficientNet: Tan, Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"
 * (2019), and "EfficientNetV2: Smaller Models and Faster Training" (2021), in torchvision's form.
 * Its blocks are inverted residuals with squeeze and excitation; V2 begins with fused ones.
 * Stochastic depth drops more of them the later they come.
 */
#include <yoke/networks.h>

#include "nn/layers.h"
#include "nn/networks/inverted_residual.h"

#include <math.h>

enum { MAX_STAGES = 7 };

/* Blocks of one width; the first has the stride. */
typedef struct stage {
    bool fused;
    int64_t expansion, kernel, stride, channels;
    int blocks;
} stage;

typedef struct efficientnet_config {
    stage stages[MAX_STAGES]; /* those without blocks are not there */
    int64_t stem_channels;
    int64_t last_channels; /* 0: 4 times those of the last stage */
    double width, depth;   /* times these channels and blocks */
    double dropout;
    const yk_nn_batch_norm_options *norm; /* NULL: the defaults */
} efficientnet_config;

static const double last_drop = 0.2;
/* Of B5 and larger, and of V2. */
static const yk_nn_batch_norm_options large_norm = {sizeof large_norm, 1e-3, 0.01, false, false};
static const yk_nn_batch_norm_options v2_norm = {sizeof v2_norm, 1e-3, 0.1, false, false};

static int64_t channels_of(int64_t channels, const efficientnet_config *config)
{
    return yki_nn_round_channels((double)channels * config->width);
}

static int blocks_of(const stage *s, const efficientnet_config *config)
{
    return (int)ceil(s->blocks * config->depth);
}

/* Of the whole network. */
static int count_blocks(const efficientnet_config *config)
{
    int blocks = 0;
    for (int s = 0; s < MAX_STAGES; s++)
        blocks += blocks_of(&config->stages[s], config);
    return blocks;
}

/* A scope of that number. `first` is how many blocks come before the stage's. */
static yk_value *stage_of_blocks(yk_value *x, int number, const stage *s,
                                 const efficientnet_config *config, int first)
{
    static const yk_nn_squeeze_excitation_options excitation = {sizeof excitation, yk_silu,
                                                                yk_sigmoid};
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    for (int i = 0; i < blocks_of(s, config); i++) {
        const int64_t inputs = yki_channels_of(x);
        const yki_inverted_residual block = {
            .fused = s->fused,
            .expanded = s->expansion * inputs,
            .channels = channels_of(s->channels, config),
            .kernel = s->kernel,
            .stride = i == 0 ? s->stride : 1,
            .squeezed = s->fused ? 0 : inputs / 4,
            .activation = yk_silu,
            .excitation = &excitation,
            .norm = config->norm,
            .drop = last_drop * (first + i) / count_blocks(config),
        };
        x = yki_nn_inverted_residual(x, i, &block);
    }
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, the last channels, H / 32, W / 32) */
static yk_value *features(yk_value *x, const efficientnet_config *config)
{
    const int64_t stem_channels = channels_of(config->stem_channels, config);
    const yki_conv_norm stem = {stem_channels, 3, 2, 1, config->norm, yk_silu};
    yk_graph *graph = yk_value_graph(x);
    int blocks = 0, number = 0;
    yk_scope_push(graph, "features");
    x = yki_nn_conv_norm(x, number++, &stem);
    for (const stage *s = config->stages; s < config->stages + MAX_STAGES && s->blocks > 0; s++) {
        x = stage_of_blocks(x, number++, s, config, blocks);
        blocks += blocks_of(s, config);
    }
    const int64_t last_channels =
        config->last_channels > 0 ? config->last_channels : 4 * yki_channels_of(x);
    const yki_conv_norm last = {last_channels, 1, 1, 1, config->norm, yk_silu};
    x = yki_nn_conv_norm(x, number, &last);
    yk_scope_pop(graph);
    return x;
}

static yk_value *efficientnet(yk_value *images, int64_t classes, const efficientnet_config *config)
{
    return yki_nn_dropout_classifier(features(images, config), classes, config->dropout,
                                     YK_INIT_UNIFORM_FAN_OUT);
}

/* ---- EfficientNet: all are B0, but wider and deeper ------------------------------------------ */

static yk_value *efficientnet_b(yk_value *images, int64_t classes, double width, double depth,
                                double dropout, const yk_nn_batch_norm_options *norm)
{
    const efficientnet_config config = {
        .stages = {{false, 1, 3, 1, 16, 1},
                   {false, 6, 3, 2, 24, 2},
                   {false, 6, 5, 2, 40, 2},
                   {false, 6, 3, 2, 80, 3},
                   {false, 6, 5, 1, 112, 3},
                   {false, 6, 5, 2, 192, 4},
                   {false, 6, 3, 1, 320, 1}},
        .stem_channels = 32,
        .width = width,
        .depth = depth,
        .dropout = dropout,
        .norm = norm,
    };
    return efficientnet(images, classes, &config);
}

yk_value *yk_efficientnet_b0(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1, 1, 0.2, NULL);
}

yk_value *yk_efficientnet_b1(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1, 1.1, 0.2, NULL);
}

yk_value *yk_efficientnet_b2(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1.1, 1.2, 0.3, NULL);
}

yk_value *yk_efficientnet_b3(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1.2, 1.4, 0.3, NULL);
}

yk_value *yk_efficientnet_b4(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1.4, 1.8, 0.4, NULL);
}

yk_value *yk_efficientnet_b5(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1.6, 2.2, 0.4, &large_norm);
}

yk_value *yk_efficientnet_b6(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 1.8, 2.6, 0.5, &large_norm);
}

yk_value *yk_efficientnet_b7(yk_value *images, int64_t classes)
{
    return efficientnet_b(images, classes, 2, 3.1, 0.5, &large_norm);
}

/* ---- EfficientNetV2 -------------------------------------------------------------------------- */

static yk_value *efficientnet_v2(yk_value *images, int64_t classes, efficientnet_config config)
{
    config.stem_channels = config.stages[0].channels;
    config.last_channels = 1280;
    config.width = config.depth = 1;
    config.norm = &v2_norm;
    return efficientnet(images, classes, &config);
}

yk_value *yk_efficientnet_v2_s(yk_value *images, int64_t classes)
{
    const efficientnet_config config = {
        .stages = {{true, 1, 3, 1, 24, 2},
                   {true, 4, 3, 2, 48, 4},
                   {true, 4, 3, 2, 64, 4},
                   {false, 4, 3, 2, 128, 6},
                   {false, 6, 3, 1, 160, 9},
                   {false, 6, 3, 2, 256, 15}},
        .dropout = 0.2,
    };
    return efficientnet_v2(images, classes, config);
}

yk_value *yk_efficientnet_v2_m(yk_value *images, int64_t classes)
{
    const efficientnet_config config = {
        .stages = {{true, 1, 3, 1, 24, 3},
                   {true, 4, 3, 2, 48, 5},
                   {true, 4, 3, 2, 80, 5},
                   {false, 4, 3, 2, 160, 7},
                   {false, 6, 3, 1, 176, 14},
                   {false, 6, 3, 2, 304, 18},
                   {false, 6, 3, 1, 512, 5}},
        .dropout = 0.3,
    };
    return efficientnet_v2(images, classes, config);
}

yk_value *yk_efficientnet_v2_l(yk_value *images, int64_t classes)
{
    const efficientnet_config config = {
        .stages = {{true, 1, 3, 1, 32, 4},
                   {true, 4, 3, 2, 64, 7},
                   {true, 4, 3, 2, 96, 7},
                   {false, 4, 3, 2, 192, 10},
                   {false, 6, 3, 1, 224, 19},
                   {false, 6, 3, 2, 384, 25},
                   {false, 6, 3, 1, 640, 7}},
        .dropout = 0.4,
    };
    return efficientnet_v2(images, classes, config);
}
