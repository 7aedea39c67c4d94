/* The files of a job's output, in torchelastic's layout. See logs.c. */
#ifndef YOKE_CLI_LAUNCH_LOGS_H
#define YOKE_CLI_LAUNCH_LOGS_H

#include <stdbool.h>

#include "launch/filter.h"
#include "launch/launch.h"
#include "launch/output.h"

enum { CLI_LOGS_PATH = 4096 };

typedef struct cli_logs {
    char folder[CLI_LOGS_PATH]; /* of this run; "" when it has no files */
    cli_filter filter_out, filter_err;
} cli_logs;

/*
 * Reads the value of --redirects or --tee: "3" for all ranks, or "0:1,2:3" for some of them. False
 * when it is invalid.
 */
bool cli_logs_parse_std(const char *text, int ranks, int *std);
/* Reads "0, 2" into shown; false when it is invalid. */
bool cli_logs_parse_ranks(const char *text, int ranks, bool *shown);

/* Creates the folder of this run, if files are wanted. Prints why when it cannot. */
bool cli_logs_open(cli_logs *logs, const cli_launch *launch);
void cli_logs_close(cli_logs *logs);
/* Creates the files of an attempt that are not those of a rank; prints why when it cannot. */
bool cli_logs_begin_attempt(cli_logs *logs, const cli_launch *launch, int attempt);
/* Creates the folder of a rank; prints why when it cannot. */
bool cli_logs_add_rank(const cli_logs *logs, const cli_launch *launch, int attempt, int local_rank);
/* Writes the path of one of the rank's files, or "" when the run has no files. */
void cli_logs_path(const cli_logs *logs, int attempt, int local_rank, const char *file,
                   char path[CLI_LOGS_PATH + 64]);
/*
 * Sends a stream of the rank to its files and decides whether its lines are printed. bit is the
 * stream's cli_std.
 */
void cli_logs_attach(cli_logs *logs, const cli_launch *launch, int attempt, int local_rank,
                     cli_std bit, cli_stream *stream);
/* Writes error.json for a rank that failed, unless its program has done so. */
void cli_logs_write_error(const cli_logs *logs, int attempt, int local_rank, const char *message,
                          int exit_code, const cli_stream *err);

#endif
