/**
 * @file
 * Layers, which are operators with their parameters. Parameters have PyTorch's names, shapes and
 * order. Networks made of layers are in networks.h.
 */
#ifndef YOKE_NN_H
#define YOKE_NN_H

#include <yoke/functional.h>
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
/** A convolution of sequences without bias, as nn.Conv1d(bias=False): x (N, C, L) -> (N,
 *  out_channels, P), as yk_conv1d() says. Declares the parameter NAME.weight (out_channels, C /
 *  groups, kernel), which starts as that of PyTorch's nn.Conv1d. NULL options mean the defaults. */
yk_value *yk_nn_conv1d(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                       const yk_conv1d_options *options);
/** The same with a bias, nn.Conv1d's default: declares NAME.weight and the parameter NAME.bias
 *  (out_channels), which start as those of PyTorch's nn.Conv1d. */
yk_value *yk_nn_conv1d_bias(yk_value *x, const char *name, int64_t out_channels, int64_t kernel,
                            const yk_conv1d_options *options);
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
/** A transposed convolution of sequences without bias: x (N, C, L) -> (N, out_channels, P), as
 *  yk_conv_transpose1d() says. Declares the parameter NAME.weight (C, out_channels / groups,
 *  kernel), which starts as that of PyTorch's nn.ConvTranspose1d. NULL options mean the defaults.
 */
yk_value *yk_nn_conv_transpose1d(yk_value *x, const char *name, int64_t out_channels,
                                 int64_t kernel, const yk_conv_transpose1d_options *options);
/** The same with a bias. Declares NAME.weight and the parameter NAME.bias (out_channels), which
 *  start as those of PyTorch's nn.ConvTranspose1d. */
yk_value *yk_nn_conv_transpose1d_bias(yk_value *x, const char *name, int64_t out_channels,
                                      int64_t kernel, const yk_conv_transpose1d_options *options);
/** A fully connected layer: x (N, ..., I) -> (N, ..., out_features). Declares NAME.weight
 *  (out_features, I) and NAME.bias (out_features), which start as those of PyTorch's nn.Linear. */
yk_value *yk_nn_linear(yk_value *x, const char *name, int64_t out_features);
/** A table of vectors, as nn.Embedding: indices (N) or (N, T), int32 or int64 -> (N, embedding_dim)
 *  or (N, T, embedding_dim). Declares NAME.weight (num_embeddings, embedding_dim), which starts as
 *  that of nn.Embedding. */
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
/** Batch normalisation of x (N, C, H, W), (N, C, L) or (N, C). Declares the parameters NAME.weight
 * and NAME.bias, and the buffers NAME.running_mean, NAME.running_var and NAME.num_batches_tracked
 * (an int64 scalar that counts forwards in training mode). */
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
 * NAME.weight_ih_l0_reverse, and those of further layers, which start as PyTorch's. A direction
 * of a layer is one operator over all steps, however many these are. NULL options mean the
 * defaults.
 *
 * Sequences shorter than T have their lengths in the options, as PyTorch's pack_padded_sequence()
 * takes them: what x holds after their ends changes no result. The outputs are 0 there, h_n and c_n
 * are the states after the last step that counts, and the other direction begins with that step.
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

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
