/*
 * Memory of yk_group_alloc where the backend has none of its own, and yk_group_free for all.
 */
#include <yoke/group.h>

#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_state.h"

/* The other ranks have theirs. */
static yk_status fail_to_allocate(yk_group *group, size_t bytes)
{
    return yki_group_fail_alone(group, yki_error_memory(bytes, "group memory"));
}

yk_status yki_group_allocate_block(yk_group *group, size_t bytes, void **memory)
{
    yki_block *made = yki_calloc(1, sizeof *made);
    if (!made)
        return fail_to_allocate(group, sizeof *made);
    made->bytes = bytes;
    made->memory = yki_map(bytes);
    if (!made->memory) {
        free(made);
        return fail_to_allocate(group, bytes);
    }
    made->next = group->blocks;
    group->blocks = made;
    *memory = made->memory;
    return YK_OK;
}

static void free_block(yki_block **at)
{
    yki_block *block = *at;
    *at = block->next;
    yki_unmap(block->memory, block->bytes);
    free(block);
}

void yki_group_free_blocks(yk_group *group)
{
    while (group->blocks)
        free_block(&group->blocks);
}

yk_status yk_group_free(yk_group *group, void *memory)
{
    YKI_NOT_NULL(group);
    if (!memory)
        return YK_OK;
    if (!yki_queue_is_current(&group->queue))
        yki_queue_drain(&group->queue);
    if (group->backend->ops->capabilities & YK_BACKEND_REGISTERED_MEMORY)
        return group->backend->ops->free(group->backend, memory);
    for (yki_block **at = &group->blocks; *at; at = &(*at)->next)
        if ((*at)->memory == memory) {
            free_block(at);
            return YK_OK;
        }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "yk_group_free: %p is not memory of this group's yk_group_alloc", memory);
}
