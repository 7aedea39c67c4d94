/*
 * Join: ranks that have run out of data shadow the others.
 *
 * Before each forward all ranks exchange one number: whether they have data, and whether the next
 * step is synced. A rank without data then runs the same forward and backward as the others on an
 * empty batch. It thereby takes part in every collective (buffers, buckets, comm hooks,
 * SyncBatchNorm), and its gradients are zeros. PyTorch has no empty batches, so each of its modules
 * must shadow its own collectives.
 */
#include <stdio.h>

#include "base/memory.h"
#include "base/options.h"
#include "comm/group_internal.h"
#include "parallel/ddp.h"
#include "parallel/same_text.h"
#include "parallel/verify_model.h"

yk_status yki_join_create(yk_ddp *ddp)
{
    size_t ranks = (size_t)yk_group_size(ddp->group);
    ddp->join.states = yki_calloc(ranks, sizeof *ddp->join.states);
    return ddp->join.states ? YK_OK : yki_error_memory(ranks * sizeof(int32_t), "ddp");
}

int yki_join_active(const yk_ddp *ddp)
{
    return ddp->join.on ? ddp->join.active : yk_group_size(ddp->group);
}

double yki_join_factor(const yk_ddp *ddp)
{
    if (ddp->join.options.divide_by_effective_world_size)
        return 1;
    return (double)yki_join_active(ddp) / yk_group_size(ddp->group);
}

/* Returns the first rank in this state, or -1. */
static int find_state(const yk_ddp *ddp, yki_join_state state)
{
    for (int rank = 0; rank < yk_group_size(ddp->group); rank++)
        if (ddp->join.states[rank] == (int32_t)state)
            return rank;
    return -1;
}

static void count_active(yk_ddp *ddp)
{
    yki_join *join = &ddp->join;
    join->active = 0;
    for (int rank = yk_group_size(ddp->group) - 1; rank >= 0; rank--)
        if (join->states[rank] != YKI_OUT_OF_DATA) {
            join->active++;
            join->leader = rank;
        }
}

static void finish_join(yk_ddp *ddp)
{
    ddp->join.on = ddp->join.shadowing = false;
    ddp->join.leader = 0;
}

yk_status yki_join_meet(yk_ddp *ddp, yki_join_state state)
{
    int32_t mine = (int32_t)state;
    YK_TRY(yk_all_gather(ddp->group, ddp->join.states, &mine, 1, YK_I32, NULL));
    count_active(ddp);
    int out = find_state(ddp, YKI_OUT_OF_DATA), synced = find_state(ddp, YKI_SYNCED);
    int unsynced = find_state(ddp, YKI_UNSYNCED);
    if (out >= 0 && ddp->join.active > 0 && ddp->join.options.throw_on_early_termination) {
        finish_join(ddp); /* every rank does this, so none keeps waiting */
        return yki_error(YK_ERROR_INTERRUPTED,
                         "join: rank %d has run out of data, others have not "
                         "(throw_on_early_termination)",
                         yki_group_job_rank(ddp->group, out));
    }
    if (synced >= 0 && unsynced >= 0)
        return yki_error(YK_ERROR_MISMATCH,
                         "join: rank %d is about to run a synced step, rank %d one under no_sync",
                         yki_group_job_rank(ddp->group, synced),
                         yki_group_job_rank(ddp->group, unsynced));
    return YK_OK;
}

static yk_status compare_options(const yk_ddp *ddp, const yk_join_options *o)
{
    char text[160];
    snprintf(text, sizeof text,
             "divide_by_effective_world_size %d\nthrow_on_early_termination %d\n%s step\n",
             o->divide_by_effective_world_size, o->throw_on_early_termination,
             o->step ? "a" : "no");
    return yki_compare_texts(ddp->group, "join: options", text);
}

static yk_status begin_join(yk_ddp *ddp, const yk_join_options *given)
{
    yk_join_options options;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_join_options, YK_JOIN_OPTIONS_INIT));
    if (ddp->join.on)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "join: begin called twice without an end in between");
    if (ddp->options.virtual_ranks)
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "join: virtual ranks have equal batches by definition and cannot use Join");
    if (yki_model_gathering(ddp->model).ranks > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "join: the model has an all_gather_batch, which needs equal batches");
    YK_TRY(compare_options(ddp, &options));
    ddp->join.options = options;
    return YK_OK;
}

yk_status yk_ddp_join_begin(yk_ddp *ddp, const yk_join_options *options)
{
    YKI_NOT_NULL(ddp);
    yki_joint joint = yki_joint_begin(ddp->group);
    YK_TRY(yki_joint_end(&joint, begin_join(ddp, options)));
    ddp->join.on = true;
    ddp->join.active = yk_group_size(ddp->group); /* until the first forward in training mode */
    return YK_OK;
}

yk_status yki_join_check_shared_step(const void *context, const char *who)
{
    const yki_join *join = &((const yk_ddp *)context)->join;
    if (join->on && !join->options.step)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "%s: Join needs yk_join_options.step here, so that ranks without data "
                         "take part",
                         who);
    return YK_OK;
}

/* Shadows one step of the others. */
static yk_status shadow_step(yk_ddp *ddp)
{
    bool synced = find_state(ddp, YKI_SYNCED) >= 0;
    ddp->no_sync = !synced;
    YK_TRY(yki_model_forward_empty(ddp->model));
    YK_TRY(yk_model_backward(ddp->model));
    if (synced && ddp->join.options.step)
        return ddp->join.options.step(ddp->join.options.context);
    if (synced)
        yk_model_zero_grad(ddp->model);
    return YK_OK;
}

/* Shadows the others until no rank has data. */
static yk_status shadow_until_end(yk_ddp *ddp)
{
    for (;;) {
        YK_TRY(yki_join_meet(ddp, YKI_OUT_OF_DATA));
        if (ddp->join.active == 0)
            return yki_ddp_broadcast_model(ddp->model, ddp->group, ddp->join.leader);
        YK_TRY(shadow_step(ddp));
    }
}

yk_status yk_ddp_join_end(yk_ddp *ddp)
{
    YKI_NOT_NULL(ddp);
    if (!ddp->join.on)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "join: end called without a begin");
    bool no_sync = ddp->no_sync;
    ddp->join.shadowing = true;
    yk_status status = shadow_until_end(ddp);
    finish_join(ddp);
    ddp->no_sync = no_sync;
    ddp->buffers_moved = ddp->buffers_moved && status != YK_OK;
    return status;
}
