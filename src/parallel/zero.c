/*
 * ZeRO-1. A shard is one run of memory that holds the parameters of one owner; all shards are as
 * long as the longest, one after the other in a block that peers can read, so that one all-gather
 * in place brings every rank what the others have updated. A state tensor lies in its owner's
 * memory where its parameter lies in the shard: gathering it needs no packing either.
 */
#include <yoke/zero.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/reference.h"
#include "comm/group_internal.h"
#include "model/model_hooks.h"
#include "optim/references.h"
#include "optim/shards.h"
#include "optim/step_hooks.h"
#include "parallel/references.h"
#include "parallel/same_text.h"
#include "parallel/staging.h"
#include "parallel/verify_model.h"
#include "parallel/zero_times.h"

struct yk_zero {
    yki_reference reference;
    yk_optimizer *optimizer;
    yk_model *model;
    yk_group *group;
    size_t parameters;
    int *owner;         /* by parameter */
    size_t *offset;     /* by parameter: where it lies in its owner's shard */
    size_t shard_bytes; /* of the longest */
    yki_staging block;  /* (ranks, shard_bytes) */
    void *whole;        /* (slots, ranks, shard_bytes), the device's, on rank 0 from consolidation
                           to a step */
    double exchange_s, waited_s; /* of the last step's updates; 0 where streams hide it */
};

/* ---- dealing out ----------------------------------------------------------------------------- */

/* The largest parameter that has no owner yet; the first of equals, as a stable sort gives them. */
static size_t find_largest(const yk_zero *zero)
{
    size_t found = zero->parameters;
    int64_t largest = -1;
    for (size_t i = 0; i < zero->parameters; i++) {
        yk_tensor value = yk_model_parameter(zero->model, i).value;
        int64_t count = yk_tensor_count(&value);
        if (zero->owner[i] < 0 && count > largest) {
            largest = count;
            found = i;
        }
    }
    return found;
}

static yk_status deal(yk_zero *zero)
{
    int ranks = yk_group_size(zero->group);
    zero->owner = yki_calloc(zero->parameters, sizeof *zero->owner);
    zero->offset = yki_calloc(zero->parameters, sizeof *zero->offset);
    size_t *dealt = yki_calloc((size_t)ranks, sizeof *dealt);
    if (!zero->owner || !zero->offset || !dealt) {
        free(dealt);
        return yki_error_memory(zero->parameters * sizeof *zero->offset, "shards");
    }
    for (size_t i = 0; i < zero->parameters; i++)
        zero->owner[i] = -1;
    for (size_t n = 0; n < zero->parameters; n++) {
        size_t parameter = find_largest(zero);
        int least = 0;
        for (int rank = 1; rank < ranks; rank++)
            if (dealt[rank] < dealt[least])
                least = rank;
        zero->owner[parameter] = least;
        zero->offset[parameter] = dealt[least];
        dealt[least] += yki_model_padded_bytes(zero->model, parameter);
        if (dealt[least] > zero->shard_bytes)
            zero->shard_bytes = dealt[least];
    }
    free(dealt);
    return YK_OK;
}

static yk_status place_shards(yk_zero *zero)
{
    size_t ranks = (size_t)yk_group_size(zero->group);
    void **memory = yki_calloc(zero->parameters, sizeof *memory);
    if (!memory)
        return yki_error_memory(zero->parameters * sizeof *memory, "shards");
    yk_status status = yki_staging_create(&zero->block, zero->group, yki_model_device(zero->model),
                                          ranks * zero->shard_bytes);
    if (status != YK_OK)
        goto out;
    for (size_t i = 0; i < zero->parameters; i++)
        memory[i] = (char *)zero->block.memory + (size_t)zero->owner[i] * zero->shard_bytes +
                    zero->offset[i];
    status = yki_model_place_parameters(zero->model, memory);
out:
    free(memory);
    return status;
}

/* ---- steps and checkpoints ------------------------------------------------------------------- */

/* Shows rank 0 the state of the others in `whole`, or takes it away where that is NULL. */
static void show_others(yk_zero *zero, int slot, char *whole)
{
    for (size_t i = 0; i < zero->parameters; i++) {
        size_t shard = (size_t)zero->owner[i] * zero->shard_bytes;
        if (zero->owner[i] != 0)
            yki_optimizer_show_state(zero->optimizer, i, slot,
                                     whole ? whole + shard + zero->offset[i] : NULL);
    }
}

/* The bytes of one slot's state on all ranks. */
static size_t slot_bytes(const yk_zero *zero)
{
    return (size_t)yk_group_size(zero->group) * zero->shard_bytes;
}

static void forget_whole(yk_zero *zero)
{
    int slots = yki_optimizer_slots(zero->optimizer);
    if (!zero->whole)
        return;
    for (int slot = 0; slot < slots; slot++)
        show_others(zero, slot, NULL);
    yki_device *device = yki_model_device(zero->model);
    yki_stream_wait(device, yki_device_stream(device));
    yki_device_free(device, zero->whole, (size_t)slots * slot_bytes(zero));
    zero->whole = NULL;
}

/* Every rank's updates reach every rank. */
static yk_status gather_updates(void *context)
{
    yk_zero *zero = context;
    forget_whole(zero);
    double begin = yki_now();
    YK_TRY(yki_staging_all_gather(&zero->block));
    if (!yki_staging_is_in_streams(&zero->block)) {
        zero->exchange_s = yki_now() - begin;
        zero->waited_s = yki_group_waited(zero->group, begin);
    }
    return YK_OK;
}

double yki_zero_take_exchange(yk_zero *zero, double *waited_s)
{
    double exchange_s = zero->exchange_s;
    *waited_s = zero->waited_s;
    zero->exchange_s = zero->waited_s = 0;
    return exchange_s;
}

static yk_tensor bytes_at(const yk_zero *zero, void *data, size_t bytes)
{
    return (yk_tensor){.data = data,
                       .dtype = YK_U8,
                       .ndim = 1,
                       .dims = {(int64_t)bytes},
                       .device = yki_model_device(zero->model)};
}

/* Gathers the state of one slot; whole is NULL except on rank 0. */
static yk_status gather_slot(const yk_zero *zero, int slot, void *whole)
{
    yki_host_view own, all = {.data = NULL};
    yk_tensor mine =
        bytes_at(zero, yki_optimizer_own_state(zero->optimizer, slot), zero->shard_bytes);
    yk_tensor gathered = bytes_at(zero, whole, slot_bytes(zero));
    YK_TRY(yki_host_view_open(&own, &mine, YKI_READ));
    yk_status status = whole ? yki_host_view_open(&all, &gathered, YKI_WRITE) : YK_OK;
    if (status == YK_OK) {
        status = yk_gather(zero->group, all.data, own.data, zero->shard_bytes, YK_U8, 0, NULL);
        status = whole ? yki_host_view_end(&all, status) : status;
    }
    yki_host_view_close(&own);
    return status;
}

static yk_status consolidate(yk_zero *zero)
{
    int slots = yki_optimizer_slots(zero->optimizer);
    forget_whole(zero);
    if (yk_group_rank(zero->group) == 0)
        YK_TRY(yki_device_alloc(yki_model_device(zero->model), (size_t)slots * slot_bytes(zero),
                                &zero->whole));
    for (int slot = 0; slot < slots; slot++) {
        char *whole = zero->whole ? (char *)zero->whole + (size_t)slot * slot_bytes(zero) : NULL;
        YK_TRY(gather_slot(zero, slot, whole));
        if (whole)
            show_others(zero, slot, whole);
    }
    return YK_OK;
}

yk_status yk_zero_consolidate(yk_zero *zero)
{
    YKI_NOT_NULL(zero);
    yki_joint joint = yki_joint_begin(zero->group);
    return yki_joint_end(&joint, consolidate(zero));
}

static yk_status check_step(void *context)
{
    return yki_model_check_shared_step(((yk_zero *)context)->model, "ZeRO");
}

static yk_status shard_state(yk_zero *zero)
{
    int rank = yk_group_rank(zero->group);
    bool *own = yki_calloc(zero->parameters, sizeof *own);
    if (!own)
        return yki_error_memory(zero->parameters, "shards");
    for (size_t i = 0; i < zero->parameters; i++)
        own[i] = zero->owner[i] == rank;
    yk_status status = yki_optimizer_shard(
        zero->optimizer,
        &(yki_shard){.own = own, .offset = zero->offset, .bytes = zero->shard_bytes});
    if (status == YK_OK)
        yki_optimizer_attach(zero->optimizer, &(yki_step_hooks){.owner = "ZeRO",
                                                                .before = check_step,
                                                                .after = gather_updates,
                                                                .context = zero});
    free(own);
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static yk_status compare_optimizers(const yk_zero *zero)
{
    char text[64];
    snprintf(text, sizeof text, "%d tensors of state for each parameter\n",
             yki_optimizer_slots(zero->optimizer));
    return yki_compare_texts(zero->group, "ZeRO: optimizers", text);
}

static yk_status build_zero(yk_zero *zero)
{
    YK_TRY(yki_optimizer_check_shardable(zero->optimizer, zero->model));
    if (yki_model_is_replicated(zero->model))
        return yki_error(
            YK_ERROR_INVALID_ARGUMENT,
            "ZeRO: the model is under data parallel, whose replicas are copied from its "
            "own memory");
    YK_TRY(yki_ddp_verify_model(zero->model, zero->group));
    YK_TRY(compare_optimizers(zero));
    YK_TRY(deal(zero));
    YK_TRY(place_shards(zero));
    return shard_state(zero);
}

/* On failure *zero may be there, to be destroyed. */
static yk_status make_zero(yk_zero **zero, yk_optimizer *optimizer, yk_model *model,
                           yk_group *group)
{
    yk_zero *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "ZeRO");
    yki_reference_init(&made->reference);
    made->optimizer = optimizer;
    made->model = model;
    made->group = group;
    made->parameters = yk_model_parameter_count(model);
    yki_optimizer_retain(optimizer);
    yki_model_retain(model);
    yki_group_retain(group);
    *zero = made;
    return build_zero(made);
}

yk_status yk_zero_create(yk_zero **zero, yk_optimizer *optimizer, yk_model *model, yk_group *group)
{
    yk_zero *made = NULL;
    if (zero)
        *zero = NULL;
    YKI_NOT_NULL(group);
    yki_joint joint = yki_joint_begin(group);
    yk_status status = YKI_CHECK_NOT_NULL(zero);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(optimizer);
    if (status == YK_OK)
        status = YKI_CHECK_NOT_NULL(model);
    if (status == YK_OK)
        status = make_zero(&made, optimizer, model, group);
    status = yki_joint_end(&joint, status);
    if (status == YK_OK)
        *zero = made;
    else
        yk_zero_destroy(made);
    return status;
}

void yki_zero_retain(yk_zero *zero)
{
    yki_reference_retain(&zero->reference);
}

void yk_zero_destroy(yk_zero *zero)
{
    if (!zero || !yki_reference_release(&zero->reference))
        return;
    forget_whole(zero);
    yki_optimizer_detach(zero->optimizer, zero);
    if (zero->block.memory)
        yki_model_place_parameters(zero->model, NULL);
    yki_staging_destroy(&zero->block);
    yki_optimizer_release(zero->optimizer);
    yki_model_release(zero->model);
    yki_group_release(zero->group);
    free(zero->owner);
    free(zero->offset);
    free(zero);
}

int yk_zero_owner(const yk_zero *zero, size_t parameter)
{
    return zero && parameter < zero->parameters ? zero->owner[parameter] : -1;
}
