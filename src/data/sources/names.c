/* See names.h. */
#define _GNU_SOURCE
#include "data/sources/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

yk_status yki_names_add(yki_names *names, const char *text)
{
    size_t length = strlen(text) + 1;
    if (!yki_reserve(&names->text, names->used + length, &names->capacity, 1) ||
        !yki_grow(&names->starts, (size_t)names->count, &names->slots, sizeof *names->starts))
        return yki_error_memory(names->used + length, "a list of names");
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
