/* See names.h. */
#define _GNU_SOURCE
#include "data/sources/names.h"

#include <stdlib.h>
#include <string.h>

/* Doubles a block of memory until it has room for `needed` elements. */
static yk_status grow(void **memory, size_t *capacity, size_t needed, size_t element)
{
    size_t wanted = *capacity ? *capacity : 64;
    if (needed <= *capacity)
        return YK_OK;
    while (wanted < needed)
        wanted *= 2;
    void *larger = realloc(*memory, wanted * element);
    if (!larger)
        return yki_error_memory(wanted * element, "a list of names");
    *memory = larger;
    *capacity = wanted;
    return YK_OK;
}

yk_status yki_names_add(yki_names *names, const char *text)
{
    size_t length = strlen(text) + 1, slots = (size_t)names->slots;
    YK_TRY(grow((void **)&names->text, &names->capacity, names->used + length, 1));
    YK_TRY(grow((void **)&names->starts, &slots, (size_t)names->count + 1, sizeof *names->starts));
    names->slots = (int64_t)slots;
    memcpy(names->text + names->used, text, length);
    names->starts[names->count++] = names->used;
    names->used += length;
    return YK_OK;
}

const char *yki_names_get(const yki_names *names, int64_t index)
{
    return names->text + names->starts[index];
}

static int compare(const void *a, const void *b, void *text)
{
    const char *texts = text;
    return strcmp(texts + *(const size_t *)a, texts + *(const size_t *)b);
}

void yki_names_sort(yki_names *names)
{
    if (names->count > 1)
        qsort_r(names->starts, (size_t)names->count, sizeof *names->starts, compare, names->text);
}

int64_t yki_names_find(const yki_names *names, const char *text)
{
    int64_t first = 0, last = names->count;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        int order = strcmp(yki_names_get(names, middle), text);
        if (order == 0)
            return middle;
        if (order < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return -1;
}

void yki_names_free(yki_names *names)
{
    free(names->text);
    free(names->starts);
    *names = (yki_names){0};
}
