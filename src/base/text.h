/* Texts and their words. */
#ifndef YKI_TEXT_H
#define YKI_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool yki_ends_in(const char *text, const char *ending)
{
    size_t length = strlen(text), own = strlen(ending);
    return length >= own && strcmp(text + length - own, ending) == 0;
}

/* The word for one thing or for several, as in "1 rank" and "0 ranks". */
static inline const char *yki_plural(int64_t count, const char *one, const char *several)
{
    return count == 1 ? one : several;
}

#endif
