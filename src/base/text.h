/* Texts and their words. */
#ifndef YKI_TEXT_H
#define YKI_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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

/* A number for rows and one for columns: "3", or "1x7". */
enum { YKI_PAIR_TEXT = 44 };
static inline const char *yki_pair_text(const int64_t pair[2], char text[YKI_PAIR_TEXT])
{
    int length = snprintf(text, YKI_PAIR_TEXT, "%lld", (long long)pair[0]);
    if (pair[1] != pair[0])
        snprintf(text + length, YKI_PAIR_TEXT - (size_t)length, "x%lld", (long long)pair[1]);
    return text;
}

#endif
