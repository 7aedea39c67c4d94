/**
 * @file
 * DDP communication hooks, as torch.distributed.algorithms.ddp_comm_hooks: what happens to a bucket
 * of gradients in place of its all-reduce, for example compression.
 */
#ifndef YOKE_COMM_HOOK_H
#define YOKE_COMM_HOOK_H

#include <yoke/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Gradients that travel together (PyTorch's GradBucket). All of it is valid until
 * yk_ddp_destroy. */
typedef struct yk_grad_bucket {
    size_t index;    /**< buckets are handled in this order on every rank */
    bool is_last;    /**< whether it is the last bucket of this backward */
    yk_dtype dtype;  /**< of all its gradients */
    void *buffer;    /**< the gradients, each padded with zeros to 64 bytes: memory of the host that
                          peers can read, whatever the model's device */
    size_t elements; /**< of buffer */
    const yk_parameter_view *parameters; /**< the parameters, in the order of their gradients, which
                                              are views of buffer */
    size_t parameter_count;              /**< how many parameters */
} yk_grad_bucket;

/**
 * Called once per bucket and synced backward, one bucket after the other, on the group's own thread
 * while backward continues, so it must not touch anything else of the model. On entry each rank's
 * gradients are already weighted by its part of the samples; on return the buffer must hold their
 * sum over the ranks, the same on all of them, so there is nothing to divide by. With a
 * yk_grad_scaler the gradients are scaled, too, and what is infinite or NaN on one rank must reach
 * all. The hook may call the group's blocking collectives (work is NULL), the same ones on every
 * rank. An error fails the backward, in which this rank's hook is not called again.
 */
typedef yk_status (*yk_comm_hook)(void *state, yk_group *group, const yk_grad_bucket *bucket);

/**
 * Registers a hook: once for each yk_ddp, before the first backward. Collective, as the functions
 * below: if a rank is refused, or registers a hook of another kind, no rank has one afterwards, and
 * all get an error that names it, as in yk_ddp_create. state remains the caller's and must outlive
 * the yk_ddp.
 */
yk_status yk_ddp_register_comm_hook(yk_ddp *ddp, yk_comm_hook hook, void *state);

/* ---- built-in hooks: with the same options on every rank, or YK_ERROR_MISMATCH --------------- */

/** Gradients travel in bfloat16. They are added in f32 and rounded once. Collective. */
yk_status yk_ddp_register_bf16_compress_hook(yk_ddp *ddp);
/** The same in float16; values out of its range become infinite. Collective. */
yk_status yk_ddp_register_fp16_compress_hook(yk_ddp *ddp);

/** Options of PowerSGD. Initialise them with YK_POWERSGD_OPTIONS_INIT. */
typedef struct yk_powersgd_options {
    size_t size; /**< of this struct; set by YK_POWERSGD_OPTIONS_INIT */
    /** The rank of the approximation, 1 or more [1]. */
    int64_t matrix_approximation_rank;
    /** How many synced backwards all-reduce as usual before compression starts [1000]. */
    int64_t start_iter;
    /** Gradients that would shrink by less than this factor travel uncompressed [2]. */
    double min_compression_rate;
    /** Whether what compression lost is added to the next gradient [true]. */
    bool error_feedback;
    /** Whether each step starts from the factors of the step before [true]. */
    bool warm_start;
    /** Added to each norm when factors are made orthonormal [0]; with 0, a column of zeros remains
     * one. */
    double orthogonalization_epsilon;
    /** Of the first factors [0]; rank 0's is used. */
    uint64_t random_seed;
    /** How many synced backwards were run before, in a resumed training [0]. */
    int64_t iter;
} yk_powersgd_options;

/** The defaults of yk_powersgd_options. */
#define YK_POWERSGD_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_powersgd_options), 1, 1000, 2, true, true, 0, 0, 0                               \
    }

/**
 * PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: Practical Low-Rank Gradient Compression for
 * Distributed Optimization", 2019), as PyTorch's powerSGD_hook: a gradient M of shape (n, m)
 * travels as P (n, rank) and Q (m, rank). Error feedback needs memory as large as the compressed
 * gradients. For checkpoints see yk_ddp_consolidate_comm_hook and yk_checkpoint_load_comm_hook.
 * Collective.
 */
yk_status yk_ddp_register_powersgd_hook(yk_ddp *ddp, const yk_powersgd_options *options);

/** What PowerSGD has saved since compression started. */
typedef struct yk_powersgd_stats {
    int64_t elements_before; /**< elements of the gradients it was given */
    int64_t elements_after;  /**< elements that it sent instead */
} yk_powersgd_stats;
/** Zeros if PowerSGD is not registered or has not started, and for NULL. Do not call it while a
 *  backward runs. Waits for the work that was given to the model's device before. */
yk_powersgd_stats yk_ddp_powersgd_stats(const yk_ddp *ddp);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/** What a built-in hook carries from step to step, of all ranks: PowerSGD's errors and factors. */
typedef struct yk_comm_hook_state yk_comm_hook_state;

/**
 * Brings what the hook carries to rank 0, for yk_training_state.comm_hook. Collective; call it
 * before rank 0 saves a checkpoint. *state belongs to the hook and is valid until the next
 * backward; it is NULL on the other ranks, on failure, and everywhere if the hook carries nothing.
 */
yk_status yk_ddp_consolidate_comm_hook(yk_ddp *ddp, const yk_comm_hook_state **state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
