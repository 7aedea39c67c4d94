/*
 * ResNet-9: David Page, "How to Train Your ResNet" (2018), with which the fastest CIFAR-10 entries
 * of DAWNBench were trained. This version has half the width, so that two cores train it in
 * minutes, and ends in a global average instead of a maximum, so that images may have any size from
 * 8x8 up.
 *
 * It has four stages of 3x3 convolution, batch norm and relu. All but the first halve the image by
 * max-pooling, and the second and fourth add a residual of two more convolutions. As in the
 * original, the logits are scaled by 1/8, which keeps the softmax soft while the learning rate is
 * at its peak.
 */
#include <yoke/networks.h>
#include <yoke/nn.h>

enum { WIDTH = 32 };

static const double logit_scale = 0.125;

/* (N, C, H, W) -> (N, channels, H, W) */
static yk_value *conv_norm_relu(yk_value *x, const char *name, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.padding = 1;
    yk_scope_push(graph, name);
    x = yk_nn_conv2d(x, "conv", channels, 3, &options);
    x = yk_relu(yk_nn_batch_norm(x, "bn"));
    yk_scope_pop(graph);
    return x;
}

/* (N, C, H, W) -> (N, channels, H / 2, W / 2) */
static yk_value *halve(yk_value *x, const char *name, int64_t channels)
{
    return yk_max_pool2d(conv_norm_relu(x, name, channels), 2, 2, 0);
}

static yk_value *residual(yk_value *x, const char *name, int64_t channels)
{
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, name);
    yk_value *y = conv_norm_relu(x, "0", channels);
    y = conv_norm_relu(y, "1", channels);
    yk_scope_pop(graph);
    return yk_add(x, y);
}

yk_value *yk_resnet9(yk_value *images, int64_t classes)
{
    yk_value *x = conv_norm_relu(images, "prep", WIDTH); /* (N, 32, H, W) */
    x = halve(x, "layer1", 2 * WIDTH);                   /* (N, 64, H / 2, W / 2) */
    x = residual(x, "residual1", 2 * WIDTH);
    x = halve(x, "layer2", 4 * WIDTH); /* (N, 128, H / 4, W / 4) */
    x = halve(x, "layer3", 8 * WIDTH); /* (N, 256, H / 8, W / 8) */
    x = residual(x, "residual3", 8 * WIDTH);
    x = yk_flatten(yk_global_avg_pool2d(x));
    return yk_scale(yk_nn_linear(x, "fc", classes), logit_scale);
}
