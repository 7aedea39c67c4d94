/*
 * MobileNetV3: Howard et al., "Searching for MobileNetV3" (2019), in torchvision's form. Its blocks
 * are inverted residuals, some of which have squeeze and excitation.
 */
#include <yoke/networks.h>

#include "nn/layers.h"
#include "nn/networks/inverted_residual.h"

enum { STEM_WIDTH = 16 };

typedef struct block {
    int64_t kernel, expanded, channels;
    bool excites, is_late; /* late blocks have hardswish, the others relu */
    int64_t stride;
} block;

static const block large[] = {
    {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
    {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
    {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
    {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
    {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1},
};

static const block small[] = {
    {3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
    {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
    {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
    {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1},
};

static const yk_nn_batch_norm_options norm = {sizeof norm, 1e-3, 0.01, false, false};

static yk_value *hard_sigmoid(yk_value *x)
{
    return yk_scale(yk_relu6(yk_add_scalar(x, 3)), 1.0 / 6);
}

/* (N, 3, H, W) -> (N, 6 times the channels of the last block, H / 32, W / 32) */
static yk_value *features(yk_value *x, const block *blocks, int count)
{
    static const yk_nn_squeeze_excitation_options excitation = {sizeof excitation, yk_relu,
                                                                hard_sigmoid};
    const yki_conv_norm stem = {STEM_WIDTH, 3, 2, 1, &norm, yk_hardswish};
    const yki_conv_norm last = {6 * blocks[count - 1].channels, 1, 1, 1, &norm, yk_hardswish};
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "features");
    x = yki_nn_conv_norm(x, 0, &stem);
    for (int i = 0; i < count; i++) {
        const block *b = &blocks[i];
        const int64_t quarter = b->expanded / 4;
        const yki_inverted_residual residual = {
            .expanded = b->expanded,
            .channels = b->channels,
            .kernel = b->kernel,
            .stride = b->stride,
            .squeezed = b->excites ? yki_nn_round_channels((double)quarter) : 0,
            .activation = b->is_late ? yk_hardswish : yk_relu,
            .excitation = &excitation,
            .norm = &norm,
        };
        x = yki_nn_inverted_residual(x, i + 1, &residual);
    }
    x = yki_nn_conv_norm(x, count + 1, &last);
    yk_scope_pop(graph);
    return x;
}

static yk_value *mobilenet_v3(yk_value *images, int64_t classes, const block *blocks, int count,
                              int64_t width)
{
    static const yki_layer_init init = {YK_INIT_NORMAL, true, YK_INIT_ZEROS_AFTER_DRAW};
    yk_value *x = yk_flatten(yk_global_avg_pool2d(features(images, blocks, count)));
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "classifier");
    x = yk_dropout(yk_hardswish(yki_nn_linear(x, "0", width, init)), 0.2);
    x = yki_nn_linear(x, "3", classes, init);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_mobilenet_v3_large(yk_value *images, int64_t classes)
{
    return mobilenet_v3(images, classes, large, sizeof large / sizeof *large, 1280);
}

yk_value *yk_mobilenet_v3_small(yk_value *images, int64_t classes)
{
    return mobilenet_v3(images, classes, small, sizeof small / sizeof *small, 1024);
}
