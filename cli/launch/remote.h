/* The launchers on other hosts; see remote.c. */
#ifndef YOKE_CLI_LAUNCH_REMOTE_H
#define YOKE_CLI_LAUNCH_REMOTE_H

#include "launch/job.h"

extern const cli_kind cli_remote_launchers;

/* Starts them and serves them until they end; returns the exit code. */
int cli_remote_run(cli_job *job);

#endif
