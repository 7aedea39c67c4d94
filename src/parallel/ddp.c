/*
 * Creates and destroys a yk_ddp: the ranks verify that their models are equal, gradients move into
 * buckets, and the model's hooks are set to reducer.c and forward_sync.c, or to virtual_ranks.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/options.h"
#include "comm/group_internal.h"
#include "device/choice.h"
#include "parallel/ddp.h"
#include "parallel/references.h"
#include "parallel/same_text.h"
#include "parallel/verify_model.h"

static yk_status reduce_maximum(void *context, double *value)
{
    const yk_ddp *ddp = context;
    return yk_all_reduce(ddp->group, value, 1, YK_F64, YK_REDUCE_MAX, NULL);
}

static yk_status reduce_maximum_in_stream(void *context, double *value, bool *done)
{
    const yk_ddp *ddp = context;
    const yki_staging *gradients = &ddp->gradients;
    const yk_descriptor what = {
        .operation = YK_OPERATION_ALL_REDUCE, .dtype = YK_F64, .reduce = YK_REDUCE_MAX, .count = 1};
    *done = yki_staging_is_in_streams(gradients);
    if (!gradients->plane)
        return YK_OK;
    return yki_plane_run(gradients->plane, &what, value, value,
                         yki_device_stream(gradients->device));
}

static yk_status agree(void *context, const char *problem, char *kernel)
{
    const yk_ddp *ddp = context;
    return yki_group_agree(ddp->group, problem, kernel, YKI_KERNEL_NAME);
}

static const yki_model_hooks bucket_hooks = {.forward_begin = yki_forward_sync_forward_begin,
                                             .backward_begin = yki_reducer_backward_begin,
                                             .grad_ready = yki_reducer_grad_ready,
                                             .grad_needs_host = yki_reducer_needs_host,
                                             .is_same = yki_reducer_is_same,
                                             .backward_end = yki_reducer_backward_end,
                                             .agree = agree,
                                             .check_shared_step = yki_join_check_shared_step,
                                             .reduce_maximum = reduce_maximum,
                                             .reduce_maximum_in_stream = reduce_maximum_in_stream};

static const yki_model_hooks virtual_rank_hooks = {.forward_begin = yki_virtual_ranks_forward_begin,
                                                   .backward_begin =
                                                       yki_virtual_ranks_backward_begin,
                                                   .backward_end = yki_virtual_ranks_backward_end,
                                                   .zero_grad = yki_virtual_ranks_zero_grad,
                                                   .agree = agree,
                                                   .reduce_maximum = reduce_maximum};

static yk_status attach_hooks(yk_ddp *ddp)
{
    yki_model_hooks hooks = yki_virtual_ranks_needed(ddp) ? virtual_rank_hooks : bucket_hooks;
    hooks.context = ddp;
    hooks.stream = yk_group_rank(ddp->group);
    return yki_model_attach(ddp->model, &hooks, "ddp");
}

/* The comparisons also reject NaN. */
static yk_status check_ddp_options(const yk_ddp_options *options)
{
    if (!(options->bucket_cap_mb >= 0) || !(options->first_bucket_mb >= 0) ||
        !(options->last_bucket_mb >= 0))
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ddp: bucket_cap_mb is %g, first_bucket_mb is %g and last_bucket_mb is "
                         "%g, expected 0 or more",
                         options->bucket_cap_mb, options->first_bucket_mb, options->last_bucket_mb);
    return YK_OK;
}

static yk_status compare_options(const yk_ddp *ddp)
{
    char text[320];
    const yk_ddp_options *o = &ddp->options;
    snprintf(text, sizeof text,
             "bucket_cap_mb %.17g\nfirst_bucket_mb %.17g\nlast_bucket_mb %.17g\n"
             "broadcast_buffers %d\nfind_unused_parameters %d\nvirtual_ranks %d\n",
             o->bucket_cap_mb, o->first_bucket_mb, o->last_bucket_mb, o->broadcast_buffers,
             o->find_unused_parameters, o->virtual_ranks);
    return yki_compare_texts(ddp->group, "ddp: options", text);
}

static yk_status build_ddp(yk_ddp *ddp)
{
    int ranks = yk_group_size(ddp->group);
    YK_TRY(compare_options(ddp));
    YK_TRY(yki_virtual_ranks_check(ddp->options.virtual_ranks, ranks));
    YK_TRY(yki_ddp_verify_model(ddp->model, ddp->group));
    YK_TRY(yki_ddp_broadcast_model(ddp->model, ddp->group, 0));
    YK_TRY(yki_exchange_create(ddp));
    if (yki_virtual_ranks_needed(ddp))
        YK_TRY(yki_virtual_ranks_create(ddp));
    else
        YK_TRY(yki_reducer_create(ddp));
    YK_TRY(yki_forward_sync_create(ddp));
    return yki_join_create(ddp);
}

/* On failure *ddp may be there, to be destroyed. */
static yk_status make_ddp(yk_ddp **ddp, yk_model *model, yk_group *group,
                          const yk_ddp_options *given)
{
    yk_ddp_options options;
    YK_TRY(YKI_READ_OPTIONS(&options, given, yk_ddp_options, YK_DDP_OPTIONS_INIT));
    YK_TRY(check_ddp_options(&options));
    yk_ddp *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "ddp");
    yki_reference_init(&made->reference);
    made->model = model;
    made->group = group;
    made->options = options;
    yk_status status = attach_hooks(made);
    if (status != YK_OK) {
        free(made);
        return status;
    }
    yki_model_retain(model);
    yki_group_retain(group);
    *ddp = made;
    return build_ddp(made);
}

yk_status yk_ddp_create(yk_ddp **ddp, yk_model *model, yk_group *group,
                        const yk_ddp_options *options)
{
    yk_ddp *made = NULL;
    if (ddp)
        *ddp = NULL;
    YKI_NOT_NULL(group);
    yki_joint joint = yki_joint_begin(group);
    yk_status status = YKI_CHECK_NOT_NULL(ddp);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(model);
    if (status == YK_OK)
        status = make_ddp(&made, model, group, options);
    status = yki_joint_end(&joint, status);
    if (status == YK_ERROR_TIMEOUT || status == YK_ERROR_PEER_FAILED || status == YK_ERROR_MISMATCH)
        yki_error_context(status, "yk_ddp_create, which all ranks call");
    if (status == YK_OK)
        *ddp = made;
    else
        yk_ddp_destroy(made);
    return status;
}

void yki_ddp_retain(yk_ddp *ddp)
{
    yki_reference_retain(&ddp->reference);
}

void yk_ddp_destroy(yk_ddp *ddp)
{
    if (!ddp || !yki_reference_release(&ddp->reference))
        return;
    yki_samples_finish(ddp);
    yki_model_detach(ddp->model);
    yki_model_set_exchange(ddp->model, NULL);
    yki_hook_destroy(ddp);
    if (ddp->virtual_ranks)
        yki_virtual_ranks_destroy(ddp);
    else
        yki_reducer_destroy(ddp);
    yki_times_destroy(&ddp->times);
    yki_forward_sync_destroy(ddp);
    yki_divergence_destroy(ddp);
    free(ddp->join.states);
    yki_model_release(ddp->model);
    yki_group_release(ddp->group);
    free(ddp);
}

void yk_ddp_set_no_sync(yk_ddp *ddp, bool no_sync)
{
    if (ddp)
        ddp->no_sync = no_sync;
}

size_t yk_ddp_bucket_count(const yk_ddp *ddp)
{
    return ddp ? ddp->bucket_count : 0;
}

size_t yk_ddp_bucket_bytes(const yk_ddp *ddp, size_t bucket)
{
    return bucket < yk_ddp_bucket_count(ddp) ? ddp->buckets[bucket].plan.bytes : 0;
}

yk_ddp_stats yk_ddp_last_stats(const yk_ddp *ddp)
{
    return ddp ? ddp->stats : (yk_ddp_stats){0};
}
