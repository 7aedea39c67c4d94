/**
 * @file
 * Networks made of layers. Parameters have torchvision's names, shapes and order, and a network
 * that has the name of a torchvision model exchanges checkpoints with it: yk_resnet50 with
 * torchvision's resnet50.
 */
#ifndef YOKE_NETWORKS_H
#define YOKE_NETWORKS_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** torchvision's resnet18, after He et al. 2015 (the stem is a 7x7 convolution of stride 2 and a
 * max-pooling, for images such as ImageNet's): images (N, 3, H, W) -> logits (N, classes). */
yk_value *yk_resnet18(yk_value *images, int64_t classes);
/** torchvision's resnet34. */
yk_value *yk_resnet34(yk_value *images, int64_t classes);
/** torchvision's resnet50 (V1.5). */
yk_value *yk_resnet50(yk_value *images, int64_t classes);
/** torchvision's resnet101 (V1.5). */
yk_value *yk_resnet101(yk_value *images, int64_t classes);
/** torchvision's resnet152 (V1.5). */
yk_value *yk_resnet152(yk_value *images, int64_t classes);

/** torchvision's wide_resnet50_2 (Zagoruyko, Komodakis 2016): yk_resnet50 with twice the channels
 * in each 3x3 convolution. */
yk_value *yk_wide_resnet50_2(yk_value *images, int64_t classes);
/** torchvision's wide_resnet101_2: likewise, of yk_resnet101. */
yk_value *yk_wide_resnet101_2(yk_value *images, int64_t classes);
/** torchvision's resnext50_32x4d (Xie et al. 2016): 32 groups in each 3x3 convolution. */
yk_value *yk_resnext50_32x4d(yk_value *images, int64_t classes);
/** torchvision's resnext101_32x8d. */
yk_value *yk_resnext101_32x8d(yk_value *images, int64_t classes);
/** torchvision's resnext101_64x4d. */
yk_value *yk_resnext101_64x4d(yk_value *images, int64_t classes);
/** torchvision's alexnet (Krizhevsky 2014): images (N, 3, H, W) -> logits (N, classes), where H and
 *  W are at least 63. */
yk_value *yk_alexnet(yk_value *images, int64_t classes);
/** torchvision's vgg11 (Simonyan, Zisserman 2014): images (N, 3, H, W) -> logits (N, classes),
 *  where H and W are at least 32. */
yk_value *yk_vgg11(yk_value *images, int64_t classes);
/** torchvision's vgg11_bn. */
yk_value *yk_vgg11_bn(yk_value *images, int64_t classes);
/** torchvision's vgg13. */
yk_value *yk_vgg13(yk_value *images, int64_t classes);
/** torchvision's vgg13_bn. */
yk_value *yk_vgg13_bn(yk_value *images, int64_t classes);
/** torchvision's vgg16. */
yk_value *yk_vgg16(yk_value *images, int64_t classes);
/** torchvision's vgg16_bn. */
yk_value *yk_vgg16_bn(yk_value *images, int64_t classes);
/** torchvision's vgg19. */
yk_value *yk_vgg19(yk_value *images, int64_t classes);
/** torchvision's vgg19_bn. */
yk_value *yk_vgg19_bn(yk_value *images, int64_t classes);
/** torchvision's mobilenet_v2 (Sandler et al. 2018). */
yk_value *yk_mobilenet_v2(yk_value *images, int64_t classes);
/** torchvision's mobilenet_v3_large (Howard et al. 2019). */
yk_value *yk_mobilenet_v3_large(yk_value *images, int64_t classes);
/** torchvision's mobilenet_v3_small. */
yk_value *yk_mobilenet_v3_small(yk_value *images, int64_t classes);
/** torchvision's mnasnet0_5 (Tan et al. 2018): images (N, 3, H, W) -> logits (N, classes). */
yk_value *yk_mnasnet0_5(yk_value *images, int64_t classes);
/** torchvision's mnasnet0_75. */
yk_value *yk_mnasnet0_75(yk_value *images, int64_t classes);
/** torchvision's mnasnet1_0. */
yk_value *yk_mnasnet1_0(yk_value *images, int64_t classes);
/** torchvision's mnasnet1_3. */
yk_value *yk_mnasnet1_3(yk_value *images, int64_t classes);
/** torchvision's shufflenet_v2_x0_5 (Ma et al. 2018). */
yk_value *yk_shufflenet_v2_x0_5(yk_value *images, int64_t classes);
/** torchvision's shufflenet_v2_x1_0. */
yk_value *yk_shufflenet_v2_x1_0(yk_value *images, int64_t classes);
/** torchvision's shufflenet_v2_x1_5. */
yk_value *yk_shufflenet_v2_x1_5(yk_value *images, int64_t classes);
/** torchvision's shufflenet_v2_x2_0. */
yk_value *yk_shufflenet_v2_x2_0(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b0 (Tan, Le 2019). */
yk_value *yk_efficientnet_b0(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b1. */
yk_value *yk_efficientnet_b1(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b2. */
yk_value *yk_efficientnet_b2(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b3. */
yk_value *yk_efficientnet_b3(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b4. */
yk_value *yk_efficientnet_b4(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b5. */
yk_value *yk_efficientnet_b5(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b6. */
yk_value *yk_efficientnet_b6(yk_value *images, int64_t classes);
/** torchvision's efficientnet_b7. */
yk_value *yk_efficientnet_b7(yk_value *images, int64_t classes);
/** torchvision's efficientnet_v2_s (Tan, Le 2021). */
yk_value *yk_efficientnet_v2_s(yk_value *images, int64_t classes);
/** torchvision's efficientnet_v2_m. */
yk_value *yk_efficientnet_v2_m(yk_value *images, int64_t classes);
/** torchvision's efficientnet_v2_l. */
yk_value *yk_efficientnet_v2_l(yk_value *images, int64_t classes);
/** torchvision's regnet_y_400mf (Radosavovic et al. 2020): images (N, 3, H, W) -> logits (N,
 * classes). RegNetY has squeeze and excitation, RegNetX has not. */
yk_value *yk_regnet_y_400mf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_800mf. */
yk_value *yk_regnet_y_800mf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_1_6gf. */
yk_value *yk_regnet_y_1_6gf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_3_2gf. */
yk_value *yk_regnet_y_3_2gf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_8gf. */
yk_value *yk_regnet_y_8gf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_16gf. */
yk_value *yk_regnet_y_16gf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_32gf. */
yk_value *yk_regnet_y_32gf(yk_value *images, int64_t classes);
/** torchvision's regnet_y_128gf. */
yk_value *yk_regnet_y_128gf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_400mf. */
yk_value *yk_regnet_x_400mf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_800mf. */
yk_value *yk_regnet_x_800mf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_1_6gf. */
yk_value *yk_regnet_x_1_6gf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_3_2gf. */
yk_value *yk_regnet_x_3_2gf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_8gf. */
yk_value *yk_regnet_x_8gf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_16gf. */
yk_value *yk_regnet_x_16gf(yk_value *images, int64_t classes);
/** torchvision's regnet_x_32gf. */
yk_value *yk_regnet_x_32gf(yk_value *images, int64_t classes);
/** torchvision's densenet121 (Huang et al. 2016): images (N, 3, H, W) -> logits (N, classes), where
 *  H and W are at least 29. */
yk_value *yk_densenet121(yk_value *images, int64_t classes);
/** torchvision's densenet161. */
yk_value *yk_densenet161(yk_value *images, int64_t classes);
/** torchvision's densenet169. */
yk_value *yk_densenet169(yk_value *images, int64_t classes);
/** torchvision's densenet201. */
yk_value *yk_densenet201(yk_value *images, int64_t classes);
/** torchvision's squeezenet1_0 (Iandola et al. 2016): images (N, 3, H, W) -> logits (N, classes),
 *  where H and W are at least 21. */
yk_value *yk_squeezenet1_0(yk_value *images, int64_t classes);
/** torchvision's squeezenet1_1, likewise for images of 17x17 and more. */
yk_value *yk_squeezenet1_1(yk_value *images, int64_t classes);
/** torchvision's googlenet (Szegedy et al. 2014) with aux_logits=False and transform_input=False:
 *  images (N, 3, H, W) -> logits (N, classes), where H and W are at least 15. */
yk_value *yk_googlenet(yk_value *images, int64_t classes);
/** torchvision's convnext_tiny (Liu et al. 2022): images (N, 3, H, W) -> logits (N, classes), where
 *  H and W are at least 32. */
yk_value *yk_convnext_tiny(yk_value *images, int64_t classes);
/** torchvision's convnext_small. */
yk_value *yk_convnext_small(yk_value *images, int64_t classes);
/** torchvision's convnext_base. */
yk_value *yk_convnext_base(yk_value *images, int64_t classes);
/** torchvision's convnext_large. */
yk_value *yk_convnext_large(yk_value *images, int64_t classes);

/** torchvision's swin_t (Liu et al. 2021): images (N, 3, H, W) -> logits (N, classes), where H and
 *  W are at least 4. Its weights fit images of any size. */
yk_value *yk_swin_t(yk_value *images, int64_t classes);
/** torchvision's swin_s. */
yk_value *yk_swin_s(yk_value *images, int64_t classes);
/** torchvision's swin_b. */
yk_value *yk_swin_b(yk_value *images, int64_t classes);
/** torchvision's swin_v2_t (Liu et al. 2022), for images of 256x256 or of any other size. */
yk_value *yk_swin_v2_t(yk_value *images, int64_t classes);
/** torchvision's swin_v2_s. */
yk_value *yk_swin_v2_s(yk_value *images, int64_t classes);
/** torchvision's swin_v2_b. */
yk_value *yk_swin_v2_b(yk_value *images, int64_t classes);

/** torchvision's vit_b_16, a vision transformer (Dosovitskiy et al. 2020): 12 layers of width 768
 *  with 12 heads, on patches of 16x16: images (N, 3, H, W) -> logits (N, classes). H and W are
 *  multiples of the patch, and embeddings of positions are for this size alone, as in torchvision
 *  for image_size. As there, the head starts at zero. */
yk_value *yk_vit_b_16(yk_value *images, int64_t classes);
/** torchvision's vit_b_32: yk_vit_b_16 on patches of 32x32. */
yk_value *yk_vit_b_32(yk_value *images, int64_t classes);
/** torchvision's vit_l_16: 24 layers of width 1024 with 16 heads, on patches of 16x16. */
yk_value *yk_vit_l_16(yk_value *images, int64_t classes);
/** torchvision's vit_l_32: yk_vit_l_16 on patches of 32x32. */
yk_value *yk_vit_l_32(yk_value *images, int64_t classes);
/** torchvision's vit_h_14: 32 layers of width 1280 with 16 heads, on patches of 14x14. */
yk_value *yk_vit_h_14(yk_value *images, int64_t classes);
/** A vision transformer for small images such as CIFAR's: that of torchvision with patches of 4x4
 *  and the sizes of ViT-Tiny (Touvron et al. 2020), 12 layers of width 192 with 3 heads, which are
 *  those of timm's vit_tiny_patch16_224. It has 5.4 million parameters at 32x32. */
yk_value *yk_vit_tiny_patch4_32(yk_value *images, int64_t classes);

/** ResNet-18 for small images such as CIFAR's: its stem is a 3x3 convolution of stride 1 without
 *  max-pooling. The rest is yk_resnet18, but checkpoints of the two do not fit each other. */
yk_value *yk_resnet18_cifar(yk_value *images, int64_t classes);
/**
 * ResNet-9 for small images, of 8x8 pixels or more: images (N, 3, H, W) -> logits (N, classes). Its
 * 1.6 million parameters train in minutes on two cores. After David Page, "How to Train Your
 * ResNet" (2018), at half its width and with a global average before the last layer; torchvision
 * has no such network.
 */
yk_value *yk_resnet9(yk_value *images, int64_t classes);
/**
 * The network of airbench94 for images of 32x32: images (N, 3, H, W) -> logits (N, classes), 2
 * million parameters. Its first layer, "whiten", is not trained but computed from training images
 * (yk_whiten_conv2d). After Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024);
 * parameters have the names of his code.
 */
yk_value *yk_airbench94(yk_value *images, int64_t classes);
/** The larger network of airbench96 from the same work: wider, with three convolutions and a
 * shortcut in each group. */
yk_value *yk_airbench96(yk_value *images, int64_t classes);
/** A small multi-layer perceptron for tests and first steps: flatten, linear to 256, relu, linear;
 *  images (N, ...) -> logits (N, classes). */
yk_value *yk_mlp(yk_value *images, int64_t classes);

/** A function that builds a network: images -> logits (N, classes). */
typedef yk_value *(*yk_arch_fn)(yk_value *images, int64_t classes);
/** The name of the index-th network, as --arch takes it; NULL past the last one. */
const char *yk_arch_name(size_t index);
/** The network of that name, in which '-' and '_' are the same; NULL for an unknown name. */
yk_arch_fn yk_arch_find(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
