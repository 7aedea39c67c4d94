/*
 * Gathers the state that a comm hook carries from step to step on rank 0, for a checkpoint. Rank 0
 * allocates the memory for it at the first checkpoint.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "parallel/ddp.h"

static size_t errors_bytes(const yk_comm_hook_state *state)
{
    return (size_t)state->ranks * state->memory.error_elements * sizeof *state->errors;
}

void yki_comm_hook_state_destroy(yk_comm_hook_state *state)
{
    if (!state)
        return;
    yki_unmap(state->errors, errors_bytes(state));
    free(state);
}

/* Allocates the memory that rank 0 gathers into. */
static yk_status allocate_hook_state(yk_ddp *ddp)
{
    if (yk_group_rank(ddp->group) != 0 || ddp->hook_state)
        return YK_OK;
    yk_comm_hook_state *state = yki_calloc(1, sizeof *state);
    if (!state)
        return yki_error_memory(sizeof *state, "a comm hook's state");
    state->memory = ddp->hook.memory;
    state->ranks = yk_group_size(ddp->group);
    size_t bytes = errors_bytes(state);
    if (bytes && !(state->errors = yki_map(bytes))) {
        free(state);
        return yki_error_memory(bytes, "the comm hook's errors of all ranks");
    }
    ddp->hook_state = state;
    return YK_OK;
}

static yk_status gather_errors(yk_ddp *ddp)
{
    const yki_hook_memory *memory = &ddp->hook.memory;
    const yk_tensor errors = {.data = memory->errors,
                              .dtype = YK_F32,
                              .ndim = 1,
                              .dims = {(int64_t)memory->error_elements},
                              .device = memory->device};
    yki_host_view view;
    YK_TRY(yki_host_view_open(&view, &errors, YKI_READ));
    return yki_host_view_end(&view,
                             yk_gather(ddp->group, ddp->hook_state ? ddp->hook_state->errors : NULL,
                                       view.data, memory->error_elements, YK_F32, 0, NULL));
}

static yk_status consolidate(yk_ddp *ddp)
{
    const yki_hook_memory *memory = &ddp->hook.memory;
    if (!memory->name || memory->factor_elements == 0)
        return YK_OK;
    YK_TRY(allocate_hook_state(ddp));
    return memory->error_elements ? gather_errors(ddp) : YK_OK;
}

yk_status yk_ddp_consolidate_comm_hook(yk_ddp *ddp, const yk_comm_hook_state **state)
{
    if (state)
        *state = NULL;
    YKI_NOT_NULL(ddp);
    yki_joint joint = yki_joint_begin(ddp->group);
    yk_status status = YKI_CHECK_NOT_NULL(state);
    if (status == YK_OK)
        status = consolidate(ddp);
    YK_TRY(yki_joint_end(&joint, status));
    *state = ddp->hook_state;
    return YK_OK;
}
