/* A running job, as seen by the files of the launcher itself. */
#ifndef YOKE_CLI_LAUNCH_JOB_H
#define YOKE_CLI_LAUNCH_JOB_H

#include <poll.h>

#include <yoke/store.h>

#include "launch/launch.h"
#include "launch/logs.h"
#include "launch/output.h"

/* Seconds: no deadline, and how long killed processes may take to disappear. */
#define CLI_NEVER       1e300
#define CLI_TREE_KILL_S 5

/* A rank. */
typedef struct cli_member {
    int rank;  /* in the whole job */
    pid_t pid; /* 0 once it has been waited for */
    pid_t was; /* its pid, for messages */
    int status;
    bool killed; /* by the launcher, which has sent SIGKILL */
    cli_stream out, err;
} cli_member;

typedef struct cli_job {
    const cli_launch *launch;
    cli_logs logs;
    cli_round round;
    cli_member *members;   /* launch->ranks of them */
    struct pollfd *polled; /* wait.c's slots */
    int started, running;
    int signal_fd, lifeline;
    double start_s, term_at, kill_at;
    int stop_signal;       /* the signal that ends the job, or 0 */
    bool usr1_forwarded;   /* a rank may stop for it */
    bool asked_twice;      /* to stop */
    bool stop_failed;      /* first_failed did so while the job was stopping */
    bool stop_killed;      /* a rank that did not stop had to be killed */
    bool output_abandoned; /* a signal came when only output was left to write */
    int first_failed;      /* the member whose failure was seen first, or -1 */
    double failed_s;
    cli_sink out, err;
    cli_bytes status; /* rank 0's progress line */
    yk_store_server *server;
    yk_store *store;
} cli_job;

/* ---- end.c ---------------------------------------------------------------------------- */

/* Reads the pending signals: deaths and requests to stop. */
void cli_job_handle_signals(cli_job *job);
/* Sends SIGTERM and SIGKILL at their deadlines. */
void cli_job_keep_deadlines(cli_job *job);

/*
 * Once all ranks have ended and one has failed: the member that caused it. Deaths that come close
 * together may be seen in any order, so the first one seen may be a victim; the library on the
 * ranks reports the cause to the store (see <yoke/store.h>).
 */
int cli_job_cause(const cli_job *job);
int cli_job_exit_code(const cli_job *job);

/* ---- wait.c --------------------------------------------------------------------------- */

/* The number of poll slots for a job with this many ranks. */
size_t cli_job_slots(int ranks);
/*
 * Serves output, deaths, signals and deadlines until all ranks have ended; then ends what they left
 * running and reads the rest of their output. False when the guard has been killed.
 */
bool cli_job_serve(cli_job *job);
/*
 * Writes the pending output, for as long as the reader takes; a signal abandons it. False when the
 * guard has been killed.
 */
bool cli_job_flush(cli_job *job);

#endif
