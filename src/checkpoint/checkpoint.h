/* What checkpoint.c lends to checkpoint_dir.c. */
#ifndef YKI_CHECKPOINT_H
#define YKI_CHECKPOINT_H

#include <yoke/checkpoint.h>

#include "base/error.h"
#include "checkpoint/tensor_file/pth.h"
#include "io/atomic_file.h"

/* A .pth file that is open under its temporary name and known but for the tensors' bytes. */
typedef struct yki_pth_file {
    yki_atomic_file file;
    yki_pth_writer *writer; /* NULL once the file is written */
} yki_pth_file;

/* A whole checkpoint; optimizer and state may be NULL. On failure nothing is left of it. */
yk_status yki_checkpoint_prepare(yki_pth_file *file, const char *path, const yk_model *model,
                                 const yk_optimizer *optimizer, const yk_training_state *state);
/* The model's state_dict alone. */
yk_status yki_weights_prepare(yki_pth_file *file, const char *path, const yk_model *model);
/* Writes it, under its temporary name: what remains is yki_atomic_commit. On failure nothing is
 * left of it. */
yk_status yki_pth_file_write(yki_pth_file *file);
void yki_pth_file_abandon(yki_pth_file *file);

/* Reads every member of the file, so that its CRCs are checked, and its training state. */
yk_status yki_checkpoint_verify(const char *path, yk_training_state *state);

#endif
