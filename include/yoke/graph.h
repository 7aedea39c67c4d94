/*
 * The graph and the model made of it. A graph is built once, symbolically: its first dimension may
 * be YK_BATCH. Building has a sticky error: a wrong shape makes that value and all that follow
 * invalid (never NULL), and yk_model_create returns the first error with the operator, both shapes
 * and the scope, so that model code needs no check a line.
 *
 * Not thread-safe: one thread builds a graph, one thread runs a model.
 */
#ifndef YOKE_GRAPH_H
#define YOKE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/status.h>
#include <yoke/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* As the first dimension of an input: the batch, known only when a batch arrives. */
#define YK_BATCH (-1)

typedef struct yk_graph yk_graph;
typedef struct yk_value yk_value;

/* ---- building --------------------------------------------------------------------------- */

/* A new, empty graph; NULL only when memory is out. */
yk_graph *yk_graph_create(void);
/* Frees the graph and its values. A graph that a model was made of belongs to the model: do not. */
void yk_graph_destroy(yk_graph *graph);

/* Names made between push and pop are prefixed: push "layer1", push "0" gives "layer1.0.". */
void yk_scope_push(yk_graph *graph, const char *name);
void yk_scope_pop(yk_graph *graph);

/*
 * How a parameter starts. yk_model_create draws from one MT19937 as torchvision does after
 * torch.manual_seed(seed), so that its networks start with the same bits: first what the modules'
 * constructors draw, in the order of declaration, then the convolutions' normal numbers.
 */
typedef enum yk_init {
    YK_INIT_ZEROS,
    YK_INIT_ONES,
    YK_INIT_KAIMING_NORMAL_FAN_OUT, /* normal(0, sqrt(2 / fan_out)): torchvision's convolutions */
    YK_INIT_KAIMING_UNIFORM,        /* uniform(+-1 / sqrt(fan_in)): nn.Linear's weight */
    YK_INIT_UNIFORM_FAN_IN          /* uniform(+-1 / sqrt(fan)), fan given apart: a bias */
} yk_init;

/* An input of the model, filled from the batch's tensor of the same name. The name is copied. */
yk_value *yk_input(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                   const int64_t *dims);
/* A trained tensor. fan is used by YK_INIT_UNIFORM_FAN_IN alone. */
yk_value *yk_parameter(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                       const int64_t *dims, yk_init init, int64_t fan);
/* State that is saved and broadcast but not trained, e.g. running statistics. */
yk_value *yk_buffer(yk_graph *graph, const char *name, yk_dtype dtype, int ndim,
                    const int64_t *dims, yk_init init);

/* A value's shape: dims gets ndim sizes (YK_BATCH where symbolic); returns ndim, -1 if invalid. */
int yk_value_shape(const yk_value *value, int64_t dims[YK_MAX_DIMS]);
yk_dtype yk_value_dtype(const yk_value *value);
yk_graph *yk_value_graph(const yk_value *value);

/* ---- operators: the functional forms, torch.nn.functional's ------------------------------- */

/** How windows move over an image. */
typedef struct yk_conv2d_options {
    size_t size;      /**< set by YK_CONV2D_OPTIONS_INIT */
    int64_t stride;   /**< rows and columns between windows, at least 1 [1] */
    int64_t padding;  /**< zeros added on every side [0] */
    int64_t dilation; /**< rows and columns between the taps of a window, at least 1 [1] */
    int64_t groups;   /**< channels are split into so many independent groups [1] */
} yk_conv2d_options;

/** The defaults of yk_conv2d_options. */
#define YK_CONV2D_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_conv2d_options), 1, 0, 1, 1                                                      \
    }

/* x (N, C, H, W), weight (K, C / groups, R, S), bias (K) or NULL -> (N, K, P, Q). */
yk_value *yk_conv2d(yk_value *x, yk_value *weight, yk_value *bias,
                    const yk_conv2d_options *options);
/* x (N, I), weight (O, I), bias (O) or NULL -> (N, O). */
yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias);

/** How batch normalisation computes. */
typedef struct yk_batch_norm_options {
    size_t size;                   /**< set by YK_BATCH_NORM_OPTIONS_INIT */
    double eps;                    /**< added to the variance, above 0 [1e-5] */
    double momentum;               /**< weight of the new batch in the running statistics, from 0 to
                                        1, as in PyTorch; 0 keeps them as they are [0.1] */
    yk_value *num_batches_tracked; /**< int64 scalar buffer that counts forward passes in training
                                        mode, or NULL [NULL] */
} yk_batch_norm_options;

/** The defaults of yk_batch_norm_options. */
#define YK_BATCH_NORM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(yk_batch_norm_options), 1e-5, 0.1, NULL                                             \
    }

/*
 * x (N, C, H, W) or (N, C); weight, bias, running_mean, running_var (C), none NULL. In training it
 * normalises with the batch's biased variance and moves the running statistics (unbiased variance,
 * as PyTorch); in evaluation it normalises with the running statistics.
 */
yk_value *yk_batch_norm(yk_value *x, yk_value *weight, yk_value *bias, yk_value *running_mean,
                        yk_value *running_var, const yk_batch_norm_options *options);
yk_value *yk_relu(yk_value *x);
yk_value *yk_gelu(yk_value *x); /* the exact form, with erf */
yk_value *yk_add(yk_value *a, yk_value *b);
yk_value *yk_scale(yk_value *x, double alpha);
/* Windows kernel x kernel; padding counts as -infinity (max) or is counted as zeros (avg). */
yk_value *yk_max_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);
yk_value *yk_avg_pool2d(yk_value *x, int64_t kernel, int64_t stride, int64_t padding);
/* (N, C, H, W) -> (N, C, 1, 1). */
yk_value *yk_global_avg_pool2d(yk_value *x);
/* (N, ...) -> (N, product). */
yk_value *yk_flatten(yk_value *x);
/* In training zeroes with probability p and scales the rest by 1 / (1 - p); else the identity. */
yk_value *yk_dropout(yk_value *x, double p);

typedef enum yk_loss_reduction { YK_LOSS_MEAN, YK_LOSS_SUM } yk_loss_reduction;
/** How cross entropy is computed. */
typedef struct yk_cross_entropy_options {
    size_t size;                 /**< set by YK_CROSS_ENTROPY_OPTIONS_INIT */
    double label_smoothing;      /**< from 0 to 1 [0] */
    yk_loss_reduction reduction; /**< over the samples [YK_LOSS_MEAN] */
} yk_cross_entropy_options;

/** The defaults of yk_cross_entropy_options. */
#define YK_CROSS_ENTROPY_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(yk_cross_entropy_options), 0, YK_LOSS_MEAN                                          \
    }

/* logits (N, C), labels (N) i32 in [0, C) -> scalar. A label out of range fails the forward. */
yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options);
/*
 * x and target of one shape, f32 or f64 -> scalar: the mean, or sum, of (x - target)^2 over all
 * elements, torch.nn.functional.mse_loss.
 */
yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_loss_reduction reduction);

/* ---- autocast ----------------------------------------------------------------------------- */

/*
 * How mixed precision treats the index-th operator, counted from 0: "low" runs it in 16 bit, "full"
 * in f32, "follow" in 16 bit where all its activations are, else in f32. False past the last one.
 */
bool yk_autocast_policy(size_t index, const char **op, const char **policy);
/*
 * Whether overrides, "OP=low|full|follow[,OP=...]" (NULL and "" are fine), can be understood. A
 * loss runs in f32 alone. The error line names what is wrong and lists what is possible.
 */
yk_status yk_autocast_check(const char *overrides);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
