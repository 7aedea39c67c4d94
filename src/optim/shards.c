/* See shards.h. */
#include "optim/shards.h"

#include "base/memory.h"
#include "model/model_hooks.h"
#include "optim/optimizer.h"

yk_status yki_optimizer_check_shardable(const yk_optimizer *optimizer, const yk_model *model)
{
    if (optimizer->ema)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ZeRO: shard the optimizer before yk_ema_create, which remembers where "
                         "the weights are");
    if (optimizer->model != model)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "ZeRO: the optimizer is another model's");
    if (optimizer->own_chunks.of)
        return yki_error(YK_ERROR_INVALID_ARGUMENT, "ZeRO: the optimizer is sharded already");
    if (optimizer->steps > 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "ZeRO: the optimizer has taken %lld steps: shard it before the first, and "
                         "before a checkpoint is loaded",
                         (long long)optimizer->steps);
    return YK_OK;
}

yk_status yki_optimizer_shard(yk_optimizer *optimizer, const yki_shard *shard)
{
    YK_TRY(yki_chunks_create(&optimizer->own_chunks, optimizer->views, optimizer->parameters));
    yki_chunks_keep(&optimizer->own_chunks, yki_model_used(optimizer->model));
    yki_chunks_keep(&optimizer->own_chunks, shard->own);
    size_t memory_bytes = (size_t)optimizer->slots * shard->bytes;
    char *memory = yki_map(memory_bytes);
    if (!memory)
        return yki_error_memory(memory_bytes, "the optimizer's state");
    yki_unmap(optimizer->memory, optimizer->memory_bytes);
    optimizer->memory = memory;
    optimizer->memory_bytes = memory_bytes;
    for (int slot = 0; slot < optimizer->slots; slot++, memory += shard->bytes)
        for (size_t i = 0; i < optimizer->parameters; i++)
            optimizer->state[slot][i] = shard->own[i] ? memory + shard->offset[i] : NULL;
    optimizer->after_step = shard->after_step;
    optimizer->after_step_context = shard->context;
    return YK_OK;
}

void yki_optimizer_end_shards(yk_optimizer *optimizer, const void *context)
{
    if (optimizer->after_step_context != context)
        return;
    optimizer->after_step = NULL;
    optimizer->after_step_context = NULL;
}

int yki_optimizer_slots(const yk_optimizer *optimizer)
{
    return optimizer->slots;
}

const void *yki_optimizer_own_state(const yk_optimizer *optimizer, int slot)
{
    return optimizer->memory + optimizer->memory_bytes / (size_t)optimizer->slots * (size_t)slot;
}

void yki_optimizer_show_state(yk_optimizer *optimizer, size_t parameter, int slot, void *data)
{
    optimizer->state[slot][parameter] = data;
}

yk_status yki_optimizer_check_whole(const yk_optimizer *optimizer)
{
    for (int slot = 0; slot < optimizer->slots; slot++)
        for (size_t i = 0; i < optimizer->parameters; i++)
            if (!optimizer->state[slot][i])
                return yki_error(YK_ERROR_INVALID_ARGUMENT,
                                 "the optimizer's state is sharded: yk_zero_consolidate brings it "
                                 "to rank 0 before a checkpoint");
    return YK_OK;
}
