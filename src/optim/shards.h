/*
 * What ZeRO (parallel/zero.c) does with an optimizer: keep the state of some parameters only, and
 * show the state of other ranks for a checkpoint.
 */
#ifndef YKI_SHARDS_H
#define YKI_SHARDS_H

#include <yoke/optim.h>

/* What this rank keeps. */
typedef struct yki_shard {
    const bool *own;      /* by parameter: whether its state is here */
    const size_t *offset; /* by parameter: where, in each slot's block ... */
    size_t bytes;         /* ... of so many bytes */
} yki_shard;

/* Fails, before anything changes, where the optimizer cannot be sharded or is another model's. */
yk_status yki_optimizer_check_shardable(const yk_optimizer *optimizer, const yk_model *model);
/* From now on the optimizer keeps zeroed state for its own parameters and leaves the others alone;
 * hooks that bring the others' updates are to be attached (step_hooks.h). Once they are gone, it
 * refuses further steps. own and offset are not kept. */
yk_status yki_optimizer_shard(yk_optimizer *optimizer, const yki_shard *shard);

/* Kinds of state tensors, e.g. 1 for a momentum. */
int yki_optimizer_slots(const yk_optimizer *optimizer);
/* The block of this rank's own state in a slot. */
void *yki_optimizer_own_state(const yk_optimizer *optimizer, int slot);
/* Shows the state of another rank's parameter at data; NULL: it is no longer here. */
void yki_optimizer_show_state(yk_optimizer *optimizer, size_t parameter, int slot, void *data);

/* YK_ERROR_INVALID_ARGUMENT while state of other ranks is not here, hooks say that it cannot be
 * saved, or the last step is not completed: see step.h. */
yk_status yki_optimizer_check_whole(const yk_optimizer *optimizer);

#endif
