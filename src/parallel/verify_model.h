/* Checks that all ranks hold the same model, and copies the values of one rank to all. */
#ifndef YKI_VERIFY_MODEL_H
#define YKI_VERIFY_MODEL_H

#include <yoke/group.h>
#include <yoke/model.h>

/*
 * Collective. Compares names, dtypes and shapes of parameters and buffers over the ranks. If they
 * differ, every rank returns YK_ERROR_MISMATCH with the same error, which shows the first entry
 * that differs on both ranks.
 */
yk_status yki_ddp_verify_model(const yk_model *model, yk_group *group);

/* Collective: copies the root's tensor to every rank, through the host's memory. */
yk_status yki_broadcast_tensor(const yk_tensor *tensor, yk_group *group, int root);
/* Collective: copies the root's parameters and buffers to every rank. */
yk_status yki_ddp_broadcast_model(yk_model *model, yk_group *group, int root);

#endif
