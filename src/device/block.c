/* See block.h. */
#include "device/block.h"

static yk_status create_slots(yki_block *block)
{
    void *slots;
    YK_TRY(yki_device_alloc_pinned(block->device, YKI_BLOCK_SLOTS * block->bytes, &slots));
    block->slots = slots;
    for (int i = 0; i < YKI_BLOCK_SLOTS; i++)
        YK_TRY(yki_event_create(block->device, &block->copied[i]));
    return YK_OK;
}

yk_status yki_block_create(yki_block *block, yki_device *device, size_t bytes)
{
    *block = (yki_block){.device = device, .bytes = bytes};
    yk_status status = yki_device_alloc(device, bytes, &block->memory);
    if (status == YK_OK && !yki_device_is_host(device))
        status = create_slots(block);
    if (status != YK_OK)
        yki_block_destroy(block);
    return status;
}

void yki_block_destroy(yki_block *block)
{
    if (!block->device)
        return;
    for (int i = 0; i < YKI_BLOCK_SLOTS; i++)
        yki_event_destroy(block->device, block->copied[i]);
    yki_device_free_pinned(block->device, block->slots, YKI_BLOCK_SLOTS * block->bytes);
    yki_device_free(block->device, block->memory, block->bytes);
    *block = (yki_block){0};
}

yk_status yki_block_open(yki_block *block, void **values)
{
    *values = block->slots ? block->slots + (size_t)block->slot * block->bytes : block->memory;
    return yki_event_wait(block->device, block->copied[block->slot]);
}

yk_status yki_block_send(yki_block *block, yki_stream *stream)
{
    if (!block->slots)
        return YK_OK;
    int slot = block->slot;
    block->slot = (slot + 1) % YKI_BLOCK_SLOTS;
    YK_TRY(yki_device_copy(block->device, block->memory, block->slots + (size_t)slot * block->bytes,
                           block->bytes, YKI_TO_DEVICE, stream));
    return yki_event_mark(block->device, block->copied[slot], stream);
}
