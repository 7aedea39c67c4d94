/* The pictures that a run's newest checkpoint gets wrong, the most confident mistakes first. */
#ifndef YOKE_CLI_MISTAKES_H
#define YOKE_CLI_MISTAKES_H

#include "report/run.h"

enum { CLI_MAX_MISTAKES = 200 };

typedef struct cli_mistake {
    char truth[64], guess[64];
    char name[256];    /* of the sample; "" where it has none */
    double confidence; /* probability of the guess */
    yk_png png;
} cli_mistake;

typedef struct cli_mistakes {
    cli_mistake items[CLI_MAX_MISTAKES];
    int count;
    char note[512]; /* what was evaluated, or why nothing was; "" where it was not asked for */
} cli_mistakes;

/* Evaluates the run's newest checkpoint on the test images and keeps up to `most` mistakes. If
 * that is not possible, the note says why. */
void cli_mistakes_find(cli_mistakes *mistakes, const cli_run *run, int most);
void cli_mistakes_release(cli_mistakes *mistakes);

#endif
