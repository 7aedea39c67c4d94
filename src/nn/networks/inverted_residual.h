/*
 * The layers and blocks of networks for small devices, in torchvision's form and with its names:
 * MobileNetV2, MNASNet and RegNet are made of these layers, and MobileNetV3 and EfficientNet of
 * these blocks.
 */
#ifndef YKI_INVERTED_RESIDUAL_H
#define YKI_INVERTED_RESIDUAL_H

#include <yoke/nn.h>

typedef yk_value *yki_activation(yk_value *x);

/* A convolution of which the image keeps its size, except for the stride, and what follows it. */
typedef struct yki_conv_norm {
    int64_t channels, kernel, stride, groups;
    const yk_nn_batch_norm_options *norm; /* NULL: the defaults */
    yki_activation *activation;           /* NULL: none */
} yki_conv_norm;

/* A scope of that name with "0", the convolution, and "1", its norm.
 * (N, C, H, W) -> (N, channels, H / stride, W / stride) */
yk_value *yki_nn_named_conv_norm(yk_value *x, const char *name, const yki_conv_norm *layer);
/* The same in a scope of that number. */
yk_value *yki_nn_conv_norm(yk_value *x, int number, const yki_conv_norm *layer);
/* The same without a scope: the layers `number`, the convolution, and `number + 1`, its norm. */
yk_value *yki_nn_flat_conv_norm(yk_value *x, int number, const yki_conv_norm *layer);

/*
 * A block widens its input by a 1x1 convolution, filters each channel alone (depthwise), scales the
 * channels by squeeze and excitation, and narrows them again by a 1x1 convolution without
 * activation. It does not widen what has all the channels already. A block that does not change the
 * shape adds its input.
 *
 * A fused block widens and filters by one convolution. If there is nothing to widen, this is all.
 */
typedef struct yki_inverted_residual {
    bool fused;
    int64_t expanded, channels, kernel, stride;
    int64_t squeezed; /* channels within squeeze and excitation; 0: there is none */
    yki_activation *activation;
    const yk_nn_squeeze_excitation_options *excitation;
    const yk_nn_batch_norm_options *norm;
    double drop; /* the probability of stochastic depth; 0: there is none */
} yki_inverted_residual;

/* A scope of that number with "block". (N, C, H, W) -> (N, channels, H / stride, W / stride) */
yk_value *yki_nn_inverted_residual(yk_value *x, int number, const yki_inverted_residual *block);

/* What MobileNetV2, MNASNet and EfficientNet end with: the means of all channels, dropout and the
 * layer "classifier.1", whose weight starts like this. (N, C, H, W) -> (N, classes) */
yk_value *yki_nn_dropout_classifier(yk_value *features, int64_t classes, double dropout,
                                    yk_init weight);

/* The multiple of 8 that is nearest, but at least 0.9 of it. */
int64_t yki_nn_round_channels(double channels);

#endif
