/* See snapshot.h. */
#include "checkpoint/tensor_file/snapshot.h"

#include <stdlib.h>

#include "base/memory.h"

/* The index of a block, or the number of blocks. */
static size_t search_block(yki_snapshot *snapshot, const yk_tensor *from)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        size_t at = (snapshot->next + i) % snapshot->count;
        const yk_tensor *known = &snapshot->blocks[at].from;
        if (known->data == from->data && known->device == from->device &&
            yk_tensor_bytes(known) == yk_tensor_bytes(from)) {
            snapshot->next = at + 1;
            return at;
        }
    }
    return snapshot->count;
}

yk_status yki_snapshot_add(yki_snapshot *snapshot, const yk_tensor *from)
{
    if (search_block(snapshot, from) < snapshot->count)
        return YK_OK;
    if (!yki_grow(&snapshot->blocks, snapshot->count, &snapshot->capacity,
                  sizeof(yki_snapshot_block)))
        return yki_error_memory(2 * snapshot->capacity * sizeof(yki_snapshot_block),
                                "a snapshot's list of tensors");
    snapshot->blocks[snapshot->count++] = (yki_snapshot_block){*from, snapshot->bytes};
    snapshot->bytes = yki_align(snapshot->bytes + yk_tensor_bytes(from), YKI_ALIGNMENT);
    return YK_OK;
}

yk_status yki_snapshot_take(yki_snapshot *snapshot)
{
    if (snapshot->memory_bytes < snapshot->bytes) {
        yki_unmap(snapshot->memory, snapshot->memory_bytes);
        snapshot->memory_bytes = 0;
        snapshot->memory = yki_map(snapshot->bytes);
        if (!snapshot->memory)
            return yki_error_memory(snapshot->bytes, "a snapshot of the model");
        snapshot->memory_bytes = snapshot->bytes;
    }
    for (size_t i = 0; i < snapshot->count; i++) {
        const yki_snapshot_block *block = &snapshot->blocks[i];
        if (yk_tensor_bytes(&block->from) > 0)
            YK_TRY(yk_tensor_read(&block->from, snapshot->memory + block->at));
    }
    return YK_OK;
}

void *yki_snapshot_find(yki_snapshot *snapshot, const yk_tensor *from)
{
    size_t at = search_block(snapshot, from);
    return at < snapshot->count ? snapshot->memory + snapshot->blocks[at].at : NULL;
}

void yki_snapshot_clear(yki_snapshot *snapshot)
{
    snapshot->count = snapshot->next = snapshot->bytes = 0;
}

void yki_snapshot_fini(yki_snapshot *snapshot)
{
    free(snapshot->blocks);
    yki_unmap(snapshot->memory, snapshot->memory_bytes);
    *snapshot = (yki_snapshot){0};
}
