/*
 * Training: evaluation over all ranks, stopping on signals, and small functions that every training
 * loop needs.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include <yoke/data.h>
#include <yoke/group.h>
#include <yoke/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- measuring ------------------------------------------------------------------------------ */

/**
 * Top-1 accuracy of the last forward: *correct is the number of samples of the batch whose largest
 * logit is at their label. The model must keep its logits (yk_model_options.logits), of shape
 * (N, C) in f32 or f64; the batch must hold "labels", of shape (N) in i32.
 */
yk_status yk_count_correct(int64_t *correct, yk_model *model, const yk_batch *batch);

/**
 * Collective. The mean of every rank's value, weighted by its weight: for a loss, the mean over the
 * samples of all ranks, with the number of this rank's samples as the weight. *mean is the same on
 * all ranks, and 0 when all weights are 0. group may be NULL: this process alone.
 */
yk_status yk_mean_over_ranks(double *mean, yk_group *group, double value, double weight);

/**
 * Collective. Gives every rank rank 0's buffers (the running statistics of batch norms). Between
 * steps each rank has its own, so call it before evaluating on all ranks: rank 0's are the ones
 * that are saved. group may be NULL.
 */
yk_status yk_model_broadcast_buffers(yk_model *model, yk_group *group);

/** What yk_evaluate has measured, the same on all ranks. */
typedef struct yk_evaluation {
    double loss;     /**< mean over all samples */
    double accuracy; /**< share of samples that were classified correctly, 0 to 1 */
    int64_t correct; /**< samples classified correctly */
    int64_t count;   /**< samples */
    bool stopped;    /**< should_stop ended it early: the other fields are 0 */
} yk_evaluation;

typedef struct yk_evaluate_options {
    size_t size;
    yk_group *group; /**< the ranks that share the loader's data; NULL: this process alone */
    /** Asked between batches, on every rank; true on any rank ends the evaluation on all. May be
     * NULL. */
    bool (*should_stop)(void *context);
    void *context; /**< passed to should_stop */
} yk_evaluate_options;

#define YK_EVALUATE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_evaluate_options), NULL, NULL, NULL                                              \
    }

/**
 * Collective. The mean loss and top-1 accuracy over one epoch of the loader, which should be exact
 * (yk_loader_options.exact), so that each sample counts once whatever the number of ranks. Buffers
 * are made rank 0's first. The model evaluates in evaluation mode and is left in training mode.
 */
yk_status yk_evaluate(yk_evaluation *result, yk_model *model, yk_loader *loader,
                      const yk_evaluate_options *options);

/* ---- stopping on signals -------------------------------------------------------------------- */

/**
 * Prepares for yk_stop_on_signals. Call it first in main(): threads that exist already would still
 * take the signals. It starts a thread that takes SIGINT, SIGTERM and SIGUSR1 and blocks them in
 * the calling thread, from which later threads inherit the mask. Handlers must not run on threads
 * that compute: oneDNN keeps the stack pointer in its own buffers there at times.
 */
yk_status yk_stop_prepare(void);
/**
 * From here on the first SIGINT, SIGTERM or SIGUSR1 is only remembered, for the program to stop
 * after its current step; a second one of the same kind ends the process. YK_ERROR_INVALID_ARGUMENT
 * without yk_stop_prepare.
 */
yk_status yk_stop_on_signals(void);
/** The signal that asked this process to stop, or 0. Any thread. */
int yk_stop_signal(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
