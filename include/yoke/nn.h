/*
 * Layers made of operators and parameters, and the networks made of layers. Parameter names are
 * torchvision's: a checkpoint of a network loads into the torchvision model of the same name.
 */
#ifndef YOKE_NN_H
#define YOKE_NN_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* conv2d without bias, as in every ResNet, with a square kernel: adds parameter NAME.weight. */
yk_value *yk_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                       const yk_conv2d_options *options);
/* Adds NAME.weight and NAME.bias. */
yk_value *yk_nn_linear(yk_value *x, const char *name, int64_t out_features);
/* Adds parameters NAME.weight and .bias, buffers .running_mean, .running_var and (i64 scalar)
 * .num_batches_tracked, which counts the forwards in training. */
yk_value *yk_nn_batch_norm(yk_value *x, const char *name);

/*
 * images (N, 3, H, W) -> logits (N, classes). resnet18 has the CIFAR stem (3x3, stride 1, no
 * max-pool); the others have torchvision's ImageNet stem (7x7 stride 2, max-pool).
 */
yk_value *yk_resnet18(yk_value *images, int64_t classes);
yk_value *yk_resnet18_imagenet(yk_value *images, int64_t classes);
yk_value *yk_resnet34(yk_value *images, int64_t classes);
yk_value *yk_resnet50(yk_value *images, int64_t classes);
yk_value *yk_resnet101(yk_value *images, int64_t classes);
/* A small multi-layer perceptron: flatten, linear 256, relu, linear. For tests and first steps. */
yk_value *yk_mlp(yk_value *images, int64_t classes);

/* The networks by name, as --arch takes them ('-' and '_' alike); NULL past the last index and for
 * an unknown name. */
typedef yk_value *(*yk_arch_fn)(yk_value *images, int64_t classes);
const char *yk_arch_name(size_t index);
yk_arch_fn yk_arch_find(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
