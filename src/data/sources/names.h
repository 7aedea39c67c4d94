/* A list of texts in one block of memory, for the names of many files. */
#ifndef YKI_NAMES_H
#define YKI_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* All zeros is an empty list. */
typedef struct yki_names {
    char *text; /* the texts, each with its zero */
    size_t used, capacity;
    size_t *starts; /* (count) in text */
    int64_t count;
    size_t slots;
} yki_names;

/* Adds a text at the end. */
yk_status yki_names_add(yki_names *names, const char *text);
/* The index-th text, valid until another is added. */
const char *yki_names_get(const yki_names *names, int64_t index);
/* Sorts the texts by their bytes, which for UTF-8 is the order of code points. */
void yki_names_sort(yki_names *names);
/* The index of a text in a sorted list, or -1. */
int64_t yki_names_find(const yki_names *names, const char *text);
void yki_names_free(yki_names *names);

#endif
