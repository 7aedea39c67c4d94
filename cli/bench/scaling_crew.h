/*
 * The ranks that a launcher has started to run `yoke bench scaling`, on one host or several. They
 * do not train themselves: for each row, those that take part start a `yoke train` each.
 */
#ifndef YOKE_CLI_BENCH_SCALING_CREW_H
#define YOKE_CLI_BENCH_SCALING_CREW_H

#include <yoke/group.h>

#include "bench/scaling.h"

typedef struct cli_crew {
    yk_group *group;
    int rank, size;
    int local_size; /* ranks on this host */
} cli_crew;

/* Meets the other ranks; prints an error and returns false if that fails. */
bool cli_crew_join(cli_crew *crew);
void cli_crew_leave(cli_crew *crew);

/*
 * Collective: as cli_scaling_train, by the lowest ranks of the crew, as many as the row has. The
 * result is rank 0's alone, the exit code is the same on all ranks.
 */
int cli_crew_train(cli_crew *crew, cli_scaling_result *result, const cli_scaling_options *options,
                   const cli_scaling_row *row);

#endif
