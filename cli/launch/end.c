/*
 * How a job ends. When a rank fails, the store is told first, so that the survivors can name it;
 * they get a moment to say so and to leave by themselves, then SIGTERM, then SIGKILL. A signal to
 * the launcher stops the job in order: ranks get SIGTERM and the grace, then SIGKILL. A rank that
 * exits with 128 + the number of such a signal has been stopped in order by it, and so is the job.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/job.h"

/* Survivors of a failure are gone within 2 s of it. */
static const double survivors_term_s = 0.8, survivors_kill_s = 1.5;

static void signal_ranks(const cli_job *job, int number)
{
    for (int rank = 0; rank < job->started; rank++)
        if (job->members[rank].pid)
            kill(job->members[rank].pid, number);
}

/* Leaves a note for the survivors, in the words that the group's error lines use. */
static void tell_survivors(const cli_job *job, int rank)
{
    const cli_member *dead = &job->members[rank];
    char key[32], words[64], note[128];
    snprintf(key, sizeof key, "dead/%d", rank);
    snprintf(note, sizeof note, "pid %d %s", (int)dead->was,
             cli_describe_status(dead->status, words, sizeof words));
    if (job->store)
        yk_store_set(job->store, key, note, strlen(note));
}

/* The signal that a rank obeyed by exiting in order, by a shell's code for it; 0: it did not. */
static int obeyed_signal(int status)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + signals[i])
            return signals[i];
    return 0;
}

/* Somebody asked a rank alone, which has told the others: they are about to end too. */
static void rank_stopped(cli_job *job, int number)
{
    double now = cli_launch_now();
    job->stop_signal = number;
    job->term_at = now + survivors_term_s;
    job->kill_at = now + job->launch->grace_s;
}

static void rank_failed(cli_job *job, int rank)
{
    tell_survivors(job, rank);
    double now = cli_launch_now();
    if (job->stop_signal)
        return;
    int obeyed = obeyed_signal(job->members[rank].status);
    if (obeyed && job->first_failed < 0) {
        rank_stopped(job, obeyed);
        return;
    }
    if (job->first_failed < 0) {
        job->first_failed = rank;
        job->failed_s = now;
        job->term_at = now + survivors_term_s;
        job->kill_at = now + survivors_kill_s;
    }
}

/* Waits for every child that has ended: ranks, and orphans of ranks that became ours. */
static void reap(cli_job *job)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int rank = 0; rank < job->started; rank++)
            if (job->members[rank].pid == pid) {
                job->members[rank].pid = 0;
                job->members[rank].status = status;
                job->running--;
                if (status)
                    rank_failed(job, rank);
            }
}

static void ask_to_stop(cli_job *job, int number)
{
    double now = cli_launch_now();
    if (job->stop_signal) { /* asked again: no more patience */
        job->kill_at = now;
        return;
    }
    job->stop_signal = number;
    if (job->first_failed < 0) {
        cli_sink_say(&job->err, "%s: SIG%s: stopping %d rank%s; again to kill", job->launch->name,
                     sigabbrev_np(number), job->running, job->running == 1 ? "" : "s");
        signal_ranks(job, SIGTERM);
        job->kill_at = now + job->launch->grace_s;
    }
}

void cli_job_handle_signals(cli_job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            reap(job);
        else if (number == SIGUSR1 || number == SIGUSR2)
            signal_ranks(job, number);
        else
            ask_to_stop(job, number);
    }
}

void cli_job_keep_deadlines(cli_job *job)
{
    double now = cli_launch_now();
    if (now >= job->kill_at) {
        job->kill_at = CLI_NEVER;
        signal_ranks(job, SIGKILL);
    } else if (now >= job->term_at) {
        job->term_at = CLI_NEVER;
        signal_ranks(job, SIGTERM);
    }
}

/* Whether a survivor's last words say that it ended because of that rank's end. */
static bool blames(const cli_job *job, int survivor, int rank)
{
    const cli_stream *words = &job->members[survivor].err;
    char dead[64], left[64];
    snprintf(dead, sizeof dead, "rank %d is dead: ", rank);
    snprintf(left, sizeof left, "rank %d (pid %d) has left", rank, (int)job->members[rank].was);
    return cli_stream_tail_has(words, dead) || cli_stream_tail_has(words, left);
}

/* Deaths that come close together may be seen in any order: the first one seen may be a victim. */
int cli_job_cause(const cli_job *job)
{
    int cause = job->first_failed;
    for (int i = 0; i < job->started; i++)
        for (int rank = 0; rank < job->started; rank++)
            if (rank != cause && job->members[rank].status && blames(job, cause, rank)) {
                cause = rank;
                break;
            }
    return cause;
}
