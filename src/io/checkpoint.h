/* What checkpoint.c lends to checkpoint_dir.c. */
#ifndef YKI_CHECKPOINT_H
#define YKI_CHECKPOINT_H

#include <yoke/checkpoint.h>

#include "base/error.h"

/* The whole checkpoint into the empty file fd; optimizer and state may be NULL. */
yk_status yki_checkpoint_write(int fd, const char *path, const yk_model *model,
                               const yk_optimizer *optimizer, const yk_training_state *state);
/* Reads every member of the file, so that its CRCs are checked, and its training state. */
yk_status yki_checkpoint_verify(const char *path, yk_training_state *state);

#endif
