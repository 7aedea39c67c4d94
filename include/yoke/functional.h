/**
 * @file
 * Functions of torch and torch.nn.functional that are made of the operators in graph.h: they can do
 * nothing that a program could not write itself. They take and give values of any shape unless they
 * say otherwise, keep no state, and have the gradients of PyTorch's.
 */
#ifndef YOKE_FUNCTIONAL_H
#define YOKE_FUNCTIONAL_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- activations ----------------------------------------------------------------------------- */

/** 1.0507 yk_elu(x, 1.6733), whose results keep a mean of 0 and a variance of 1 through layers
 *  (Klambauer et al. 2017). */
yk_value *yk_selu(yk_value *x);
/** log(1 + exp(x)), which is x from 20 on, as in PyTorch. */
yk_value *yk_softplus(yk_value *x);
/** log(sigmoid(x)) = -softplus(-x). */
yk_value *yk_logsigmoid(yk_value *x);
/** x tanh(softplus(x)) (Misra 2019). */
yk_value *yk_mish(yk_value *x);
/** relu6(x + 3) / 6. */
yk_value *yk_hardsigmoid(yk_value *x);
/** x where it is above 0, weight x elsewhere (He et al. 2015): x (N, C, ...), weight (C) or (1), a
 *  parameter as a rule. nn.PReLU's starts as 0.25. */
yk_value *yk_prelu(yk_value *x, yk_value *weight);
/** The first half of x along a dimension that is not the batch, times the sigmoid of the second
 *  half (Dauphin et al. 2016): (N, 2 C, ...) -> (N, C, ...) with dim 1. A negative dim counts from
 *  the end. */
yk_value *yk_glu(yk_value *x, int64_t dim);

/* ---- shapes ---------------------------------------------------------------------------------- */

/** A new dimension of size 1 at dim, from 1 to the number of dimensions that x has: (N, C) ->
 *  (N, 1, C) with 1 and (N, C, 1) with 2. A negative dim counts from the end of the result. */
yk_value *yk_unsqueeze(yk_value *x, int64_t dim);
/** Takes away a dimension of size 1, which is not the first. A negative dim counts from the end. */
yk_value *yk_squeeze(yk_value *x, int64_t dim);
/** Two dimensions exchange their places; neither is the batch. Negative ones count from the end. */
yk_value *yk_transpose(yk_value *x, int64_t dim0, int64_t dim1);
/** One index of a dimension, which is not the batch, as x[:, index]: (N, T, C) -> (N, C) with dim
 *  1. Negative numbers count from the end. */
yk_value *yk_select(yk_value *x, int64_t dim, int64_t index);
/** x moved by `shift` places along a dimension, which is not the batch; what leaves at one end
 * comes back at the other, as torch.roll(x, shift, dim). Negative numbers move backwards and count
 * from the end. */
yk_value *yk_roll(yk_value *x, int64_t shift, int64_t dim);
/** Images of which each channel is made of upscale_factor^2 channels of x, the pixels of a square
 * of that side: x (N, C r^2, H, W) -> (N, C, r H, r W) (Shi et al. 2016), as torch's pixel_shuffle.
 */
yk_value *yk_pixel_shuffle(yk_value *x, int64_t upscale_factor);
/** The reverse: x (N, C, r H, r W) -> (N, C r^2, H, W). */
yk_value *yk_pixel_unshuffle(yk_value *x, int64_t downscale_factor);
/** `count` values of one shape along a new dimension, as yk_unsqueeze() counts it: T times (N, C)
 *  -> (N, T, C) with dim 1. */
yk_value *yk_stack(yk_value *const *values, int count, int64_t dim);

/** What yk_pad_with() puts before and after a dimension. */
typedef enum yk_pad_mode {
    YK_PAD_REFLECT,   /**< the places next to the end, in reverse, without the end itself */
    YK_PAD_REPLICATE, /**< the place at the end */
    YK_PAD_CIRCULAR   /**< the places of the other end */
} yk_pad_mode;
/** x with `before` and `after` further places in one dimension, which is not the batch, as F.pad
 *  with a mode: (N, C, ...) -> (N, before + C + after, ...) with dim 1. With YK_PAD_REFLECT they
 *  are fewer than the dimension has, with YK_PAD_CIRCULAR at most as many. A negative dim counts
 *  from the end. Zeros are yk_pad()'s. */
yk_value *yk_pad_with(yk_value *x, int64_t dim, int64_t before, int64_t after, yk_pad_mode mode);
/** All four sides of images: x (N, C, H, W) -> (N, C, H + 2 padding, W + 2 padding), as
 *  nn.ReflectionPad2d(padding) with YK_PAD_REFLECT. */
yk_value *yk_pad2d_with(yk_value *x, int64_t padding, yk_pad_mode mode);

/* ---- sequences ------------------------------------------------------------------------------- */

/** How windows move along a sequence. */
typedef struct yk_conv1d_options {
    size_t size;      /**< set by YK_CONV1D_OPTIONS_INIT */
    int64_t stride;   /**< places between windows, at least 1 [1] */
    int64_t padding;  /**< zeros added at both ends [0] */
    int64_t dilation; /**< places between the taps of a window, at least 1 [1] */
    int64_t groups;   /**< channels are split into so many independent groups [1] */
} yk_conv1d_options;

/** The defaults of yk_conv1d_options. */
#define YK_CONV1D_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_conv1d_options), 1, 0, 1, 1                                                      \
    }

/**
 * 1-d convolution of sequences: x (N, C, L), weight (K, C / groups, S), bias (K) or NULL ->
 * (N, K, P), of which P = floor((L + 2 padding - dilation (S - 1) - 1) / stride) + 1. It is
 * yk_conv2d() of images of one row, with which errors are about. NULL options mean the defaults.
 */
yk_value *yk_conv1d(yk_value *x, yk_value *weight, yk_value *bias,
                    const yk_conv1d_options *options);

/** How windows move over the result of a transposed convolution of sequences. */
typedef struct yk_conv_transpose1d_options {
    size_t size;            /**< set by YK_CONV_TRANSPOSE1D_OPTIONS_INIT */
    int64_t stride;         /**< places between windows, at least 1 [1] */
    int64_t padding;        /**< places that are cut off at both ends [0] */
    int64_t output_padding; /**< places that are added at the end, less than stride [0] */
    int64_t dilation;       /**< places between the taps of a window, at least 1 [1] */
    int64_t groups;         /**< channels are split into so many independent groups [1] */
} yk_conv_transpose1d_options;

/** The defaults of yk_conv_transpose1d_options. */
#define YK_CONV_TRANSPOSE1D_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(yk_conv_transpose1d_options), 1, 0, 0, 1, 1                                         \
    }

/**
 * Transposed 1-d convolution, which lengthens sequences: x (N, C, L), weight (C, F / groups, S),
 * bias (F) or NULL -> (N, F, P), of which
 * P = (L - 1) stride - 2 padding + dilation (S - 1) + output_padding + 1. It is
 * yk_conv_transpose2d() of images of one row, with which errors are about. NULL options mean the
 * defaults.
 */
yk_value *yk_conv_transpose1d(yk_value *x, yk_value *weight, yk_value *bias,
                              const yk_conv_transpose1d_options *options);

/** yk_max_pool2d() of sequences: x (N, C, L) -> (N, C, P), where P = floor((L + 2 padding - kernel)
 *  / stride) + 1. */
yk_value *yk_max_pool1d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);
/** yk_avg_pool2d() of sequences, likewise. The mean of all places is yk_mean(x, 2). */
yk_value *yk_avg_pool1d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);

/* ---- norms and similarities ------------------------------------------------------------------ */

/** x divided by its Euclidean norm over one dimension, which is at least 1e-12; x keeps its shape.
 *  The dimension is not the batch; a negative dim counts from the end. */
yk_value *yk_normalize(yk_value *x, int64_t dim);
/** The cosine of the angle between a and b over one dimension, which is not the batch: (N, C, ...)
 *  -> (N, ...) with dim 1. A negative dim counts from the end. Norms are at least 1e-8. */
yk_value *yk_cosine_similarity(yk_value *a, yk_value *b, int64_t dim);
/** log(sum(exp(x))) over one dimension, which is not the batch and is taken away. A negative dim
 *  counts from the end. It does not overflow; x is finite. */
yk_value *yk_logsumexp(yk_value *x, int64_t dim);
/** The Euclidean norm of a - b + 1e-6 over the last dimension, as F.pairwise_distance: (N, ..., C)
 *  -> (N, ...). */
yk_value *yk_pairwise_distance(yk_value *a, yk_value *b);

/* ---- losses ---------------------------------------------------------------------------------- */

/** nn.TripletMarginLoss of three values (N, C) -> scalar: the mean, or sum, of max(d(anchor,
 *  positive) - d(anchor, negative) + margin, 0), where d is yk_pairwise_distance(). PyTorch's
 *  margin is 1. */
yk_value *yk_triplet_margin_loss(yk_value *anchor, yk_value *positive, yk_value *negative,
                                 double margin, yk_loss_reduction reduction);
/** nn.CosineEmbeddingLoss of a and b (N, C), and of a target (N) of 1 and -1 -> scalar: the mean,
 *  or sum, of 1 - cos(a, b) where the target is 1, and of max(cos(a, b) - margin, 0) where it is
 *  -1. PyTorch's margin is 0. */
yk_value *yk_cosine_embedding_loss(yk_value *a, yk_value *b, yk_value *target, double margin,
                                   yk_loss_reduction reduction);
/** nn.MarginRankingLoss of a, b and a target of one shape -> scalar: the mean, or sum, of
 *  max(margin - target (a - b), 0). The target is 1 where a is to be the larger one, and otherwise
 *  -1. PyTorch's margin is 0. */
yk_value *yk_margin_ranking_loss(yk_value *a, yk_value *b, yk_value *target, double margin,
                                 yk_loss_reduction reduction);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
