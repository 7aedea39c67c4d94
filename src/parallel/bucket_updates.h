/*
 * The optimizer's step during backward. At its end, backward waits for the buckets in the order of
 * their launches. Meanwhile it updates the parameters of those that have been reduced:
 *
 *     yki_ddp_partition_step(ddp, optimizer);               once, if yki_ddp_can_update
 *     yki_ddp_update_in_backward(ddp, optimizer, wanted);   before a synced backward
 *     yk_model_backward(model);
 *     yki_ddp_update_in_backward(ddp, NULL, false);
 *     yk_optimizer_step(optimizer);                         completes the step: optim/step.h
 *
 * All ranks make the same calls. Nothing is updated before backward's last kernel. Until then, the
 * kernels need the cores, since other ranks wait for their gradients, and they still read weights.
 */
#ifndef YKI_BUCKET_UPDATES_H
#define YKI_BUCKET_UPDATES_H

#include <yoke/ddp.h>
#include <yoke/optim.h>

/* Whether this rank could update some buckets while others are being reduced: there are several
 * ranks and buckets, the host waits for them, and the optimizer is the model's. */
bool yki_ddp_can_update(const yk_ddp *ddp, const yk_optimizer *optimizer);
/* Makes each bucket a part of the optimizer's step. */
yk_status yki_ddp_partition_step(const yk_ddp *ddp, yk_optimizer *optimizer);
/* Says whether this rank wants the next backward to update parameters, which it does not want if
 * its loss is not finite. Backward updates them only if all ranks want it. An optimizer of NULL
 * ends this. */
void yki_ddp_update_in_backward(yk_ddp *ddp, yk_optimizer *optimizer, bool wanted);

#endif
