/* Layers whose parameters may start otherwise than those of yoke/nn.h. */
#ifndef YKI_LAYERS_H
#define YKI_LAYERS_H

#include <yoke/nn.h>

typedef struct yki_layer_init {
    yk_init weight;
    bool has_bias;
    yk_init bias;
} yki_layer_init;

/* As yk_nn_conv2d. (N, C, H, W) -> (N, out_channels, ...) */
yk_value *yki_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                        const yk_conv2d_options *options, yki_layer_init init);
/* As yk_nn_linear. (N, C) -> (N, out_features) */
yk_value *yki_nn_linear(yk_value *x, const char *name, int64_t out_features, yki_layer_init init);

#endif
