/*
 * The launcher: starts one process per rank on this machine and is answerable for all of them.
 *
 *   guard ──> launcher ──> rank 0, rank 1, ... ──> whatever those start
 *
 * The guard is the process that the user started, the launcher its only child. Each is a subreaper
 * and each watches the other, so whichever of the two is killed, the other one becomes the parent
 * of everything that is left and ends it (guard.c, tree.c).
 */
#ifndef YOKE_CLI_LAUNCH_H
#define YOKE_CLI_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct cli_launch {
    const char *name; /* of the command, for messages: "yoke run" */
    int ranks;
    char *const *program; /* its argv, ended by NULL; program[0] is looked up in PATH */
    const char *master_address;
    int master_port; /* 0: a free one */
    const char *role, *run_id;
    double grace_s;    /* between SIGTERM and SIGKILL when the job is asked to stop */
    bool rank0_speaks; /* rank 0's lines are the job's: no prefix, its progress line is redrawn */
    bool no_pin;       /* leave every rank on all cores */
} cli_launch;

/* Runs the job to its end; returns its exit code. Single-threaded callers only: it forks. */
int cli_launch_run(const cli_launch *launch);

/* ---- between the files of the launcher ------------------------------------------------------- */

/*
 * The launcher proper. lifeline reads end-of-file when the guard is gone; signal_fd, a signalfd,
 * the signals that the guard has blocked: deaths, what asks for an end, and what is passed on.
 */
int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd);

/* What the ranks of a job share. */
typedef struct cli_rank_setting {
    const cli_launch *launch;
    int port;
    const char *secret;
    int terminal_columns; /* of the terminal that shows the job, or 0 */
} cli_rank_setting;

/*
 * Starts a rank: its pid, and the read ends of its stdout and stderr. When the program cannot be
 * started it returns -1 and errno.
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
