/* Names that a misspelt one may have meant. */
#ifndef YOKE_CLI_SPELLING_H
#define YOKE_CLI_SPELLING_H

#include <stddef.h>

typedef struct cli_spelling {
    const char *text; /* as it was written */
    size_t length;
    size_t distance;  /* of best, or the smallest that is too far */
    const char *best; /* the nearest of the names that were tried; NULL: none is near */
} cli_spelling;

/* A search for what text[0 .. length) may mean: names that differ from it in at most two letters,
 * and in fewer where it is short, or that are longer or shorter by whole words. */
cli_spelling cli_spelling_begin(const char *text, size_t length);
/* Tries a name, which must outlive the search. */
void cli_spelling_try(cli_spelling *spelling, const char *name);

#endif
