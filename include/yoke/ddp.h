/**
 * @file
 * Distributed data parallelism: from yk_ddp_create on, yk_model_backward averages gradients over
 * the group's ranks, bucket by bucket, while it is still computing the earlier layers.
 */
#ifndef YOKE_DDP_H
#define YOKE_DDP_H

#include <yoke/group.h>
#include <yoke/model.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * Converts a model to SyncBatchNorm, as torch.nn.SyncBatchNorm.convert_sync_batchnorm does: from
 * now on each batch_norm in training mode takes its statistics over the joint batch of all ranks,
 * and its gradient follows; running statistics have the same bits on all ranks. Evaluation is as
 * before. Every rank must then run the same forwards and backwards. A rank without samples runs a
 * batch of size 0 (tensors without elements) and still takes part.
 *
 * A joint batch with fewer than two values of a channel has no variance. It is known only when the
 * ranks have exchanged their counts: all of them then refuse it with YK_ERROR_INVALID_SHAPE, before
 * the running statistics change. An asynchronous device does so in a later call, when the host
 * waits for it.
 *
 * Collective. If a rank is refused, all are, as in yk_ddp_create. That function may be called
 * before or afterwards; it is still needed, because gradients remain each rank's own. Nothing
 * changes if the model has no batch_norm or the group has one rank. A model under yk_data_parallel
 * is refused. The model keeps the group alive.
 */
yk_status yk_sync_batch_norm_convert(yk_model *model, yk_group *group);

/** A model that is trained by all ranks of a group. */
typedef struct yk_ddp yk_ddp;

/** Options of yk_ddp_create. Initialise them with YK_DDP_OPTIONS_INIT. */
typedef struct yk_ddp_options {
    size_t size; /**< of this struct; set by YK_DDP_OPTIONS_INIT */
    /** A bucket is closed when its gradients reach this many MiB [25]; 0 gives each parameter a
     * bucket of its own. */
    double bucket_cap_mb;
    /** The cap of the first bucket [1], so that communication starts sooner. Never more than
     * bucket_cap_mb. */
    double first_bucket_mb;
    /** Of the last bucket, the gradients that are finished last, up to this many MiB [1], travel in
     * a bucket of their own, because little is left to compute while they travel; and of these
     * again the last, up to a fourth, after which nothing is left. INFINITY keeps the bucket
     * whole. */
    double last_bucket_mb;
    /** Whether buffers (running statistics) follow rank 0's before each synced forward [true]. */
    bool broadcast_buffers;
    /**
     * Whether parameters may be unused [false]. Without it, a parameter that some rank's loss does
     * not depend on is refused by name at construction, because it would never be updated. With
     * it, buckets and optimizers leave parameters alone that no rank uses; where only some ranks
     * use a parameter, the others add zeros.
     */
    bool find_unused_parameters;
    /**
     * The number V of virtual ranks [0, none]. With it, training does not depend on the number of
     * ranks, to the bit. V must be a multiple of the group's size N, which may be 1. Each step is
     * V/N forwards and backwards on every rank, of equal batches, before the optimizer's step (see
     * yk_loader_options.virtual_ranks), and gives what ordinary DDP gives on V ranks. Gradients are
     * added in the order of virtual ranks; where N is less than V, or the backend adds in another
     * order, this is done after the last backward, and with N > 1 each rank keeps V/N gradients.
     * The kernels must use the same number of threads for every N. Cannot be combined with no_sync
     * or SyncBatchNorm.
     */
    int virtual_ranks;
} yk_ddp_options;

/** The defaults of yk_ddp_options. */
#define YK_DDP_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(yk_ddp_options), 25, 1, 1, true, false, 0                                           \
    }

/**
 * Puts the model under DDP. Collective. Checks that the options, and names, shapes and dtypes of
 * parameters and buffers agree on all ranks: a difference is YK_ERROR_MISMATCH on every rank, with
 * the name, both sides and both ranks. Then every rank gets rank 0's parameters and buffers, and
 * gradients move into memory that the peers can read: views of gradients taken earlier are stale,
 * and what has been accumulated is given up, as by yk_model_zero_grad. Create it before the
 * optimizer.
 *
 * What is averaged: terms of the loss that are means over samples become the mean over the samples
 * of all ranks, also where their batches differ in size; terms that are sums over samples
 * (YK_LOSS_SUM) become the mean of the ranks' sums. A loss may have both.
 *
 * If a rank is refused, because of its options, a NULL or memory that it lacks, all are: the others
 * get YK_ERROR_MISMATCH at once, with that rank and its reason. The group remains usable.
 *
 * A model is under one yk_ddp or one yk_data_parallel at a time. The yk_ddp keeps the model and the
 * group alive. On failure *ddp is NULL.
 */
yk_status yk_ddp_create(yk_ddp **ddp, yk_model *model, yk_group *group,
                        const yk_ddp_options *options);
/** Takes the model out of DDP; gradients move, as they are, back to the model's own memory. Accepts
 * NULL. */
void yk_ddp_destroy(yk_ddp *ddp);

/**
 * While no_sync is true, backward only accumulates gradients locally, divided by the number of
 * ranks; the next synced backward reduces the sum. NULL is ignored.
 */
void yk_ddp_set_no_sync(yk_ddp *ddp, bool no_sync);

/** Options of yk_ddp_join_begin. Initialise them with YK_JOIN_OPTIONS_INIT. */
typedef struct yk_join_options {
    size_t size; /**< of this struct; set by YK_JOIN_OPTIONS_INIT */
    /**
     * A step for which some ranks have no data is divided by all ranks, as in PyTorch, so that
     * every sample weighs as much as in the other steps. With this set [false] it is divided by the
     * ranks that have data, which gives the mean over the samples of the step. If several backwards
     * accumulate, each of them is divided so.
     */
    bool divide_by_effective_world_size;
    /** Whether the first rank to run out of data ends the loop of all ranks [false]:
     * YK_ERROR_INTERRUPTED in forward or in yk_ddp_join_end. Join is over then, without a
     * yk_ddp_join_end. */
    bool throw_on_early_termination;
    /**
     * What the loop does after a synced backward: clip, step, schedule [NULL]. yk_ddp_join_end
     * calls it for the steps of the other ranks, which keeps parameters, optimizer state and
     * learning rates the same on all ranks. Without it, a rank without data ends with the final
     * parameters but with its own older momentum. With a grad scaler or ZeRO it is required, as
     * unscaling and the step of ZeRO are collective: without it they return
     * YK_ERROR_INVALID_ARGUMENT.
     */
    yk_status (*step)(void *context);
    void *context; /**< given to step */
} yk_join_options;

/** The defaults of yk_join_options. */
#define YK_JOIN_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_join_options), false, false, NULL, NULL                                          \
    }

/**
 * Join, for ranks with different numbers of batches, as torch.distributed.algorithms.join. Every
 * rank calls begin before its training loop and end after it. Between the two, each forward in
 * training mode says that there is data and must be followed by its backward. In end, a rank
 * without data runs the steps of the ranks that still have some, on batches without samples and in
 * training mode, until no rank has data; then all ranks take parameters and buffers from the first
 * of the ranks that trained longest. Works with accumulation (the same on all ranks), comm hooks
 * and SyncBatchNorm. Without Join, a rank that ends its loop early gives the others an error that
 * names it.
 *
 * begin is collective. The flags are the same on all ranks, which have a step or none; if a rank is
 * refused, all are, as in yk_ddp_create.
 */
yk_status yk_ddp_join_begin(yk_ddp *ddp, const yk_join_options *options);
/** Ends Join; see yk_ddp_join_begin. Blocks until no rank has data. */
yk_status yk_ddp_join_end(yk_ddp *ddp);

/**
 * Compares a hash of every parameter and buffer over the ranks. Collective, between steps. Any
 * difference, even of one bit, is YK_ERROR_MISMATCH on every rank, with the same line: it names the
 * first tensor that differs and the rank that differs from the others. Buffers first become rank
 * 0's, as before the next forward; without broadcast_buffers they are each rank's own and are not
 * compared. Reads all parameters once.
 */
yk_status yk_ddp_check_divergence(yk_ddp *ddp);

/** The number of buckets; 0 for NULL. */
size_t yk_ddp_bucket_count(const yk_ddp *ddp);
/** The bytes of the gradients in a bucket; 0 for one that does not exist, and for NULL. */
size_t yk_ddp_bucket_bytes(const yk_ddp *ddp, size_t bucket);

/**
 * Times of the last backward, in seconds; zeros where it did not communicate. Where a device
 * exchanges gradients itself, behind the host's back, the first two are those of the last backward
 * whose times are known, which is one or two before it. They contain what the device has waited for
 * other ranks, which waiting_s does not.
 */
typedef struct yk_ddp_stats {
    double communication_s; /**< from the first bucket's launch until the last one has landed */
    double exposed_s;       /**< of it, moving data after backward's last kernel */
    double waiting_s; /**< waiting for ranks that had not come as far, in this backward and the
                           forward before it; with a comm hook mostly part of exposed_s */
} yk_ddp_stats;
/** The times of the last backward; zeros for NULL. */
yk_ddp_stats yk_ddp_last_stats(const yk_ddp *ddp);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
