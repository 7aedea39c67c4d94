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

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/hosts.h"
#include "launch/numa.h"

/* For the help pages of the commands that start jobs. The details are in docs/launcher.md. */
#define CLI_LAUNCH_EXIT_CODES                                                                      \
    "  0          every rank succeeded\n"                                                          \
    "  1, 2       the launcher failed; invalid options\n"                                          \
    "  120        stopped cleanly and put back into Slurm's queue\n"                               \
    "  121        unclean stop: a rank failed while the job was stopping\n"                        \
    "  122        unclean stop: a rank was killed, after --grace or a second signal\n"             \
    "  126, 127   PROGRAM cannot be executed; PROGRAM was not found\n"                             \
    "  129, 130, 131, 138, 140, 143\n"                                                             \
    "             stopped by SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 or SIGTERM\n"               \
    "  other      code of the rank that failed first; 128 + N if signal N killed it"

/* Room for the name of a job on several hosts. */
enum { CLI_RUN_ID_SIZE = 512 };

/* The launchers on other hosts that this one starts. */
typedef struct cli_remote {
    const cli_host *hosts;
    char *const *commands; /* [hosts] what the shell of each host runs */
    const char *secret;
} cli_remote;

typedef struct cli_launch {
    const char *name;           /* of the command, for messages: "yoke run" */
    int ranks;                  /* on this host; with `remote`, the number of hosts */
    const cli_remote *remote;   /* NULL: start ranks here */
    bool controlled;            /* by the launcher at the other end of stdin (control.h) */
    char *const *program;       /* its argv, ended by NULL; program[0] is looked up in PATH */
    const char *master_address; /* where the store is served; on several hosts: the rendezvous */
    int master_port;            /* the same, or on one host that of a round; YK_PORT_ANY: free */
    int nodes_min, nodes_max;   /* how many hosts take part */
    int node_rank;              /* the index of this host; -1: hosts are numbered as they join */
    bool elects_host;           /* the host with master_address serves the rendezvous, not node 0 */
    int is_host;                /* elects_host: 1 and 0 decide it for this host; -1: find out */
    const char *local_address;  /* of this host, for the others, or NULL */
    const char *secret;         /* of the rendezvous, or "" */
    double join_s, last_call_s; /* how long hosts wait for enough others, and for more of them */
    const char *role, *run_id;
    const char *prefix_template; /* of the ranks' lines (prefix.h), or NULL */
    int max_restarts;
    double grace_s;    /* between SIGTERM and SIGKILL when the job is asked to stop */
    sigset_t stop_on;  /* the signals that ask the launcher to stop the job */
    bool rank0_speaks; /* print rank 0's lines without a prefix and redraw its progress line, and an
                          error that several ranks report only once */
    bool prints_result; /* what the ranks print is what the job is for: it fails if that is lost,
                           unless its reader has left */
    bool no_pin;        /* leave every rank on all cores */
    const cli_binding *bindings; /* [ranks] of --numa-binding; NULL: equal ranges of cores */
    bool virtual_local_rank;     /* every rank sees one device, and is the first rank there */
    const char *log_dir;         /* parent of the log folders, or NULL */
    const char *filter_out, *filter_err; /* texts of the lines to copy (filter.h), or NULL */
    const int *redirects, *tee; /* [ranks] cli_std bits: what goes to files, and what to both */
    const bool *shown;          /* [ranks] the ranks whose lines are printed; NULL: all */
} cli_launch;

/* The outputs of a rank, as bits with torchrun's values. */
typedef enum cli_std { CLI_STD_NONE = 0, CLI_STD_OUT = 1, CLI_STD_ERR = 2 } cli_std;

/* A job of one host without restarts and log files; name, ranks and program are left to set. */
cli_launch cli_launch_defaults(void);

/* Runs the job to its end; returns its exit code. Forks: the caller must be single-threaded. */
int cli_launch_run(const cli_launch *launch);

/* Whether the user leaves OMP_NUM_THREADS to launchers: one around this process may have set it. */
bool cli_threads_are_chosen(void);

/* ---- for the files of this folder only ------------------------------------------------------ */

/*
 * The launcher itself. lifeline reads end-of-file when the guard is gone. signal_fd is a signalfd
 * of the signals that the guard has blocked: deaths, requests to stop, and signals to forward.
 */
int cli_job_run(const cli_launch *launch, int lifeline, int signal_fd);

/* One attempt to run the job, seen from this host. */
typedef struct cli_round {
    int attempt;     /* counts the restarts */
    int node, nodes; /* this host, and how many there are */
    int first_rank;  /* the lowest rank on this host; the others follow */
    int world;       /* ranks on all hosts */
    char master_address[256];
    int store_port;  /* there, the job's store is served */
    int master_port; /* nothing is served here: a port for programs that serve their own store */
    char secret[256];
} cli_round;

/* What the start of a rank depends on. */
typedef struct cli_rank_setting {
    const cli_launch *launch;
    const cli_round *round;
    int local_rank;
    int terminal_columns;   /* of the terminal that shows the job, or 0 */
    const char *error_file; /* TORCHELASTIC_ERROR_FILE, or NULL */
} cli_rank_setting;

/*
 * Starts a rank; returns its pid and, in *out and *err, the read ends of its stdout and stderr.
 * Returns -1 with errno set when the program cannot be started.
 */
pid_t cli_rank_start(const cli_rank_setting *setting, int *out, int *err);

/*
 * Kills all descendants of this process and waits for them, at most seconds; false when some were
 * left. This process must be a subreaper.
 */
bool cli_tree_kill(double seconds);

/* "exited with code 3", "killed by signal 9 (SIGKILL)". */
const char *cli_describe_status(int status, char *text, int size);
/* A shell's exit code for waitpid's status: 128 + n when signal n ended it. */
int cli_exit_code(int status);
/*
 * Whether ranks that ended so in this attempt would do so again: their options are wrong, which
 * programs tell by exit code 2. In later attempts it is taken for another failure: Python has the
 * same code for a script that it cannot open, say because a file system is out of reach.
 */
bool cli_failure_is_final(int attempt, int code);

#endif
