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
typedef struct yk_model yk_model;

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

typedef struct yk_conv2d_options {
    int64_t stride;   /* 0 means 1 */
    int64_t padding;  /* zeros on every side */
    int64_t dilation; /* 0 means 1 */
    int64_t groups;   /* 0 means 1 */
} yk_conv2d_options;

/* x (N, C, H, W), weight (K, C / groups, R, S), bias (K) or NULL -> (N, K, P, Q). */
yk_value *yk_conv2d(yk_value *x, yk_value *weight, yk_value *bias,
                    const yk_conv2d_options *options);
/* x (N, I), weight (O, I), bias (O) or NULL -> (N, O). */
yk_value *yk_linear(yk_value *x, yk_value *weight, yk_value *bias);

typedef struct yk_batch_norm_options {
    double eps;                    /* 0 means 1e-5 */
    double momentum;               /* of the running statistics, PyTorch's sense; 0 means 0.1 */
    yk_value *num_batches_tracked; /* i64 scalar buffer that counts training forwards, or NULL */
} yk_batch_norm_options;

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

typedef enum yk_reduction { YK_MEAN, YK_SUM_LOSS } yk_reduction;
typedef struct yk_cross_entropy_options {
    double label_smoothing;
    yk_reduction reduction;
} yk_cross_entropy_options;

/* logits (N, C), labels (N) i32 in [0, C) -> scalar. A label out of range fails the forward. */
yk_value *yk_cross_entropy(yk_value *logits, yk_value *labels,
                           const yk_cross_entropy_options *options);
/*
 * x and target of one shape, f32 or f64 -> scalar: the mean, or sum, of (x - target)^2 over all
 * elements, torch.nn.functional.mse_loss.
 */
yk_value *yk_mse_loss(yk_value *x, yk_value *target, yk_reduction reduction);

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

/* ---- models ------------------------------------------------------------------------------- */

/*
 * Mixed precision, torch.autocast's idea: activations are kept in 16 bit, parameters, gradients of
 * parameters, losses and the statistics of norms in f32. Where the processor has no arithmetic of
 * that type, values are stored in it and computed with in f32. Gradients in fp16 want a
 * yk_grad_scaler (scaler.h): smaller ones than 2^-24 are zero there.
 */
typedef enum yk_amp { YK_AMP_OFF, YK_AMP_BF16, YK_AMP_FP16 } yk_amp;

typedef struct yk_model_options {
    const char *device;   /* "cpu" (default) or "ref", the readable oracle */
    yk_amp amp;           /* autocast: convolutions and linear in 16 bit, f32 master weights */
    const char *autocast; /* exceptions to its policy, see yk_autocast_check; NULL: none */
    uint64_t seed;        /* initial weights and dropout; PyTorch's manual_seed in spirit */
    int threads;          /* of this model's kernels; 0: yk_threads_default(1) */
    yk_value *logits;     /* kept readable after forward (yk_model_output); may be NULL */
    bool no_winograd;     /* use direct convolution only: slower, a little more accurate */
} yk_model_options;

/* One mini-batch. Tensors are views into whoever made it; see yk_loader_next. */
typedef struct yk_batch {
    int64_t size;             /* samples, the first dimension of every tensor */
    int count;                /* named tensors */
    const char *const *names; /* count of them */
    const yk_tensor *tensors; /* count of them */
    const int64_t *indices;   /* (size): each sample's index in its data set, or NULL */
} yk_batch;

/*
 * Differentiates the graph once for loss (a scalar), draws the initial weights and takes the graph
 * over: on success it belongs to the model; after a failure it is only good to be destroyed.
 * Kernels are prepared at the first batch of each size and mode, and kept.
 */
yk_status yk_model_create(yk_model **model, yk_value *loss, const yk_model_options *options);
void yk_model_destroy(yk_model *model);

/* Like PyTorch's train() and eval(); a new model is in training mode. */
void yk_model_train(yk_model *model);
void yk_model_eval(yk_model *model);

/*
 * Runs forward on one batch, which must stay as it is until its backward. Blocks until done.
 * Handlers of signals belong on a thread that runs no models, or on a stack of their own
 * (sigaltstack, SA_ONSTACK): oneDNN computes with the stack pointer in its own buffers at times,
 * and a handler's frame would be written there.
 */
yk_status yk_model_forward(yk_model *model, const yk_batch *batch);
/*
 * Runs backward for the last forward. The first backward after an optimizer step (or
 * yk_model_zero_grad) sets the gradients, further ones add to them, so no zero_grad is needed in
 * the ordinary loop. Under DDP it returns when every gradient is averaged over the ranks.
 */
yk_status yk_model_backward(yk_model *model);
void yk_model_zero_grad(yk_model *model);

/*
 * How the backwards between two optimizer steps combine: their gradients add up, as PyTorch's do,
 * or to the mean over all their samples, so that micro-batches of any sizes give the gradient of
 * the one large batch, and nobody divides the loss. (A loss that is a sum over samples needs no
 * such mean: its gradients add up to the large batch's either way.)
 */
typedef enum yk_accumulation { YK_ACCUMULATE_SUM, YK_ACCUMULATE_MEAN } yk_accumulation;
/* Takes effect with the next backward; a new model adds up. */
void yk_model_set_accumulation(yk_model *model, yk_accumulation accumulation);

/* The last forward's loss. */
double yk_model_loss(const yk_model *model);
/* The last forward's logits (yk_model_options.logits): a view until the next one, f32 or f64. */
yk_status yk_model_output(yk_model *model, yk_tensor *output);

/* Parameters in declaration order (PyTorch's), and buffers likewise. Views of the live memory. */
typedef struct yk_parameter_view {
    const char *name;
    yk_tensor value;
    yk_tensor grad; /* grad.data is NULL for a buffer */
} yk_parameter_view;

size_t yk_model_parameter_count(const yk_model *model);
yk_parameter_view yk_model_parameter(const yk_model *model, size_t index);
size_t yk_model_buffer_count(const yk_model *model);
yk_parameter_view yk_model_buffer(const yk_model *model, size_t index);
/* After writing into a parameter's value by hand: packed copies are made anew. */
void yk_model_parameters_changed(yk_model *model);

/*
 * Forwards in training mode so far. Dropout draws from (seed, forwards, rank under yk_ddp), so that
 * a model that goes on from a checkpoint, which sets them, draws on as if it had never stopped.
 */
int64_t yk_model_forwards(const yk_model *model);
void yk_model_set_forwards(yk_model *model, int64_t forwards);

/* Elements of all parameters. */
int64_t yk_model_parameter_elements(const yk_model *model);

/* The planner's own account of a batch size (1 or more) in training: bytes by purpose. */
typedef struct yk_memory_plan {
    size_t parameters, gradients, packed_weights, activations, scratch;
} yk_memory_plan;
yk_status yk_model_memory_plan(yk_model *model, int64_t batch_size, yk_memory_plan *plan);

/* The words for a device's kernels, e.g. "cpu: oneDNN 2.6.3, AVX-512 + bf16, 2 threads". */
const char *yk_model_device_description(const yk_model *model);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
