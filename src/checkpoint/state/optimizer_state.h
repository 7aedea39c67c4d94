/* The optimizer's part of a checkpoint: torch.optim's state_dict. */
#ifndef YKI_OPTIMIZER_STATE_H
#define YKI_OPTIMIZER_STATE_H

#include <yoke/optim.h>

#include "checkpoint/state/optimizer_groups.h"

yk_status yki_optimizer_state_write(yki_pth_writer *writer, const yk_optimizer *optimizer,
                                    size_t parameters);

/* What a file holds for an optimizer, checked and read, not yet applied. */
typedef struct yki_optimizer_state {
    yki_file_tensor *views; /* (parameters, slots) */
    bool *present;          /* (parameters, slots); the others start at zero */
    size_t parameters, slots;
    yki_optimizer_groups groups;
    yki_state_age *ages; /* (parameters) of each one's state; 0 steps: it has none */
    int64_t steps;       /* as far as the file knows */
} yki_optimizer_state;

/* value: the pickled state_dict. */
yk_status yki_optimizer_state_read(yki_optimizer_state *state, yki_pth *pth,
                                   const yki_pickle_value *value, const yk_optimizer *optimizer,
                                   size_t parameters);
/* Fails only for hyperparameters that the optimizer refuses, or without memory, and then changes
 * nothing. */
yk_status yki_optimizer_state_apply(const yki_optimizer_state *state, const yki_pth *pth,
                                    yk_optimizer *optimizer);
void yki_optimizer_state_fini(yki_optimizer_state *state);

#endif
