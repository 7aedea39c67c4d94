/*
 * EfficientNet: Tan, Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"
 * (2019), in torchvision's form. Its blocks are inverted residuals with squeeze and excitation, and
 * stochastic depth drops more of them the later they come.
 */
#include "nn/inverted_residual.h"
#include "nn/layers.h"

enum { STEM_WIDTH = 32 };

/* Blocks of one width; the first has the stride. */
typedef struct stage {
    int64_t expansion, kernel, stride, channels;
    int blocks;
} stage;

static const stage b0[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                           {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
enum { STAGES = sizeof b0 / sizeof *b0 };

static const double last_drop = 0.2;

/* A scope of that number. `first` and `all` are blocks before the stage's, and of the network. */
static yk_value *stage_of_blocks(yk_value *x, int number, const stage *s, int first, int all)
{
    static const yk_nn_squeeze_excitation_options excitation = {sizeof excitation, yk_silu,
                                                                yk_sigmoid};
    yk_graph *graph = yk_value_graph(x);
    yki_scope_push_number(graph, number);
    for (int i = 0; i < s->blocks; i++) {
        const int64_t inputs = yki_channels_of(x);
        const yki_inverted_residual block = {
            .expanded = s->expansion * inputs,
            .channels = s->channels,
            .kernel = s->kernel,
            .stride = i == 0 ? s->stride : 1,
            .squeezed = inputs / 4,
            .activation = yk_silu,
            .excitation = &excitation,
            .drop = last_drop * (first + i) / all,
        };
        x = yki_nn_inverted_residual(x, i, &block);
    }
    yk_scope_pop(graph);
    return x;
}

/* (N, 3, H, W) -> (N, 4 times the channels of the last stage, H / 32, W / 32) */
static yk_value *features(yk_value *x)
{
    const yki_conv_norm stem = {STEM_WIDTH, 3, 2, 1, NULL, yk_silu};
    const yki_conv_norm last = {4 * b0[STAGES - 1].channels, 1, 1, 1, NULL, yk_silu};
    yk_graph *graph = yk_value_graph(x);
    int blocks = 0, all = 0;
    for (int s = 0; s < STAGES; s++)
        all += b0[s].blocks;
    yk_scope_push(graph, "features");
    x = yki_nn_conv_norm(x, 0, &stem);
    for (int s = 0; s < STAGES; s++) {
        x = stage_of_blocks(x, s + 1, &b0[s], blocks, all);
        blocks += b0[s].blocks;
    }
    x = yki_nn_conv_norm(x, STAGES + 1, &last);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_efficientnet_b0(yk_value *images, int64_t classes)
{
    return yki_nn_dropout_classifier(features(images), classes, YK_INIT_UNIFORM_FAN_OUT);
}
