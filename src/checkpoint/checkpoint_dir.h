/* What checkpoint_dir.c lends: a save in two parts to checkpoint_saver.c, and the parts of a copy
 * from one folder to another to the trainer. */
#ifndef YKI_CHECKPOINT_DIR_H
#define YKI_CHECKPOINT_DIR_H

#include <limits.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

/* A checkpoint on its way into a folder. */
typedef struct yki_dir_save {
    char *dir;
    int keep;
    yki_manifest_entry entry;
    yki_pth_file checkpoint, weights;
} yki_dir_save;

/*
 * The first part of yk_checkpoint_dir_save: opens the files and describes what goes into them. The
 * tensors' bytes are read by the second part, from the model or from a snapshot. On failure there
 * is nothing to write or to abandon.
 */
yk_status yki_dir_save_prepare(yki_dir_save *save, const char *dir, const yk_model *model,
                               const yk_optimizer *optimizer, const yk_training_state *state,
                               int keep);
/* The second part. Frees what the save holds, also on failure. */
yk_status yki_dir_save_write(yki_dir_save *save);
void yki_dir_save_abandon(yki_dir_save *save);
/* YK_ERROR_INVALID_ARGUMENT where keep is no number of checkpoints to keep in dir. */
yk_status yki_check_keep(const char *dir, int keep);

/* Steps 3 to 5 of a save: puts a file that is written, and described by the entry, into dir. */
yk_status yki_dir_publish(const char *dir, int keep, const yki_manifest_entry *entry,
                          yki_atomic_file *file);
/* The checkpoint that was saved last, according to the manifest alone. */
yk_status yki_dir_last_saved(const char *dir, yki_manifest_entry *entry, char path[PATH_MAX]);
/* Whether the save of a checkpoint has come to its end, model.pth included. */
bool yki_dir_is_saved(const char *dir, const char *path);
/* The newest complete checkpoint, as yk_checkpoint_dir_latest finds it. */
yk_status yki_dir_newest(const char *dir, yki_manifest_entry *entry, char path[PATH_MAX]);

#endif
