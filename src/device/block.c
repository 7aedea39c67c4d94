/* See block.h. */
#include "device/block.h"

#include <string.h>

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
    *block = (yki_block){.device = device, .bytes = bytes, .sent = -1};
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

static char *slot_of(const yki_block *block, int slot)
{
    return block->slots + (size_t)slot * block->bytes;
}

yk_status yki_block_open(yki_block *block, void **values)
{
    *values = block->slots ? slot_of(block, block->slot) : block->memory;
    return yki_event_wait(block->device, block->copied[block->slot]);
}

yk_status yki_block_send(yki_block *block, yki_stream *stream)
{
    if (!block->slots)
        return YK_OK;
    int slot = block->slot;
    block->slot = (slot + 1) % YKI_BLOCK_SLOTS;
    block->sent = -1;
    YK_TRY(yki_device_copy(block->device, block->memory, slot_of(block, slot), block->bytes,
                           YKI_TO_DEVICE, stream));
    block->sent = slot;
    return yki_event_mark(block->device, block->copied[slot], stream);
}

yk_status yki_block_send_if_new(yki_block *block, yki_stream *stream)
{
    bool same = block->slots && block->sent >= 0 &&
                memcmp(slot_of(block, block->slot), slot_of(block, block->sent), block->bytes) == 0;
    return same ? YK_OK : yki_block_send(block, stream);
}
