/*
 * DDP communication hooks, torch.distributed.algorithms.ddp_comm_hooks': what happens to a bucket
 * of gradients in place of its all-reduce, e.g. compression.
 */
#ifndef YOKE_COMM_HOOK_H
#define YOKE_COMM_HOOK_H

#include <yoke/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* PyTorch's GradBucket: gradients that travel together. All of it is valid until yk_ddp_destroy. */
typedef struct yk_grad_bucket {
    size_t index; /* buckets come in this order, on every rank */
    bool is_last; /* of this backward */
    yk_dtype dtype;
    void *buffer;    /* the gradients, each padded with zeros to 64 bytes; peers can read it */
    size_t elements; /* of buffer */
    const yk_parameter_view *parameters; /* whose gradients they are, as they lie in buffer */
    size_t parameter_count;
} yk_grad_bucket;

/*
 * Called once a bucket and synced backward, bucket after bucket, on the group's own thread while
 * backward goes on: it must not touch anything else of the model. On entry each rank's gradients
 * are weighted by its share of the samples already; on return the buffer must hold their sum over
 * the ranks, the same on all of them, so there is nothing to divide by. It may call the group's
 * collectives, blocking (work is NULL), the same ones on every rank. An error fails the backward.
 */
typedef yk_status (*yk_comm_hook)(void *state, yk_group *group, const yk_grad_bucket *bucket);

/*
 * A hook of the user's own; once for each yk_ddp, before the first backward, on every rank. state
 * stays the caller's and must outlive the yk_ddp.
 */
yk_status yk_ddp_register_comm_hook(yk_ddp *ddp, yk_comm_hook hook, void *state);

/* ---- the built-in ones: collective, alike on every rank -------------------------------------- */

/* Gradients travel in bfloat16 or float16 (out of whose range they become infinite). They are added
 * in f32 and rounded once; the result is that of the 16-bit sum, widened. */
yk_status yk_ddp_register_bf16_compress_hook(yk_ddp *ddp);
yk_status yk_ddp_register_fp16_compress_hook(yk_ddp *ddp);

typedef struct yk_powersgd_options {
    int64_t matrix_approximation_rank; /* 0 means 1 */
    int64_t start_iter;                /* synced backwards before compression; 0 means 1000 */
    double min_compression_rate;       /* 0 means 2: what would shrink less travels as it is */
    bool no_error_feedback;           /* else what compression lost is added to the next gradient */
    bool no_warm_start;               /* else each step starts from the factors of the last one */
    double orthogonalization_epsilon; /* added to each norm; 0: a column of zeros stays one */
    uint64_t random_seed;             /* of the first factors; rank 0's counts */
    int64_t iter;                     /* synced backwards done before, where a run goes on */
} yk_powersgd_options;

/*
 * PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: Practical Low-Rank Gradient Compression for
 * Distributed Optimization", 2019), as PyTorch's powerSGD_hook: gradients M of n x m travel as P (n
 * x rank) and Q (m x rank). Error feedback takes memory as large as the compressed gradients. For
 * checkpoints see yk_ddp_consolidate_comm_hook and yk_checkpoint_load_comm_hook.
 */
yk_status yk_ddp_register_powersgd_hook(yk_ddp *ddp, const yk_powersgd_options *options);

/* Elements that compression has been given and has sent, since it began. */
typedef struct yk_powersgd_stats {
    int64_t elements_before, elements_after;
} yk_powersgd_stats;
/* Zeros where PowerSGD is not registered or has not begun. Not while a backward runs. */
yk_powersgd_stats yk_ddp_powersgd_stats(const yk_ddp *ddp);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* What a built-in hook carries from step to step, of all ranks: PowerSGD's errors and factors. */
typedef struct yk_comm_hook_state yk_comm_hook_state;

/*
 * Collective: brings what the hook carries to rank 0, for yk_training_state.comm_hook; to be called
 * before rank 0 saves a checkpoint. *state is the hook's and stands until the next backward; NULL
 * on the other ranks, and everywhere where the hook carries nothing.
 */
yk_status yk_ddp_consolidate_comm_hook(yk_ddp *ddp, const yk_comm_hook_state **state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
