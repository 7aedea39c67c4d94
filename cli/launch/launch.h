/*
 * The launcher: starts one process per rank on this machine and is responsible for all of them.
 *
 *   guard ──> launcher ──> rank 0, rank 1, ... ──> whatever those start
 *
 * The guard is the process that the user started; the launcher is its only child. Both are
 * subreapers and watch each other: when one of them is killed, the other becomes the parent of
 * everything that is left and ends it (guard.c, tree.c).
 */
#ifndef YOKE_CLI_LAUNCH_H
#define YOKE_CLI_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

/* For the help pages of the commands that start jobs. The details are in docs/launcher.md. */
#define CLI_LAUNCH_EXIT_CODES                                                                      \
    "  0          every rank succeeded\n"                                                          \
    "  1, 2       the launcher failed; invalid options\n"                                          \
    "  121        unclean stop: a rank failed while the job was stopping\n"                        \
    "  122        unclean stop: a rank had to be killed, after --grace or a second signal\n"       \
    "  126, 127   PROGRAM cannot be executed; PROGRAM was not found\n"                             \
    "  129, 130, 138, 143\n"                                                                       \
    "             stopped cleanly by SIGHUP, SIGINT, SIGUSR1 or SIGTERM\n"                         \
    "  other      exit code of the rank that failed first; 128 + N if signal N killed it"

typedef struct cli_launch {
    const char *name; /* of the command, for messages: "yoke run" */
    int ranks;
    char *const *program; /* its argv, ended by NULL; program[0] is looked up in PATH */
    const char *master_address;
    int master_port; /* 0: a free one */
    const char *role, *run_id;
    double grace_s;    /* between SIGTERM and SIGKILL when the job is asked to stop */
    bool rank0_speaks; /* print rank 0's lines without a prefix and redraw its progress line */
    bool no_pin;       /* leave every rank on all cores */
} cli_launch;

/* Runs the job to its end and returns its exit code. Forks, so the caller must be single-threaded.
 */
int cli_launch_run(const cli_launch *launch);

/* ---- for the files of this folder only --------------------------------------------------------
 */

/*
 * The launcher itself. lifeline reads end-of-file when the guard is gone. signal_fd is a signalfd
 * of the signals that the guard has blocked: deaths, requests to stop, and signals to forward.
 */
int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd);

/* The settings that all ranks of a job share. */
typedef struct cli_rank_setting {
    const cli_launch *launch;
    int port;
    const char *secret;
    int terminal_columns; /* of the terminal that shows the job, or 0 */
} cli_rank_setting;

/*
 * Starts a rank; returns its pid and, in *out and *err, the read ends of its stdout and stderr.
 * Returns -1 with errno set when the program cannot be started.
 */
pid_t cli_rank_start(const cli_rank_setting *setting, int rank, int *out, int *err);

/*
 * Kills all descendants of this process and waits for them, at most seconds; false when some were
 * left. This process must be a subreaper.
 */
bool cli_tree_kill(double seconds);

/* "exited with code 3", "killed by signal 9 (SIGKILL)". */
const char *cli_describe_status(int status, char *text, int size);
/* A shell's exit code for waitpid's status: 128 + n when signal n ended it. */
int cli_exit_code(int status);

#endif
