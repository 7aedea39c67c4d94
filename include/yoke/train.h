/**
 * @file
 * Training: the trainer, which runs a whole training or one step at a time; evaluation over all
 * ranks; stopping on signals; and small functions that every training loop needs.
 */
#ifndef YOKE_TRAIN_H
#define YOKE_TRAIN_H

#include <yoke/checkpoint.h>
#include <yoke/data.h>
#include <yoke/data_parallel.h>
#include <yoke/ddp.h>
#include <yoke/group.h>
#include <yoke/local_sgd.h>
#include <yoke/model.h>
#include <yoke/report.h>
#include <yoke/schedule.h>
#include <yoke/zero.h>

#include <math.h>
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
 * (N, C) in f32 or f64; the batch must hold "labels", of shape (N) in i32, or of shape (N, C) in
 * f32, as mixed images have them: then the largest is the label. With logits (N, C, ...) and labels
 * (N, ...), such as (N, C, H, W) and (N, H, W), it is the number of pixels, and where the loss has
 * the class_dim -1, with (N, T, C) and (N, T), that of tokens. Labels that the loss ignores
 * (yk_cross_entropy_options.ignore_index) do not count.
 */
yk_status yk_count_correct(int64_t *correct, yk_model *model, const yk_batch *batch);

/**
 * Collective. The mean of every rank's value, weighted by its weight: for a loss, the mean over the
 * samples of all ranks, with the number of this rank's samples as the weight. The value of a rank
 * with the weight 0 does not matter. *mean is the same on all ranks, and 0 when all weights are 0.
 * group may be NULL for this process alone.
 */
yk_status yk_mean_over_ranks(double *mean, yk_group *group, double value, double weight);

/**
 * The mean of a training's losses, as torchmetrics' MeanMetric, for programs with a loop of their
 * own:
 *
 *     yk_model_forward(model, batch), yk_model_backward(model), yk_optimizer_step(optimizer);
 *     yk_loss_meter_update(meter, (double)batch->size);
 *     ...
 *     yk_loss_meter_compute(&mean, meter);   // now and then, to print it
 *
 * Each update reads the loss of the update before, which an asynchronous device has computed by
 * then or soon will have, while it works on the step that has just been entered: the device always
 * has work, where yk_model_loss waits for the step's own forward.
 */
typedef struct yk_loss_meter yk_loss_meter;

/** Makes a meter of the model's losses, which keeps the model alive. YK_ERROR_INVALID_ARGUMENT for
 * a model without a loss. On failure *meter is NULL. */
yk_status yk_loss_meter_create(yk_loss_meter **meter, yk_model *model);
/** Accepts NULL. */
void yk_loss_meter_destroy(yk_loss_meter *meter);
/**
 * Adds the loss of the model's last forward with a weight above 0: the number of the batch's
 * samples for the mean over samples, 1 for the mean over batches. Call it before the next forward.
 * Under yk_data_parallel the loss is read at once.
 */
yk_status yk_loss_meter_update(yk_loss_meter *meter, double weight);
/** *mean: of the losses that have been added since the last call, NaN if there are none. Waits for
 * the newest of them. */
yk_status yk_loss_meter_compute(double *mean, yk_loss_meter *meter);

/** A rank that the others wait for. */
typedef struct yk_slow_rank {
    int rank;        /**< -1: none */
    double waited_s; /**< how much longer than itself the others have waited, on average */
} yk_slow_rank;

/**
 * Collective. Finds the rank that the others have waited for: the one that has itself waited least,
 * if the others have waited for more than 5 % of the time longer. waiting_s is how long this rank
 * has waited for others (yk_ddp_stats) in a time of all_s. *slow is the same on all ranks. group
 * may be NULL for this process alone, which waits for nobody.
 */
yk_status yk_find_slow_rank(yk_slow_rank *slow, yk_group *group, double waiting_s, double all_s);

/**
 * Collective. Gives every rank rank 0's buffers (the running statistics of batch norms). Between
 * steps each rank has its own, so call it before evaluating on all ranks: rank 0's are the ones
 * that are saved. group may be NULL.
 */
yk_status yk_model_broadcast_buffers(yk_model *model, yk_group *group);

/** Views of an image over which test-time augmentation averages the logits. */
typedef enum yk_tta {
    YK_TTA_NONE,     /**< the image alone */
    YK_TTA_MIRROR,   /**< the image and its mirror image */
    YK_TTA_TRANSLATE /**< these two with half of the weight; with the other half, the image shifted
                          by one pixel diagonally, both ways, and the mirror images of these */
} yk_tta;

/** What yk_evaluate has measured, the same on all ranks. Where labels are those of pixels or
 * tokens, each of these is a sample; samples whose label the loss ignores do not count in anything.
 */
typedef struct yk_evaluation {
    double loss;         /**< mean over all samples; NaN if the model has no loss */
    double accuracy;     /**< fraction of samples that were classified correctly, 0 to 1; NaN, as
                              the other two fractions, if the model is no classifier */
    int64_t correct;     /**< samples classified correctly */
    int64_t count;       /**< samples */
    bool stopped;        /**< should_stop ended it early: the other fields are 0 */
    double top5;         /**< fraction of samples whose class is among the five largest logits */
    double tta_accuracy; /**< accuracy with test-time augmentation; without it, accuracy */
} yk_evaluation;

/** How yk_evaluate evaluates. */
typedef struct yk_evaluate_options {
    size_t size;     /**< set by YK_EVALUATE_OPTIONS_INIT */
    yk_group *group; /**< the ranks that share the loader's data, or NULL for this process alone
                          [NULL] */
    /** Asked between batches, on every rank; true on any rank ends the evaluation on all. May be
     * NULL. */
    bool (*should_stop)(void *context);
    void *context; /**< passed to should_stop and on_batch */
    /** Called after each of this rank's batches: how many of them are done. May be NULL. */
    void (*on_batch)(void *context, int64_t done, int64_t batches);
    /** (C, C) zeros for logits of C classes: entry [label C + prediction] becomes the number of
     * samples of that label with that prediction, over all ranks. Or NULL [NULL]. */
    int64_t *confusion;
    yk_tta tta; /**< test-time augmentation of a tensor "images", with logits (N, C)
                     [YK_TTA_NONE] */
    /** Images whose predicted class has at least this probability are not augmented: 0.9 takes a
     * fraction of the time for nearly the same accuracy, 1 augments every image [1] */
    double tta_confidence;
} yk_evaluate_options;

/** The defaults of yk_evaluate_options. */
#define YK_EVALUATE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(yk_evaluate_options), NULL, NULL, NULL, NULL, NULL, YK_TTA_NONE, 1                  \
    }

/**
 * Collective. The mean loss, top-1 and top-5 accuracy over one epoch of the loader, which should be
 * exact (yk_loader_options.exact), so that each sample counts once whatever the number of ranks. If
 * the loader is in the middle of an epoch, as after an evaluation that was stopped, it is first
 * moved to the beginning of one. Classifiers keep their logits, and have labels as yk_count_correct
 * describes them; of a model whose loss reads other things, only the loss is measured. The loss of
 * a batch weighs as many as it has samples that count. Buffers are made rank 0's first. The model
 * evaluates in evaluation mode and is left in training mode. If one of the group's ranks is refused
 * or fails, all do, with its reason.
 */
yk_status yk_evaluate(yk_evaluation *result, yk_model *model, yk_loader *loader,
                      const yk_evaluate_options *options);

/**
 * The mean intersection over union, the usual measure of segmentation, of a matrix (classes,
 * classes) that yk_evaluate_options.confusion has counted: for each class, the samples (pixels)
 * that have it as label and as prediction, divided by those that have it as either. The mean is
 * over the classes that occur; NaN if none does.
 */
double yk_mean_iou(const int64_t *confusion, int64_t classes);

/* ---- running statistics ---------------------------------------------------------------------- */

/** How yk_update_bn goes over the data. */
typedef struct yk_update_bn_options {
    size_t size;     /**< set by YK_UPDATE_BN_OPTIONS_INIT */
    yk_group *group; /**< the ranks that share the loader's data, or NULL for this process alone
                          [NULL] */
    /** Asked between batches, on every rank; true on any rank ends the pass on all. May be NULL. */
    bool (*should_stop)(void *context);
    void *context; /**< passed to should_stop and on_batch */
    /** Called after each of this rank's batches: how many of them are done. May be NULL. */
    void (*on_batch)(void *context, int64_t done, int64_t batches);
} yk_update_bn_options;

/** The defaults of yk_update_bn_options. */
#define YK_UPDATE_BN_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(yk_update_bn_options), NULL, NULL, NULL, NULL                                       \
    }

/**
 * Collective. Computes the running statistics of batch norms for the model's weights as they are,
 * such as averaged ones that were swapped in, as torch.optim.swa_utils.update_bn: the mean of each
 * batch's statistics in one epoch of the loader, which should be that of training. Those of all
 * ranks count, and all ranks get the same. num_batches_tracked becomes the number of batches. Batch
 * norms that are frozen, or whose momentum is 0, keep their statistics. Where a batch norm is used
 * several times in a forward, later uses weigh more, as in training (in PyTorch they weigh alike).
 *
 *     yk_ema_swap(ema), yk_update_bn(model, loader, NULL, NULL), yk_ema_swap(ema);
 *
 * gives an average that was made with use_buffers its own statistics. Without use_buffers they
 * replace those of the model.
 *
 * The forwards run in training mode but belong to no step: gradients, yk_model_forwards() and the
 * mode stay as they are. If the pass fails, or is stopped (*stopped, which may be NULL, is then
 * true on all ranks), so do the statistics.
 */
yk_status yk_update_bn(yk_model *model, yk_loader *loader, const yk_update_bn_options *options,
                       bool *stopped);

/* ---- whitening ------------------------------------------------------------------------------- */

/** How a whitening layer is computed. */
typedef struct yk_whiten_options {
    size_t size;   /**< set by YK_WHITEN_OPTIONS_INIT */
    int64_t count; /**< images to read from the loader; fewer if its epoch ends before [5000] */
    double eps;    /**< added to the eigenvalues, above 0 [5e-4] */
} yk_whiten_options;

/** The defaults of yk_whiten_options. */
#define YK_WHITEN_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(yk_whiten_options), 5000, 5e-4                                                      \
    }

/**
 * Sets the weight of a convolution, the model's parameter of that name, to filters that whiten the
 * patches of the loader's "images": eigenvectors of the patches' covariance (about 0, in f64)
 * divided by sqrt(eigenvalue + eps), followed by their negations. The weight's shape is
 * (2 C R S, C, R, S). Not collective: with loaders of the same options every rank gets the same
 * bits. The loader should serve images in order, with the transforms of evaluation; it is left in
 * the middle of an epoch. YK_ERROR_NOT_FOUND when there is no such parameter,
 * YK_ERROR_INVALID_SHAPE when it, or the images, have other shapes. After Coates, Ng, "Learning
 * Feature Representations with K-means" (2012), and tysam-code's hlb-CIFAR10 (2023).
 */
yk_status yk_whiten_conv2d(yk_model *model, const char *weight, yk_loader *loader,
                           const yk_whiten_options *options);

/* ---- stopping on signals -------------------------------------------------------------------- */

/**
 * Prepares for yk_stop_on_signals. Call it first in main(): threads that exist already would still
 * take the signals. It starts a thread that takes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2,
 * even if the program was started with them blocked, and blocks them in the calling thread, from
 * which later threads inherit the mask. SIGUSR1 and SIGUSR2 wait for yk_stop_on_signals; the others
 * end the process until then. Handlers must not run on threads that compute: oneDNN keeps
 * the stack pointer in its own buffers there at times.
 */
yk_status yk_stop_prepare(void);
/**
 * From here on the first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 is only remembered, for the
 * program to stop after its current step; a second one of the same kind, more than half a second
 * later, ends the process. A closing terminal may send SIGHUP twice: the second changes nothing.
 * Where it is ignored, as under nohup, it stays ignored.
 * YK_ERROR_INVALID_ARGUMENT without yk_stop_prepare.
 */
yk_status yk_stop_on_signals(void);
/** The signal that asked this process to stop, or 0. Any thread. */
int yk_stop_signal(void);
/**
 * For output that may have no reader: waits until the pipe or terminal fd takes PIPE_BUF bytes
 * without blocking. Once the process has been asked to stop, all calls together wait for a second
 * more; false where there is still no room, and what was to be written is better left out, since a
 * write that blocks would keep the process from stopping. Any thread.
 */
bool yk_stop_may_write(int fd);

/**
 * Collective; for a run that has been stopped and saved. Under Slurm, puts the job back into the
 * queue, so that it is run again from its beginning: rank 0 runs `scontrol requeue`, which soon
 * ends what is left of this run. *requeued is false outside Slurm, and where rank 0 says in the log
 * that the job is not to be requeued: it was not submitted with sbatch, or with --no-requeue, or
 * Slurm is ending it already since it was cancelled or preempted. group may be NULL.
 */
yk_status yk_job_requeue(bool *requeued, yk_group *group);

/* ---- the trainer ---------------------------------------------------------------------------- */

/**
 * A training run on this rank: a model, its optimizer and the loader of its data, and what is made
 * of them. The same calls are made on every rank; they are collective.
 *
 *     yk_trainer *trainer;
 *     yk_trainer_options options = YK_TRAINER_OPTIONS_INIT;
 *     options.validation = validation_loader;
 *     options.output = "runs/a";
 *     YK_CHECK(yk_trainer_create(&trainer, model, optimizer, loader, &options));
 *     YK_CHECK(yk_trainer_resume_latest(trainer, NULL));
 *     YK_CHECK(yk_trainer_fit(trainer));
 *     yk_trainer_destroy(trainer);
 *
 * Between steps its state says exactly where training is, so a checkpoint written then resumes to
 * the same bits as a run that was never stopped. A step takes the batches that follow in the state,
 * wherever the loader has been left: trainers may share one, and programs may read from it.
 */
typedef struct yk_trainer yk_trainer;

/**
 * Functions that the trainer calls on every rank, from the thread that called it. Any of them may
 * be NULL. A status other than YK_OK ends the call of the trainer that is running, with it.
 */
typedef struct yk_trainer_callbacks {
    void *context; /**< passed to each of them */
    /** Before a step waits for its first batch. */
    yk_status (*on_step_begin)(void *context, yk_trainer *trainer);
    /** After a step; state->epoch_batch counts the epoch's steps so far. The next epoch begins once
     * on_step has returned, whatever its status. On a device that computes asynchronously,
     * yk_trainer_fit calls it while the next step computes, so that the device need not wait,
     * unless there is an on_step_begin. */
    yk_status (*on_step)(void *context, yk_trainer *trainer, const yk_step_record *record);
    /** After the evaluation that ends an epoch or the run. */
    yk_status (*on_epoch)(void *context, yk_trainer *trainer, const yk_epoch_record *record);
    /** Once a checkpoint has been written; with save_async, during a later step. */
    yk_status (*on_save)(void *context, yk_trainer *trainer);
    /** Once a checkpoint has been loaded, before its learning rate is applied: the place to change
     * hyperparameters of the resumed run. */
    yk_status (*on_resume)(void *context, yk_trainer *trainer);
    /** During an evaluation, after each of this rank's batches: how many of them are done. */
    void (*on_evaluation)(void *context, yk_trainer *trainer, int64_t done, int64_t batches);
} yk_trainer_callbacks;

/** What a trainer does. Parts may be NULL. */
typedef struct yk_trainer_options {
    size_t size;                /**< set by YK_TRAINER_OPTIONS_INIT */
    yk_loader *validation;      /**< evaluated after each epoch; should be exact */
    yk_group *group;            /**< the ranks, or NULL for this process alone */
    yk_ddp *ddp;                /**< of the model. With several ranks, give this or local_sgd:
                                   otherwise each rank trains its own weights, and
                                   yk_trainer_fit() warns */
    yk_zero *zero;              /**< of the optimizer */
    yk_local_sgd *local_sgd;    /**< of the optimizer, over the ranks of group: they average at the
                                   end of each epoch, too, and evaluate, save and stop only after
                                   an average; not with a scaler */
    yk_data_parallel *parallel; /**< of the model */
    yk_ema *ema;                /**< of the optimizer: updated after each step (with local_sgd,
                                   after each average), evaluated too */
    yk_lookahead *lookahead;    /**< of the optimizer: updated after each step, before the ema */
    yk_grad_scaler *scaler;     /**< of the model */
    /** Of the learning rate; copied. NULL means the schedule of the checkpoint that is resumed,
     * otherwise a constant rate. */
    const yk_schedule *schedule;
    int64_t epochs;    /**< passes over the data in all, those before a resume included */
    int64_t max_steps; /**< optimizer steps in all; training ends early after them */
    /** Batches of the loader that make one step, on each (virtual) rank. */
    int64_t accumulate;
    /** Gradients are scaled down to this global 2-norm; HUGE_VAL leaves them as they are. */
    double clip_grad_norm;
    int64_t check_divergence; /**< compare all ranks' parameters every so many steps (with ddp) */
    bool check_loss;          /**< end with an error before a loss of NaN or infinity is applied;
                                 a grad scaler skips such steps instead, up to 99 in a row */
    bool stop_on_signals;     /**< stop after the current step on the signals of yk_stop_on_signals,
                                 and before Slurm ends the job (SLURM_JOB_END_TIME); needs
                                 yk_stop_prepare */
    double stop_margin_s;     /**< how long before that end, in seconds; the duration of the last
                                 save is added */
    /** Folder for checkpoints, written after each epoch and at the end (yk_checkpoint_dir_save);
     * copied. With NULL none are written. yk_trainer_fit creates it, and begins with YK_ERROR_IO
     * where rank 0 cannot create files there. */
    const char *output;
    int64_t save_every; /**< also save every so many steps */
    bool save_async;    /**< copy what is to be saved, and write it while the next steps run; takes
                             the memory of one checkpoint on rank 0 */
    int keep;           /**< the number of newest checkpoints to keep, at least 1, or YK_KEEP_ALL */
    const char *arch;   /**< the network's name for the checkpoint, shorter than 32 bytes; copied */
    const char *program;            /**< yk_training_state.program for the checkpoint; copied */
    yk_trainer_callbacks callbacks; /**< see there */
    yk_tta tta;            /**< test-time augmentation of the evaluation that ends the training */
    double tta_confidence; /**< see yk_evaluate_options */
    /** What gradients are those of, if the model's loss is a mean over samples: of the mean over
     * all samples of a step, or with YK_LOSS_SUM of the sum over them (yk_model_set_loss_weight).
     * Losses are reported as means either way. */
    yk_loss_reduction loss_reduction;
} yk_trainer_options;

/** The defaults of yk_trainer_options. */
#define YK_TRAINER_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(yk_trainer_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,    \
            10, YK_NEVER, 1, HUGE_VAL, YK_NEVER, true, false, 60, NULL, YK_NEVER, false, 3, "",    \
            "", {NULL, NULL, NULL, NULL, NULL, NULL, NULL}, YK_TTA_NONE, 1, YK_LOSS_MEAN           \
    }

/**
 * Makes a trainer. Collective for the ranks of the group: if one of them is refused, all are, with
 * its reason (YK_ERROR_MISMATCH). On failure *trainer is NULL. The trainer keeps its parts alive,
 * so that it and they can be destroyed in any order; a part whose handle is destroyed first lives
 * on in the trainer. Gradients of a step's batches are averaged over their samples
 * (yk_model_set_accumulation).
 */
yk_status yk_trainer_create(yk_trainer **trainer, yk_model *model, yk_optimizer *optimizer,
                            yk_loader *loader, const yk_trainer_options *options);
/** Destroys the trainer, and the parts whose handles have been destroyed before. Accepts NULL. Not
 * collective. */
void yk_trainer_destroy(yk_trainer *trainer);

/**
 * Trains to the end of the last epoch, to max_steps, or until asked to stop; evaluates after each
 * epoch and at the end, and saves. A stopped run saves without the evaluation, which is made up for
 * when it is resumed. YK_OK also when stopped: see yk_trainer_stopped.
 *
 * With ddp, on a host device, weights are updated while other gradients are still being exchanged.
 * If a rank fails then, only some of the weights may have been updated: saving, and further steps
 * of the optimizer, return YK_ERROR_INVALID_ARGUMENT until a checkpoint is loaded. yk_trainer_step
 * updates all weights or none.
 */
yk_status yk_trainer_fit(yk_trainer *trainer);

/**
 * One optimizer step on the next batches, and nothing else: no evaluation, no checkpoint.
 * *finished (may be NULL) says that training is over after it: all epochs or max_steps are done, or
 * it was asked to stop. A trainer that was finished before does nothing. Gradients that are there
 * before the step, such as those of a step that failed, are forgotten.
 */
yk_status yk_trainer_step(yk_trainer *trainer, bool *finished);
/** Evaluates on the validation loader; *average (may be NULL) is the result of the averaged weights
 * where there is an ema, without test-time augmentation. The accuracy goes into the state. A
 * request to stop ends the evaluation, unless the trainer has been stopped by it already. */
yk_status yk_trainer_evaluate(yk_trainer *trainer, yk_evaluation *result, yk_evaluation *average);
/** Writes a checkpoint into the output folder; returns on all ranks once rank 0 has written it or,
 * with save_async, copied it. The error of a write in the background is returned by the next step,
 * save or wait. Where rank 0 fails, the others return YK_ERROR_MISMATCH, and their error line says
 * why. */
yk_status yk_trainer_save(yk_trainer *trainer);
/** Waits on all ranks until the checkpoint in the background is written. yk_trainer_fit does so at
 * its end. */
yk_status yk_trainer_wait(yk_trainer *trainer);

/**
 * Continues from a checkpoint, which every rank reads: weights, optimizer, averages, loss scale,
 * comm hook, position in the data. Within an epoch the data set, the batch size and the seed must
 * be those of the checkpoint (YK_ERROR_MISMATCH). Another schedule than the checkpoint's is allowed
 * and said in the log. To be called before the first step.
 */
yk_status yk_trainer_resume(yk_trainer *trainer, const char *path);
/** The same from the newest checkpoint of the output folder. *resumed (may be NULL) is false where
 * there is none: training then starts from the beginning. */
yk_status yk_trainer_resume_latest(yk_trainer *trainer, bool *resumed);

/**
 * Collective. Where dir is not the same folder on all hosts, finds the newest complete checkpoint
 * of all of them and copies it to the folders that lack it, so that every rank finds it in dir. A
 * trainer keeps such copies up to date while it saves. group may be NULL.
 */
yk_status yk_checkpoint_dir_share(const char *dir, yk_group *group);

/** What yk_trainer_resume has found. */
typedef struct yk_resume_report {
    yk_training_state saved;  /**< the state in the checkpoint */
    bool comm_hook_restarted; /**< the checkpoint has no state that fits the comm hook */
    bool schedule_changed;    /**< its schedule is not the one that training continues with */
} yk_resume_report;
/** NULL in a run that was not resumed. Valid as long as the trainer. */
const yk_resume_report *yk_trainer_resumed(const yk_trainer *trainer);

/** Position and origin of the run; NULL for NULL. Valid as long as the trainer. */
const yk_training_state *yk_trainer_state(const yk_trainer *trainer);
/** Optimizer steps of an epoch. */
int64_t yk_trainer_steps_per_epoch(const yk_trainer *trainer);
/** Asks the trainer to stop on all ranks; for callbacks. Ranks agree before each update of the
 * weights, so a call from on_step takes effect after the next step or, where yk_trainer_fit reads
 * losses late (on a device that computes asynchronously), at the latest one step after that. They
 * agree at the end of each epoch, too, so a call from on_epoch takes effect at once. Once the
 * trainer has stopped, the request no longer counts: yk_trainer_fit continues training. */
void yk_trainer_stop(yk_trainer *trainer);
/** Whether training has stopped on request, the same on all ranks; false again once yk_trainer_fit
 * goes on. */
bool yk_trainer_stopped(const yk_trainer *trainer);
/**
 * The signal that asked for it, on whichever rank it arrived: the same on all ranks once
 * yk_trainer_fit has returned. 0 when there was none.
 */
int yk_trainer_stop_signal(const yk_trainer *trainer);
/** Whether it was stopped since Slurm would soon have ended the job; known when
 * yk_trainer_stop_signal is. */
bool yk_trainer_out_of_time(const yk_trainer *trainer);
/** Whether a final evaluation is still missing, since a stop came before it. */
bool yk_trainer_owes_evaluation(const yk_trainer *trainer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
