/*
 * MNASNet: Tan et al., "MnasNet: Platform-Aware Neural Architecture Search for Mobile" (2018), in
 * torchvision's form (B1). Its blocks are inverted residuals with few changes of running statistics
 * from batch to batch.
 */
#include <yoke/networks.h>

#include "nn/layers.h"
#include "nn/networks/inverted_residual.h"

enum { STEM_WIDTH = 32, FIRST_WIDTH = 16, LAST_WIDTH = 1280 };

/* Blocks of one width; the first has the stride. */
typedef struct stage {
    int64_t expansion, kernel, stride, channels;
    int blocks;
} stage;

static const stage stages[] = {{3, 3, 2, 24, 3}, {3, 5, 2, 40, 3},  {6, 5, 2, 80, 3},
                               {6, 3, 1, 96, 2}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
enum { STAGES = sizeof stages / sizeof *stages };

static const yk_nn_batch_norm_options norm = {sizeof norm, 1e-5, 1 - 0.9997, false, false};

/* Each channel alone, then all of them: the layers `number` to `number + 4`, of which relu is one.
 * (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *separable(yk_value *x, int number, int64_t kernel, int64_t stride,
                           int64_t channels)
{
    const int64_t inputs = yki_channels_of(x);
    const yki_conv_norm filter = {inputs, kernel, stride, inputs, &norm, yk_relu};
    const yki_conv_norm narrow = {channels, 1, 1, 1, &norm, NULL};
    return yki_nn_flat_conv_norm(yki_nn_flat_conv_norm(x, number, &filter), number + 3, &narrow);
}

/* (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *block(yk_value *x, const stage *s, int64_t channels, int64_t stride)
{
    const int64_t inputs = yki_channels_of(x);
    const yki_conv_norm widen = {s->expansion * inputs, 1, 1, 1, &norm, yk_relu};
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "layers");
    yk_value *y = separable(yki_nn_flat_conv_norm(x, 0, &widen), 3, s->kernel, stride, channels);
    yk_scope_pop(graph);
    return stride == 1 && channels == inputs ? yk_add(x, y) : y;
}

/* All channels but those of the last layer are `width` times these. (N, 3, H, W) ->
 * (N, 1280, H / 32, W / 32) */
static yk_value *features(yk_value *x, double width)
{
    const yki_conv_norm stem = {yki_nn_round_channels(STEM_WIDTH * width), 3, 2, 1, &norm, yk_relu};
    const yki_conv_norm last = {LAST_WIDTH, 1, 1, 1, &norm, yk_relu};
    yk_graph *graph = yk_value_graph(x);
    int number = 8; /* after the layers of stem and first block */
    yk_scope_push(graph, "layers");
    x = yki_nn_flat_conv_norm(x, 0, &stem);
    x = separable(x, 3, 3, 1, yki_nn_round_channels(FIRST_WIDTH * width));
    for (int s = 0; s < STAGES; s++) {
        yki_scope_push_number(graph, number++);
        for (int i = 0; i < stages[s].blocks; i++) {
            const int64_t channels = yki_nn_round_channels((double)stages[s].channels * width);
            yki_scope_push_number(graph, i);
            x = block(x, &stages[s], channels, i == 0 ? stages[s].stride : 1);
            yk_scope_pop(graph);
        }
        yk_scope_pop(graph);
    }
    x = yki_nn_flat_conv_norm(x, number, &last);
    yk_scope_pop(graph);
    return x;
}

static yk_value *mnasnet(yk_value *images, int64_t classes, double width)
{
    yk_scope_version(yk_value_graph(images), 2); /* torchvision's, since the stem has a width */
    return yki_nn_dropout_classifier(features(images, width), classes, 0.2,
                                     YK_INIT_KAIMING_UNIFORM_FAN_OUT);
}

yk_value *yk_mnasnet0_5(yk_value *images, int64_t classes)
{
    return mnasnet(images, classes, 0.5);
}

yk_value *yk_mnasnet0_75(yk_value *images, int64_t classes)
{
    return mnasnet(images, classes, 0.75);
}

yk_value *yk_mnasnet1_0(yk_value *images, int64_t classes)
{
    return mnasnet(images, classes, 1);
}

yk_value *yk_mnasnet1_3(yk_value *images, int64_t classes)
{
    return mnasnet(images, classes, 1.3);
}
