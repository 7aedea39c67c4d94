/*
 * The steps of the program that a model runs: where their operands are, and entering them in the
 * device's stream, or in what is being recorded of it.
 */
#ifndef YKI_STEPS_H
#define YKI_STEPS_H

#include "model/model.h"

/* Where a value of the plan lies now, in the device's memory. */
void *yki_step_address(const yk_model *model, const yki_plan *plan, const yki_place *place);
/* What kernels read; the device's. */
yki_scalars *yki_steps_scalars(const yk_model *model);
/* Changes whenever an address that steps use, or what their kernels exchange with, has changed.
 * Those of gradients are left out. */
uint64_t yki_steps_moves(const yk_model *model);

/* Enters the step of the running program at *index, and the next too where both run beside each
 * other; then *index is that of the step which follows. */
yk_status yki_steps_enter(yk_model *model, size_t *index);
/* Packs the parameters that the running program's kernels want packed; context is the model. */
yk_status yki_steps_pack(void *context);

#endif
