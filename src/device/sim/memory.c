/*
 * The simulated device's memory. A block has two places of the same size next to each other: the
 * first is never mapped and gives the addresses that the layers above hold; the second, between two
 * pages that are not mapped either, has the bytes, which end where the page ends. What is left of
 * the pages is filled with NaNs, which are looked at when the block is freed.
 *
 * Freed blocks keep their addresses for a while, so that a use of one is noticed as such.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "device/sim/sim.h"

enum { POISON = 0xff, FREED_BLOCKS = 1024 };

struct yki_sim_block {
    char *address; /* what the layers above hold */
    char *host;    /* where the bytes are */
    size_t bytes;
    bool pinned; /* the host's memory: both are the same */
    bool freed;
    char *mapping;
    size_t span; /* of one of the two places */
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *reserve(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The pages of a block's bytes, without the two around them. */
static char *first_page(const yki_sim_block *block)
{
    return block->mapping + (block->pinned ? 0 : block->span) + page_size();
}

static size_t page_bytes(const yki_sim_block *block)
{
    return block->span - 2 * page_size();
}

static bool map_block(yki_sim_block *block)
{
    size_t page = page_size();
    block->span = yki_align(block->bytes, page) + 2 * page;
    block->mapping = reserve(block->pinned ? block->span : 2 * block->span);
    if (!block->mapping ||
        mprotect(first_page(block), page_bytes(block), PROT_READ | PROT_WRITE) != 0)
        return false;
    size_t offset = page + page_bytes(block) - yki_align(block->bytes, YKI_ALIGNMENT);
    block->address = block->mapping + offset;
    block->host = block->address + (block->pinned ? 0 : block->span);
    return true;
}

static void unmap_block(yki_sim_block *block)
{
    if (block->mapping)
        munmap(block->mapping, block->pinned ? block->span : 2 * block->span);
    free(block);
}

/* The number of blocks that begin at or before the address. */
static size_t blocks_before(const yki_sim_memory *memory, const void *address)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memory->blocks[middle]->address <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(yki_sim_memory *memory, yki_sim_block *block)
{
    if (!yki_grow(&memory->blocks, memory->count, &memory->room, sizeof block))
        return false;
    size_t at = blocks_before(memory, block->address);
    memmove(memory->blocks + at + 1, memory->blocks + at,
            (memory->count - at) * sizeof *memory->blocks);
    memory->blocks[at] = block;
    memory->count++;
    return true;
}

static void forget_freed_blocks(yki_sim_memory *memory)
{
    size_t kept = 0;
    for (size_t i = 0; i < memory->count; i++)
        if (memory->blocks[i]->freed)
            unmap_block(memory->blocks[i]);
        else
            memory->blocks[kept++] = memory->blocks[i];
    memory->count = kept;
    memory->freed = 0;
}

static void poison(const yki_sim_block *block)
{
    char *begin = first_page(block), *end = begin + page_bytes(block);
    memset(begin, POISON, (size_t)(block->host - begin));
    memset(block->host + block->bytes, POISON, (size_t)(end - block->host) - block->bytes);
}

static bool is_poison(const char *begin, const char *end)
{
    while (begin < end && (unsigned char)*begin == POISON)
        begin++;
    return begin == end;
}

static bool is_intact(const yki_sim_block *block)
{
    const char *begin = first_page(block), *end = begin + page_bytes(block);
    return is_poison(begin, block->host) && is_poison(block->host + block->bytes, end);
}

static yk_status alloc_block(yki_sim *sim, size_t bytes, bool pinned, void **memory)
{
    yki_sim_block *block = yki_calloc(1, sizeof *block);
    if (!block)
        return yki_error_memory(sizeof *block, "a block of the sim device");
    block->bytes = bytes;
    block->pinned = pinned;
    bool mapped = map_block(block);
    if (mapped) {
        poison(block);
        if (pinned)
            memset(block->host, POISON, bytes);
        pthread_mutex_lock(&sim->memory.lock);
        mapped = insert(&sim->memory, block);
        pthread_mutex_unlock(&sim->memory.lock);
    }
    if (!mapped) {
        unmap_block(block);
        return yki_error_memory(bytes, "tensors of the sim device");
    }
    *memory = block->address;
    return YK_OK;
}

static yk_status sim_alloc(yki_device *device, size_t bytes, void **memory)
{
    return alloc_block((yki_sim *)device, bytes, false, memory);
}

static yk_status sim_alloc_pinned(yki_device *device, size_t bytes, void **memory)
{
    return alloc_block((yki_sim *)device, bytes, true, memory);
}

/* For mistakes that no caller can answer, as a sanitizer ends a program at them. */
static void give_up(const char *what, size_t bytes, const void *memory)
{
    fprintf(stderr, "yoke: device sim: %s: %p, %zu bytes\n", what, memory, bytes);
    abort();
}

static yki_sim_block *live_block(const yki_sim_memory *memory, const void *address)
{
    size_t at = blocks_before(memory, address);
    yki_sim_block *block = at ? memory->blocks[at - 1] : NULL;
    return block && block->address == address && !block->freed ? block : NULL;
}

/* The bytes go; the addresses remain taken. */
static void free_block(yki_device *device, void *address, size_t bytes)
{
    yki_sim_memory *memory = &((yki_sim *)device)->memory;
    pthread_mutex_lock(&memory->lock);
    yki_sim_block *block = live_block(memory, address);
    if (!block || block->bytes != bytes)
        give_up("what is freed was not allocated like this", bytes, address);
    if (!is_intact(block))
        give_up("something has written next to this block of memory", bytes, address);
    if (mmap(first_page(block), page_bytes(block), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        give_up("the pages of this block cannot be unmapped", bytes, address);
    block->freed = true;
    if (++memory->freed == FREED_BLOCKS)
        forget_freed_blocks(memory);
    pthread_mutex_unlock(&memory->lock);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static yk_status check_range(const yki_sim_block *block, const void *address, size_t bytes)
{
    if (!block || block->pinned || (const char *)address > block->address + block->bytes)
        return yki_error(YK_ERROR_INTERNAL, "device sim: %p is not in the device's memory",
                         address);
    if (block->freed)
        return yki_error(YK_ERROR_INTERNAL, "device sim: the memory at %p has been freed", address);
    size_t offset = (size_t)((const char *)address - block->address);
    if (bytes > block->bytes - offset)
        return yki_error(YK_ERROR_INTERNAL,
                         "device sim: %zu bytes at offset %zu are beyond a block of %zu bytes",
                         bytes, offset, block->bytes);
    return YK_OK;
}

yk_status yki_sim_find(yki_sim *sim, const void *address, size_t bytes, void **host)
{
    *host = NULL;
    if (sim->foreign)
        return sim->foreign->find(address, bytes, host);
    yki_sim_memory *memory = &sim->memory;
    pthread_mutex_lock(&memory->lock);
    size_t at = blocks_before(memory, address);
    const yki_sim_block *block = at ? memory->blocks[at - 1] : NULL;
    yk_status status = check_range(block, address, bytes);
    if (status == YK_OK)
        *host = block->host + ((const char *)address - block->address);
    pthread_mutex_unlock(&memory->lock);
    return status;
}

yk_status yki_sim_check_host(yki_sim *sim, const void *address)
{
    yki_sim_memory *memory = &sim->memory;
    pthread_mutex_lock(&memory->lock);
    size_t at = blocks_before(memory, address);
    const yki_sim_block *block = at ? memory->blocks[at - 1] : NULL;
    bool inside = block && (const char *)address < block->address + block->bytes;
    bool freed = inside && block->pinned && block->freed, device = inside && !block->pinned;
    pthread_mutex_unlock(&memory->lock);
    if (freed)
        return yki_error(YK_ERROR_INTERNAL, "device sim: the pinned memory at %p has been freed",
                         address);
    if (device)
        return yki_error(YK_ERROR_INTERNAL,
                         "device sim: %p is in the device's memory, not in the host's", address);
    return YK_OK;
}

void yki_sim_memory_close(yki_sim *sim)
{
    for (size_t i = 0; i < sim->memory.count; i++)
        unmap_block(sim->memory.blocks[i]);
    free(sim->memory.blocks);
}

/* ---- copies and fills ------------------------------------------------------------------------ */

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    yki_direction direction;
} copy;

static yk_status find_side(yki_sim *sim, const void *address, size_t bytes, bool on_device,
                           void **host)
{
    if (on_device)
        return yki_sim_find(sim, address, bytes, host);
    *host = (void *)(uintptr_t)address;
    return yki_sim_check_host(sim, address);
}

static yk_status find_copy(yki_sim *sim, const copy *c, void **to, void **from)
{
    YK_TRY(find_side(sim, c->to, c->bytes, c->direction != YKI_TO_HOST, to));
    return find_side(sim, c->from, c->bytes, c->direction != YKI_TO_DEVICE, from);
}

static yk_status do_copy(yki_sim *sim, void *work)
{
    const copy *c = work;
    void *to, *from;
    YK_TRY(find_copy(sim, c, &to, &from));
    memmove(to, from, c->bytes);
    return YK_OK;
}

static yk_status sim_copy(yki_device *device, void *to, const void *from, size_t bytes,
                          yki_direction direction, yki_stream *stream)
{
    static const yki_sim_work kind = {.run = do_copy, .bytes = sizeof(copy)};
    const copy work = {to, from, bytes, direction};
    void *at, *source;
    YK_TRY(find_copy((yki_sim *)device, &work, &at, &source));
    return yki_sim_enter((yki_sim *)device, stream, &kind, &work);
}

typedef struct fill {
    void *to;
    size_t bytes;
    int byte;
} fill;

static yk_status do_fill(yki_sim *sim, void *work)
{
    const fill *f = work;
    void *to;
    YK_TRY(yki_sim_find(sim, f->to, f->bytes, &to));
    memset(to, f->byte, f->bytes);
    return YK_OK;
}

static yk_status sim_fill(yki_device *device, void *to, int byte, size_t bytes, yki_stream *stream)
{
    static const yki_sim_work kind = {.run = do_fill, .bytes = sizeof(fill)};
    const fill work = {to, bytes, byte};
    void *at;
    YK_TRY(yki_sim_find((yki_sim *)device, to, bytes, &at));
    return yki_sim_enter((yki_sim *)device, stream, &kind, &work);
}

const yki_memory_ops yki_sim_memory_ops = {.alloc = sim_alloc,
                                           .free = free_block,
                                           .alloc_pinned = sim_alloc_pinned,
                                           .free_pinned = free_block,
                                           .copy = sim_copy,
                                           .fill = sim_fill};
