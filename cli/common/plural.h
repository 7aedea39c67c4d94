/* Nouns after numbers. */
#ifndef YOKE_CLI_PLURAL_H
#define YOKE_CLI_PLURAL_H

#include <stdint.h>

/* The word for one thing or for several, as in "1 class" and "0 classes". */
static inline const char *cli_plural(int64_t count, const char *one, const char *several)
{
    return count == 1 ? one : several;
}

#endif
