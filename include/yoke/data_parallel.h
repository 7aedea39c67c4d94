/**
 * @file
 * DataParallel, as torch.nn.DataParallel: one process and several devices, which are GPUs, or sets
 * of this process's cores. From yk_data_parallel_create on, each forward of the model splits its
 * batch along dimension 0 (as torch.chunk), copies parameters and buffers to a replica on each
 * device, runs the replicas side by side and gathers their outputs; backward adds the replicas'
 * gradients to the model's.
 *
 * It is included for comparison with DDP, whose ranks never copy parameters, run their own loaders
 * and optimizers, and reduce gradients while they compute. Prefer DDP.
 */
#ifndef YOKE_DATA_PARALLEL_H
#define YOKE_DATA_PARALLEL_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** A model with a replica on each device. */
typedef struct yk_data_parallel yk_data_parallel;

/** Options of yk_data_parallel_create. Initialise them with YK_DATA_PARALLEL_OPTIONS_INIT. */
typedef struct yk_data_parallel_options {
    size_t size; /**< of this struct; set by YK_DATA_PARALLEL_OPTIONS_INIT */
    /**
     * A comma-separated list. "cpu:0,cpu:1" [default] splits this process's cores into as many
     * equal parts as there are devices; "cpu:0-3,cpu:4-7" names cores of the machine, numbered as
     * taskset does. "cuda:0,cuda:1" names other devices, of which the first must be the model's
     * own. NULL is the default list.
     */
    const char *devices;
    /** Threads of each device's kernels; YK_THREADS_AUTO [default] is one for each of its cores. */
    int threads;
} yk_data_parallel_options;

/** The defaults of yk_data_parallel_options. */
#define YK_DATA_PARALLEL_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(yk_data_parallel_options), "cpu:0,cpu:1", YK_THREADS_AUTO                           \
    }

/** Checks a list of devices (see yk_data_parallel_options); *count is how many, 0 on failure. */
yk_status yk_data_parallel_check(const char *devices, int *count);

/**
 * Puts the model under DataParallel. The model itself becomes device 0's replica: its parameters
 * are trained, its gradients hold the sums, its running statistics follow its part of the batch (as
 * in PyTorch), and yk_model_loss, yk_model_output and yk_model_output_at return those of the whole
 * batch. The loss of a replica is weighted by its part of the samples where it is a mean, which
 * gives the loss of the gathered outputs; sums over samples are added.
 *
 * Create it before the model's first forward. Refused for a model under DDP or converted to
 * SyncBatchNorm, and for outputs (yk_model_options.logits and .outputs) whose first dimension is
 * not the batch's. Each device has a thread, bound to its cores. It keeps the model alive. On
 * failure *dp is NULL.
 */
yk_status yk_data_parallel_create(yk_data_parallel **dp, yk_model *model,
                                  const yk_data_parallel_options *options);
/** Takes the model out of DataParallel and ends the devices' threads. Accepts NULL. */
void yk_data_parallel_destroy(yk_data_parallel *dp);

/** The devices in words, such as "cpu:0 = core 0, cpu:1 = core 1; 1 thread each"; "" for NULL. */
const char *yk_data_parallel_description(const yk_data_parallel *dp);

/** Where the seconds of the last forward and backward went. */
typedef struct yk_data_parallel_stats {
    double scatter_s;   /**< forward: splitting the batch */
    double replicate_s; /**< forward: copying parameters and buffers */
    double forward_s;   /**< forward: the replicas' kernels */
    double gather_s;    /**< forward: joining the outputs */
    double backward_s;  /**< backward: the replicas' kernels */
    double reduce_s;    /**< backward: adding the gradients */
    int replicas; /**< replicas that had samples: fewer than devices when the batch is small */
} yk_data_parallel_stats;
/** The times of the last forward and backward; zeros for NULL. */
yk_data_parallel_stats yk_data_parallel_last_stats(const yk_data_parallel *dp);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
