/*
 * Comm hooks: a bucket's hook runs as a task on the group's thread, at the place in the queue where
 * its all-reduce would have been, so that hooks block, yet overlap with backward, and every rank
 * makes their collectives in the same order. A built-in hook may do better: launch a work on a host
 * device, and enter its work in a device's streams where gradients travel there.
 */
#include "base/memory.h"
#include "comm/queue.h"
#include "parallel/ddp.h"
#include "parallel/same_text.h"

/* ---- any hook -------------------------------------------------------------------------------- */

/* Creates the views of buckets that hooks receive, all in the allocation of the first. Hooks see
 * the gradients where the ranks exchange them. */
static yk_status create_views(yk_ddp *ddp)
{
    yk_parameter_view *views = yki_calloc(ddp->used, sizeof *views);
    if (!views)
        return yki_error_memory(ddp->used * sizeof *views, "buckets");
    for (size_t i = 0; i < ddp->used; i++) {
        views[i] = yk_model_parameter(ddp->model, ddp->order[i]);
        views[i].grad.data = yki_staging_host(&ddp->gradients, views[i].grad.data);
        views[i].grad.device = NULL;
    }
    for (size_t b = 0; b < ddp->bucket_count; b++) {
        yki_reduced_bucket *bucket = &ddp->buckets[b];
        bucket->ddp = ddp;
        bucket->hook_view =
            (yk_grad_bucket){.index = b,
                             .is_last = b + 1 == ddp->bucket_count,
                             .dtype = bucket->plan.dtype,
                             .buffer = bucket->part.staging->host + bucket->part.offset,
                             .elements = bucket->part.elements,
                             .parameters = views + bucket->plan.first,
                             .parameter_count = bucket->plan.count};
    }
    return YK_OK;
}

static yk_status prepare_hook(yk_ddp *ddp, const yki_hook *hook)
{
    if (ddp->hook.run)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a comm hook is already registered");
    if (ddp->options.virtual_ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "virtual ranks add gradients in a fixed order: "
                                                    "they cannot be combined with a comm hook");
    if (ddp->bucket_count == 0 || hook->enter)
        return YK_OK;
    YK_TRY(yki_staging_open_host(&ddp->gradients));
    return create_views(ddp);
}

yk_status yki_hook_register(yk_ddp *ddp, const yki_hook *hook)
{
    yk_status status = prepare_hook(ddp, hook);
    if (status != YK_OK) {
        if (hook->destroy)
            hook->destroy(hook->state);
        return status;
    }
    ddp->hook = *hook;
    yki_model_hooks_changed(ddp->model);
    return YK_OK;
}

yk_status yki_hook_compare(const yk_ddp *ddp, const char *description)
{
    return yki_compare_texts(ddp->group, "comm hooks", description);
}

yk_status yki_hook_end(const yki_joint *joint, yk_ddp *ddp, yk_status registered)
{
    yk_status status = yki_joint_end(joint, registered);
    if (status != YK_OK && registered == YK_OK) {
        yki_hook_destroy(ddp);
        yki_model_hooks_changed(ddp->model);
    }
    return status;
}

static yk_status register_hook(yk_ddp *ddp, yk_comm_hook hook, void *state)
{
    YK_TRY(yki_hook_compare(ddp, "one of the program\n"));
    return yki_hook_register(ddp, &(yki_hook){.run = hook, .state = state});
}

yk_status yk_ddp_register_comm_hook(yk_ddp *ddp, yk_comm_hook hook, void *state)
{
    YKI_NOT_NULL(ddp);
    yki_joint joint = yki_joint_begin(ddp->group);
    yk_status status = YKI_CHECK_NOT_NULL(hook);
    if (status == YK_OK)
        status = register_hook(ddp, hook, state);
    return yki_hook_end(&joint, ddp, status);
}

void yki_hook_destroy(yk_ddp *ddp)
{
    yki_comm_hook_state_destroy(ddp->hook_state);
    if (ddp->hook.destroy)
        ddp->hook.destroy(ddp->hook.state);
    if (ddp->hook.run && !ddp->hook.enter && ddp->bucket_count)
        yki_free_const(ddp->buckets[0].hook_view.parameters);
    ddp->hook_state = NULL;
    ddp->hook = (yki_hook){0};
}

/* After a failure, which may have come before a collective that other ranks have called, further
 * collectives would meet theirs in the wrong order. */
static yk_status run_hook(void *context)
{
    const yki_reduced_bucket *bucket = context;
    yk_ddp *ddp = bucket->ddp;
    if (ddp->hook_status == YK_OK)
        ddp->hook_status = ddp->hook.run(ddp->hook.state, ddp->group, &bucket->hook_view);
    return ddp->hook_status;
}

yk_status yki_hook_launch(yki_reduced_bucket *bucket)
{
    const yki_hook *hook = &bucket->ddp->hook;
    if (hook->start)
        return hook->start(hook->state, &bucket->hook_view, &bucket->work);
    return yki_staged_run(&bucket->part, run_hook, bucket, &bucket->work);
}
