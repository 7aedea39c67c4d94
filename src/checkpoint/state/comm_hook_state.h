/*
 * A comm hook's part of a checkpoint, "comm_hook": {"name": "powersgd", "factors": tensor, "warm":
 * tensor, "errors": [a tensor for each rank]}. Each rank reads its own errors alone.
 */
#ifndef YKI_COMM_HOOK_STATE_H
#define YKI_COMM_HOOK_STATE_H

#include <yoke/comm_hook.h>

#include "checkpoint/tensor_file/pth.h"

/* The dict's value; its key is the caller's. */
yk_status yki_comm_hook_state_write(yki_pth_writer *writer, const yk_comm_hook_state *state);
/* Leaves the hook as it was unless all can be read; see yk_checkpoint_load_comm_hook. */
yk_status yki_comm_hook_state_read(yki_pth *pth, const yki_pickle_value *value, yk_ddp *ddp);

#endif
