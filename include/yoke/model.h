/*
 * A model: a graph with parameters that can run it forward and backward. yk_model_create returns
 * the first error that building the graph has left.
 *
 * Not thread-safe: one thread runs a model.
 */
#ifndef YOKE_MODEL_H
#define YOKE_MODEL_H

#include <yoke/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_model yk_model;

/*
 * Mixed precision, torch.autocast's idea: activations are kept in 16 bit, parameters, gradients of
 * parameters, losses and the statistics of norms in f32. Where the processor has no arithmetic of
 * that type, values are stored in it and computed with in f32. Gradients in fp16 want a
 * yk_grad_scaler (scaler.h): smaller ones than 2^-24 are zero there.
 */
typedef enum yk_amp { YK_AMP_OFF, YK_AMP_BF16, YK_AMP_FP16 } yk_amp;

/** yk_model_options.threads: one thread for each core that this process may use. */
#define YK_THREADS_AUTO (-1)

/** How a model is compiled and run. Strings are copied. */
typedef struct yk_model_options {
    size_t size;          /**< set by YK_MODEL_OPTIONS_INIT */
    const char *device;   /**< "cpu", or "ref": plain readable C, for comparison ["cpu"] */
    yk_amp amp;           /**< mixed precision [YK_AMP_OFF] */
    const char *autocast; /**< exceptions to its policy, see yk_autocast_check, or NULL [NULL] */
    uint64_t seed;        /**< of initial weights and dropout, like torch.manual_seed [0] */
    int threads;          /**< of this model's kernels, or YK_THREADS_AUTO [YK_THREADS_AUTO] */
    yk_value *logits;     /**< value kept readable for yk_model_output, or NULL [NULL] */
    bool winograd;        /**< use Winograd's algorithm for 3x3 convolutions: faster than direct
                               convolution, and a little less accurate [true] */
} yk_model_options;

/** The defaults of yk_model_options. */
#define YK_MODEL_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(yk_model_options), "cpu", YK_AMP_OFF, NULL, 0, YK_THREADS_AUTO, NULL, true          \
    }

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
typedef enum yk_accumulation { YK_ACCUMULATION_SUM, YK_ACCUMULATION_MEAN } yk_accumulation;
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
