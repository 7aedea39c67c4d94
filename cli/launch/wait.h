/* Waits for whatever can happen in a job; see wait.c. */
#ifndef YOKE_CLI_LAUNCH_WAIT_H
#define YOKE_CLI_LAUNCH_WAIT_H

#include "launch/job.h"

/* The number of poll slots for a job with this many ranks. */
size_t cli_job_slots(int ranks);
/*
 * Serves output, deaths, signals and deadlines until all members have ended; then ends what they
 * left running and reads the rest of their output. When the guard has been killed, it kills what
 * runs, sets job->unguarded and returns false.
 */
bool cli_job_serve(cli_job *job);
/* Serves everything but members until done() or job->give_up_at. False when the guard is killed. */
bool cli_job_await(cli_job *job, bool (*done)(const cli_job *job));
/*
 * Writes the pending output, for as long as the reader takes; a signal abandons it. False when the
 * guard has been killed.
 */
bool cli_job_flush(cli_job *job);

#endif
