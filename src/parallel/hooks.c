/*
 * Comm hooks: a bucket's hook runs as a task on the group's thread, at the place in the queue where
 * its all-reduce would have been, so that hooks block, yet overlap with backward, and every rank
 * makes their collectives in the same order. And the two hooks that halve what travels.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/queue.h"
#include "parallel/ddp.h"
#include "tensor/convert16.h"

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

static yk_status prepare_hook(yk_ddp *ddp)
{
    if (ddp->hook.run)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "a comm hook is already registered");
    if (ddp->options.virtual_ranks)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "virtual ranks add gradients in a fixed order: "
                                                    "they cannot be combined with a comm hook");
    if (ddp->bucket_count == 0)
        return YK_OK;
    YK_TRY(yki_staging_open_host(&ddp->gradients));
    return create_views(ddp);
}

yk_status yki_hook_register(yk_ddp *ddp, const yki_hook *hook)
{
    yk_status status = prepare_hook(ddp);
    if (status != YK_OK) {
        if (hook->destroy)
            hook->destroy(hook->state);
        return status;
    }
    ddp->hook = *hook;
    return YK_OK;
}

yk_status yk_ddp_register_comm_hook(yk_ddp *ddp, yk_comm_hook hook, void *state)
{
    YKI_NOT_NULL(ddp);
    YKI_NOT_NULL(hook);
    return yki_hook_register(ddp, &(yki_hook){.run = hook, .state = state});
}

void yki_hook_destroy(yk_ddp *ddp)
{
    yki_comm_hook_state_destroy(ddp->hook_state);
    if (ddp->hook.destroy)
        ddp->hook.destroy(ddp->hook.state);
    if (ddp->hook.run && ddp->bucket_count)
        free((void *)(uintptr_t)ddp->buckets[0].hook_view.parameters);
}

static yk_status run_hook(void *context)
{
    const yki_reduced_bucket *bucket = context;
    const yk_ddp *ddp = bucket->ddp;
    return ddp->hook.run(ddp->hook.state, ddp->group, &bucket->hook_view);
}

yk_status yki_hook_launch(yki_reduced_bucket *bucket)
{
    return yki_staged_run(&bucket->part, run_hook, bucket, &bucket->work);
}

/* ---- sixteen bits ---------------------------------------------------------------------------- */

enum { PIECE = 1024 };

typedef struct compressor {
    yk_group *group;
    yk_dtype dtype;  /* YK_BF16 or YK_F16 */
    uint16_t *block; /* as many as the largest bucket has; shared with the peers */
} compressor;

static void narrow_bucket(const compressor *c, const yk_grad_bucket *bucket)
{
    if (bucket->dtype == YK_F32) {
        yki_narrow16(c->block, bucket->buffer, c->dtype, bucket->elements);
        return;
    }
    float piece[PIECE];
    const double *from = bucket->buffer;
    for (size_t at = 0; at < bucket->elements; at += PIECE) {
        size_t count = bucket->elements - at < PIECE ? bucket->elements - at : PIECE;
        for (size_t i = 0; i < count; i++)
            piece[i] = (float)from[at + i];
        yki_narrow16(c->block + at, piece, c->dtype, count);
    }
}

static void widen_bucket(const compressor *c, const yk_grad_bucket *bucket)
{
    if (bucket->dtype == YK_F32) {
        yki_widen16(bucket->buffer, c->block, c->dtype, bucket->elements);
        return;
    }
    float piece[PIECE];
    double *to = bucket->buffer;
    for (size_t at = 0; at < bucket->elements; at += PIECE) {
        size_t count = bucket->elements - at < PIECE ? bucket->elements - at : PIECE;
        yki_widen16(piece, c->block + at, c->dtype, count);
        for (size_t i = 0; i < count; i++)
            to[at + i] = piece[i];
    }
}

static yk_status compress_hook(void *state, yk_group *group, const yk_grad_bucket *bucket)
{
    const compressor *c = state;
    narrow_bucket(c, bucket);
    YK_TRY(yk_all_reduce(group, c->block, bucket->elements, c->dtype, YK_REDUCE_SUM, NULL));
    widen_bucket(c, bucket);
    return YK_OK;
}

static void destroy_compressor(void *state)
{
    compressor *c = state;
    yk_group_free(c->group, c->block);
    free(c);
}

static yk_status register_compressor(yk_ddp *ddp, yk_dtype dtype)
{
    YKI_NOT_NULL(ddp);
    compressor *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "a comm hook");
    made->dtype = dtype;
    made->group = ddp->group;
    size_t largest = 0;
    for (size_t b = 0; b < ddp->bucket_count; b++)
        if (ddp->buckets[b].part.elements > largest)
            largest = ddp->buckets[b].part.elements;
    void *block = NULL;
    yk_status status = yk_group_alloc(ddp->group, largest * sizeof *made->block, &block);
    made->block = block;
    if (status != YK_OK) {
        destroy_compressor(made);
        return status;
    }
    return yki_hook_register(
        ddp, &(yki_hook){.run = compress_hook, .state = made, .destroy = destroy_compressor});
}

yk_status yk_ddp_register_bf16_compress_hook(yk_ddp *ddp)
{
    return register_compressor(ddp, YK_BF16);
}

yk_status yk_ddp_register_fp16_compress_hook(yk_ddp *ddp)
{
    return register_compressor(ddp, YK_F16);
}
