/* Allocation: zeroed memory, big blocks of it mapped, with huge pages; strings; growing arrays. */
#ifndef YKI_MEMORY_H
#define YKI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default) /* shared with modules, see device/module.h */

#define YKI_ALIGNMENT 64

/* calloc, or NULL. Free with free(). */
void *yki_calloc(size_t count, size_t size);
/* A string copied, or NULL. */
char *yki_strdup(const char *text);
/* Zeroed bytes, 64-byte aligned, page-mapped with huge pages where the system gives them. */
void *yki_map(size_t bytes);
void yki_unmap(void *memory, size_t bytes);
/* Gives the pages that lie wholly within back to the system; they read as zeros from here on. */
void yki_unuse(void *memory, size_t bytes);

static inline size_t yki_align(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

#pragma GCC visibility pop

/* free, of what a struct lets nobody change. */
void yki_free_const(const void *memory);
/* An array of `count` strings copied, or NULL. */
const char *const *yki_strdup_all(const char *const *texts, size_t count);
/* Such an array, or NULL. */
void yki_free_all(const char *const *texts, size_t count);

/*
 * Makes room for `needed` elements of `element` bytes in an array whose pointer is at `array` and
 * which has room for *capacity. At least doubles the room where it is too small. False when memory
 * is out: then nothing has changed. Free the array with free().
 */
bool yki_reserve(void *array, size_t needed, size_t *capacity, size_t element);
/* The same for one more element than count. */
bool yki_grow(void *array, size_t count, size_t *capacity, size_t element);

#endif
