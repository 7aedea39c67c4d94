/* Layers whose parameters may start otherwise than those of yoke/nn.h. */
#ifndef YKI_LAYERS_H
#define YKI_LAYERS_H

#include <yoke/nn.h>

typedef struct yki_layer_init {
    yk_init weight;
    bool has_bias;
    yk_init bias;
} yki_layer_init;

/* Those of PyTorch's nn.Linear, and of nn.Conv2d with a bias. */
#define YKI_LINEAR_INIT                                                                            \
    {                                                                                              \
        YK_INIT_KAIMING_UNIFORM, true, YK_INIT_UNIFORM_FAN_IN                                      \
    }

/* The channels of x (N, C, H, W); 1 of any other value, which an operator then refuses. */
int64_t yki_channels_of(const yk_value *x);
/* A scope of that number, as of a layer of nn.Sequential. */
void yki_scope_push_number(yk_graph *graph, int number);
/* What yk_nn_stochastic_depth multiplies each sample of x by: (N, ...) -> (N, 1, ...). */
yk_value *yki_nn_sample_factors(yk_value *x, double p);
/* As yk_nn_conv2d. (N, C, H, W) -> (N, out_channels, ...) */
yk_value *yki_nn_conv2d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                        const yk_conv2d_options *options, yki_layer_init init);
/* Max pooling with ceil_mode and without padding. (N, C, H, W) -> (N, C, P, Q) */
yk_value *yki_nn_max_pool_up(yk_value *x, int64_t kernel, int64_t stride);
/* As yk_nn_squeeze_excitation. (N, C, H, W) -> (N, C, H, W) */
yk_value *yki_nn_squeeze_excitation(yk_value *x, const char *name, int64_t squeeze_channels,
                                    const yk_nn_squeeze_excitation_options *options,
                                    yki_layer_init init);
/* Declares the weight (out_features, in_features) of a linear layer, which is returned, and its
 * bias, or NULL, of the dtype of x. */
yk_value *yki_nn_declare_linear(yk_value *x, int64_t out_features, int64_t in_features,
                                yki_layer_init init, yk_value **bias);
/* As yk_nn_linear. (N, C) -> (N, out_features) */
yk_value *yki_nn_linear(yk_value *x, const char *name, int64_t out_features, yki_layer_init init);

#endif
