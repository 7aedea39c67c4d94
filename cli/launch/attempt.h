/* The ranks of one host, in one attempt; see attempt.c. */
#ifndef YOKE_CLI_LAUNCH_ATTEMPT_H
#define YOKE_CLI_LAUNCH_ATTEMPT_H

#include "launch/job.h"

extern const cli_kind cli_ranks;

/*
 * Starts the ranks of job->round, whose store is served already, and serves them until all have
 * ended; returns the exit code. When the guard has been killed, it kills the ranks and sets
 * job->unguarded.
 */
int cli_job_attempt(cli_job *job);
/* Whether the ranks need not be started: the job has been asked to stop, or the attempt is over on
 * other hosts; and the exit code then. */
bool cli_job_is_called_off(const cli_job *job);
int cli_job_code_called_off(const cli_job *job);
/* Releases what an attempt has used. */
void cli_job_finish_attempt(cli_job *job);

#endif
