/*
 * MobileNetV2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), in
 * torchvision's form. A block widens its input by a 1x1 convolution, filters each channel alone
 * (depthwise), and narrows it again by a 1x1 convolution without activation.
 */
#include <yoke/networks.h>

#include "nn/layers.h"
#include "nn/networks/inverted_residual.h"

enum { STEM_WIDTH = 32, LAST_WIDTH = 1280 };

/* Blocks of one width; the first has the stride. */
typedef struct stage {
    int64_t expansion, channels;
    int blocks;
    int64_t stride;
} stage;

static const stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/* A scope of "0", a convolution, and "1", its norm. */
static yk_value *conv_norm_relu6(yk_value *x, int index, int64_t channels, int64_t kernel,
                                 int64_t stride, int64_t groups)
{
    const yki_conv_norm layer = {channels, kernel, stride, groups, NULL, yk_relu6};
    return yki_nn_conv_norm(x, index, &layer);
}

/* (N, C, H, W) -> (N, channels, H / stride, W / stride) */
static yk_value *inverted_residual(yk_value *x, int64_t expansion, int64_t channels, int64_t stride)
{
    int64_t inputs = yki_channels_of(x), hidden = inputs * expansion;
    const yki_conv_norm narrow = {channels, 1, 1, 1, NULL, NULL};
    yk_graph *graph = yk_value_graph(x);
    yk_value *y = x;
    int index = 0;
    yk_scope_push(graph, "conv");
    if (expansion > 1)
        y = conv_norm_relu6(y, index++, hidden, 1, 1, 1);
    y = conv_norm_relu6(y, index++, hidden, 3, stride, hidden);
    y = yki_nn_flat_conv_norm(y, index, &narrow);
    yk_scope_pop(graph);
    return stride == 1 && inputs == channels ? yk_add(x, y) : y;
}

/* (N, 3, H, W) -> (N, 1280, H / 32, W / 32) */
static yk_value *features(yk_value *x)
{
    yk_graph *graph = yk_value_graph(x);
    int index = 0;
    yk_scope_push(graph, "features");
    x = conv_norm_relu6(x, index++, STEM_WIDTH, 3, 2, 1);
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (int i = 0; i < stages[s].blocks; i++) {
            yki_scope_push_number(graph, index++);
            x = inverted_residual(x, stages[s].expansion, stages[s].channels,
                                  i == 0 ? stages[s].stride : 1);
            yk_scope_pop(graph);
        }
    x = conv_norm_relu6(x, index, LAST_WIDTH, 1, 1, 1);
    yk_scope_pop(graph);
    return x;
}

yk_value *yk_mobilenet_v2(yk_value *images, int64_t classes)
{
    return yki_nn_dropout_classifier(features(images), classes, 0.2, YK_INIT_NORMAL);
}
