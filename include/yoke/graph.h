/**
 * @file
 * The graph: what a network computes. It is built once, symbolically, and an input's first
 * dimension may be YK_BATCH, which stands for any number of samples.
 *
 * Errors are sticky, so that code that builds a network needs no checks. A wrong shape, name or
 * option, or NULL in place of a value, makes the result invalid (never NULL) and everything built
 * from it too; yk_model_create then returns the first error with the operator, the shapes and the
 * scope.
 *
 * A graph is used by one thread at a time. All names are copied. Values belong to their graph and
 * live as long as it does.
 */
#ifndef YOKE_GRAPH_H
#define YOKE_GRAPH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/status.h>
#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** First dimension of an input: the number of samples, known only when a batch arrives. */
#define YK_BATCH (-1)

/** A graph under construction, or the one that a model was made of. */
typedef struct yk_graph yk_graph;
/** A tensor of the graph: an input, parameter or buffer, or what an operator computes. */
typedef struct yk_value yk_value;

/* ---- building --------------------------------------------------------------------------- */

/** A new, empty graph; NULL when there is no memory, which building functions accept. */
yk_graph *yk_graph_create(void);
/**
 * Frees the graph and its values; accepts NULL. Only for a graph of which no model has been made: a
 * model takes its graph over and frees it. As long as the model lives, this does nothing to its
 * graph; after yk_model_destroy the pointer must not be used.
 */
void yk_graph_destroy(yk_graph *graph);

/** Prefixes the names of parameters and buffers declared until the matching pop: after a push of
 *  "layer1" and one of "0" the prefix is "layer1.0.". The name "" does not change the prefix. */
void yk_scope_push(yk_graph *graph, const char *name);
/**
 * As yk_scope_push, of a scope that has been built: until the matching pop, parameters and buffers
 * are not declared but used again, those of the same names and shapes. What builds a layer or a
 * network in it so applies it to another value with the same weights. The name "" is the scope that
 * has been built so far.
 */
void yk_scope_reuse(yk_graph *graph, const char *name);
/** Ends the scope that was pushed last. Where there is none, it is an error, which sticks. No model
 *  is made of a graph with a scope that has not ended. */
void yk_scope_pop(yk_graph *graph);
/** Says the version of the module whose scope is being built: PyTorch's `_version` of its class, 1
 *  unless it is said. State_dicts have it in their `_metadata`, and a few modules ask for it when
 *  they load one. Layers and networks of yoke say it themselves. */
void yk_scope_version(yk_graph *graph, int version);

/**
 * What is built until the matching pop computes as in evaluation mode while the model trains, as a
 * module after eval(): dropout does nothing, and a batch_norm normalises with its running
 * statistics and leaves them as they are, even with batch_statistics. For teachers in distillation,
 * and target networks. Gradients flow through it as through anything else: freeze its weights
 * (yk_graph_set_trainable), or end the gradient at its result (yk_detach).
 */
void yk_eval_push(yk_graph *graph);
/** Ends the last yk_eval_push. Where there is none, it is an error, which sticks; one that is
 *  missing is refused as a missing yk_scope_pop is. */
void yk_eval_pop(yk_graph *graph);

/**
 * Initial values of a parameter. yk_model_create draws them from one MT19937 generator in the order
 * in which torchvision does after torch.manual_seed(seed), so that its convolutional networks start
 * with the same bits: first what the constructors of modules draw, in order of declaration, then
 * all normal numbers. Those for transformers are drawn with the constructors, and have PyTorch's
 * distributions, but not its bits. <yoke/nn_init.h> has the functions of torch.nn.init,
 * which choose others for the parameters of a model.
 */
typedef enum yk_init {
    YK_INIT_ZEROS,                  /**< 0 */
    YK_INIT_ONES,                   /**< 1 */
    YK_INIT_KAIMING_NORMAL_FAN_OUT, /**< normal(0, sqrt(2 / fan_out)): torchvision's convolutions */
    YK_INIT_KAIMING_UNIFORM,        /**< uniform(+-1 / sqrt(fan_in)): nn.Linear's weight */
    YK_INIT_UNIFORM_FAN_IN,         /**< uniform(+-1 / sqrt(fan)), for a bias; needs fan */
    YK_INIT_NORMAL,                 /**< normal(0, 0.01): linear layers of VGG and MobileNet */
    YK_INIT_DIRAC,                  /**< KAIMING_UNIFORM, but the first filters, one for each
                                         input channel, pass their channel on as it is (1 at the
                                         centre, else 0: dirac_); for weights of convolutions */
    YK_INIT_ZEROS_AFTER_DRAW,       /**< 0, as ZEROS; but nn's constructor has drawn a number for
                                         each element, as for the biases of those networks */
    YK_INIT_STANDARD_NORMAL,        /**< normal(0, 1): nn.Embedding's weight */
    YK_INIT_XAVIER_UNIFORM,         /**< for transformers: uniform(+-sqrt(6 / (fan_in + fan_out))),
                                         the weights of nn.MultiheadAttention and of layers */
    YK_INIT_NORMAL_FAN_IN,          /**< for transformers: normal(0, 1 / sqrt(fan_in)), embeddings
                                         of patches */
    YK_INIT_NORMAL_0_02,            /**< for transformers: normal(0, 0.02), embeddings of
                                         positions, and weights of ConvNeXt and Swin */
    YK_INIT_NORMAL_1E_6,            /**< for transformers: normal(0, 1e-6), biases */
    YK_INIT_UNIFORM_FAN_OUT,        /**< uniform(+-1 / sqrt(fan_out)): EfficientNet's last layer */
    YK_INIT_LAYER_SCALE,            /**< 1e-6: what ConvNeXt multiplies its branches by */
    YK_INIT_KAIMING_NORMAL_FAN_IN,  /**< normal(0, sqrt(2 / fan_in)): DenseNet's convolutions */
    YK_INIT_KAIMING_UNIFORM_FAN_OUT, /**< uniform(+-sqrt(3 / fan_out)): MNASNet's last layer */
    YK_INIT_KAIMING_UNIFORM_FAN_IN,  /**< uniform(+-sqrt(6 / fan_in)): SqueezeNet's convolutions */
    YK_INIT_LOGIT_SCALE              /**< log(10): the logarithm of what Swin V2 multiplies the
                                          cosines of its attention by */
} yk_init;

/**
 * An input of the model, which takes the batch's tensor of the same name. dims holds ndim sizes (at
 * most YK_MAX_DIMS), the first of which may be YK_BATCH.
 */
yk_value *yk_input(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                   const int64_t *dims);
/** A trained tensor: float32 or float64, unless it is frozen or the model is for inference. Only
 *  YK_INIT_UNIFORM_FAN_IN uses fan. */
yk_value *yk_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                       const int64_t *dims, yk_init init, int64_t fan);
/** State that is saved and broadcast but not trained, such as running statistics. */
yk_value *yk_buffer(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                    const int64_t *dims, yk_init init);
/**
 * A buffer that starts with the numbers of a tensor, as nn.Module.register_buffer(name, tensor,
 * persistent): sinusoidal positions, masks, class weights, tables of indices. The tensor's data is
 * in memory of the host, of any dtype, and copied. Operators read a buffer like a parameter. It has
 * no batch, but broadcasts to values that have one; it has no gradient.
 *
 * Where persistent (PyTorch's default), files of weights and checkpoints hold the buffer. Where
 * not, they neither hold nor expect it, and yk_model_copy_values() leaves it out; everything else
 * treats both alike. Averages of weights (use_buffers of yk_ema_options, Lookahead, Local SGD)
 * leave the buffer unchanged, unless a batch norm updates it. When a scope is used again, the
 * tensor must have the same numbers as the first time.
 */
yk_value *yk_register_buffer(yk_graph *graph, const char *name, const yk_tensor *tensor,
                             bool persistent);
/** A tensor that is made in forward() instead of being registered: a buffer that is not persistent,
 *  and needs no name. Each call makes one, in a scope that is used again, too. Its name in lists of
 *  buffers is that of torch.fx, "_tensor_constant0" with the prefix of the scope. */
yk_value *yk_constant(yk_graph *graph, const yk_tensor *tensor);

/**
 * Says which parameters are trained: those declared so far whose full names match the shell pattern
 * (fnmatch), such as "layer4.*". All are, unless this freezes them with trainable = false; a later
 * call can thaw some again, but not what its layer never trains, such as the scale of a norm with
 * yk_nn_batch_norm_options.fixed_scale. A frozen parameter has no gradient, and backward ends where
 * only frozen ones are left, so neither time nor memory nor communication is spent on them. A
 * batch_norm whose weight and bias are frozen normalises with its running statistics in training
 * mode too, and leaves them as they are, unless it has batch_statistics. *count (may be NULL) is
 * the number of matches; YK_ERROR_NOT_FOUND when nothing matches, YK_ERROR_INVALID_ARGUMENT once a
 * model has been made of the graph.
 */
yk_status yk_graph_set_trainable(yk_graph *graph, const char *pattern, bool trainable,
                                 size_t *count);

/** Writes the sizes of a value to dims (may be NULL), YK_BATCH where symbolic, and returns how many
 *  dimensions it has; -1 when it is invalid or NULL. */
int yk_value_shape(const yk_value *value, int64_t dims[YK_MAX_DIMS]);
/** The dtype of its elements; YK_F32 for NULL. */
yk_dtype yk_value_dtype(const yk_value *value);
/** The graph that it belongs to; NULL for NULL, and for values that could not even be made. */
yk_graph *yk_value_graph(const yk_value *value);

/* ---- operators, as in torch.nn.functional -------------------------------------------------- */

/** How windows move over an image. What is said for columns alone is for windows that are not
 *  square, such as those of Conv2d(..., kernel_size=(1, 7), padding=(0, 3)). */
typedef struct yk_conv2d_options {
    size_t size;             /**< set by YK_CONV2D_OPTIONS_INIT */
    int64_t stride;          /**< rows and columns between windows, at least 1 [1] */
    int64_t padding;         /**< zeros added on every side [0] */
    int64_t dilation;        /**< rows and columns between the taps of a window, at least 1 [1] */
    int64_t groups;          /**< channels are split into so many independent groups [1] */
    int64_t column_kernel;   /**< of layers (yoke/nn.h): columns of the kernel; -1: square [-1] */
    int64_t column_stride;   /**< columns between windows; -1: as rows [-1] */
    int64_t column_padding;  /**< columns of zeros on the left and right; -1: as rows [-1] */
    int64_t column_dilation; /**< columns between the taps of a window; -1: as rows [-1] */
} yk_conv2d_options;

/** The defaults of yk_conv2d_options. */
#define YK_CONV2D_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_conv2d_options), 1, 0, 1, 1, -1, -1, -1, -1                                      \
    }

/**
 * 2-d convolution (as everywhere, a cross-correlation): x (N, C, H, W), weight (K, C / groups, R,
 * S), bias (K) or NULL -> (N, K, P, Q), of which
 * P = floor((H + 2 padding - dilation (R - 1) - 1) / stride) + 1, and Q likewise, of S and the
 * options for columns. C and K are multiples of groups. NULL options mean the defaults.
 */
yk_value *yk_conv2d(yk_value *x, yk_value *weight, yk_value *bias,
                    const yk_conv2d_options *options);

/** How windows move over the result of a transposed convolution. What is said for columns alone is
 *  for windows that are not square. */
typedef struct yk_conv_transpose2d_options {
    size_t size;             /**< set by YK_CONV_TRANSPOSE2D_OPTIONS_INIT */
    int64_t stride;          /**< rows and columns between windows, at least 1 [1] */
    int64_t padding;         /**< rows and columns that are cut off on every side [0] */
    int64_t output_padding;  /**< rows and columns that are added at the bottom and on the right,
                                  less than stride [0] */
    int64_t dilation;        /**< rows and columns between the taps of a window, at least 1 [1] */
    int64_t groups;          /**< channels are split into so many independent groups [1] */
    int64_t column_kernel;   /**< of layers (yoke/nn.h): columns of the kernel; -1: square [-1] */
    int64_t column_stride;   /**< columns between windows; -1: as rows [-1] */
    int64_t column_padding;  /**< columns cut off on the left and right; -1: as rows [-1] */
    int64_t column_dilation; /**< columns between the taps of a window; -1: as rows [-1] */
    int64_t column_output_padding; /**< columns added on the right; -1: as rows [-1] */
} yk_conv_transpose2d_options;

/** The defaults of yk_conv_transpose2d_options. */
#define YK_CONV_TRANSPOSE2D_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(yk_conv_transpose2d_options), 1, 0, 0, 1, 1, -1, -1, -1, -1, -1                     \
    }

/**
 * Transposed 2-d convolution, which enlarges images: the gradient of a convolution with respect to
 * its input, as an operator. x (N, C, H, W), weight (C, F / groups, R, S), bias (F) or NULL ->
 * (N, F, P, Q), of which P = (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1,
 * and Q likewise. C and F are multiples of groups. NULL options mean the defaults.
 */
yk_value *yk_conv_transpose2d(yk_value *x, yk_value *weight, yk_value *bias,
                              const yk_conv_transpose2d_options *options);
/** x weight^T + bias: x (N, ..., I), weight (O, I), bias (O) or NULL -> (N, ..., O). */
yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias);
/**
 * Products of matrices of each sample, as torch.matmul: a (N, M, K), b (N, K, P) -> (N, M, P), or
 * with heads and the like, (N, ..., M, K) and (N, ..., K, P) -> (N, ..., M, P); or of two matrices
 * without a batch, such as parameters, (M, K) and (K, P) -> (M, P). What comes before the matrices
 * is the same on both sides; nothing is broadcast. With a weight, without a batch, use yk_linear().
 * A side that yk_permute() has made by exchanging the last two dimensions is read as it was before,
 * so that q k^T, yk_matmul(q, yk_permute(k, 3, (int64_t[]){0, 2, 1})), copies nothing. It runs in
 * 16 bits under autocast.
 */
yk_value *yk_matmul(yk_value *a, yk_value *b);

/** How batch normalisation computes. */
typedef struct yk_batch_norm_options {
    size_t size;                   /**< set by YK_BATCH_NORM_OPTIONS_INIT */
    double eps;                    /**< added to the variance, above 0 [1e-5] */
    double momentum;               /**< weight of the new batch in the running statistics, from 0 to
                                        1, as in PyTorch; 0 keeps them as they are [0.1] */
    yk_value *num_batches_tracked; /**< int64 scalar buffer that counts forward passes in training
                                        mode, or NULL [NULL] */
    bool batch_statistics;         /**< in training mode, normalise with the batch's mean and
                                        variance even where weight and bias are frozen, as PyTorch
                                        does without eval() [false] */
} yk_batch_norm_options;

/** The defaults of yk_batch_norm_options. */
#define YK_BATCH_NORM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(yk_batch_norm_options), 1e-5, 0.1, NULL, false                                      \
    }

/**
 * Batch normalisation (Ioffe, Szegedy 2015): x (N, C, H, W), (N, C, L) or (N, C) -> the same shape;
 * weight, bias, running_mean and running_var (C), none of them NULL. The last two, and
 * num_batches_tracked, are buffers (yk_buffer), since training writes them. NULL options mean the
 * defaults. In training mode it normalises with the mean and biased variance of the batch and moves
 * the running statistics (with the unbiased variance, as PyTorch does); in evaluation mode it
 * normalises with the running statistics.
 */
yk_value *yk_batch_norm(yk_value *x, yk_value *weight, yk_value *bias, yk_value *running_mean,
                        yk_value *running_var, const yk_batch_norm_options *options);
/** max(x, 0), of any shape. */
yk_value *yk_relu(yk_value *x);
/** min(max(x, 0), 6), of any shape. */
yk_value *yk_relu6(yk_value *x);
/** GELU (Hendrycks, Gimpel 2016) in its exact form, x (1 + erf(x / sqrt(2))) / 2; of any shape. */
yk_value *yk_gelu(yk_value *x);
/** 1 / (1 + exp(-x)), of any shape. */
yk_value *yk_sigmoid(yk_value *x);
/** x sigmoid(x), also called swish; of any shape. */
yk_value *yk_silu(yk_value *x);
/** x relu6(x + 3) / 6 (Howard et al. 2019), of any shape. */
yk_value *yk_hardswish(yk_value *x);
/** tanh(x), of any shape. */
yk_value *yk_tanh(yk_value *x);
/** x where it is above 0, negative_slope x elsewhere (Maas, Hannun, Ng 2013); of any shape. The
 *  slope is at least 0 (PyTorch's default is 0.01). */
yk_value *yk_leaky_relu(yk_value *x, double negative_slope);
/** x where it is above 0, alpha (exp(x) - 1) elsewhere (Clevert, Unterthiner, Hochreiter 2015); of
 *  any shape. alpha is finite (PyTorch's default is 1). */
yk_value *yk_elu(yk_value *x, double alpha);
/** a + b, broadcast as in NumPy and PyTorch: sizes are matched from the last dimension on, and a
 *  dimension that is 1 or missing on one side is repeated. The result can have no YK_BATCH but as
 *  its first dimension. */
yk_value *yk_add(yk_value *a, yk_value *b);
/** a - b, broadcast as in yk_add(). */
yk_value *yk_subtract(yk_value *a, yk_value *b);
/** a b, element by element, broadcast as in yk_add(). */
yk_value *yk_multiply(yk_value *a, yk_value *b);
/** a / b, element by element, broadcast as in yk_add(). */
yk_value *yk_divide(yk_value *a, yk_value *b);
/** The larger of a and b, element by element, broadcast as in yk_add(), as torch.maximum: NaN where
 *  one is NaN, and where they are equal, each has half of the gradient. */
yk_value *yk_maximum(yk_value *a, yk_value *b);
/** The smaller of a and b, likewise. */
yk_value *yk_minimum(yk_value *a, yk_value *b);
/** A mask: 1 where a > b, 0 elsewhere; broadcast as in yk_add(). It is of their dtype, and has no
 *  gradient. */
yk_value *yk_greater(yk_value *a, yk_value *b);
/** Likewise, 1 where a >= b. */
yk_value *yk_greater_equal(yk_value *a, yk_value *b);
/** Likewise, 1 where a < b. */
yk_value *yk_less(yk_value *a, yk_value *b);
/** Likewise, 1 where a <= b. */
yk_value *yk_less_equal(yk_value *a, yk_value *b);
/** Likewise, 1 where a = b. */
yk_value *yk_equal(yk_value *a, yk_value *b);
/** value where the mask is true, which is anything but 0, and x elsewhere, broadcast as in
 *  yk_add(). The mask is of x's dtype, and is not trained. */
yk_value *yk_masked_fill(yk_value *x, yk_value *mask, double value);
/** a where the condition, such a mask, is true, and b elsewhere, as torch.where. NaN and infinities
 *  of the side that is not taken leave no trace. */
yk_value *yk_where(yk_value *condition, yk_value *a, yk_value *b);
/** The value in the shape and dtype of x, whose numbers do not matter. */
yk_value *yk_full_like(yk_value *x, double value);
/** exp(x), of any shape; float32 under autocast. */
yk_value *yk_exp(yk_value *x);
/** The natural logarithm of x, of any shape: -INFINITY of 0, and NaN of less; float32 under
 *  autocast. */
yk_value *yk_log(yk_value *x);
/** The sine of x, in radians, of any shape. */
yk_value *yk_sin(yk_value *x);
/** The cosine of x, in radians, of any shape. */
yk_value *yk_cos(yk_value *x);
/** |x|, of any shape; its gradient at 0 is 0. */
yk_value *yk_abs(yk_value *x);
/** x to the power of a finite constant, as Tensor.pow: 2 squares, 0.5 is the square root, -0.5 is
 *  rsqrt, -1 is the reciprocal. It is NaN where x is negative and the exponent is no integer. Of
 * any shape; float32 under autocast. */
yk_value *yk_pow(yk_value *x, double exponent);
/** The square root of x: yk_pow() with 0.5. */
yk_value *yk_sqrt(yk_value *x);
/** min(max(x, min), max), of any shape; min is at most max, and either may be infinite. The
 * gradient passes where x is from min to max, both included. */
yk_value *yk_clamp(yk_value *x, double min, double max);
/** The values one after another along one dimension, which is not the batch, as torch.cat: (N, C,
 * H, W), (N, D, H, W), ... -> (N, C + D + ..., H, W) with dim 1. Any number of values from 1 on,
 * which differ in that dimension alone. A negative dim counts from the end: -1 is the last one. */
yk_value *yk_concat(yk_value *const *values, int count, int64_t dim);
/** The part of x from `first` to first + count - 1 of one dimension, which is not the batch, as
 *  torch.narrow: (N, C, ...) -> (N, count, ...) with dim 1. A negative dim counts from the end. */
yk_value *yk_slice(yk_value *x, int64_t dim, int64_t first, int64_t count);
/** Zeros before and after x in one dimension, which is not the batch: (N, C, ...) ->
 *  (N, before + C + after, ...) with dim 1. A negative dim counts from the end. */
yk_value *yk_pad(yk_value *x, int64_t dim, int64_t before, int64_t after);
/** exp(x) / sum(exp(x)) over the last dimension of x, which is not the batch; float32 under
 *  autocast. */
yk_value *yk_softmax(yk_value *x);
/** x - log(sum(exp(x))) over the last dimension of x, which is not the batch: the logarithm of
 *  yk_softmax(), also where that is 0; float32 under autocast. */
yk_value *yk_log_softmax(yk_value *x);
/** Layer normalisation (Ba, Kiros, Hinton 2016) over the last dimensions of x, those that weight
 * and bias have, such as (D) or (C, H, W); the batch is none of them. eps, above 0, is added to the
 * biased variance (PyTorch's default is 1e-5). It runs in float32 under autocast. */
yk_value *yk_layer_norm(yk_value *x, yk_value *weight, yk_value *bias, double eps);
/** Root mean square normalisation (Zhang, Sennrich 2019), weight x / sqrt(mean(x^2) + eps), over
 * the last dimensions of x, those that weight has; the batch is none of them. eps is above 0:
 * Llama's is 1e-5 or 1e-6, and PyTorch's default is FLT_EPSILON for float32. It runs in float32
 * under autocast.
 */
yk_value *yk_rms_norm(yk_value *x, yk_value *weight, double eps);
/**
 * Group normalisation (Wu, He 2018), as torch.nn.functional.group_norm: x (N, C, ...) -> the same
 * shape. The channels of each sample are divided into num_groups groups of C / num_groups
 * neighbours, which are normalised with their own mean and biased variance. There are no running
 * statistics, so training and evaluation mode compute the same. weight and bias are (C), or NULL,
 * which means 1 and 0. With num_groups = C it is instance normalisation, with 1 it is layer
 * normalisation over channels and pixels. eps, above 0, is added to the variance (PyTorch's default
 * is 1e-5). It runs in float32 under autocast.
 */
yk_value *yk_group_norm(yk_value *x, int64_t num_groups, yk_value *weight, yk_value *bias,
                        double eps);

/** How attention is computed. */
typedef struct yk_attention_options {
    size_t size;         /**< set by YK_ATTENTION_OPTIONS_INIT */
    int64_t num_heads;   /**< into which the last dimensions are divided, at least 1 [1] */
    bool is_causal;      /**< a query sees only the keys up to its own position [false] */
    double scale;        /**< what scores are multiplied by; NAN: 1 / sqrt(E / num_heads) [NAN] */
    double dropout_p;    /**< dropout of the weights softmax(...), 0 to below 1 [0] */
    yk_value *attn_mask; /**< what is added to scores, or NULL: (N, num_heads, T, S), or what can be
                            broadcast to it, of q's dtype. It is not trained [NULL] */
    int64_t num_kv_heads; /**< heads of keys and values, of which num_heads is a multiple; 0:
                             num_heads [0] */
} yk_attention_options;

/** The defaults of yk_attention_options. */
#define YK_ATTENTION_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(yk_attention_options), 1, false, NAN, 0, NULL, 0                                    \
    }

/**
 * Scaled dot-product attention (Vaswani et al. 2017), softmax(scale q k^T + attn_mask) v:
 * q (N, T, E), k (N, S, E), v (N, S, F) -> (N, T, F). E and F are multiples of num_heads, and each
 * head attends with its own columns of q, k and v, as in PyTorch's nn.MultiheadAttention. Where k
 * and v are both NULL, q is (N, T, 3 E), and its rows have queries, keys and values one after
 * another, as one linear layer makes them for self-attention.
 *
 * With num_kv_heads, several heads of queries in a row share each head of keys and values:
 * grouped-query attention (Ainslie et al. 2023), as with PyTorch's enable_gqa, or with one head
 * multi-query attention. With D = E / num_heads, k is then (N, S, num_kv_heads D), F a multiple of
 * num_kv_heads, the result (N, T, num_heads F / num_kv_heads), and a q that has all three
 * (N, T, (num_heads + 2 num_kv_heads) D).
 *
 * The causal mask is that of PyTorch: query t sees the keys 0 to t. attn_mask hides a key from a
 * query where it is -INFINITY. Its sizes are matched from the last, so that a mask of padding is
 * (N, 1, 1, S), which yk_reshape() makes of (N, S). A query from which all keys are hidden gets
 * zeros, and has no gradient. With is_causal, a query sees the keys that neither hides. A NaN or an
 * infinity in a key or its value reaches every query that sees it; it may reach others, too, since
 * a weight of zero times NaN is NaN. Which ones depends on the device. In PyTorch it reaches all.
 *
 * In training mode, each weight that softmax gives is dropped with probability dropout_p, as by
 * yk_dropout(). Scores are not kept from forward to backward. NULL options mean the defaults.
 */
yk_value *yk_scaled_dot_product_attention(yk_value *q, yk_value *k, yk_value *v,
                                          const yk_attention_options *options);

/** How rotary position embeddings turn the columns of a head. */
typedef struct yk_rotary_embedding_options {
    size_t size;            /**< set by YK_ROTARY_EMBEDDING_OPTIONS_INIT */
    int64_t num_heads;      /**< into which the last dimension is divided, at least 1 [1] */
    double base;            /**< theta, above 0 [10000] */
    bool interleaved;       /**< pairs are columns 2i and 2i + 1, as in the paper, Meta's Llama and
                                 torchtune; otherwise i and i + rotary_dim / 2, as in Hugging
                                 Face's Llama [false] */
    int64_t rotary_dim;     /**< how many of a head's first columns are turned, an even number; 0:
                                 all of them [0] */
    int64_t first_position; /**< the position of the first token, at least 0 [0] */
} yk_rotary_embedding_options;

/** The defaults of yk_rotary_embedding_options. */
#define YK_ROTARY_EMBEDDING_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(yk_rotary_embedding_options), 1, 10000, false, 0, 0                                 \
    }

/**
 * Rotary position embedding (Su et al. 2021) of queries or keys: x (N, T, E) -> (N, T, E), whose
 * rows have num_heads heads side by side, as yk_scaled_dot_product_attention() takes them. Pair i
 * of a head, (a, b), becomes (a cos - b sin, b cos + a sin) of the angle (first_position + t)
 * base^(-2i / rotary_dim). Angles are rounded to float32 in every dtype, as in Hugging Face's and
 * torchtune's Llama, so positions end at 2^24. NULL options mean the defaults.
 */
yk_value *yk_rotary_embedding(yk_value *x, const yk_rotary_embedding_options *options);
/**
 * What nn.LSTMCell does with its gates, which are the input, forget, cell and output gate: those of
 * the input (N, 4 S), to which those of the hidden state (N, 4 S) are added, and the cell (N, S) ->
 * the hidden state (N, S). *next, unless it is NULL, receives the next cell (N, S). Gates are what
 * yk_linear() makes of the input and of the hidden state. Layers are yk_nn_lstm_cell(), and
 * yk_nn_lstm() of all steps.
 */
yk_value *yk_lstm_cell(yk_value *from_input, yk_value *from_hidden, yk_value *cell,
                       yk_value **next);
/** What nn.GRUCell does with its gates, the reset and update gate and the new state: those of the
 *  input (N, 3 S), those of the hidden state (N, 3 S), and that state (N, S) -> the next one
 *  (N, S). Layers are yk_nn_gru_cell() and yk_nn_gru(). */
yk_value *yk_gru_cell(yk_value *from_input, yk_value *from_hidden, yk_value *hidden);
/** Rows of weight (V, C), as nn.Embedding: indices (N) or (N, T), int32 or int64 from 0 to V - 1 ->
 * (N, C) or (N, T, C). An index out of range makes yk_model_forward fail. Indices may be a buffer,
 * as in table[index] of a parameter and a constant index: of yk_register_buffer(), whose numbers
 * are checked at once. */
yk_value *yk_embedding(yk_value *indices, yk_value *weight);
/**
 * Places of one dimension of x, which is not the batch: index is int32 or int64, from 0 to below
 * the size of dim. It has the dimensions of x before dim, as far as which it is
 * torch.take_along_dim (and, of two dimensions, torch.gather), and then how many places are taken:
 *
 * - x (N, C), index (N, K) -> (N, K) with dim 1;
 * - x (N, T, C), index (N, K) -> (N, K, C) with dim 1: rows of each sample, in its own order;
 * - without that last dimension one place is taken, and the result has no dimension for it either:
 * x (N, C), index (N) -> (N) with dim 1, the element of each sample's class; x (N, T, C), index (N,
 * T) -> (N, T) with dim 2; x (N, T, C), index (N) -> (N, C) with dim 1, the row of a step.
 *
 * An index out of range makes yk_model_forward fail. A place that is taken several times has the
 * sum of its gradients. A negative dim counts from the end.
 */
yk_value *yk_take_along_dim(yk_value *x, yk_value *index, int64_t dim);
/** The same places of one dimension for all samples, as torch.index_select: index (K) has no batch,
 *  and is a buffer, for example, of yk_register_buffer() or yk_constant(). x (N, T, C) ->
 *  (N, K, C) with dim 1. In this way a dimension is reversed (torch.flip) or read with a stride
 *  (x[:, ::2]). */
yk_value *yk_index_select(yk_value *x, int64_t dim, yk_value *index);
/** alpha x, of any shape. */
yk_value *yk_scale(yk_value *x, double alpha);
/** x + value, of any shape. */
yk_value *yk_add_scalar(yk_value *x, double value);
/** The maximum of windows of kernel x kernel (less than 2^31 elements): x (N, C, H, W) ->
 *  (N, C, P, Q), where P = floor((H + 2 padding - kernel) / stride) + 1 and Q likewise. Padding, at
 *  most kernel / 2 on every side, is never the maximum. */
yk_value *yk_max_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);
/** The mean of windows of kernel x kernel, in which padding counts as zeros; shapes and padding are
 *  as in yk_max_pool2d(). */
yk_value *yk_avg_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);

/** Windows of pooling. What is said for columns alone is for windows that are not square, such as
 *  those of MaxPool2d((1, 2)). */
typedef struct yk_pool2d_options {
    size_t size;            /**< set by YK_POOL2D_OPTIONS_INIT */
    int64_t kernel;         /**< rows and columns of a window, at least 1 [1] */
    int64_t stride;         /**< rows and columns between windows; -1: those of a window [-1] */
    int64_t padding;        /**< rows and columns added on every side, at most kernel / 2 [0] */
    int64_t column_kernel;  /**< columns of a window; -1: as many as rows [-1] */
    int64_t column_stride;  /**< columns between windows; -1: stride, or if that is -1, the columns
                                 of a window [-1] */
    int64_t column_padding; /**< columns added on the left and right; -1: as for rows [-1] */
    bool ceil_mode;         /**< P and Q are rounded up: a last window may reach beyond the padding
                                 at the end, but begins in the image or before it [false] */
    bool count_include_pad; /**< yk_avg_pool2d_with(): padding counts as zeros; otherwise, as what
                                 is beyond it always, it does not count [true] */
} yk_pool2d_options;

/** The defaults of yk_pool2d_options. */
#define YK_POOL2D_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_pool2d_options), 1, -1, 0, -1, -1, -1, false, true                               \
    }

/** yk_max_pool2d() with windows of any form, or with ceil_mode. */
yk_value *yk_max_pool2d_with(yk_value *x, const yk_pool2d_options *options);
/** yk_avg_pool2d() with windows of any form, with ceil_mode, or of pixels alone. */
yk_value *yk_avg_pool2d_with(yk_value *x, const yk_pool2d_options *options);
/** The mean of each channel: (N, C, H, W) -> (N, C, 1, 1). */
yk_value *yk_global_avg_pool2d(yk_value *x);
/** Means of windows that divide the image into rows x columns parts, as even as they can be:
 *  (N, C, H, W) -> (N, C, rows, columns). Row p of the result is made of rows floor(p H / rows) to
 *  ceil((p + 1) H / rows) - 1 of x, so that windows overlap where the sizes do not divide. */
yk_value *yk_adaptive_avg_pool2d(yk_value *x, int64_t rows, int64_t columns);

/** What yk_interpolate() makes a pixel of. */
typedef enum yk_interpolate_mode {
    YK_INTERPOLATE_NEAREST,  /**< one pixel */
    YK_INTERPOLATE_BILINEAR, /**< the four around it, weighed by how near they are */
} yk_interpolate_mode;

/** How images get another size. */
typedef struct yk_interpolate_options {
    size_t size;              /**< set by YK_INTERPOLATE_OPTIONS_INIT */
    yk_interpolate_mode mode; /**< [YK_INTERPOLATE_NEAREST] */
    bool align_corners;       /**< bilinear: the centres of the corners' pixels keep their places,
                                   instead of the image's edges [false] */
} yk_interpolate_options;

/** The defaults of yk_interpolate_options. */
#define YK_INTERPOLATE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(yk_interpolate_options), YK_INTERPOLATE_NEAREST, false                              \
    }

/**
 * Images of another size, larger or smaller, as torch.nn.functional.interpolate(size=(rows,
 * columns)): (N, C, H, W) -> (N, C, rows, columns). Nothing is smoothed (antialias=False). The
 * nearest pixels of row p of the result are those of row floor(p H / rows) of x. Bilinear ones lie
 * at (p + 1/2) H / rows - 1/2, or, with align_corners, at p (H - 1) / (rows - 1). NULL options mean
 * the defaults.
 */
yk_value *yk_interpolate(yk_value *x, int64_t rows, int64_t columns,
                         const yk_interpolate_options *options);
/** The mean over one dimension of x, which is not the batch, as Tensor.mean(dim): (N, T, C) ->
 *  (N, C) with dim 1. A negative dim counts from the end: -1 is the last one. Of a value without a
 *  batch, such as a parameter or what yk_all_gather_batch() gives, dim 0 is one like the others. */
yk_value *yk_mean(yk_value *x, int64_t dim);
/** The sum over one dimension of x, likewise; float32 under autocast. */
yk_value *yk_sum(yk_value *x, int64_t dim);
/** The largest over one dimension of x, likewise, as torch.amax, and a NaN where one of the
 * elements is a NaN. Its gradient is divided evenly among the elements that are the largest. */
yk_value *yk_amax(yk_value *x, int64_t dim);
/** The smallest over one dimension of x, likewise. */
yk_value *yk_amin(yk_value *x, int64_t dim);
/** (N, ...) -> (N, product of the other dimensions). */
yk_value *yk_flatten(yk_value *x);
/** The same elements in other dimensions, in row-major order, as Tensor.reshape: x (N, ...) ->
 *  (N, ...), dims holding ndim sizes. A batch stays first, as YK_BATCH; one of the others may be
 *  -1, which is what the rest leaves. Of a value without a batch, the first dimension may change,
 *  too; if both it and another one are -1, it keeps its size. */
yk_value *yk_reshape(yk_value *x, int ndim, const int64_t *dims);
/** The dimensions of x in another order, as Tensor.permute: dimension d of the result is dimension
 *  dims[d] of x, dims holding ndim numbers from 0 on. A batch stays first. */
yk_value *yk_permute(yk_value *x, int ndim, const int64_t *dims);
/** Dropout (Srivastava et al. 2014). In training mode, sets elements to 0 with probability p (0 to
 *  below 1) and multiplies the others by 1 / (1 - p); in evaluation mode, the identity. */
yk_value *yk_dropout(yk_value *x, double p);

/** Numbers of x's shape, drawn from the standard normal distribution, as torch.randn_like. Each
 * forward in training mode draws new ones. In evaluation mode, too, numbers are drawn, but all
 * forwards draw the same ones until training continues. Draws depend on the seed, the number of
 * training forwards and the rank alone, so resumed training has the same bits. x gets no gradient.
 * float32 under autocast. */
yk_value *yk_randn_like(yk_value *x);
/** x as a constant to the gradient, as Tensor.detach: what x is made of gets no gradient by way of
 *  the result. For targets that the network itself computes, as in BYOL and DINO, and for passing a
 *  gradient around what has none, as in VQ-VAE. Of any shape and dtype; it takes no time and no
 *  memory. */
yk_value *yk_detach(yk_value *x);
/**
 * The values of all ranks, one after another in rank order, as
 * torch.distributed.nn.functional.all_gather: x (N, C) or (N, T, C) -> (ranks samples, C) or
 * (ranks samples, T, C). Losses that compare samples with those of all ranks use it, as SimCLR's
 * and CLIP's do: yk_linear(x, yk_all_gather_batch(x, ranks, samples), NULL) has the products of all
 * pairs, (N, ranks samples). The gradient of x is the sum of those that all ranks have for it.
 *
 * Each rank's batch must have `samples` samples. If one has another size, yk_model_forward fails on
 * all ranks; they may continue with the next batch. `ranks` is the size of the group that
 * yk_ddp_create is given later, or 1, which gathers the batch of this rank alone and needs no
 * yk_ddp. With more, every forward and backward is collective, those in evaluation mode too, and
 * virtual ranks, Join and yk_data_parallel cannot be used.
 */
yk_value *yk_all_gather_batch(yk_value *x, int ranks, int64_t samples);

/** How a loss over many elements becomes one number. */
typedef enum yk_loss_reduction {
    YK_LOSS_MEAN, /**< their mean */
    YK_LOSS_SUM   /**< their sum */
} yk_loss_reduction;

/**
 * The mean, or sum, of all elements of x, of any shape -> scalar: a loss that is made of operators,
 * such as the KL divergence of a VAE. Losses are combined by yk_add(), yk_subtract(), yk_scale()
 * and yk_add_scalar(). As with every loss, each rank and micro-batch reduces its own samples; means
 * are then weighed by samples, and sums are not. What other operators make of the scalar, such as
 * the quotient of two sums, is of those samples, and counts as what it was made of: where it should
 * be of one sample, as a dice loss, yk_sum() over the other dimensions comes first. float32 under
 * autocast.
 */
yk_value *yk_reduce_loss(yk_value *x, yk_loss_reduction reduction);

/** How cross entropy is computed. */
typedef struct yk_cross_entropy_options {
    size_t size;                 /**< set by YK_CROSS_ENTROPY_OPTIONS_INIT */
    double label_smoothing;      /**< e, from 0 to 1: the label's share is 1 - e, and e is divided
                                      among all C classes (Szegedy et al. 2016) [0] */
    yk_loss_reduction reduction; /**< over the samples, and their pixels [YK_LOSS_MEAN] */
    yk_value *weight;            /**< of each class: (C) of the logits' dtype, float32 for 16 bits;
                                      or NULL: 1. A constant to the gradient [NULL] */
    int64_t ignore_index;        /**< the class label that does not count, which may be one of the
                                      classes; of no meaning to probabilities [-100] */
    int64_t class_dim;           /**< the dimension of the logits that classes are: 1, or -1, the
                                      last, for logits (N, T, C) of tokens [1] */
} yk_cross_entropy_options;

/** The defaults of yk_cross_entropy_options. */
#define YK_CROSS_ENTROPY_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(yk_cross_entropy_options), 0, YK_LOSS_MEAN, NULL, -100, 1                           \
    }

/**
 * Cross entropy of logits (N, C) and labels -> scalar; or of each pixel, with logits (N, C, L) or
 * (N, C, H, W); or of each token, with logits (N, T, C) and class_dim -1. Labels are either classes
 * (N), (N, L), (N, H, W) or (N, T), int32 or int64 from 0 to C - 1 or ignore_index, or the
 * probabilities of the classes, of the logits' shape and dtype, or float32 if the logits have 16
 * bits. They are inputs, or computed, for example by another network, and constants to the
 * gradient. A class out of range makes yk_model_forward fail; probabilities are not checked. NULL
 * options mean the defaults.
 *
 * As in PyTorch, the mean is over all class labels that count, weighted: the sum of their losses is
 * divided by the sum of the weights of their classes. If none counts, it is NaN, and its gradient
 * 0. Where labels are probabilities, it is divided by the number of samples and pixels. Ranks and
 * micro-batches are weighed by their samples, however many of their labels count.
 */
yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options);
/** The mean, or sum, of (x - target)^2 over all elements -> scalar; both of one shape, float32 or
 *  float64. */
yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction);
/** The mean, or sum, of |x - target|, likewise. */
yk_value *yk_l1_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction);
/** With d = x - target the mean, or sum, of d^2 / (2 beta) where |d| is below beta, and of
 * |d| - beta / 2 elsewhere (Girshick 2015), likewise. beta is at least 0 (PyTorch's default is 1);
 * with 0 it is yk_l1_loss(). */
yk_value *yk_smooth_l1_loss(yk_value *x, yk_value *target, double beta,
                            yk_loss_reduction reduction);
/** delta times yk_smooth_l1_loss() with beta = delta (Huber 1964): d^2 / 2 where |d| is below
 * delta, delta (|d| - delta / 2) elsewhere. delta is above 0 (PyTorch's default is 1). */
yk_value *yk_huber_loss(yk_value *x, yk_value *target, double delta, yk_loss_reduction reduction);

/** How binary cross entropy is computed. */
typedef struct yk_binary_cross_entropy_options {
    size_t size;          /**< set by YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT */
    yk_value *pos_weight; /**< weights of positive examples: (C) of the logits' dtype, one for
                               each channel of logits (N, C, ...), or (1); or NULL, which means
                               1. A constant to the gradient [NULL] */
    yk_loss_reduction reduction; /**< over all elements [YK_LOSS_MEAN] */
} yk_binary_cross_entropy_options;

/** The defaults of yk_binary_cross_entropy_options. */
#define YK_BINARY_CROSS_ENTROPY_OPTIONS_INIT                                                       \
    {                                                                                              \
        sizeof(yk_binary_cross_entropy_options), NULL, YK_LOSS_MEAN                                \
    }

/**
 * Binary cross entropy of sigmoid(logits) and target -> scalar: with s = log(sigmoid(x)), the mean,
 * or sum, of -(pos_weight target s + (1 - target) (s - x)), computed without overflow. Both are of
 * one shape, float32 or float64. The target has probabilities, which are not checked: an input, or
 * computed, and a constant to the gradient. NULL options mean the defaults.
 */
yk_value *yk_binary_cross_entropy_with_logits(yk_value *logits, yk_value *target,
                                              const yk_binary_cross_entropy_options *options);

/* ---- autocast ----------------------------------------------------------------------------- */

/**
 * How mixed precision treats the index-th operator, from 0: "low" runs it in 16 bit, "full" in
 * float32, and "follow" in 16 bit if all its activations are, otherwise in float32. False past the
 * last operator, and if op or policy is NULL.
 */
bool yk_autocast_policy(size_t index, const char **op, const char **policy);
/**
 * Checks exceptions to that policy, "OP=low|full|follow[,OP=...]"; NULL and "" mean none. What is
 * "full", such as a loss or softmax, only runs in float32. The error line names what is wrong and
 * lists what is possible.
 */
yk_status yk_autocast_check(const char *overrides);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
