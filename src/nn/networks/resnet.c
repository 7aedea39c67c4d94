/*
 * Residual networks: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2015);
 * wide ones (Zagoruyko, Komodakis 2016) and ResNeXt (Xie et al. 2016), in torchvision's form: a
 * bottleneck has its stride in the 3x3 convolution (ResNet V1.5), and parameters have torchvision's
 * names in torchvision's order. In a block whose input and output differ in shape, the shortcut
 * goes through "downsample", a strided 1x1 convolution with batch norm.
 */
#include <yoke/networks.h>
#include <yoke/nn.h>

#include <stdio.h>

typedef struct resnet_config resnet_config;
typedef yk_value *(*block_fn)(yk_value *x, const resnet_config *config, int64_t width,
                              int64_t stride);

/* The parameters of the family of networks. */
struct resnet_config {
    block_fn block;
    int blocks[4];     /* in each stage */
    bool small_images; /* a 3x3 stem of stride 1 without max-pool, for 32x32 images */
    int64_t groups;    /* of a bottleneck's 3x3 convolution */
    int64_t widening;  /* that convolution has so many times the channels */
};

enum { STEM_WIDTH = 64, STAGES = 4, BOTTLENECK_EXPANSION = 4 };

static yk_value *conv_norm_groups(yk_value *x, const char *conv, const char *norm, int64_t channels,
                                  int64_t kernel, int64_t stride, int64_t groups)
{
    yk_conv2d_options options = YK_CONV2D_OPTIONS_INIT;
    options.stride = stride;
    options.padding = kernel / 2;
    options.groups = groups;
    x = yk_nn_conv2d(x, conv, channels, kernel, &options);
    return yk_nn_batch_norm(x, norm);
}

static yk_value *conv_norm(yk_value *x, const char *conv, const char *norm, int64_t channels,
                           int64_t kernel, int64_t stride)
{
    return conv_norm_groups(x, conv, norm, channels, kernel, stride, 1);
}

/* x itself if the shapes agree (or are unknown). */
static yk_value *short_cut(yk_value *x, int64_t channels, int64_t stride)
{
    int64_t dims[YK_MAX_DIMS];
    int ndim = yk_value_shape(x, dims);
    if (ndim < 0 || (ndim == 4 && dims[1] == channels && stride == 1))
        return x;
    yk_graph *graph = yk_value_graph(x);
    yk_scope_push(graph, "downsample");
    yk_value *y = conv_norm(x, "0", "1", channels, 1, stride);
    yk_scope_pop(graph);
    return y;
}

/* Two 3x3 convolutions. (N, C, H, W) -> (N, width, H / stride, W / stride) */
static yk_value *basic_block(yk_value *x, const resnet_config *config, int64_t width,
                             int64_t stride)
{
    (void)config;
    yk_value *y = yk_relu(conv_norm(x, "conv1", "bn1", width, 3, stride));
    y = conv_norm(y, "conv2", "bn2", width, 3, 1);
    return yk_relu(yk_add(y, short_cut(x, width, stride)));
}

/* 1x1, 3x3, 1x1. (N, C, H, W) -> (N, 4 width, H / stride, W / stride) */
static yk_value *bottleneck(yk_value *x, const resnet_config *config, int64_t width, int64_t stride)
{
    int64_t channels = width * BOTTLENECK_EXPANSION, inner = width * config->widening;
    yk_value *y = yk_relu(conv_norm(x, "conv1", "bn1", inner, 1, 1));
    y = yk_relu(conv_norm_groups(y, "conv2", "bn2", inner, 3, stride, config->groups));
    y = conv_norm(y, "conv3", "bn3", channels, 1, 1);
    return yk_relu(yk_add(y, short_cut(x, channels, stride)));
}

/* (N, 3, H, W) -> (N, 64, H, W) for small images, otherwise (N, 64, H / 4, W / 4) */
static yk_value *stem(yk_value *images, const resnet_config *config)
{
    if (config->small_images)
        return yk_relu(conv_norm(images, "conv1", "bn1", STEM_WIDTH, 3, 1));
    yk_value *x = yk_relu(conv_norm(images, "conv1", "bn1", STEM_WIDTH, 7, 2));
    return yk_max_pool2d(x, 3, 2, 1);
}

/* Each stage but the first halves the image and doubles the width. */
static yk_value *residual_stage(yk_value *x, const resnet_config *config, int index)
{
    int64_t dims[YK_MAX_DIMS];
    if (yk_value_shape(x, dims) < 0)
        return x;
    yk_graph *graph = yk_value_graph(x);
    char name[32];
    snprintf(name, sizeof name, "layer%d", index + 1);
    yk_scope_push(graph, name);
    for (int i = 0; i < config->blocks[index]; i++) {
        int64_t stride = index > 0 && i == 0 ? 2 : 1;
        snprintf(name, sizeof name, "%d", i);
        yk_scope_push(graph, name);
        x = config->block(x, config, (int64_t)STEM_WIDTH << index, stride);
        yk_scope_pop(graph);
    }
    yk_scope_pop(graph);
    return x;
}

static yk_value *resnet(yk_value *images, int64_t classes, const resnet_config *config)
{
    yk_value *x = stem(images, config);
    for (int i = 0; i < STAGES; i++)
        x = residual_stage(x, config, i);
    return yk_nn_linear(yk_flatten(yk_global_avg_pool2d(x)), "fc", classes);
}

yk_value *yk_resnet18(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){basic_block, {2, 2, 2, 2}, false, 1, 1});
}

yk_value *yk_resnet34(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){basic_block, {3, 4, 6, 3}, false, 1, 1});
}

yk_value *yk_resnet50(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 6, 3}, false, 1, 1});
}

yk_value *yk_resnet101(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 23, 3}, false, 1, 1});
}

yk_value *yk_resnet152(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 8, 36, 3}, false, 1, 1});
}

yk_value *yk_wide_resnet50_2(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 6, 3}, false, 1, 2});
}

yk_value *yk_wide_resnet101_2(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 23, 3}, false, 1, 2});
}

yk_value *yk_resnext50_32x4d(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 6, 3}, false, 32, 2});
}

yk_value *yk_resnext101_32x8d(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 23, 3}, false, 32, 4});
}

yk_value *yk_resnext101_64x4d(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){bottleneck, {3, 4, 23, 3}, false, 64, 4});
}

yk_value *yk_resnet18_cifar(yk_value *images, int64_t classes)
{
    return resnet(images, classes, &(resnet_config){basic_block, {2, 2, 2, 2}, true, 1, 1});
}
