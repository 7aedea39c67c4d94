/*
 * What `yoke train` and `yoke evaluate` show while they work. On a terminal one line on stderr is
 * redrawn in place; elsewhere a plain line is printed now and then. The end of each epoch is
 * printed to stdout. All functions accept NULL, which shows nothing.
 */
#ifndef YOKE_CLI_PROGRESS_H
#define YOKE_CLI_PROGRESS_H

#include <yoke/report.h>

typedef struct cli_progress cli_progress;

/* epochs: 0 where there is an evaluation alone. max_steps: the run ends after so many steps in all
 * if its last epoch has not ended before, or YK_NEVER. NULL if memory runs out. */
cli_progress *cli_progress_create(int64_t epochs, int64_t steps_per_epoch, int64_t max_steps);

/* After step `step_in_epoch` (from 1) of the epoch. */
void cli_progress_step(cli_progress *progress, const yk_step_record *record, int64_t step_in_epoch);

/* After `done` of `all` batches of this rank's evaluation, which follows the epoch. */
void cli_progress_evaluation(cli_progress *progress, int64_t epoch, int64_t done, int64_t all);

/* Removes the line and prints the epoch's results. */
void cli_progress_epoch(cli_progress *progress, const yk_epoch_record *record);

/* After it: how many damaged images were skipped in the epoch, if any. */
void cli_progress_skipped(const cli_progress *progress, int64_t epoch, int64_t training,
                          int64_t validation);

/* Removes the line. */
void cli_progress_destroy(cli_progress *progress);

#endif
