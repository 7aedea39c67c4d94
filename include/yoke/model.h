/**
 * @file
 * A model: a graph with parameters, which can run it forward and backward.
 *
 * One thread at a time uses a model. Functions that return a yk_status refuse NULL with
 * YK_ERROR_INVALID_ARGUMENT. After fork(), a child cannot run models with several threads if the
 * parent has done so before, since threads do not survive fork(): the child gets
 * YK_ERROR_UNSUPPORTED. Fork before the first forward.
 */
#ifndef YOKE_MODEL_H
#define YOKE_MODEL_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A model. */
typedef struct yk_model yk_model;

/**
 * Mixed precision, like torch.autocast: activations are kept in 16 bit; parameters, their
 * gradients, losses and the statistics of norms in float32. A processor without arithmetic in the
 * 16-bit type stores values in it and computes in float32.
 */
typedef enum yk_amp {
    YK_AMP_OFF,  /**< float32 throughout */
    YK_AMP_BF16, /**< bfloat16 */
    YK_AMP_FP16  /**< float16: needs a yk_grad_scaler, since gradients below 2^-24 become 0 */
} yk_amp;

/** yk_model_options.threads: one thread for each core that this process may use. */
#define YK_THREADS_AUTO (-1)

/** How a model is compiled and run. Strings are copied. */
typedef struct yk_model_options {
    size_t size;          /**< set by YK_MODEL_OPTIONS_INIT */
    const char *device;   /**< "cpu"; "cuda": the NVIDIA GPU of the local rank, "cuda:1": the second
                               one; "ref": plain readable C, for comparison; "sim": a simulated
                               accelerator, to test programs with ["cpu"] */
    yk_amp amp;           /**< mixed precision [YK_AMP_OFF] */
    const char *autocast; /**< exceptions to its policy, see yk_autocast_check, or NULL [NULL] */
    uint64_t seed;        /**< of initial weights and dropout, like torch.manual_seed [0] */
    int threads;          /**< of this model's kernels, or YK_THREADS_AUTO [YK_THREADS_AUTO] */
    yk_value *logits;     /**< value kept readable for yk_model_output, float32 or float64, or NULL
                               [NULL] */
    bool winograd;        /**< use Winograd's algorithm for 3x3 convolutions: faster than direct
                               convolution, and a little less accurate [true] */
    bool recompute;       /**< recompute cheap values (of batch norm, activations, additions) in
                               backward where that lowers peak memory: the same bits, in a little
                               more time [false] */
    bool benchmark;       /**< on "cpu": measure the kernels that can run a convolution before the
                               first step, and use the fastest, like torch.backends.cudnn.benchmark.
                               Choices are kept in ~/.cache/yoke/plans and in checkpoints, and the
                               ranks of a job agree on them. "cuda" always measures [false] */
    yk_value *const *outputs; /**< (output_count) further values kept readable for
                                   yk_model_output_at, float32 or float64, of any shape: those
                                   of one graph. Only the array is the caller's [NULL] */
    size_t output_count;      /**< [0] */
} yk_model_options;

/** The defaults of yk_model_options. */
#define YK_MODEL_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_model_options), "cpu", YK_AMP_OFF, NULL, 0, YK_THREADS_AUTO, NULL, true, false,  \
            false, NULL, 0                                                                         \
    }

/** One mini-batch: tensors by name. They are views of memory that whoever made it owns. */
typedef struct yk_batch {
    int64_t size;             /**< samples, the first dimension of every tensor */
    int count;                /**< tensors */
    const char *const *names; /**< (count) their names, those of the model's inputs */
    const yk_tensor *tensors; /**< (count) the tensors; no alignment is needed */
    const int64_t *indices;   /**< (size) each sample's index in its data set, or NULL */
} yk_batch;

/** The batch's tensor of that name, such as "labels"; NULL where there is none, and for NULL. */
const yk_tensor *yk_batch_find(const yk_batch *batch, const char *name);

/**
 * Makes a model of the graph that loss (a scalar, float32 or float64) belongs to: differentiates it
 * and draws the initial weights. If loss is NULL, the model is for inference: it computes
 * options.logits and options.outputs in evaluation mode only, and takes neither labels nor memory
 * for gradients. On success the graph belongs to the model and takes no further operators. On
 * failure *model is NULL, and the graph can only be destroyed; the error is the first that building
 * the graph has left, or is about the options. NULL options mean the defaults. Kernels are prepared
 * at the first batch of each size and mode, and kept.
 *
 * Operators that neither the loss nor an output depends on do not run. Unlike in PyTorch, a
 * batch norm among them therefore leaves its running statistics as they are.
 */
yk_status yk_model_create(yk_model **model, yk_value *loss, const yk_model_options *options);
/** Releases the model; accepts NULL. Whatever was made from it (an optimizer, a grad scaler, DDP)
 *  keeps it alive, so the order does not matter. */
void yk_model_destroy(yk_model *model);

/** Switches to training mode, like PyTorch's train(). A new model is in training mode; one without
 * a loss is always in evaluation mode. NULL is ignored here and by the other functions without a
 *  result; those that return a number return 0. */
void yk_model_train(yk_model *model);
/** Switches to evaluation mode, like eval(). */
void yk_model_eval(yk_model *model);

/**
 * Runs forward on one batch, which must not change until its backward. The batch must have a tensor
 * for each of the model's inputs, labels included. In evaluation mode it may leave out those that
 * neither yk_model_options.logits nor .outputs depend on, such as the labels: then there are
 * outputs, but no loss (yk_model_loss returns NaN) and no backward. YK_ERROR_INVALID_ARGUMENT for a
 * missing tensor or a label out of range, YK_ERROR_INVALID_SHAPE for a wrong shape or dtype. These
 * change neither parameters nor buffers nor yk_model_forwards(), unless the wrong label is a
 * computed one.
 *
 * On "cpu" and "ref" the call blocks until the work is done. Other devices are asynchronous: they
 * copy the batch, which may then change, and return before the work is done. A failure is reported
 * by a later call. yk_model_loss, yk_model_output and yk_tensor_read wait for what they show.
 *
 * Signal handlers belong on a thread that runs no models, or on a stack of their own (sigaltstack,
 * SA_ONSTACK): at times oneDNN keeps the stack pointer in its own buffers, and a handler's frame
 * would be written there.
 */
yk_status yk_model_forward(yk_model *model, const yk_batch *batch);
/**
 * Runs backward for the last forward. The first backward after an optimizer step (or
 * yk_model_zero_grad) overwrites the gradients and further ones add to them, so an ordinary loop
 * needs no zero_grad. Blocks as yk_model_forward does; under DDP, until every gradient is averaged
 * over the ranks. YK_ERROR_INVALID_ARGUMENT without a forward before it, and when the loss depends
 * on no parameter that is trained, because all are frozen.
 */
yk_status yk_model_backward(yk_model *model);
/** Lets the next backward overwrite the gradients. */
void yk_model_zero_grad(yk_model *model);

/**
 * How the gradients of several backwards between two optimizer steps combine. A loss of sums over
 * samples adds up to that of one large batch either way; one of sums and means takes the first way.
 */
typedef enum yk_accumulation {
    YK_ACCUMULATION_SUM, /**< they add up, as in PyTorch */
    YK_ACCUMULATION_MEAN /**< to the mean over all samples: micro-batches of any sizes give the
                              gradient of one large batch, without dividing the loss */
} yk_accumulation;
/** Takes effect with the next backward. A new model has YK_ACCUMULATION_SUM. */
void yk_model_set_accumulation(yk_model *model, yk_accumulation accumulation);

/**
 * From the next backward on, gradients are those of weight times the loss; yk_model_loss still
 * returns the loss itself. A new model has the weight 1. If the loss is a mean over samples and the
 * weight is the number of samples of all ranks, gradients are those of the sum over all samples.
 */
void yk_model_set_loss_weight(yk_model *model, double weight);

/** The loss of the last forward, on this rank's samples only; NaN before the first, for NULL, and
 * if the device has failed, which the next forward or backward reports. */
double yk_model_loss(const yk_model *model);
/** The value chosen by yk_model_options.logits in the last forward, float32 or float64: a view of
 *  host memory, on every device, that is valid until the next forward. */
yk_status yk_model_output(yk_model *model, yk_tensor *output);
/** Likewise the index-th value of yk_model_options.outputs, in its own shape. Each is valid until
 *  the next forward. YK_ERROR_INVALID_ARGUMENT past the last one. */
yk_status yk_model_output_at(yk_model *model, size_t index, yk_tensor *output);

/**
 * A parameter or buffer: views of its live memory, in PyTorch's layout. On "cpu" and "ref" a
 * program may use value.data and grad.data; where value.device is not NULL, it must use
 * yk_tensor_read() and yk_tensor_write(), which work everywhere.
 */
typedef struct yk_parameter_view {
    const char *name; /**< with its scopes, such as "layer1.0.conv1.weight" */
    yk_tensor value;  /**< its elements */
    yk_tensor grad;   /**< its gradient, 0 if it is frozen; grad.data is NULL for a buffer, and in a
                           model without a loss */
    bool trainable;   /**< false for a buffer, a parameter that yk_graph_set_trainable froze, and in
                           a model without a loss */
} yk_parameter_view;

/** Number of parameters; 0 for NULL. */
size_t yk_model_parameter_count(const yk_model *model);
/** The index-th parameter in order of declaration, which is PyTorch's; all zeros, with a NULL name,
 *  past the last one. */
yk_parameter_view yk_model_parameter(const yk_model *model, size_t index);
/** Number of buffers; 0 for NULL. */
size_t yk_model_buffer_count(const yk_model *model);
/** The index-th buffer, likewise. */
yk_parameter_view yk_model_buffer(const yk_model *model, size_t index);
/**
 * Copies parameters and persistent buffers of one model to those of the same name in another, which
 * may have more of them and may be on another device: those whose name fits the shell pattern, such
 * as "critic.*", or all for NULL. What belongs to an optimizer is not copied. YK_ERROR_NOT_FOUND if
 * nothing fits the pattern or `to` lacks a name, YK_ERROR_INVALID_SHAPE if it differs in shape or
 * dtype; nothing is copied then. Blocks until it is done.
 */
yk_status yk_model_copy_values(yk_model *to, const yk_model *from, const char *pattern);
/** Call this after writing to the value of a parameter yourself: kernels may keep packed copies. */
void yk_model_parameters_changed(yk_model *model);

/**
 * Forwards in training mode so far. Dropout depends on (seed, forwards, rank under yk_ddp). A
 * checkpoint that is saved and loaded with a training state restores the number, so that a resumed
 * run draws what the uninterrupted one would; without a state, set it yourself.
 */
int64_t yk_model_forwards(const yk_model *model);
/** Sets that number. */
void yk_model_set_forwards(yk_model *model, int64_t forwards);

/** Elements of all parameters together. */
int64_t yk_model_parameter_elements(const yk_model *model);

/** Bytes that training needs, or inference in a model without a loss, by purpose. */
typedef struct yk_memory_plan {
    size_t parameters;     /**< parameters and buffers */
    size_t gradients;      /**< of the parameters */
    size_t packed_weights; /**< copies of weights in the layouts of kernels */
    size_t activations;    /**< values between the operators */
    size_t scratch; /**< working memory of kernels that does not fit between the activations */
} yk_memory_plan;
/** The memory that batches of this size (at least 1) take. Prepares their kernels. */
yk_status yk_model_memory_plan(yk_model *model, int64_t batch_size, yk_memory_plan *plan);

/** The threads that the model's kernels use: the rounding of sums depends on their number; 0 for
 *  NULL. */
int yk_model_threads(const yk_model *model);

/** Describes the device and its kernels, e.g. "cpu: oneDNN 2.6.3, AVX-512 + bf16, 2 threads".
 *  NULL for NULL. */
const char *yk_model_device_description(const yk_model *model);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
