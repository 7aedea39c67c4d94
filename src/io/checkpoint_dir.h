/* What checkpoint_dir.c lends to checkpoint_saver.c: a save in two parts. */
#ifndef YKI_CHECKPOINT_DIR_H
#define YKI_CHECKPOINT_DIR_H

#include "io/checkpoint.h"
#include "io/manifest.h"

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

#endif
