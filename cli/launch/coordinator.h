/*
 * The coordinator of a job on several hosts: a thread of the launcher that serves the rendezvous
 * store. It decides which hosts take part, and what happens after a failure. See coordinator.c.
 */
#ifndef YOKE_CLI_LAUNCH_COORDINATOR_H
#define YOKE_CLI_LAUNCH_COORDINATOR_H

#include "launch/launch.h"

typedef struct cli_coordinator cli_coordinator;

typedef struct cli_coordinator_options {
    const cli_launch *launch; /* stays valid until the end */
    const char *host;         /* on which the stores are served */
    int port;                 /* of the rendezvous store */
    const char *secret;
    int attempt;  /* the number of the first attempt; > 0 when this is a takeover */
    int restarts; /* how many of --max-restarts have been used */
    /* In a takeover: where the rendezvous was, and how many agents are about to come, else 0. */
    const char *lost_host;
    int lost_port;
    int expected;
} cli_coordinator_options;

/* Starts the thread; NULL if it cannot be started (the reason is printed). */
cli_coordinator *cli_coordinator_start(const cli_coordinator_options *options);
/*
 * Once the job has ended: gives the agents a moment to learn it, then ends the thread. If the job
 * has not ended, ends the thread at once. Accepts NULL.
 */
void cli_coordinator_finish(cli_coordinator *coordinator);

#endif
