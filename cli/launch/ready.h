/*
 * SIGUSR1 and SIGUSR2 end a process that has no handler for them yet, such as a rank that is still
 * starting. The launcher keeps them until the rank is ready, or has had its time to be.
 */
#ifndef YOKE_CLI_LAUNCH_READY_H
#define YOKE_CLI_LAUNCH_READY_H

#include "launch/job.h"

/* How long the launcher waits at most while it keeps a signal. */
#define CLI_LOOK_S 0.05

/* Whether the signal is one of those that are kept. */
bool cli_is_kept(int number);
unsigned cli_signal_bit(int number);
/* Keeps the signal for the member. */
void cli_member_keep(cli_member *member, int number);
/* Sends the members the signals that they are ready for. Returns whether some are still kept. */
bool cli_job_send_kept(cli_job *job);

#endif
