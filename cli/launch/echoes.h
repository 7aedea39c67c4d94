/*
 * A mistake that every rank makes, such as images that are too small for the network, is reported
 * by every rank. The launcher prints such a line once.
 */
#ifndef YOKE_CLI_LAUNCH_ECHOES_H
#define YOKE_CLI_LAUNCH_ECHOES_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_ECHOES = 8 }; /* as many of the last error lines are compared */

typedef struct cli_echoes {
    struct {
        char *text; /* without the rank's own number; NULL: none yet */
        int rank;   /* that has said it first */
    } lines[CLI_ECHOES];
    size_t next;
    int hidden; /* lines that were not printed */
} cli_echoes;

/* Whether another rank has said the same: an error line of the library or the program ("yoke:
 * ..."), in which only the number of the rank itself may differ. */
bool cli_echoes_hide(cli_echoes *echoes, int rank, const char *text, size_t size);
void cli_echoes_free(cli_echoes *echoes);

#endif
