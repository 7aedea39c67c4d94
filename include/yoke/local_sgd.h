/**
 * @file
 * Local SGD (Stich, "Local SGD Converges Fast and Communicates Little", 2019): ranks train on their
 * own and average their weights every few steps, as torch.distributed.algorithms.model_averaging
 * does. Where gradients would take longer over the network than a step computes, this divides the
 * traffic by the number of steps between two averages. An outer optimizer that applies what the
 * ranks have changed makes it DiLoCo (Douillard et al. 2023), or SlowMo (Wang et al. 2020).
 */
#ifndef YOKE_LOCAL_SGD_H
#define YOKE_LOCAL_SGD_H

#include <yoke/group.h>
#include <yoke/optim.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** An optimizer whose ranks average every few steps. */
typedef struct yk_local_sgd yk_local_sgd;

/**
 * How ranks average. Initialise it with YK_LOCAL_SGD_OPTIONS_INIT.
 *
 * The outer optimizer is SGD. Its gradient is the weights at the last average minus the mean of all
 * ranks' weights now. The defaults make that mean the new weights. DiLoCo has an AdamW for each
 * rank, outer_lr 0.7, outer_momentum 0.9, outer_nesterov, and averages every 500 steps.
 */
typedef struct yk_local_sgd_options {
    size_t size;           /**< of this struct; set by YK_LOCAL_SGD_OPTIONS_INIT */
    int64_t sync_every;    /**< optimizer steps from one average to the next, at least 1 [16] */
    double outer_lr;       /**< of the outer optimizer, above 0 [1] */
    double outer_momentum; /**< of the outer optimizer, at least 0 and below 1 [0] */
    bool outer_nesterov;   /**< whether its momentum is Nesterov's [false] */
    /** Whether the optimizer's own state, such as momentum, is averaged, too [true]. It takes as
     * much traffic again for each kind of state, and makes the ranks equal after each average, so
     * that rank 0's checkpoint continues to the same bits. Without it, each rank keeps its own
     * state, and a checkpoint has that of rank 0. */
    bool average_state;
} yk_local_sgd_options;

/** The defaults of yk_local_sgd_options. */
#define YK_LOCAL_SGD_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(yk_local_sgd_options), 16, 1, 0, false, true                                        \
    }

/**
 * From now on yk_optimizer_step averages over the group's ranks after every sync_every-th step, and
 * is collective then: trained parameters, floating-point buffers such as running statistics (but
 * not constants: yk_register_buffer()), and, if asked for, the optimizer's state. All ranks must
 * make the same steps; where they have not, the average is YK_ERROR_MISMATCH on every rank and
 * names one that differs.
 *
 * Collective. The options must agree, and the models in names, shapes and dtypes; if a rank is
 * refused, all are, as in yk_ddp_create. Every rank gets rank 0's weights. The model needs no
 * yk_ddp. It may have one for a part of the group, such as the ranks of a host
 * (yk_group_split_by_host), which then average gradients in every step. After a start under a
 * yk_ddp of all ranks, which is destroyed before, this is post-local SGD (Lin et al. 2020). An
 * optimizer under ZeRO is refused.
 *
 * Between averages, ranks have different weights: yk_checkpoint_save is an error then, and an
 * evaluation is one of this rank's weights; yk_local_sgd_sync comes before both. Averaged weights
 * (yk_ema) are equal on all ranks if they are updated only where yk_local_sgd_steps is 0.
 * Checkpoints hold the outer optimizer's momentum under "outer_momentum"; create the yk_local_sgd
 * before loading one.
 *
 * The yk_local_sgd keeps optimizer, model and group alive. On failure *local is NULL.
 */
yk_status yk_local_sgd_create(yk_local_sgd **local, yk_optimizer *optimizer, yk_group *group,
                              const yk_local_sgd_options *options);
/** Ends it: from now on steps average nothing. Not collective. Accepts NULL. */
void yk_local_sgd_destroy(yk_local_sgd *local);

/** Averages now, if there have been steps since the last average, such as at the end of an epoch.
 *  Collective. sync_every counts from here. */
yk_status yk_local_sgd_sync(yk_local_sgd *local);
/** Times of the last average, in seconds; zeros where the device exchanges by itself. */
typedef struct yk_local_sgd_stats {
    double exposed_s; /**< moving and adding up data, in which nothing else was computed */
    double waiting_s; /**< waiting for ranks that had not come as far */
} yk_local_sgd_stats;
/** Zeros for NULL and before the first average. */
yk_local_sgd_stats yk_local_sgd_last_stats(const yk_local_sgd *local);
/** The bytes that each rank gives to an average; 0 for NULL. */
size_t yk_local_sgd_bytes(const yk_local_sgd *local);
/** Steps since the last average. 0: all ranks have the same weights; also for NULL. */
int64_t yk_local_sgd_steps(const yk_local_sgd *local);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
