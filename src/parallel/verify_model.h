/* Do all ranks hold the same model? And then: give all of them rank 0's. */
#ifndef YKI_VERIFY_MODEL_H
#define YKI_VERIFY_MODEL_H

#include <yoke/group.h>
#include <yoke/model.h>

/*
 * Collective. Compares names, dtypes and shapes of parameters and buffers over the ranks; a
 * difference is YK_ERROR_MISMATCH on every rank, with one and the same line: the first entry that
 * differs, as both ranks have it.
 */
yk_status yki_ddp_verify_model(const yk_model *model, yk_group *group);

/* Collective: every rank's parameters and buffers become the root's. */
yk_status yki_ddp_broadcast_model(yk_model *model, yk_group *group, int root);

#endif
