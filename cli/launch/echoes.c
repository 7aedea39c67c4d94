/* See echoes.h. */
#define _GNU_SOURCE
#include "launch/echoes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy without "rank 3: ", where 3 is the rank's own number; NULL without memory. */
static char *without_rank(int rank, const char *text, size_t size)
{
    char own[32], *copy = calloc(size + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, size);
    snprintf(own, sizeof own, "rank %d: ", rank);
    char *found = strstr(copy, own);
    if (found)
        memmove(found, found + strlen(own), strlen(found + strlen(own)) + 1);
    return copy;
}

bool cli_echoes_hide(cli_echoes *echoes, int rank, const char *text, size_t size)
{
    static const char begin[] = "yoke: ";
    if (size < sizeof begin - 1 || memcmp(text, begin, sizeof begin - 1) != 0)
        return false;
    char *line = without_rank(rank, text, size);
    for (size_t i = 0; line && i < CLI_ECHOES; i++)
        if (echoes->lines[i].text && strcmp(echoes->lines[i].text, line) == 0) {
            free(line);
            echoes->hidden += echoes->lines[i].rank != rank;
            return echoes->lines[i].rank != rank;
        }
    size_t slot = echoes->next++ % CLI_ECHOES;
    free(echoes->lines[slot].text);
    echoes->lines[slot].text = line;
    echoes->lines[slot].rank = rank;
    return false;
}

void cli_echoes_free(cli_echoes *echoes)
{
    for (size_t i = 0; i < CLI_ECHOES; i++)
        free(echoes->lines[i].text);
    *echoes = (cli_echoes){.next = 0};
}
