/*
 * Checkpoints in PyTorch's own .pth format: torch.load opens them, and yoke opens PyTorch's. A file
 * is written under a temporary name, synced and renamed: a reader sees the old or the new one.
 */
#ifndef YOKE_CHECKPOINT_H
#define YOKE_CHECKPOINT_H

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
    char arch[32];       /* the network's name, "" where it has none */
    int64_t epoch;       /* epochs completed */
    int64_t step;        /* optimizer steps completed, over all epochs */
    int64_t epoch_batch; /* steps done of the running epoch; 0 between epochs */
    int64_t batch_size;  /* global */
    int64_t world_size;
    int64_t threads;       /* of a rank's kernels: sums are rounded differently with others */
    int64_t virtual_ranks; /* see yk_ddp_options; 0: none */
    uint64_t seed;
    double lr;
    double val_accuracy;              /* of the last evaluation, 0..1; negative when none */
    double epoch_loss, epoch_samples; /* sums over the epoch so far, for its mean loss */
    yk_grad_scaler_state scaler;      /* scale 0: none */
    char dataset[32];                 /* name of the training set, see yk_dataset_name */
    int64_t dataset_size;             /* its number of samples */
    bool has_schedule;    /* whether schedule holds one: not in files of earlier versions */
    yk_schedule schedule; /* of the learning rate */
    /* The program's own settings, which the library stores and never reads: lines "NAME=VALUE",
     * each ended by a newline. In the file they are the dict "program". */
    char program[4096];
    /* Of yk_ddp_consolidate_comm_hook, or NULL. For saving: loading leaves NULL here, and
     * yk_checkpoint_load_comm_hook does the rest. */
    const yk_comm_hook_state *comm_hook;
} yk_training_state;

/*
 * A state_dict alone: names to tensors, what torch.save(model.state_dict()) writes. torch.load
 * reads it with weights_only=True from PyTorch 1.13 on; a whole checkpoint, which holds floats,
 * from 2.0 on (and without weights_only before). A path that ends in .safetensors gets that format.
 */
yk_status yk_model_save(const yk_model *model, const char *path);
/*
 * Loads parameters and buffers by name, from a state_dict or from a whole checkpoint, yoke's or
 * PyTorch's (a state_dict under "model", "model_state_dict", "state_dict" or "net"), or from
 * safetensors, told by the content. "module." and "_orig_mod." before all names are left off.
 * Elements of any floating, integer or bool dtype are converted to the model's. All names and
 * shapes must fit: missing, unexpected and differently shaped ones are named, the first few of each
 * and how many more. Nothing is changed on failure.
 */
yk_status yk_model_load(yk_model *model, const char *path);
/* The averaged weights of a checkpoint instead (yk_ema_create); YK_ERROR_NOT_FOUND when it has
 * none. */
yk_status yk_model_load_ema(yk_model *model, const char *path);

/*
 * {"model": state_dict, "optimizer": torch.optim's state_dict, "model_ema": AveragedModel's where
 * the optimizer has averaged weights, "scaler": GradScaler's where state has one, "comm_hook":
 * PowerSGD's where state has one, "yoke": training state}. optimizer and state may be NULL. Tensors
 * are written from the model's own memory.
 */
yk_status yk_checkpoint_save(const char *path, const yk_model *model, const yk_optimizer *optimizer,
                             const yk_training_state *state);
/*
 * optimizer and state may be NULL. The optimizer, which must be of the kind that was saved, takes
 * its hyperparameters (lr among them), state and steps from the file, and its averaged weights, if
 * it has any, theirs (afresh where the file has none). Nothing is changed on failure.
 */
yk_status yk_checkpoint_load(const char *path, yk_model *model, yk_optimizer *optimizer,
                             yk_training_state *state);
/*
 * What the comm hook of a ddp carried, on every rank, once the hook is registered; its iter is an
 * option. Where the ranks are as many as they were it goes on bit for bit, else the errors are
 * added up over fewer ranks, or stay with the first ones. YK_ERROR_NOT_FOUND when the file has
 * none, YK_ERROR_MISMATCH when it is of other sizes (another model, other options): then, and on
 * any failure, the hook is as it was.
 */
yk_status yk_checkpoint_load_comm_hook(const char *path, yk_ddp *ddp);
/* The training state alone, e.g. to learn the architecture before a model is built.
 * YK_ERROR_NOT_FOUND when the file has none. */
yk_status yk_checkpoint_read_state(const char *path, yk_training_state *state);

/*
 * A folder of checkpoints, with a manifest of hashes: save creates DIR where it is missing, writes
 * DIR/checkpoint-EPOCH.pth (checkpoint-step-STEP.pth within an epoch), updates DIR/manifest.json
 * and keeps the newest `keep` (0: all); DIR/model.pth holds the newest weights alone, as
 * yk_model_save writes them. latest writes the path of the newest complete one, verified
 * against its hash, skipping damaged ones with a warning; YK_ERROR_NOT_FOUND when there is none at
 * all, YK_ERROR_FORMAT when none of those there is complete. One process saves at a time; it may be
 * killed at any moment.
 */
yk_status yk_checkpoint_dir_save(const char *dir, const yk_model *model,
                                 const yk_optimizer *optimizer, const yk_training_state *state,
                                 int keep);
yk_status yk_checkpoint_dir_latest(const char *dir, char *path, size_t path_size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
