/*
 * DataParallel, torch.nn.DataParallel's: one process, several devices, here sets of this process's
 * cores. From yk_data_parallel_create on, each forward of the model cuts its batch along dimension
 * 0 (as torch.chunk), copies parameters and buffers to a replica on each device, runs the replicas
 * side by side and gathers their outputs; backward adds the replicas' gradients to the model's.
 *
 * It is here to be measured against DDP, whose ranks never copy parameters, run their own loaders
 * and optimizers, and reduce gradients while they compute: prefer DDP.
 */
#ifndef YOKE_DATA_PARALLEL_H
#define YOKE_DATA_PARALLEL_H

#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct yk_data_parallel yk_data_parallel;

typedef struct yk_data_parallel_options {
    /*
     * "cpu:0,cpu:1" (default): this process's cores in as many equal parts as there are devices;
     * "cpu:0-3,cpu:4-7": these cores of the machine, as taskset counts them.
     */
    const char *devices;
    int threads; /* of a device's kernels; 0: one for each of its cores */
} yk_data_parallel_options;

/* Checks a list of devices, NULL being the default, and counts them. */
yk_status yk_data_parallel_check(const char *devices, int *count);

/*
 * The model itself becomes device 0's replica: its parameters are trained, its gradients hold the
 * sums, its running statistics move (by its part of the batch, as in PyTorch), and yk_model_loss
 * and yk_model_output speak for the whole batch. The loss of a replica counts by its part of the
 * samples, which is the loss on the gathered outputs for every mean over samples.
 *
 * Create it before the model's first forward; destroy it before the model. Refused for a model that
 * is under DDP or converted to SyncBatchNorm, and for outputs (yk_model_options.logits) whose first
 * dimension is not the batch's. Each device has a thread, bound to its cores.
 */
yk_status yk_data_parallel_create(yk_data_parallel **dp, yk_model *model,
                                  const yk_data_parallel_options *options);
void yk_data_parallel_destroy(yk_data_parallel *dp);

/* "cpu:0 = core 0, cpu:1 = core 1; 1 thread each" */
const char *yk_data_parallel_description(const yk_data_parallel *dp);

/* Seconds of the last forward and backward, by what they were spent on. */
typedef struct yk_data_parallel_stats {
    double scatter_s, replicate_s, forward_s, gather_s; /* forward, in this order */
    double backward_s, reduce_s;                        /* backward */
    int replicas; /* that had samples: fewer than devices when the batch is small */
} yk_data_parallel_stats;
yk_data_parallel_stats yk_data_parallel_last_stats(const yk_data_parallel *dp);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
