/*
 * Distributed data parallelism: from yk_ddp_create on, yk_model_backward averages gradients over
 * the group's ranks, bucket by bucket, while it still computes the earlier layers.
 */
#ifndef YOKE_DDP_H
#define YOKE_DDP_H

#include <yoke/group.h>
#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * torch.nn.SyncBatchNorm.convert_sync_batchnorm: from now on each batch_norm of the model, in
 * training, takes its statistics over the joint batch of all the group's ranks, and its gradient
 * follows; running statistics are bitwise the same on all ranks. Evaluation is as before. Every
 * rank must then run the same forwards and backwards; one that has no samples left runs a batch of
 * size 0 (tensors of no elements) and still takes part.
 *
 * Collective; before or after yk_ddp_create, which is still needed: gradients stay each rank's own.
 * A model without batch_norm, or a group of one rank, is left as it is; one that is under
 * yk_data_parallel is refused. The group must outlive the model's last forward and backward.
 */
yk_status yk_sync_batch_norm_convert(yk_model *model, yk_group *group);

typedef struct yk_ddp yk_ddp;

typedef struct yk_ddp_options {
    double bucket_cap_mb;      /* 0 means 25; a bucket is closed when its bytes reach the cap */
    double first_bucket_mb;    /* 0 means 1 (bucket_cap_mb if that is set): starts sooner */
    bool no_broadcast_buffers; /* buffers otherwise follow rank 0 before each synced forward */
    /*
     * A parameter that the loss of some rank does not depend on is refused at construction, by
     * name: its gradient would stand still for ever. With this set, one that no rank uses is left
     * alone by buckets and optimizers alike, and to one that some ranks use the others add zeros.
     */
    bool find_unused_parameters;
    /*
     * Training that does not depend on the number of ranks, to the bit: V > 0 virtual ranks, a
     * multiple of the group's size N, which may be 1. A step then is V/N forwards and backwards on
     * each rank, of equal batches, before the optimizer's (see yk_loader_options.virtual_ranks),
     * and trains what ordinary DDP would on V ranks. Gradients are added in the order of the
     * virtual ranks; where N is less than V that is done after the last backward, and with N > 1
     * each rank keeps V/N gradients. Kernels need the same number of threads whatever N is. Neither
     * no_sync nor SyncBatchNorm goes with it.
     */
    int virtual_ranks;
} yk_ddp_options;

/*
 * Collective. Checks that names, shapes and dtypes of parameters and buffers agree on all ranks (a
 * difference is refused on every rank with the name, both sides and both ranks), then gives every
 * rank rank 0's parameters and buffers. Gradients move into memory shared with the peers. Create it
 * before the optimizer; destroy it before model and group. A model is under one yk_ddp or one
 * yk_data_parallel at a time.
 */
yk_status yk_ddp_create(yk_ddp **ddp, yk_model *model, yk_group *group,
                        const yk_ddp_options *options);
void yk_ddp_destroy(yk_ddp *ddp);

/* While true, backward only accumulates locally, gradients divided by the number of ranks; the next
 * synced backward reduces the sum. */
void yk_ddp_set_no_sync(yk_ddp *ddp, bool no_sync);

typedef struct yk_join_options {
    /*
     * A step in which some ranks have no data is, by default, divided by all ranks, as PyTorch's
     * is: every sample then weighs as much as in the others. With this set it is divided by those
     * that have data: the mean over the samples that there are.
     */
    bool divide_by_effective_world_size;
    bool
        throw_on_early_termination; /* YK_ERROR_INTERRUPTED on all ranks, in forward or in join_end,
                                       once one is out of data: that ends Join, without join_end */
    /*
     * What the loop does after a synced backward: clip, step, schedule. Called in yk_ddp_join_end
     * for the steps of the others, it keeps the parameters, the optimizer's state and the rates of
     * all ranks the same. Without it a rank that is out of data stands still, and has the final
     * parameters, yet its own older momentum.
     */
    yk_status (*step)(void *context);
    void *context;
} yk_join_options;

/*
 * Join, for ranks with different numbers of batches: torch.distributed.algorithms.join's context
 * manager around the loop. Every rank calls begin before its loop and end behind it; between them,
 * in training mode, each forward says that there is data, and is to be followed by its backward. In
 * end a rank goes through the steps of those that still have data, on batches without samples,
 * until nobody has; then all get parameters and buffers from the first rank of those that went on
 * longest. Works with accumulation (alike on all ranks), comm hooks and SyncBatchNorm. Without Join
 * a rank that ends its loop early gives the others an error that names it.
 */
yk_status yk_ddp_join_begin(yk_ddp *ddp, const yk_join_options *options);
yk_status yk_ddp_join_end(yk_ddp *ddp);

/*
 * Collective, between steps. Compares a hash of every parameter and buffer over the ranks: any
 * difference, be it one bit, is YK_ERROR_MISMATCH on every rank, with one and the same line that
 * names the first tensor that differs and the rank that stands apart from the others. Buffers
 * become rank 0's first, as before the next forward; with no_broadcast_buffers they are each rank's
 * own and are not compared. Reads all parameters once.
 */
yk_status yk_ddp_check_divergence(yk_ddp *ddp);

size_t yk_ddp_bucket_count(const yk_ddp *ddp);
size_t yk_ddp_bucket_bytes(const yk_ddp *ddp, size_t bucket);

/*
 * The last backward: seconds from the first bucket's launch to the last one's landing, and the part
 * of it that backward had to wait for. Zero without communication.
 */
typedef struct yk_ddp_stats {
    double communication_s;
    double exposed_s;
} yk_ddp_stats;
yk_ddp_stats yk_ddp_last_stats(const yk_ddp *ddp);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
