/* Sweeps over all gradients of a model: for clipping and for the scaler. */
#ifndef YKI_GRADIENTS_H
#define YKI_GRADIENTS_H

#include <yoke/model.h>

#include "device/sweep.h"

/* A span for each parameter; it is empty for those that are frozen. (The gradients of those that no
 * loss depends on are zeros. Whether another rank's does, DDP may find out later.) */
yk_status yki_gradients_create(yki_sweep **sweep, const yk_model *model);
/* Looks the gradients up before a run: DDP may have moved them. */
void yki_gradients_place(yki_sweep *sweep, const yk_model *model);

#endif
