/*
 * The backend of a group of one: every collective is a copy from in to out, reductions of one
 * operand included. collectives.c refuses send and recv to oneself before they come here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend.h"

typedef struct block {
    struct block *next;
    void *memory;
    size_t bytes;
} block;

typedef struct self_backend {
    yki_backend base;
    yki_failure failure;
    block *blocks;
} self_backend;

static yk_status self_open(yki_backend **backend, yki_job *job, const yki_watch *watch)
{
    (void)job, (void)watch;
    self_backend *self = yki_calloc(1, sizeof *self);
    if (!self)
        return yki_error_memory(sizeof *self, "the self backend");
    self->base.table = &yki_backend_self;
    *backend = &self->base;
    return YK_OK;
}

static void self_destroy(yki_backend *backend)
{
    self_backend *self = (self_backend *)backend;
    for (block *at = self->blocks, *next; at; at = next) {
        next = at->next;
        yki_unmap(at->memory, at->bytes);
        free(at);
    }
    free(self);
}

static yki_failure *self_failure(yki_backend *backend)
{
    return &((self_backend *)backend)->failure;
}

static bool self_left(yki_backend *backend, int rank)
{
    (void)backend, (void)rank;
    return false;
}

static yk_status self_alloc(yki_backend *backend, yki_call *call, void **memory)
{
    self_backend *self = (self_backend *)backend;
    block *made = yki_calloc(1, sizeof *made);
    if (!made)
        return yki_error_memory(sizeof *made, "group memory");
    made->bytes = call->what.count;
    made->memory = yki_map(made->bytes);
    if (!made->memory) {
        free(made);
        return yki_error_memory(call->what.count, "group memory");
    }
    made->next = self->blocks;
    self->blocks = made;
    *memory = made->memory;
    return YK_OK;
}

static yk_status self_free(yki_backend *backend, void *memory)
{
    self_backend *self = (self_backend *)backend;
    for (block **at = &self->blocks; *at; at = &(*at)->next) {
        block *found = *at;
        if (found->memory != memory)
            continue;
        *at = found->next;
        yki_unmap(found->memory, found->bytes);
        free(found);
        return YK_OK;
    }
    return yki_error(YK_ERROR_INVALID_ARGUMENT,
                     "yk_group_free: %p is not memory of this group's yk_group_alloc", memory);
}

static yk_status self_collective(yki_backend *backend, yki_call *call)
{
    (void)backend;
    size_t bytes = call->what.count * yk_dtype_size((yk_dtype)call->what.dtype);
    if (bytes && !call->what.invalid && call->out && call->in && call->out != call->in)
        memmove(call->out, call->in, bytes);
    return YK_OK;
}

const yki_backend_table yki_backend_self = {
    .name = "self",
    .open = self_open,
    .destroy = self_destroy,
    .failure = self_failure,
    .left = self_left,
    .alloc = self_alloc,
    .free = self_free,
    .collective = self_collective,
};
