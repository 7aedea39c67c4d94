/*
 * How a job ends. When a rank fails, the store is told first, so that the survivors can name it;
 * they get a moment to say so and to leave by themselves, then SIGTERM, then SIGKILL. The failure
 * seen first is the cause of the job's end. A signal to the launcher stops the job in order: ranks
 * get SIGTERM and the grace, then SIGKILL.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch_job.h"

/* Survivors of a failure are gone within 2 s of it. */
static const double survivors_term_s = 0.8, survivors_kill_s = 1.5;

static void signal_ranks(const yki_job *job, int number)
{
    for (int rank = 0; rank < job->started; rank++)
        if (job->members[rank].pid)
            kill(job->members[rank].pid, number);
}

/* Leaves a note for the survivors, in the words that the group's error lines use. */
static void tell_survivors(const yki_job *job, int rank)
{
    const yki_member *dead = &job->members[rank];
    char key[32], words[64], note[128];
    snprintf(key, sizeof key, "dead/%d", rank);
    snprintf(note, sizeof note, "pid %d %s", (int)dead->was,
             yki_describe_status(dead->status, words, sizeof words));
    if (job->store)
        yk_store_set(job->store, key, note, strlen(note));
}

/* Of two failures seen at once, a signal is no reaction to a peer's end, an exit code may be. */
static bool is_likelier_cause(const yki_member *a, const yki_member *b)
{
    return WIFSIGNALED(a->status) && !WIFSIGNALED(b->status);
}

static void rank_failed(yki_job *job, int rank)
{
    tell_survivors(job, rank);
    double now = yki_launch_now();
    if (job->stop_signal)
        return;
    if (job->first_failed < 0) {
        job->first_failed = rank;
        job->failed_s = now;
        job->term_at = now + survivors_term_s;
        job->kill_at = now + survivors_kill_s;
    }
}

/* Waits for every child that has ended: ranks, and orphans of ranks that became ours. */
static void reap(yki_job *job)
{
    int before = job->first_failed;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int rank = 0; rank < job->started; rank++) {
            yki_member *ended = &job->members[rank];
            if (ended->pid != pid)
                continue;
            ended->pid = 0;
            ended->status = status;
            job->running--;
            if (status)
                rank_failed(job, rank);
            if (status && before < 0 && job->first_failed >= 0 &&
                is_likelier_cause(ended, &job->members[job->first_failed]))
                job->first_failed = rank;
        }
}

static void ask_to_stop(yki_job *job, int number)
{
    double now = yki_launch_now();
    if (job->stop_signal) { /* asked again: no more patience */
        job->kill_at = now;
        return;
    }
    job->stop_signal = number;
    if (job->first_failed < 0) {
        yki_sink_say(&job->err, "%s: SIG%s: stopping %d rank%s; again to kill", job->launch->name,
                     sigabbrev_np(number), job->running, job->running == 1 ? "" : "s");
        signal_ranks(job, SIGTERM);
        job->kill_at = now + job->launch->grace_s;
    }
}

void yki_job_handle_signals(yki_job *job)
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

void yki_job_keep_deadlines(yki_job *job)
{
    double now = yki_launch_now();
    if (now >= job->kill_at) {
        job->kill_at = YKI_NEVER;
        signal_ranks(job, SIGKILL);
    } else if (now >= job->term_at) {
        job->term_at = YKI_NEVER;
        signal_ranks(job, SIGTERM);
    }
}
