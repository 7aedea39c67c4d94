/* A running job, between the files of the launcher proper. */
#ifndef YOKE_CLI_LAUNCH_JOB_H
#define YOKE_CLI_LAUNCH_JOB_H

#include <poll.h>

#include <yoke/store.h>

#include "launch/launch.h"
#include "launch/output.h"

/* No deadline; and how long killed processes may take to disappear. In seconds. */
#define CLI_NEVER       1e300
#define CLI_TREE_KILL_S 5

/* A rank. */
typedef struct cli_member {
    pid_t pid; /* 0 once it has been waited for */
    pid_t was; /* its pid, for messages */
    int status;
    cli_stream out, err;
} cli_member;

typedef struct cli_job {
    const cli_launch *launch;
    cli_member *members;   /* launch->ranks of them */
    struct pollfd *polled; /* wait.c's slots */
    int started, running;
    int signal_fd, lifeline;
    double start_s, term_at, kill_at;
    int stop_signal;  /* that asked for the end of the job, or 0 */
    int first_failed; /* the rank whose failure was seen first, or -1 */
    double failed_s;
    cli_sink out, err;
    cli_bytes status; /* rank 0's progress line */
    yk_store_server *server;
    yk_store *store;
    char secret[33];
    int port;
} cli_job;

/* ---- end.c ---------------------------------------------------------------------------- */

/* Reads the signals that have come: deaths, and requests to stop. */
void cli_job_handle_signals(cli_job *job);
/* Sends SIGTERM and SIGKILL when their time has come. */
void cli_job_keep_deadlines(cli_job *job);

/* The rank whose failure was the first, once all have ended. */
int cli_job_cause(const cli_job *job);

/* ---- wait.c --------------------------------------------------------------------------- */

/* Room for the poll slots of a job of so many ranks. */
size_t cli_job_slots(int ranks);
/*
 * Serves output, deaths, signals and deadlines until all ranks have ended; then ends what they left
 * behind, and shows the last of the output. False when the guard has been killed.
 */
bool cli_job_serve(cli_job *job);

#endif
