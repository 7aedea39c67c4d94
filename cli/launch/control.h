/*
 * The line between the launcher that `yoke run --hosts` starts first and those that it starts on
 * the hosts: their stdin. The first line is the secret of the job; then come "stop SIGNAL", "kill"
 * and "forward SIGNAL". When the line ends, the job is stopped.
 *
 * They answer in lines on their stdout that begin with CLI_CONTROL_MARK, and are not printed:
 * "ready" once they run, and, from node 0, "missing NODE" when the job waits for the launcher of a
 * host that it has lost.
 */
#ifndef YOKE_CLI_LAUNCH_CONTROL_H
#define YOKE_CLI_LAUNCH_CONTROL_H

#include "launch/job.h"

/* Set to 1 for launchers that are controlled through their stdin. */
#define CLI_CONTROL_VARIABLE "YOKE_CONTROL_STDIN"

#define CLI_CONTROL_MARK  "\001yoke "
#define CLI_CONTROL_READY CLI_CONTROL_MARK "ready"

/* The exit code of ssh when it has no connection, and that of a host where no launcher can be
 * started: unlike all others, it does not end the launchers on the other hosts. */
enum { CLI_EXIT_UNREACHED = 255 };

/* Whether this launcher is controlled; then reads the secret, "" if none comes. Call it once. */
bool cli_control_accept(char *secret, size_t size);
/* Obeys what has come through stdin. */
void cli_control_read(cli_job *job);

#endif
