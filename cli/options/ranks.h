/* How many ranks an option asks for. */
#ifndef YOKE_CLI_RANKS_H
#define YOKE_CLI_RANKS_H

#include <stdbool.h>

typedef struct cli_ranks {
    int count;    /* 0: the option was not given */
    bool counted; /* here, for a word: a rank, on its own cores, would count others */
} cli_ranks;

/* A number from 1 to most, "auto" or "cpu", which is one per core, or "gpu", one per GPU. The count
 * is 0 for other texts, and where there is no GPU: then cli_reason() says why. */
cli_ranks cli_ranks_read(const char *text, int most);

#endif
