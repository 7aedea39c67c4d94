/* How a job is ended; see end.c. */
#ifndef YOKE_CLI_LAUNCH_END_H
#define YOKE_CLI_LAUNCH_END_H

#include "launch/job.h"

/* Seconds that ranks have between a failure, or the stop of a rank, and SIGTERM. */
#define CLI_SURVIVORS_TERM_S 0.8
/* How long the launcher waits at most while there is a deadline. */
#define CLI_LONGEST_WAIT_S   1

/* Signals a member that has not ended: with SIGUSR1 and SIGUSR2 itself, else its process group. */
void cli_member_signal(const cli_member *member, int number);
/* Reads the pending signals: deaths and requests to stop. */
void cli_job_handle_signals(cli_job *job);
/* Asks the ranks to stop, as if the launcher had got this signal. */
void cli_job_stop(cli_job *job, int number);
/* The same, for the whole job. Further requests have no effect. */
void cli_job_request_stop(cli_job *job, int number);
/* Tells the other hosts, if there are any, that this one stops because of a signal. */
void cli_job_tell_stopping(cli_job *job, int number);
/* Ends the ranks, after a moment in which they can report what they have seen. */
void cli_job_end_survivors(cli_job *job);
/* The same, because the job has failed on another host. */
void cli_job_fail(cli_job *job);
/* Ranks are no longer stopped to let more hosts take part: they have stopped, or failed. */
void cli_job_end_regroup(cli_job *job);
/* Kills the ranks, because a second signal asked for it. */
void cli_job_kill(cli_job *job);
/* Passes a signal to the ranks of this host, or of all hosts. */
void cli_job_forward(cli_job *job, int number);
void cli_job_forward_to_all(cli_job *job, int number);
/* Puts the deadlines off by the time during which the launcher was suspended, as by a scheduler
 * that suspends whole jobs. To be called after each wait. */
void cli_job_discount_suspension(cli_job *job);
/* Sends SIGTERM and SIGKILL at their deadlines. */
void cli_job_keep_deadlines(cli_job *job);

#endif
