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
    bool killed;        /* by the launcher, which has sent SIGKILL */
    bool out_of_memory; /* killed by the kernel, it seems, because there was none left */
    int in;             /* of a launcher on another host: the write end of its stdin, or -1 */
    cli_stream out, err;
} cli_member;

/* This launcher's part in a job on several hosts; see agent.c. */
typedef struct cli_agent cli_agent;

typedef struct cli_job {
    const cli_launch *launch;
    cli_logs logs;
    cli_round round;
    cli_member *members;   /* launch->ranks of them */
    struct pollfd *polled; /* wait.c's slots */
    int started, running;
    int signal_fd, lifeline;
    int control_fd; /* stdin, if this launcher is controlled through it; else -1 */
    double start_s, term_at, kill_at;
    double give_up_at;     /* when to end although the other hosts have not */
    int stop_signal;       /* the signal that ends the job, or 0 */
    bool failed_elsewhere; /* the ranks are ended because of another host */
    bool unguarded;        /* the guard has been killed, and so have the ranks */
    bool regrouping;       /* stop_signal is only to let more hosts take part */
    bool usr_forwarded;    /* SIGUSR1 or SIGUSR2: a rank may stop for it */
    bool kill_sent;        /* to the launchers on other hosts */
    bool asked_twice;      /* to stop */
    bool save_granted;     /* the last checkpoint has been given a second grace period */
    bool stop_failed;      /* first_failed did so while the job was stopping */
    bool stop_killed;      /* a rank that did not stop had to be killed */
    bool output_abandoned; /* a signal came when only output was left to write */
    int first_failed;      /* the member whose failure was seen first, or -1 */
    double failed_s;
    long oom_kills; /* cli_oom_kills() when the attempt began */
    cli_sink out, err;
    cli_bytes status; /* rank 0's progress line */
    cli_agent *agent; /* NULL in a job of one host */
    yk_store_server *server;
    yk_store *store;
} cli_job;

/* ---- job.c ---------------------------------------------------------------------------- */

/*
 * Starts the ranks of job->round and serves them until all have ended; returns the exit code.
 * When the guard has been killed, it kills the ranks and sets job->unguarded.
 */
int cli_job_attempt(cli_job *job);
/* Releases what an attempt has used. */
void cli_job_finish_attempt(cli_job *job);
/* Prints why a job or an attempt failed, and the last lines on stderr of the rank at fault. */
void cli_job_print_cause(cli_job *job, const char *words, int rank, const char *tail);

/* ---- agent.c -------------------------------------------------------------------------- */

/* Runs this host's part of a job on several hosts; returns the exit code. */
int cli_agent_run(cli_job *job);
/* A descriptor that becomes readable when the coordinator has given an order. */
int cli_agent_fd(const cli_agent *agent);
void cli_agent_handle_orders(cli_job *job);
/* Tell the coordinator about the first failed rank, a request to stop, and a signal for all ranks.
 * They do nothing in a job of one host. */
void cli_agent_report_failure(cli_job *job);
void cli_agent_report_stop(cli_job *job, int number);
/* Returns false in a job of one host. */
bool cli_agent_report_signal(cli_job *job, int number);

/* ---- remote.c, control.c -------------------------------------------------------------- */

/* Starts the launchers on other hosts and serves them until they end; returns the exit code. */
int cli_remote_run(cli_job *job);
void cli_remote_signal(cli_job *job, int number);
/* The launcher on host i has ended. */
void cli_remote_ended(cli_job *job, int i);
/* Obeys what has come through stdin. */
void cli_control_read(cli_job *job);

/* ---- end.c ---------------------------------------------------------------------------- */

/* Reads the pending signals: deaths and requests to stop. */
void cli_job_handle_signals(cli_job *job);
/* Asks the ranks to stop, as if the launcher had got this signal. */
void cli_job_stop(cli_job *job, int number);
/* The same, for the whole job. Further requests have no effect. */
void cli_job_request_stop(cli_job *job, int number);
/* Stops the ranks, because the job has failed on another host. */
void cli_job_fail(cli_job *job);
/* Kills the ranks, because a second signal asked for it. */
void cli_job_kill(cli_job *job);
void cli_job_forward(cli_job *job, int number);
/* Sends SIGTERM and SIGKILL at their deadlines. */
void cli_job_keep_deadlines(cli_job *job);

/*
 * Once all ranks have ended and one has failed: the member that caused it. Deaths that come close
 * together may be seen in any order, so the first one seen may be a victim; the library on the
 * ranks reports the cause to the store (see <yoke/store.h>), and *named tells that it is this one.
 */
int cli_job_cause(const cli_job *job, bool *named);
/* "killed by signal 9 (SIGKILL)", and why, if that is known */
const char *cli_member_describe(const cli_member *member, char *text, int size);
/* "rank 3 (host n2, pid 4242) killed by signal 9 (SIGKILL) after 1.2 s, the first to fail" */
void cli_job_describe_failure(const cli_job *job, char *words, size_t size);
int cli_job_exit_code(const cli_job *job);

/* ---- wait.c --------------------------------------------------------------------------- */

/* The number of poll slots for a job with this many ranks. */
size_t cli_job_slots(int ranks);
/*
 * Serves output, deaths, signals and deadlines until all ranks have ended; then ends what they left
 * running and reads the rest of their output. False when the guard has been killed.
 */
bool cli_job_serve(cli_job *job);
/* Serves everything but ranks until done() or job->give_up_at. False when the guard is killed. */
bool cli_job_await(cli_job *job, bool (*done)(const cli_job *job));
/*
 * Writes the pending output, for as long as the reader takes; a signal abandons it. False when the
 * guard has been killed.
 */
bool cli_job_flush(cli_job *job);

#endif
