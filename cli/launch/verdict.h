/* How the ranks of a job have ended; see verdict.c. */
#ifndef YOKE_CLI_LAUNCH_VERDICT_H
#define YOKE_CLI_LAUNCH_VERDICT_H

#include "launch/job.h"

/* A rank has ended: tells the survivors of a failure, and begins to end the job. */
void cli_rank_ended(cli_job *job, int rank);
/*
 * Once all ranks have ended and one has failed: the member that caused it. Deaths that come close
 * together may be seen in any order, so the first one seen may be a victim; the library on the
 * ranks reports the cause to the store (see <yoke/store.h>), and *named tells that it is this one.
 */
int cli_job_cause(const cli_job *job, bool *named);
/* "killed by signal 9 (SIGKILL)", and why, if that is known */
const char *cli_member_describe(const cli_member *member, char *text, int size);
/* "rank 3 (host n2, pid 4242) killed by signal 9 (SIGKILL) after 1.2 s, the first to fail", and why
 * there is no restart, if the failure is final */
void cli_job_describe_failure(const cli_job *job, char *words, size_t size);
int cli_job_exit_code(const cli_job *job);
/* Prints why a job or an attempt failed, and the last lines on stderr of the rank at fault. */
void cli_job_print_cause(cli_job *job, const char *words, int rank, const char *tail);

#endif
