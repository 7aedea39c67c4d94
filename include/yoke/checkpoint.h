/**
 * @file
 * Checkpoints in PyTorch's own .pth format: torch.load opens them, and yoke opens PyTorch's. A file
 * is written under a temporary name, synced and renamed, so a reader sees the old file or the new
 * one, even when the writer dies. A NULL pointer that is not said to be allowed is
 * YK_ERROR_INVALID_ARGUMENT.
 */
#ifndef YOKE_CHECKPOINT_H
#define YOKE_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>

#include <yoke/comm_hook.h>
#include <yoke/model.h>
#include <yoke/optim.h>
#include <yoke/scaler.h>
#include <yoke/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * The state of a training run apart from its tensors: its position, and what it was trained with.
 * It is saved beside the weights and the optimizer's state. Fields that a file of an earlier
 * version does not have are 0 or empty.
 */
typedef struct yk_training_state {
    char arch[32];         /**< the name of the network, "" when it has none */
    int64_t epoch;         /**< epochs completed */
    int64_t step;          /**< optimizer steps completed, over all epochs */
    int64_t epoch_batch;   /**< steps completed of the current epoch; 0 between epochs */
    int64_t batch_size;    /**< samples of a step, over all ranks */
    int64_t world_size;    /**< ranks that trained */
    int64_t threads;       /**< kernel threads of a rank: their number changes how sums round */
    int64_t virtual_ranks; /**< as in yk_ddp_options; 0 without virtual ranks */
    uint64_t seed;         /**< of the run */
    double lr;             /**< the learning rate of the last step */
    double val_accuracy;   /**< of the last evaluation, 0 to 1; negative before the first one */
    double epoch_loss;     /**< sum of the losses of the current epoch's samples so far */
    double epoch_samples;  /**< samples of the current epoch so far */
    yk_grad_scaler_state scaler; /**< what yk_grad_scaler_get_state returns, to be given to
                                      yk_grad_scaler_set_state after loading; not enabled if there
                                      is no scaler */
    /** The name of the training set, see yk_dataset_name. The trainer keeps the end of one that
     * does not fit, and a hash of all of it: "...data/imagenet-a #1f0e5b3c". */
    char dataset[32];
    int64_t dataset_size; /**< its number of samples */
    bool has_schedule;    /**< whether schedule holds one; files of earlier versions have none */
    yk_schedule schedule; /**< of the learning rate */
    /** The program's own settings, which the library stores and never reads: lines "NAME=VALUE",
     * each ended by a newline. In the file they are the dict "program". */
    char program[4096];
    /** The result of yk_ddp_consolidate_comm_hook, or NULL. Only for saving: loading sets it to
     * NULL, and yk_checkpoint_load_comm_hook restores the hook. */
    const yk_comm_hook_state *comm_hook;
} yk_training_state;

/**
 * Saves a state_dict alone (names and tensors of parameters and persistent buffers), as
 * torch.save(model.state_dict()) does. torch.load reads it with weights_only=True from PyTorch 1.13
 * on. (A whole checkpoint also holds floats; it needs PyTorch 2.0 for that, or weights_only=False.)
 * A path that ends in .safetensors gets that format instead.
 */
yk_status yk_model_save(const yk_model *model, const char *path);
/**
 * Loads parameters and buffers by name: from a state_dict, from a whole checkpoint of yoke's or
 * PyTorch's (with a state_dict under "model", "model_state_dict", "state_dict" or "net"), or from
 * safetensors; the file's content tells which. Drops "module." and "_orig_mod." where all names
 * begin with them. Converts elements of any floating-point, integer or bool dtype to the model's.
 * All names and shapes must match; the error names the first few tensors that are missing,
 * unexpected or of another shape, and counts the rest. Files from before PyTorch 0.4.1 have no
 * num_batches_tracked of batch norms; as in PyTorch, it is then set to 0. A weight (K, C, L) of
 * PyTorch's Conv1d fits a parameter (K, C, 1, L). Changes nothing on failure.
 */
yk_status yk_model_load(yk_model *model, const char *path);

/** How much of a file is loaded, and what may differ between it and the model. */
typedef struct yk_load_options {
    size_t size;           /**< set by YK_LOAD_OPTIONS_INIT */
    const char *include;   /**< load only tensors whose names match this shell pattern (fnmatch), or
                                NULL for all [NULL] */
    bool allow_missing;    /**< what the file lacks keeps its value in the model [false] */
    bool allow_unexpected; /**< what the model lacks is ignored [false] */
    const char *allow_reshaped; /**< names, as a shell pattern, of what keeps its value in the model
                                     if it has another shape in the file: "fc.*" for a last layer of
                                     other classes; NULL for none [NULL] */
} yk_load_options;

/** The defaults of yk_load_options: everything must fit. */
#define YK_LOAD_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(yk_load_options), NULL, false, false, NULL                                          \
    }

/** What yk_model_load_with has done. */
typedef struct yk_load_report {
    size_t loaded;     /**< tensors of the model that have the file's values now */
    size_t missing;    /**< tensors of the model that the file lacks */
    size_t unexpected; /**< tensors of the file that the model lacks */
    size_t reshaped;   /**< tensors whose shapes differ */
    char text[512];    /**< the first few of the last three, in words; "" if there are none */
} yk_load_report;

/**
 * Loads like yk_model_load what the options select, and reports to *report (may be NULL) what it
 * has found. NULL options mean the defaults. YK_ERROR_MISMATCH for a difference that the options do
 * not allow, and if nothing would be loaded at all; the model is then unchanged.
 */
yk_status yk_model_load_with(yk_model *model, const char *path, const yk_load_options *options,
                             yk_load_report *report);
/** Loads the averaged weights of a checkpoint (see yk_ema_create) instead; YK_ERROR_NOT_FOUND when
 *  it has none. */
yk_status yk_model_load_ema(yk_model *model, const char *path);

/**
 * Saves a whole checkpoint: {"model": state_dict, "optimizer": torch.optim's state_dict,
 * "model_ema": AveragedModel's state_dict if the optimizer has averaged weights, "lookahead": the
 * slow weights in the same form if it has a Lookahead, "outer_momentum": that of local SGD in the
 * same form, "scaler": GradScaler's if state has one, "comm_hook": PowerSGD's if state has one,
 * "yoke": the training state}. optimizer and state may be NULL. Tensors are written straight from
 * the model's memory. Not collective: of several ranks, one saves (after yk_zero_consolidate, with
 * ZeRO, and after an average, with local SGD).
 */
yk_status yk_checkpoint_save(const char *path, const yk_model *model, const yk_optimizer *optimizer,
                             const yk_training_state *state);
/**
 * Loads a checkpoint. optimizer and state may be NULL. The optimizer must be of the kind that was
 * saved; it takes its hyperparameters (the learning rate included), its state and its step count
 * from the file. Its averaged and slow weights, if it has any, come from the file as well; where
 * the file has none, they start again from the loaded weights. The next backward overwrites the
 * gradients, as after every load of weights. Not collective: of several ranks, each loads the file.
 * Changes nothing on failure.
 */
yk_status yk_checkpoint_load(const char *path, yk_model *model, yk_optimizer *optimizer,
                             yk_training_state *state);
/**
 * Restores the state of a ddp's comm hook; call it on every rank once the hook is registered. The
 * hook's iteration is an option and is not restored. With as many ranks as before, training
 * continues bit for bit; otherwise the saved errors are summed over fewer ranks, or kept by the
 * first ones. YK_ERROR_NOT_FOUND when the file holds no such state, YK_ERROR_MISMATCH when it is of
 * other sizes (another model or other options). On failure the hook is unchanged.
 */
yk_status yk_checkpoint_load_comm_hook(const char *path, yk_ddp *ddp);
/** Reads the training state alone, e.g. to learn the architecture before a model is built.
 *  YK_ERROR_NOT_FOUND when the file has none. */
yk_status yk_checkpoint_read_state(const char *path, yk_training_state *state);

/** The number of checkpoints to keep when none is to be deleted. */
#define YK_KEEP_ALL INT_MAX

/**
 * Saves into a folder of checkpoints with a manifest of their hashes. Creates dir if it is missing,
 * writes dir/checkpoint-EPOCH.pth (checkpoint-step-STEP.pth within an epoch), updates
 * dir/manifest.json and deletes all but the newest `keep` checkpoints (at least 1; YK_KEEP_ALL
 * deletes none). dir/model.pth holds the newest weights alone, as yk_model_save writes them. If
 * only these cannot be written, as on a full disk, the checkpoint is kept, and the error says so.
 * Only one process may save at a time; it may be killed at any moment.
 */
yk_status yk_checkpoint_dir_save(const char *dir, const yk_model *model,
                                 const yk_optimizer *optimizer, const yk_training_state *state,
                                 int keep);
/**
 * Writes the path of the folder's newest complete checkpoint, which it verifies against its hash.
 * Skips damaged ones with a warning. YK_ERROR_NOT_FOUND when the folder holds no checkpoint,
 * YK_ERROR_FORMAT when none of them is complete. On failure path is the empty string.
 */
yk_status yk_checkpoint_dir_latest(const char *dir, char *path, size_t path_size);
/**
 * As yk_checkpoint_read_state, of the folder's newest complete checkpoint, for a look at it before
 * a run resumes from it: damaged ones are skipped without a warning, and errors are those of
 * yk_checkpoint_dir_latest.
 */
yk_status yk_checkpoint_dir_read_state(const char *dir, yk_training_state *state);
/**
 * Whether a checkpoint of the folder was saved by the job that this process belongs to, before
 * Slurm (SLURM_RESTART_COUNT) or an elastic launcher such as torchrun (TORCHELASTIC_RESTART_COUNT)
 * started it again. The manifest has the job's id as Slurm gives it, or the launcher's run id;
 * where that is "none", or the job has one host, also what the launcher draws (YOKE_JOB_ID, or the
 * folder of torchrun's logs). False for NULL, for a path that leads into another folder, and for a
 * checkpoint that the manifest does not know.
 */
bool yk_checkpoint_dir_is_restarted(const char *dir, const char *path);

/* ---- in the background ----------------------------------------------------------------------- */

/** Writes checkpoints into a folder while training continues. */
typedef struct yk_checkpoint_saver yk_checkpoint_saver;

/** Makes a saver for yk_checkpoint_dir_save's dir and keep; it starts a thread of its own. On
 * failure *saver is NULL. */
yk_status yk_checkpoint_saver_create(yk_checkpoint_saver **saver, const char *dir, int keep);
/** Waits for the checkpoint that is being written. Its failure is lost: call
 * yk_checkpoint_saver_wait first. Accepts NULL. */
void yk_checkpoint_saver_destroy(yk_checkpoint_saver *saver);
/**
 * Saves as yk_checkpoint_dir_save does, but returns as soon as everything has been copied in
 * memory: the model, the optimizer and the state may then change, and the file holds what they
 * were. A saver holds one copy: while the checkpoint before is still being written, this waits for
 * it, and if that has failed, returns its error and saves nothing.
 */
yk_status yk_checkpoint_saver_save(yk_checkpoint_saver *saver, const yk_model *model,
                                   const yk_optimizer *optimizer, const yk_training_state *state);
/** Waits until the last checkpoint is written. Returns its error, once. */
yk_status yk_checkpoint_saver_wait(yk_checkpoint_saver *saver);
/** Whether a checkpoint is being written; yk_checkpoint_saver_wait would wait. */
bool yk_checkpoint_saver_busy(yk_checkpoint_saver *saver);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
