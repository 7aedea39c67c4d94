/* A running job, between the files of the launcher proper. */
#ifndef YOKE_CLI_LAUNCH_JOB_H
#define YOKE_CLI_LAUNCH_JOB_H

#include <poll.h>

#include <yoke/store.h>

#include "launch/launch.h"
#include "launch/output.h"

/* No deadline; and how long killed processes may take to disappear. In seconds. */
#define YKI_NEVER       1e300
#define YKI_TREE_KILL_S 5

/* A rank. */
typedef struct yki_member {
    pid_t pid; /* 0 once it has been waited for */
    pid_t was; /* its pid, for messages */
    int status;
    yki_stream out, err;
} yki_member;

typedef struct yki_job {
    const yki_launch *launch;
    yki_member *members;   /* launch->ranks of them */
    struct pollfd *polled; /* wait.c's slots */
    int started, running;
    int signal_fd, lifeline;
    double start_s, term_at, kill_at;
    int stop_signal;  /* that asked for the end of the job, or 0 */
    int first_failed; /* the rank whose failure was seen first, or -1 */
    double failed_s;
    yki_sink out, err;
    yki_bytes status; /* rank 0's progress line */
    yk_store_server *server;
    yk_store *store;
    char secret[33];
    int port;
} yki_job;

/* ---- end.c ---------------------------------------------------------------------------- */

/* Reads the signals that have come: deaths, and requests to stop. */
void yki_job_handle_signals(yki_job *job);
/* Sends SIGTERM and SIGKILL when their time has come. */
void yki_job_keep_deadlines(yki_job *job);

/* The rank whose failure was the first, once all have ended. */
int yki_job_cause(const yki_job *job);

/* ---- wait.c --------------------------------------------------------------------------- */

/* Room for the poll slots of a job of so many ranks. */
size_t yki_job_slots(int ranks);
/*
 * Serves output, deaths, signals and deadlines until all ranks have ended; then ends what they left
 * behind, and shows the last of the output. False when the guard has been killed.
 */
bool yki_job_serve(yki_job *job);

#endif
