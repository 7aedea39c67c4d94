/*
 * A running job, as seen by the files of the launcher itself. Each file includes only those above
 * it:
 *
 *     store_thread.c  reads and writes the store, on its own thread
 *     end.c           stops and kills what runs, at deadlines and on signals
 *     ready.c         keeps signals for ranks that cannot take them yet
 *     control.c       obeys another launcher at the other end of stdin
 *     wait.c          waits for all of this at once
 *     verdict.c       how ranks have ended, and which of them is the cause
 *     attempt.c       starts the ranks of a host and serves them
 *     agent.c, rendezvous.c    a host among several; remote.c starts launchers on other hosts
 *     job.c           chooses between them
 */
#ifndef YOKE_CLI_LAUNCH_JOB_H
#define YOKE_CLI_LAUNCH_JOB_H

#include <poll.h>

#include "launch/launch.h"
#include "launch/logs.h"
#include "launch/output.h"
#include "launch/store_thread.h"

/* Seconds: no deadline, and how long killed processes may take to disappear. */
#define CLI_NEVER       1e300
#define CLI_TREE_KILL_S 5

/* A rank. */
typedef struct cli_member {
    int rank;  /* in the whole job */
    pid_t pid; /* 0 once it has ended */
    pid_t was; /* its pid, for messages, and the number of its process group */
    int status;
    unsigned kept;      /* signals that it is not ready for yet, by their bits; see ready.h */
    bool group_left;    /* it has been waited for, but has not ended: end.c */
    bool killed;        /* by the launcher, which has sent SIGKILL */
    bool out_of_memory; /* killed by the kernel, it seems, because there was none left */
    char prefix[256];   /* of its lines, if the template of the job says so */
    int in;             /* of a launcher on another host: the write end of its stdin, or -1 */
    bool ready;         /* such a launcher has run */
    bool missing;       /* the job waits for it, and it is started again */
    cli_stream out, err;
} cli_member;

typedef struct cli_job cli_job;

/* What a launcher has started: ranks (attempt.c), or the launchers on other hosts (remote.c). */
typedef struct cli_kind {
    const char *one, *several; /* "rank" and "ranks", or "host" and "hosts" */
    void (*signal)(cli_job *job, int number);
    /* How many seconds the members may take to stop before they are killed. */
    double (*stop_s)(const cli_job *job);
    /* Kills the members that are still running. Launchers report this themselves; for ranks, it is
     * reported here. */
    void (*kill)(cli_job *job);
    /* Takes note of how a member has ended. */
    void (*ended)(cli_job *job, int index);
    /* Starts members again, at the time start_at; NULL where it is never set. */
    void (*start)(cli_job *job);
} cli_kind;

/* The launchers on the job's other hosts, each with its own ranks; see agent.c. */
typedef struct cli_peers {
    /* A descriptor that becomes readable when an order has come from them. */
    int (*orders)(const cli_job *job);
    void (*obey)(cli_job *job);
    /* Tell them of the first failed rank, of a request to stop, which may be a second one, and of a
     * signal for all ranks. The last returns false when it does not reach them. */
    void (*failed)(cli_job *job);
    void (*stopping)(cli_job *job, int number, bool again);
    bool (*forward)(cli_job *job, int number);
} cli_peers;

struct cli_job {
    const cli_launch *launch;
    const cli_kind *kind;
    const cli_peers *peers;  /* NULL in a job of one host */
    struct cli_agent *agent; /* this launcher's part among them, or NULL */
    cli_logs logs;
    cli_round round;
    int claimed_port;      /* for programs, on this host; 0: not drawn yet */
    cli_member *members;   /* launch->ranks of them */
    struct pollfd *polled; /* wait.c's slots */
    int started, running;
    int signal_fd, lifeline;
    int control_fd; /* stdin, if this launcher is controlled through it; else -1 */
    char order[64]; /* the beginning of a line that has not come through it to its end */
    size_t order_size;
    double start_s, term_at, kill_at;
    double start_at;       /* when to start members again */
    double awake_s;        /* when it last looked at the time */
    double asked_s;        /* when a signal asked this launcher to stop, or 0 */
    double give_up_at;     /* when to end although the other hosts have not */
    int stop_signal;       /* the signal that ends the job, or 0 */
    bool called_off;       /* the attempt is over on other hosts before its ranks run here */
    bool failed_elsewhere; /* the ranks are ended because of another host */
    bool unguarded;        /* the guard has been killed, and so have the ranks */
    bool regrouping;       /* stop_signal is only to let more hosts take part */
    unsigned early;        /* SIGUSR1 and SIGUSR2 that came while no rank ran, by their bits */
    bool keeps_signals;    /* for ranks that are not ready for them */
    bool usr_forwarded;    /* SIGUSR1 or SIGUSR2: a rank may stop for it */
    bool suspended;        /* by SIGTSTP */
    bool kill_sent;        /* to the launchers on other hosts */
    bool asked_twice;      /* to stop */
    bool save_granted;     /* the last checkpoint has been given a second grace period */
    bool stop_failed;      /* first_failed did so while the job was stopping */
    bool stop_killed;      /* a rank that did not stop had to be killed */
    bool output_abandoned; /* by its reader, or a signal came when only it was left */
    int first_failed;      /* the member whose failure was seen first, or -1 */
    double failed_s;
    long oom_kills; /* cli_oom_kills() when the attempt began */
    cli_sink out, err;
    cli_bytes status;        /* rank 0's progress line */
    cli_echoes echoes;       /* what ranks have said on stderr, of an attempt */
    cli_store_thread *store; /* of the attempt: how ranks have ended, and why */
};

#endif
