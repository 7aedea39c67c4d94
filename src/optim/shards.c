/* See shards.h. */
#include "optim/shards.h"

#include "optim/optimizer.h"

yk_status yki_optimizer_check_shardable(const yk_optimizer *optimizer, const yk_model *model)
{
    if (optimizer->model != model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "ZeRO: the optimizer belongs to another model");
    if (optimizer->sharded)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "ZeRO: the optimizer is sharded already");
    YK_TRY(yki_optimizer_check_free(optimizer, "ZeRO"));
    if (yk_optimizer_steps(optimizer) > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ZeRO: the optimizer has taken %lld steps: shard it before the first, and "
                         "before a checkpoint is loaded",
                         (long long)optimizer->steps);
    return YK_OK;
}

yk_status yki_optimizer_shard(yk_optimizer *optimizer, const yki_shard *shard)
{
    size_t memory_bytes = (size_t)optimizer->slots * shard->bytes;
    void *memory;
    YK_TRY(yki_device_alloc(optimizer->device, memory_bytes, &memory));
    yk_status status = yki_optimizer_choose(optimizer, shard->own);
    if (status != YK_OK) {
        yki_device_free(optimizer->device, memory, memory_bytes);
        return status;
    }
    yki_device_free(optimizer->device, optimizer->memory, optimizer->memory_bytes);
    optimizer->memory = memory;
    optimizer->memory_bytes = memory_bytes;
    char *at = memory;
    for (int slot = 0; slot < optimizer->slots; slot++, at += shard->bytes)
        for (size_t i = 0; i < optimizer->parameters; i++)
            optimizer->state[slot][i] = shard->own[i] ? at + shard->offset[i] : NULL;
    optimizer->sharded = true;
    return yki_optimizer_start_state(optimizer);
}

int yki_optimizer_slots(const yk_optimizer *optimizer)
{
    return optimizer->slots;
}

void *yki_optimizer_own_state(const yk_optimizer *optimizer, int slot)
{
    return optimizer->memory + optimizer->memory_bytes / (size_t)optimizer->slots * (size_t)slot;
}

void yki_optimizer_show_state(yk_optimizer *optimizer, size_t parameter, int slot, void *data)
{
    optimizer->state[slot][parameter] = data;
}

yk_status yki_optimizer_check_whole(const yk_optimizer *optimizer)
{
    if (optimizer->stage != YKI_STEP_NONE)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "cannot save: the optimizer's last step was not completed; load a "
                         "checkpoint first");
    if (optimizer->hooks.check_whole)
        YK_TRY(optimizer->hooks.check_whole(optimizer->hooks.context));
    for (int slot = 0; slot < optimizer->slots; slot++)
        for (size_t i = 0; i < optimizer->parameters; i++)
            if (!optimizer->state[slot][i])
                return yki_error(YK_ERROR_INVALID_ARGUMENT,
                                 "the optimizer's state is sharded: yk_zero_consolidate brings it "
                                 "to rank 0 before a checkpoint");
    return YK_OK;
}
