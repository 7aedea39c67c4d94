/**
 * @file
 * Layers, which are operators with their parameters, and networks made of layers. Parameters have
 * torchvision's names, shapes and order, and a network that has the name of a torchvision model
 * exchanges checkpoints with it: yk_resnet50 with torchvision's resnet50.
 */
#ifndef YOKE_NN_H
#define YOKE_NN_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A convolution of kernel x kernel without bias, as in every ResNet: x (N, C, H, W) ->
 *  (N, out_channels, P, Q), as yk_conv2d() says. Declares the parameter NAME.weight (out_channels,
 *  C / groups, kernel, kernel), which starts as YK_INIT_KAIMING_NORMAL_FAN_OUT. NULL options mean
 *  the defaults. */
yk_value *yk_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                       const yk_conv2d_options *options);
/** The same with a bias, as in LeNet or VGG. Declares NAME.weight and the parameter NAME.bias
 *  (out_channels), which start as those of PyTorch's nn.Conv2d. */
yk_value *yk_nn_conv2d_bias(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                            const yk_conv2d_options *options);
/** A transposed convolution of kernel x kernel without bias: x (N, C, H, W) ->
 *  (N, out_channels, P, Q), as yk_conv_transpose2d() says. Declares the parameter NAME.weight
 *  (C, out_channels / groups, kernel, kernel), which starts as that of PyTorch's
 *  nn.ConvTranspose2d. NULL options mean the defaults. */
yk_value *yk_nn_conv_transpose2d(yk_value *x, const char *name, int64_t out_channels,
                                 int64_t kernel, const yk_conv_transpose2d_options *options);
/** The same with a bias. Declares NAME.weight and the parameter NAME.bias (out_channels), which
 *  start as those of PyTorch's nn.ConvTranspose2d. */
yk_value *yk_nn_conv_transpose2d_bias(yk_value *x, const char *name, int64_t out_channels,
                                      int64_t kernel, const yk_conv_transpose2d_options *options);
/** A fully connected layer: x (N, ..., I) -> (N, ..., out_features). Declares NAME.weight
 *  (out_features, I) and NAME.bias (out_features), which start as those of PyTorch's nn.Linear. */
yk_value *yk_nn_linear(yk_value *x, const char *name, int64_t out_features);
/** A table of vectors, as nn.Embedding: indices (N) or (N, T), int32 -> (N, embedding_dim) or
 *  (N, T, embedding_dim). Declares NAME.weight (num_embeddings, embedding_dim), which starts as
 * that of nn.Embedding. */
yk_value *yk_nn_embedding(yk_value *indices, const char *name, int64_t num_embeddings,
                          int64_t embedding_dim);
/** Layer normalisation of x (N, ..., C) over its last dimension, as nn.LayerNorm(C): declares the
 *  parameters NAME.weight and NAME.bias (C). eps is as in yk_layer_norm(). */
yk_value *yk_nn_layer_norm(yk_value *x, const char *name, double eps);
/** Root mean square normalisation of x (N, ..., C) over its last dimension, as nn.RMSNorm(C):
 *  declares the parameter NAME.weight (C). eps is as in yk_rms_norm(). */
yk_value *yk_nn_rms_norm(yk_value *x, const char *name, double eps);
/** Group normalisation of x (N, C, ...), as nn.GroupNorm(num_groups, C): declares the parameters
 *  NAME.weight and NAME.bias (C). num_groups and eps are as in yk_group_norm(). */
yk_value *yk_nn_group_norm(yk_value *x, const char *name, int64_t num_groups, double eps);
/** Batch normalisation of x (N, C, H, W) or (N, C). Declares the parameters NAME.weight and
 *  NAME.bias, and the buffers NAME.running_mean, NAME.running_var and NAME.num_batches_tracked (an
 *  int64 scalar that counts forwards in training mode). */
yk_value *yk_nn_batch_norm(yk_value *x, const char *name);

/** How a layer of batch normalisation computes and learns. */
typedef struct yk_nn_batch_norm_options {
    size_t size;      /**< set by YK_NN_BATCH_NORM_OPTIONS_INIT */
    double eps;       /**< added to the variance, above 0 [1e-5] */
    double momentum;  /**< weight of the new batch in the running statistics, as in PyTorch [0.1] */
    bool fixed_scale; /**< NAME.weight stays 1 and is not trained [false] */
    bool batch_statistics; /**< as in yk_batch_norm_options [false] */
} yk_nn_batch_norm_options;

/** The defaults of yk_nn_batch_norm_options. */
#define YK_NN_BATCH_NORM_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(yk_nn_batch_norm_options), 1e-5, 0.1, false, false                                  \
    }

/** yk_nn_batch_norm with options; NULL means the defaults. */
yk_value *yk_nn_batch_norm_with(yk_value *x, const char *name,
                                const yk_nn_batch_norm_options *options);

/**
 * Stochastic depth (Huang et al. 2016) of x (N, ...), what a branch of the network adds to the
 * rest, as torchvision.ops.StochasticDepth in mode "row", also called drop path. In training mode,
 * all of a sample's elements are 0 with probability p (0 to below 1), and otherwise multiplied by
 * 1 / (1 - p); in evaluation mode, it is the identity. Samples are drawn as elements are by
 * yk_dropout(). It declares nothing.
 */
yk_value *yk_nn_stochastic_depth(yk_value *x, double p);

/** The functions of squeeze and excitation. */
typedef struct yk_nn_squeeze_excitation_options {
    size_t size;                                /**< set by YK_NN_SQUEEZE_EXCITATION_OPTIONS_INIT */
    yk_value *(*activation)(yk_value *x);       /**< of the squeezed channels [yk_relu] */
    yk_value *(*scale_activation)(yk_value *x); /**< which makes the factors [yk_sigmoid] */
} yk_nn_squeeze_excitation_options;

/** The defaults of yk_nn_squeeze_excitation_options. */
#define YK_NN_SQUEEZE_EXCITATION_OPTIONS_INIT                                                      \
    {                                                                                              \
        sizeof(yk_nn_squeeze_excitation_options), yk_relu, yk_sigmoid                              \
    }

/** Squeeze and excitation (Hu et al. 2017), as torchvision.ops.SqueezeExcitation: each channel of x
 *  (N, C, H, W) is multiplied by a factor that two layers compute from the means of all channels.
 *  The result has the shape of x. Declares the parameters NAME.fc1.weight (squeeze_channels, C, 1,
 *  1) and NAME.fc1.bias, and NAME.fc2.weight (C, squeeze_channels, 1, 1) and NAME.fc2.bias, which
 *  start as those of PyTorch's nn.Conv2d. NULL options mean the defaults. */
yk_value *yk_nn_squeeze_excitation(yk_value *x, const char *name, int64_t squeeze_channels,
                                   const yk_nn_squeeze_excitation_options *options);

/**
 * How recurrent layers are stacked, and their states. Those of L layers are (N, L, hidden_size), or
 * (N, 2 L, hidden_size) with two directions, in PyTorch's order (a layer's forward direction, then
 * its backward one), but with the batch first.
 */
typedef struct yk_nn_recurrent_options {
    size_t size;        /**< set by YK_NN_RECURRENT_OPTIONS_INIT */
    int64_t num_layers; /**< each reads the outputs of the one before, at least 1 [1] */
    double dropout;     /**< of the outputs of every layer but the last, 0 to below 1 [0] */
    bool bidirectional; /**< each layer also reads the steps from the last to the first [false] */
    yk_value *h0;       /**< the states before the first step, or NULL: zeros [NULL] */
    yk_value *c0;       /**< the LSTM's cells, likewise [NULL] */
    yk_value **h_n;     /**< if not NULL: receives the states after the last step [NULL] */
    yk_value **c_n;     /**< the LSTM's cells, likewise [NULL] */
    yk_value *lengths;  /**< (N) whole numbers of x's dtype: how many steps of each sequence count,
                           1 to T; NULL: all [NULL] */
} yk_nn_recurrent_options;

/** The defaults of yk_nn_recurrent_options. */
#define YK_NN_RECURRENT_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(yk_nn_recurrent_options), 1, 0, false, NULL, NULL, NULL, NULL, NULL                 \
    }

/**
 * nn.LSTM with batch_first: x (N, T, I) -> the outputs of all T steps (N, T, hidden_size), or
 * (N, T, 2 hidden_size) with two directions. Declares the parameters NAME.weight_ih_l0,
 * NAME.weight_hh_l0, NAME.bias_ih_l0 and NAME.bias_hh_l0, those of the other direction, such as
 * NAME.weight_ih_l0_reverse, and those of further layers, which start as PyTorch's. The layer is
 * unrolled in the graph, so it is for sequences of up to a few hundred steps. NULL options mean the
 * defaults.
 *
 * Sequences shorter than T have their lengths in the options, as PyTorch's pack_padded_sequence()
 * takes them: what x has behind their ends is computed, but reaches no result. The outputs are 0
 * there, h_n and c_n are the states after the last step that counts, and the other direction begins
 * with it.
 */
yk_value *yk_nn_lstm(yk_value *x, const char *name, int64_t hidden_size,
                     const yk_nn_recurrent_options *options);
/** nn.GRU with batch_first, likewise; it has no cells. */
yk_value *yk_nn_gru(yk_value *x, const char *name, int64_t hidden_size,
                    const yk_nn_recurrent_options *options);
/**
 * nn.LSTMCell, one step: the input x (N, I), the hidden state and the cell (N, hidden_size), of
 * which each may be NULL for zeros -> the next hidden state (N, hidden_size). *next, unless it is
 * NULL, receives the next cell. Declares the parameters NAME.weight_ih (4 hidden_size, I),
 * NAME.weight_hh (4 hidden_size, hidden_size), NAME.bias_ih and NAME.bias_hh, which start as
 * PyTorch's. Further steps have the same parameters between yk_scope_reuse(graph, "") and
 * yk_scope_pop().
 */
yk_value *yk_nn_lstm_cell(yk_value *x, const char *name, int64_t hidden_size, yk_value *hidden,
                          yk_value *cell, yk_value **next);
/** nn.GRUCell, likewise, with 3 hidden_size rows of weights; it has no cell. */
yk_value *yk_nn_gru_cell(yk_value *x, const char *name, int64_t hidden_size, yk_value *hidden);

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
