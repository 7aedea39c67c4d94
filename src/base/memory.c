/* Memory for small objects comes from calloc, memory for tensors straight from the kernel. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *yki_calloc(size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

void yki_free_const(const void *memory)
{
    free((void *)(uintptr_t)memory);
}

char *yki_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

const char *const *yki_strdup_all(const char *const *texts, size_t count)
{
    char **copies = yki_calloc(count, sizeof *copies);
    for (size_t i = 0; copies && i < count; i++)
        if (!(copies[i] = yki_strdup(texts[i]))) {
            yki_free_all((const char *const *)copies, i);
            return NULL;
        }
    return (const char *const *)copies;
}

void yki_free_all(const char *const *texts, size_t count)
{
    for (size_t i = 0; texts && i < count; i++)
        yki_free_const(texts[i]);
    yki_free_const(texts);
}

bool yki_reserve(void *array, size_t needed, size_t *capacity, size_t element)
{
    enum { LEAST = 64 };
    if (needed <= *capacity)
        return true;
    void *old;
    memcpy(&old, array, sizeof old); /* whatever it is a pointer to */
    size_t doubled = *capacity ? 2 * *capacity : LEAST;
    size_t wanted = needed > doubled ? needed : doubled;
    void *larger = reallocarray(old, wanted, element);
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *capacity = wanted;
    return true;
}

bool yki_grow(void *array, size_t count, size_t *capacity, size_t element)
{
    return yki_reserve(array, count + 1, capacity, element);
}

void *yki_map(size_t bytes)
{
    if (bytes == 0)
        bytes = 1;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: without it only the page faults are slower */
    return memory;
}

void yki_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes ? bytes : 1);
}

void yki_unuse(void *memory, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
}
