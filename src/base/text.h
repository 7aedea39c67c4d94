/* What a text is like. */
#ifndef YKI_TEXT_H
#define YKI_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool yki_ends_in(const char *text, const char *ending)
{
    size_t length = strlen(text), own = strlen(ending);
    return length >= own && strcmp(text + length - own, ending) == 0;
}

#endif
